"""Trees in the terminal: arcs above the words where they fit, else one word per line with its branch at the left.

                   root
     ╭────────╮     │     ┏━━━━━━━━━━━┓
     │   ╭────┤╭───╮│╭───╮┃    ╭─────╮┃
     ▼   ▼    │▼   │▼│   ▼┃    ▼     │▼
    the old   man  saw  stars with glasses
    .99 .99   .98  1.0   .97  .96    .55
    det amod nsubj root  obl  case  nmod
                         obj         obl
                     ╎                ▲
                     ╰╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╯

The predicted tree is above; a wrong arc is heavy and red, and the gold arc that should be there dashed and green below.
Below each word stands the marginal probability of its arc, then its label, if there are labels, and below that the gold
label, if it is another one. A wrong label on a right arc is magenta.
"""

import itertools
import math
import unicodedata

from parsers.evaluation.parse import Parse

SHORT_LABEL = 5  # columns, where whole labels need too much room: nsubj, punct, csub…
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
# Indexed by the sum of the directions in which a line leaves the cell.
LIGHT = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"
HEAVY = " ╹╻┃╸┛┓┫╺┗┏┣━┻┳╋"
DASHED = LIGHT.replace("│", "╎").replace("─", "╌")

# name: (lines, SGR code)
STYLES = {
    "": (LIGHT, ""),
    "dim": (LIGHT, "2"),
    "unsure": (LIGHT, "33"),
    "wrong": (HEAVY, "31"),
    "mislabelled": (LIGHT, "35"),
    "gold": (DASHED, "32"),
}


def draw_tree(parse: Parse, width: int = 80, color: bool = True) -> str:
    """The tree as lines of at most ``width`` columns (from about 30 on), without a line end behind the last.

    Aligned where box-drawing characters are narrow: in all terminals but those set up for old East Asian locales.
    """
    canvas = _arcs_above(parse, width) or _arcs_above(parse, width, SHORT_LABEL)
    legend = ["━ wrong  ╌ gold"] if _wrong(parse) else []
    if canvas is None:  # no gold arcs are drawn there
        canvas = _branches(parse, width)
        legend = ["✗ wrong"] if _wrong(parse) else []
    file, line = parse.sentence.file, parse.sentence.line
    place = [clip(f"{clean(file)}:{line}", width)] if file else []
    summary = clip(" · ".join([_summary(parse), *legend]), width)
    if color:
        place, summary = [_paint(text, "dim") for text in place], _paint(summary, "dim")
    return "\n".join([*place, *canvas.lines(color), summary])


def clean(text: str) -> str:
    """Text that is harmless in a terminal, and as wide there as `columns` says.

    Control characters become visible. Joiners, variation selectors and skin tones are left out: terminals disagree on
    the width of what they make of emoji. So are direction marks, which would reorder the line.
    """
    shown = []
    for char in unicodedata.normalize("NFC", text):
        kind = unicodedata.category(char)
        if char < " " or char == "\x7f":
            shown.append(chr(0x2400 + ord(char)) if char < " " else "␡")
        elif kind in ("Cc", "Cs", "Zl", "Zp"):
            shown.append("�")
        elif kind == "Zs":
            shown.append(" ")
        elif char == "\u200c" or not (
            kind == "Cf" or "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff"
        ):
            shown.append(char)
    if shown and unicodedata.category(shown[0]) in ("Mn", "Me"):
        shown.insert(0, "◌")  # or a combining mark would join the character drawn before it
    return "".join(shown)


def columns(text: str) -> int:
    """The columns that clean text takes in a terminal."""
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":  # vowels join their Hangul
        return 0
    # The second condition is for emoji that are newer than Python's tables.
    return 2 if unicodedata.east_asian_width(char) in "WF" or "\U0001f900" <= char <= "\U0001f9ff" else 1


def clip(text: str, width: int) -> str:
    """The text, cut to so many columns."""
    if columns(text) <= width:
        return text
    kept, used = [], 1
    for char in text:
        used += _columns(char)
        if used > width:
            break
        kept.append(char)
    return "".join(kept) + "…"


class Canvas:
    """A grid of lines and text. A cell has text, or the directions of the lines that meet there."""

    def __init__(self, height: int, width: int):
        self.text: list[list[str | None]] = [[None] * width for _ in range(height)]
        self.directions = [[0] * width for _ in range(height)]
        self.styles: list[list[str | None]] = [[None] * width for _ in range(height)]

    def line(self, y1: int, x1: int, y2: int, x2: int, style: str) -> None:
        """A horizontal or vertical line from the middle of a cell to the middle of another."""
        (y1, x1), (y2, x2) = sorted([(y1, x1), (y2, x2)])
        forth, back = (RIGHT, LEFT) if y1 == y2 else (DOWN, UP)
        for y in range(y1, y2 + 1):
            for x in range(x1, x2 + 1):
                self.directions[y][x] |= ((y, x) != (y2, x2)) * forth | ((y, x) != (y1, x1)) * back
                self.styles[y][x] = style if self.styles[y][x] in (None, style) else ""

    def put(self, y: int, x: int, text: str, style: str = "") -> None:
        """Puts clean text into a row. What is beyond the right edge is cut off."""
        cells: list[str] = []
        for char in text:
            size = _columns(char)
            if size == 0 and cells:
                cells[-1] += char
            else:
                cells += [char, *[""] * (size - 1)]  # a wide character takes a second cell, which is empty
        if any(unicodedata.bidirectional(char) in ("R", "AL") for char in text):
            # Direction marks keep neighbouring words of Hebrew or Arabic in the order of the sentence.
            cells[0], cells[-1] = "\u200e" + cells[0], cells[-1] + "\u200e"
        for at, cell in enumerate(cells[: len(self.text[y]) - x], x):
            self.text[y][at], self.styles[y][at] = cell, style

    def lines(self, color: bool) -> list[str]:
        return [self._line(y, color) for y in range(len(self.text))]

    def _line(self, y: int, color: bool) -> str:
        cells = []
        for text, directions, style in zip(self.text[y], self.directions[y], self.styles[y], strict=True):
            cells.append((STYLES[style or ""][0][directions] if text is None else text, style or ""))
        while cells and cells[-1][0] == " ":
            cells.pop()
        if not color:
            return "".join(text for text, _ in cells)
        runs = itertools.groupby(cells, key=lambda cell: cell[1])
        return "".join(_paint("".join(text for text, _ in run), style) for style, run in runs)


def _paint(text: str, style: str) -> str:
    code = STYLES[style][1]
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _label_rows(parse: Parse) -> list[list[tuple[str, str]]]:
    """Labels with their styles; where some are wrong, a second row with the gold ones."""
    if parse.labels is None:
        return []
    wrong = {"wrong": parse.wrong_heads(), "mislabelled": parse.wrong_labels()}
    styles = [next((style for style, words in wrong.items() if words[i]), "dim") for i in range(len(parse.heads))]
    first = [(clean(label), style) for label, style in zip(parse.labels, styles, strict=True)]
    pairs = zip(parse.labels, parse.gold_labels or parse.labels, strict=True)
    second = [("" if gold in ("_", label) else clean(gold), "gold") for label, gold in pairs]
    return [first, second] if any(text for text, _ in second) else [first]


def _arcs_above(parse: Parse, width: int, label_width: int | None = None) -> Canvas | None:
    """The words in one line, arcs above them, labels and missed gold arcs below; None if that is too wide.

    Labels wider than their word and than ``label_width`` are cut.
    """
    rows = _label_rows(parse)
    forms = [clean(form) for form in parse.sentence.forms]
    above, below = list(enumerate(parse.heads, 1)), [(word, parse.gold[word - 1]) for word in _wrong(parse)]
    # At a word, arcs to the left start left of where its own arc ends, those to the right start right of it.
    out_left = {head for word, head in above + below if word < head}
    out_right = {head for word, head in above + below if word > head}
    arrive, starts, sizes, x = [0], [], [], 0
    for word, form in enumerate(forms, 1):
        anchors = (word in out_left) + 1 + (word in out_right)
        labels = [min(columns(row[word - 1][0]), label_width or width) for row in rows]
        size = max(columns(form), anchors, 3, *labels)
        arrive.append(x + (size - anchors) // 2 + (word in out_left))
        starts.append(x)
        sizes.append(size)
        x += size + 1
    if x - 1 > width:
        return None

    def span(word: int, head: int) -> tuple[int, int]:
        return arrive[word], arrive[head] + (1 if word > head else -1)

    levels_above, levels_below = (_levels({arc: span(*arc) for arc in arcs if arc[1] > 0}) for arcs in (above, below))
    row = max(levels_above.values(), default=0) + 2
    depth = max(levels_below.values(), default=0) + any(head == 0 for _, head in below)
    end = row + 2 + len(rows)  # of the text
    canvas = Canvas(end + (depth + 1 if below else 0), max(x - 1, columns("root")))

    for arcs, levels, near, away, tip in (
        (above, levels_above, row - 1, -1, "▼"),
        (below, levels_below, end, 1, "▲"),
    ):
        root_row = 0 if away < 0 else near + depth
        for word, head in arcs:
            style = "gold" if away > 0 else _style(parse, word)
            if head > 0:
                (x1, x2), y = span(word, head), near + away * levels[word, head]
                canvas.line(near, x1, y, x1, style)
                canvas.line(y, x1, y, x2, style)
                canvas.line(y, x2, near, x2, style)
                canvas.directions[near][x2] |= UP | DOWN  # as far as the word
            elif head == 0:
                canvas.line(near, arrive[word], root_row, arrive[word], style)
                left = min(max(arrive[word] - 1, 0), len(canvas.text[0]) - len("root"))
                canvas.put(root_row, left, "root", style)
            if head >= 0:
                canvas.put(near, arrive[word], tip, style)
    for word, (form, start, size) in enumerate(zip(forms, starts, sizes, strict=True), 1):
        style = _style(parse, word)
        canvas.put(row, start + (size - columns(form)) // 2, form, "wrong" if style == "wrong" else "")
        canvas.put(row + 1, start + (size - 3) // 2, _share(parse.probabilities[word - 1]), style or "dim")
        for y, labels in enumerate(rows, row + 2):
            text, style = labels[word - 1]
            text = clip(text, size)
            canvas.put(y, start + (size - columns(text)) // 2, text, style)
    return canvas


def _levels(spans: dict[tuple[int, int], tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The level of each arc: from 1 on, above all arcs that it spans, as low as possible."""
    taken: dict[int, int] = {}
    levels = {}
    for arc, ends in sorted(spans.items(), key=lambda item: abs(item[1][0] - item[1][1])):
        cells = range(min(ends), max(ends) + 1)
        levels[arc] = 1 + max(taken.get(x, 0) for x in cells)
        taken.update(dict.fromkeys(cells, levels[arc]))
    return levels


def _branches(parse: Parse, width: int) -> Canvas:
    """One word per line, heads left of their words as in a table of contents; no branches if the tree is too deep."""
    count, wrong, mislabelled = len(parse.heads), parse.wrong_heads(), parse.wrong_labels()
    depths = [_depth(parse.heads, word) for word in range(1, count + 1)]
    left = len(str(count)) + 1 + len(".99") + 3
    step = max(0, min(3, (width - left - 20) // max(1, *depths)))  # per level; 20 columns are for the words
    canvas = Canvas(count, width)
    for y, (head, depth) in enumerate(zip(parse.heads, depths, strict=True)):
        style = _style(parse, y + 1)
        x = left + step * depth
        if step and head > 0:
            canvas.line(head - 1, x - step, y, x - step, style)
        if step:
            canvas.line(y, x - step if head else x, y, x + 1, style)
    for y, (head, depth) in enumerate(zip(parse.heads, depths, strict=True)):
        style = _style(parse, y + 1)
        canvas.put(y, 0, str(y + 1).rjust(len(str(count))), "dim")
        canvas.put(y, len(str(count)) + 1, _share(parse.probabilities[y]), style or "dim")
        x = left + step * depth + 2 if step else left
        notes = [] if step else [(f"← {_name(parse, head)}", style)]
        if parse.labels is not None:
            notes.append((clean(parse.labels[y]), "mislabelled" if mislabelled[y] else "dim"))
        gold_label = clean(parse.gold_labels[y]) if parse.labels is not None and parse.gold_labels else "_"
        if wrong[y]:
            canvas.put(y, left - 2, "✗", "wrong")
            label = "" if gold_label == "_" else f", {gold_label}"
            notes.append((f"gold: {_name(parse, parse.gold[y])}{label}", "gold"))
        elif mislabelled[y]:
            canvas.put(y, left - 2, "≠", "mislabelled")
            notes.append((f"gold: {gold_label}", "gold"))
        texts = [(clean(parse.sentence.forms[y]), "wrong" if wrong[y] else ""), *notes]
        fits = sum(columns(text) + 2 for text, _ in texts) - 2 <= width - x
        for more, (text, style) in zip(reversed(range(len(texts))), texts, strict=True):
            text = clip(text, width - x if fits or not more else max((width - x) // (1 + more) - 2, 1))
            canvas.put(y, x, text, style)
            x += columns(text) + 2
    return canvas


def _depth(heads: list[int], word: int) -> int:
    depth = 0
    while (word := heads[word - 1]) > 0 and depth < len(heads):
        depth += 1
    return depth


def _name(parse: Parse, head: int) -> str:
    return "root" if head == 0 else f"{head} {clean(parse.sentence.forms[head - 1])}" if head > 0 else "none"


def _wrong(parse: Parse) -> list[int]:
    return [word for word, wrong in enumerate(parse.wrong_heads(), 1) if wrong]


def _style(parse: Parse, word: int) -> str:
    if parse.gold and 0 <= parse.gold[word - 1] != parse.heads[word - 1]:
        return "wrong"
    return "unsure" if parse.probabilities[word - 1] < 0.5 else ""


def _share(probability: float) -> str:
    """In three columns: .07, .99, 1.0"""
    return "1.0" if probability >= 0.995 else f"{probability:.2f}"[-3:]


def _summary(parse: Parse) -> str:
    parts = []
    known = sum(gold >= 0 for gold in parse.gold or [])
    if known:
        labels = sum(parse.wrong_labels())
        wrong_labels = f", {labels} wrong label{'s' * (labels != 1)}" if labels else ""
        parts.append(f"{known - len(_wrong(parse))} of {known} heads right{wrong_labels}")
    parts.append(f"tree {math.exp(min(parse.log_prob, 0)):.2g}, entropy {parse.entropy:.2f}")
    return " · ".join(parts)
