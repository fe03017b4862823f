"""A tree as an SVG picture, laid out as page.html does it (the functions there have the same names).

A browser measures text; here the widths of characters are estimated. Colours are attributes of the elements: a style
sheet inside of a picture would change the notebook that shows it.
"""

import html
import re
import unicodedata

from parsers.evaluation.page import sentence_record
from parsers.evaluation.parse import Parse

UNIT, SURE, ROOT = 10_000, 8_950, 0
FORM_SIZE, RELATION_SIZE = 17, 12  # of text that is measured; labels are 11 high, in fonts that may be wide
CARD, INK, MUTED, RULE, ARC, UNSURE = "#fffefb", "#24211c", "#6b665d", "#e3ded4", "#57524a", "#9a6500"
SANS = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"
SERIF = "'Iowan Old Style', 'Palatino Linotype', Palatino, 'Noto Serif', Georgia, 'Liberation Serif', serif"
# In em, of wide fonts among those above.
WIDTHS = {
    **dict.fromkeys("ijl.,:;'|!`", 0.31),
    **dict.fromkeys('frstI()[]{}-/\\"* ', 0.43),
    **dict.fromkeys("mwMWQOG@%—…", 0.92),
    **dict.fromkeys("ABCDEFHJKLNPRSTUVXYZ&<>=+~", 0.72),
}
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Arc = tuple[int, int]  # word, head


def tree_svg(parse: Parse) -> str:
    """The predicted tree, with the probabilities and labels of its arcs."""
    s = sentence_record(parse)
    level = levels(list(enumerate(s["h"], 1)))
    top = max(level.values(), default=0)
    step = max(17 if "l" in s else 13, min(30, 380 / top if top else 30))  # labels are 14 high
    base = 30 + (top + 0.4) * step  # where the words begin
    x, sizes, width, mirrored = place(s)
    height = base + 54 + 12
    drawn = [draw_word(s, word, x, sizes[word - 1], level, step, base, mirrored) for word in range(1, len(s["h"]) + 1)]
    size = f'width="{_number(width)}" height="{_number(height)}" viewBox="0 0 {_number(width)} {_number(height)}"'
    title = escaped(" ".join(map(shown, s["w"])))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">'
        f'<rect width="100%" height="100%" rx="12" fill="{CARD}"/>{"".join(drawn)}</svg>'
    )


def side(word: int, head: int) -> int:
    """An arc ends in the middle of its word. It starts left of its head's middle if the word is on the left."""
    return 0 if head == ROOT else 1 if word > head else -1


def levels(arcs: list[Arc]) -> dict[int, int]:
    """The level of each word's arc: from 1 on, above all arcs that it spans, as low as possible."""
    taken: dict[int, int] = {}
    level = {}
    spans = [(word, *sorted((3 * word, 3 * head + side(word, head)))) for word, head in arcs if head > ROOT]
    for word, start, end in sorted(spans, key=lambda span: span[2] - span[1]):
        level[word] = 1 + max(taken.get(x, 0) for x in range(start, end + 1))
        taken.update(dict.fromkeys(range(start, end + 1), level[word]))
    return level


def place(s: dict) -> tuple[list[float], list[float], float, bool]:
    """The middle of each word (from 1 on), the words' widths, the width of the picture, and whether it is mirrored."""
    sizes = [
        max(text_width(clipped(form), FORM_SIZE), len(tag) * 6.8, 30) for form, tag in zip(s["w"], s["t"], strict=True)
    ]
    x, left = [0.0], 14.0
    for size in sizes:
        x.append(left + size / 2)
        left += size + 20
    last = x[-1]
    if "l" in s:
        spread(s, x)
    width = left - 6 + x[-1] - last
    mirrored = 2 * sum(map(is_right_to_left, s["w"])) > len(s["w"])
    return [width - middle for middle in x] if mirrored else x, sizes, width, mirrored


def spread(s: dict, x: list[float]) -> None:
    """With labels, words stand so far apart that each arc is as long as the text on it."""
    arcs = [(min(word, head), max(word, head), word) for word, head in enumerate(s["h"], 1) if head > ROOT]
    for first, last, word in sorted(arcs, key=lambda arc: arc[1] - arc[0]):
        missing = relation_width(on_arc(s, word - 1)) + 22 - (x[last] - x[first])  # 22: where the line turns down
        if missing > 0:
            for other in range(first + 1, len(x)):
                x[other] += missing * min(1, (other - first) / (last - first))


def draw_word(
    s: dict,
    word: int,
    x: list[float],
    size: float,
    level: dict[int, int],
    step: float,
    base: float,
    mirrored: bool,
) -> str:
    """A word with its arc, which lies below the words that are drawn later."""
    i, head, middle, near = word - 1, s["h"][word - 1], x[word], base - 4
    probability, tag = s["p"][i], s["t"][i]
    is_unsure = probability < SURE
    color, stroke = (UNSURE, UNSURE) if is_unsure else (MUTED, ARC)
    parts, text = [], on_arc(s, i)
    if head > ROOT:
        end, far = x[head] + 6 * side(word, head) * (-1 if mirrored else 1), near - level[word] * step
        parts.append(_path("arc", arc_path(middle, end, near, far), stroke))
        if text:
            width = relation_width(text) if "l" in s else len(text) * 6.4 + 6
            center = (middle + end) / 2
            parts.append(_rect("behind", center - width / 2, far - 7, width, 14, CARD))
            font = f"font: {'' if 'l' in s else '600 '}11px {SANS}"
            parts.append(_text("relation" if "l" in s else "share", center, far + 4, text, font, color))
    elif head == ROOT:
        parts.append(_path("arc", f"M{_number(middle)} {_number(near)}V24", stroke))
        label = text if "l" in s and s["l"][i] != "_" else f"root {text}".strip()
        parts.append(_text("root", middle, 17, label, f"font: italic 12px {SERIF}", color))
    if head >= ROOT:
        parts.append(_path("tip", f"M{_number(middle)} {_number(near + 1)}l-4 -7h8z", fill=stroke))
    parts.append(_text("form", middle, base + 20, clipped(s["w"][i]), f"font: 17px {SERIF}", INK))
    tag_font = f"font: 10px {SANS}; letter-spacing: .05em"
    parts.append(_text("tag", middle, base + 35, "" if tag == "_" else tag, tag_font, MUTED))
    parts.append(_rect("track", middle - 14, base + 42, 28, 3, RULE, 1.5))
    parts.append(_rect("level", middle - 14, base + 42, max(1, 28 * probability / UNIT), 3, color, 1.5))
    return "".join(parts)


def on_arc(s: dict, i: int) -> str:
    """What stands on an arc: the label, and the probability where it is low."""
    label = clipped(s["l"][i]) if "l" in s and s["l"][i] != "_" else ""
    return f"{label} {percent(s['p'][i]) if s['p'][i] < SURE else ''}".strip()


def percent(p: int) -> str:
    if 0 < p < 5:
        return "< 0.1 %"
    return "100 %" if p >= 9995 else f"{(p + 50) // 100} %" if p >= 1000 else f"{p / 100:.1f} %"


def arc_path(x1: float, x2: float, near: float, far: float) -> str:
    across, down = (1 if x2 > x1 else -1 if x2 < x1 else 0), (1 if near > far else -1)
    r = min(13, abs(x2 - x1) / 2, abs(near - far))
    parts = (x1, near), (far + down * r,), (x1, far, x1 + across * r, far), (x2 - across * r,)
    parts = (*parts, (x2, far, x2, far + down * r), (near,))
    return "".join(letter + " ".join(map(_number, part)) for letter, part in zip("MVQHQV", parts, strict=True))


def shown(form: str) -> str:
    return form if form.strip() else "␣"


def clipped(form: str) -> str:
    form = shown(form)
    return form if len(form) <= 26 else form[:25] + "…"


def is_right_to_left(form: str) -> bool:
    return any(unicodedata.bidirectional(char) in ("R", "AL") for char in form)


def relation_width(text: str) -> float:
    return text_width(text, RELATION_SIZE) + 8


def text_width(text: str, size: float) -> float:
    return size * sum(map(char_width, text))


def char_width(char: str) -> float:
    """In em."""
    if char in WIDTHS:
        return WIDTHS[char]
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(char) in "WF" else 0.74 if char.isupper() else 0.58


def escaped(text: str) -> str:
    """Text for XML, in an element or an attribute. Characters that XML forbids become �."""
    return html.escape(_NOT_IN_XML.sub("�", text))


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _path(name: str, d: str, stroke: str = "none", fill: str = "none") -> str:
    return f'<path class="{name}" d="{d}" fill="{fill}" stroke="{stroke}" stroke-width="1.4"/>'


def _rect(name: str, x: float, y: float, width: float, height: float, fill: str, rx: float = 0) -> str:
    place = " ".join(
        f'{key}="{_number(value)}"'
        for key, value in zip(("x", "y", "width", "height", "rx"), (x, y, width, height, rx), strict=True)
    )
    return f'<rect class="{name}" {place} fill="{fill}"/>'


def _text(name: str, x: float, y: float, text: str, style: str, fill: str) -> str:
    place = f'x="{_number(x)}" y="{_number(y)}" text-anchor="middle"'
    return f'<text class="{name}" {place} style="{html.escape(style)}" fill="{fill}">{escaped(text)}</text>'
