"""Tables of figures for a terminal. The figures are those of --json; here they are rounded."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

MOST_TAGS = 17  # as many as universal ones; where there are more, the rarest share a row
MOST_ARCS = 10
SIGNIFICANT = 0.05
BAR = 8  # columns of 100 %, if there is room


def evaluation_tables(figures: dict) -> Group:
    """The tables of a file that was scored, in 80 columns."""
    main = _table("", "%", "of")
    for name, key, whole in (
        ("UAS", "uas", counted(figures["words"], "word")),
        ("without punctuation", "uas_without_punctuation", counted(figures["plain_words"], "word")),
        ("complete matches", "complete_matches", counted(figures["sentences"], "sentence")),
        ("root accuracy", "root_accuracy", counted(figures["roots"], "root")),
    ):
        main.add_row(name, _percent(figures[key]), whole)

    lengths = _table("sentence length", "words", "UAS", "")
    for row in figures["by_sentence_length"]:
        lengths.add_row(_range(row), f"{row['words']:,}", *_bar(row["uas"]))
    arcs = _table("arc length", "words", "precision", "UAS", "")
    for row in figures["by_arc_length"]:
        name = "from root" if "from_root" in row else _range(row)
        arcs.add_row(name, f"{row['words']:,}", _percent(row["precision"]), *_bar(row["uas"]))
    tags = _table("tag", "words", "UAS", "")
    for tag, row in _most_frequent(figures["by_pos"]):
        tags.add_row(Text(_short(tag)), f"{row['words']:,}", *_bar(row["uas"]))
    sure = _table("probability", "% of arcs", "% right", "% of errors below")
    for row in figures["thresholds"]:
        shares = [row[key] if row[key] is None else 100 * row[key] for key in ("coverage", "accuracy", "errors_below")]
        sure.add_row(f"≥ {row['threshold']:g}", *(_percent(share) for share in shares))
    left = Table.grid()
    for table in (main, "", lengths, "", arcs):
        left.add_row(table)
    both = Table.grid(padding=(0, 3))
    both.add_column(no_wrap=True)
    both.add_column()
    both.add_row(left, tags)
    error = f"expected calibration error {100 * figures['expected_calibration_error']:.2f} %"
    several = [_kbest_table(figures["kbest"]), ""] if "kbest" in figures else []
    return Group(both, "", sure, Text(error, style="dim"), "", *several)


def _kbest_table(rows: list[dict]) -> Table:
    table = _table("best trees", "% of probability", "UAS of the best", "")
    for row in rows:
        table.add_row(f"{row['trees']:,}", _percent(100 * row["mass"]), *_bar(row["oracle_uas"]))
    return table


def comparison_tables(figures: dict, rows: list[list[str]]) -> Group:
    """Scores of two runs with the bootstrap, and the first arcs on which they differ, as rows."""
    runs, (first, second) = figures["runs"], figures["scores"]
    parts: list[RenderableType] = [Text(f"1: {_printable(runs[0])}\n2: {_printable(runs[1])}\n")]
    if figures["bootstrap"]:
        scores = _table("%", "1", "2", "2 − 1", "95 % interval", "p")
        names = {"uas": "UAS", "uas_without_punctuation": "without punctuation", "complete_matches": "complete matches"}
        for key, name in names.items():
            if key in figures["bootstrap"]:
                row = figures["bootstrap"][key]
                interval = "{:+.2f} … {:+.2f}".format(*row["interval"])
                values = (_percent(first[key]), _percent(second[key]), f"{row['difference']:+.2f}", interval)
                scores.add_row(name, *values, f"{row['p_value']:.4f}")
        parts += [scores, "", Text(_verdict(figures["bootstrap"]["uas"]) + "\n")]
    else:
        parts.append(Text("no heads in the file: not scored\n"))
    kinds = ("first right", "second right", "both wrong", "not known")
    kinds = tuple(kind for kind in kinds if figures["arcs"].get(kind)) or kinds[:3]
    tags = _table("different arcs", *kinds)
    tags.add_row("all", *(f"{figures['arcs'].get(kind, 0):,}" for kind in kinds))
    for tag, counts in list(figures["differences_by_pos"].items())[:MOST_TAGS]:
        tags.add_row(Text(_short(tag)), *(f"{counts.get(kind, 0):,}" for kind in kinds))
    parts += [tags, ""]
    if rows:
        arcs = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for name in ("line", "word", "tag", "in the file", "1", "2"):
            arcs.add_column(name, overflow="fold")
        for place, word, tag, gold, *heads in (row[:6] for row in rows):
            right = [Text(_printable(head), style="green" if head == gold else "") for head in heads]
            arcs.add_row(*(Text(_printable(cell)) for cell in (place.rpartition(":")[2], word, tag, gold)), *right)
        total = sum(figures["arcs"].values()) - figures["arcs"].get("same", 0)
        more = f"… and {total - len(rows):,} more: --output FILE.tsv writes all of them\n" if total > len(rows) else ""
        parts += [arcs, Text(more)]
    return Group(*parts)


def _verdict(bootstrap: dict) -> str:
    p = f"p = {bootstrap['p_value']:.4f}"
    if bootstrap["p_value"] >= SIGNIFICANT:
        return f"The difference in UAS may well be chance ({p})."
    return f"Run {1 if bootstrap['difference'] < 0 else 2} has the better UAS ({p})."


def runs_table(summaries: dict[str, dict]) -> Table:
    table = _table("run", "epochs", "dev UAS", "test UAS", fold=True)
    for name, row in summaries.items():
        table.add_row(Text(_printable(name)), f"{row['epochs']}", _percent(row["dev_uas"]), _percent(row["test_uas"]))
    return table


def _table(first: str, *others: str, fold: bool = False) -> Table:
    """Numbers are aligned right. On a narrow terminal, bars (a column without a name) shrink and, with ``fold``, names
    are broken into lines."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(first, overflow="fold", no_wrap=not fold)
    for name in others:
        is_bar = name == ""
        justify = "left" if is_bar or name == "of" else "right"
        table.add_column(name, justify=justify, no_wrap=not is_bar)
    return table


def _most_frequent(tags: dict[str, dict]) -> list[tuple[str, dict]]:
    rows = list(tags.items())
    if len(rows) <= MOST_TAGS:
        return rows
    rest = [row for _, row in rows[MOST_TAGS - 1 :]]
    words, right = (sum(row[key] for row in rest) for key in ("words", "correct"))
    return [*rows[: MOST_TAGS - 1], (f"{len(rest)} others", {"words": words, "uas": 100 * right / words})]


def _range(row: dict) -> str:
    if row["to"] is None:
        return f"> {row['from'] - 1}"
    return str(row["to"]) if row["from"] == row["to"] else f"{row['from']}–{row['to']}"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _bar(value: float | None) -> tuple[str, "Bar"]:
    return _percent(value), Bar(value or 0.0)


class Bar:
    """A percentage as a bar in a column of a table, 100 % being the width of the column."""

    def __init__(self, percent: float):
        self.percent = percent

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, BAR)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        halves = round(self.percent / 100 * 2 * options.max_width)
        yield Text("━" * (halves // 2) + "╸" * (halves % 2), style="blue")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _printable(text: str) -> str:
    """Control characters in a file must not reach the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _short(text: str) -> str:
    text = _printable(text)
    return text if len(text) <= 16 else text[:15] + "…"
