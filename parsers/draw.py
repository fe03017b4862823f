"""Trees in the terminal: arcs above the words where they fit, else one word per line with its branch at the left.

          root
    ╭──────╮│ ╭━━━━━━━┓
    │      ││ │  ╭──╮ ┃
    ▼      ▼▼ …

The predicted tree is above; a wrong arc is heavy and red, and the gold arc that should be there dashed and green below.
Below each word stands the marginal probability of its arc.
"""

import math
import unicodedata

from parsers.parse import Parse

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
    "gold": (DASHED, "32"),
}


def draw_tree(parse: Parse, width: int = 80, color: bool = True) -> str:
    """The tree as lines of at most ``width`` columns (from about 30 on), without a line end behind the last.

    Terminals show it aligned if they take box-drawing characters as narrow, as all do outside of old East Asian locales.
    """
    canvas = _arcs_above(parse, width) or _branches(parse, width)
    place = clip(f"{clean(parse.sentence.file)}:{parse.sentence.line}", width)
    summary = clip(_summary(parse), width)
    if color:
        place, summary = _paint(place, "dim"), _paint(summary, "dim")
    return "\n".join([place, *canvas.lines(color), summary])


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
        elif char == "\u200c" or not (kind == "Cf" or "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff"):
            shown.append(char)
    if shown and unicodedata.category(shown[0]) in ("Mn", "Me"):
        shown.insert(0, "◌")  # a mark with nothing to stand on would change what is drawn before it
    return "".join(shown)


def columns(text: str) -> int:
    """The columns that clean text takes in a terminal."""
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":  # vowels join their Hangul
        return 0
    # The second: emoji that are newer than Python's tables.
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
        self.text = [[""] * width for _ in range(height)]
        self.directions = [[0] * width for _ in range(height)]
        self.styles: list[list[str | None]] = [[None] * width for _ in range(height)]

    def line(self, y1: int, x1: int, y2: int, x2: int, style: str) -> None:
        """Horizontal or vertical, from the middle of a cell to the middle of another."""
        (y1, x1), (y2, x2) = sorted([(y1, x1), (y2, x2)])
        forth, back = (RIGHT, LEFT) if y1 == y2 else (DOWN, UP)
        for y in range(y1, y2 + 1):
            for x in range(x1, x2 + 1):
                self.directions[y][x] |= (forth if (y, x) != (y2, x2) else 0) | (back if (y, x) != (y1, x1) else 0)
                self.styles[y][x] = style if self.styles[y][x] in (None, style) else ""

    def put(self, y: int, x: int, text: str, style: str = "") -> None:
        """Clean text; what is beyond the right edge is lost."""
        if any(unicodedata.bidirectional(char) in ("R", "AL") for char in text):
            text = f"\u200e{text}\u200e"  # words of Hebrew or Arabic next to each other would change places
        row = self.text[y]
        for char in text:
            size = _columns(char)
            if x + size > len(row):
                break
            if size == 0 and row[x - 1 if x else 0] is not None:
                last = x - 1 if x else 0
                while last > 0 and row[last] == "\0":
                    last -= 1
                row[last] += char
                continue
            row[x], self.styles[y][x] = char, style
            row[x + 1 : x + size] = ["\0"] * (size - 1)  # the second half of a wide character
            x += size

    def lines(self, color: bool) -> list[str]:
        return [self._line(y, color) for y in range(len(self.text))]
