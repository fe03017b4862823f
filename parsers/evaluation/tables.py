"""Tables of figures for a terminal. The figures are those of --json; here they are rounded."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from parsers.evaluation.comparison import HEADER, HEADS, LABELS
from parsers.evaluation.labels import shares
from parsers.evaluation.plots import SCORES

MOST_TAGS = 17  # as many as universal ones; where there are more, the rarest share a row
MOST_LABELS = 15
MOST_CONFUSIONS = 10
MOST_ARCS = 10
SIGNIFICANT = 0.05
TAG_ACCURACIES = {column: f"{column.upper()} of the tagger" for column in ("upos", "xpos", "feats")}
BAR = 8  # columns of 100 %, if there is room


def evaluation_tables(figures: dict) -> Group:
    """The tables of a file that was scored, in 80 columns."""
    main = _table("", "%", "of")
    for name, key, whole, what in (
        ("UAS", "uas", "words", "word"),
        ("without punctuation", "uas_without_punctuation", "plain_words", "word"),
        ("LAS", "las", "labelled_words", "word"),
        ("without punctuation", "las_without_punctuation", "plain_labelled_words", "word"),
        ("CLAS", "clas", "content_words", "word"),
        ("complete matches", "complete_matches", "sentences", "sentence"),
        ("root accuracy", "root_accuracy", "roots", "root"),
        *((name, f"{column}_accuracy", f"{column}_words", "word") for column, name in TAG_ACCURACIES.items()),
    ):
        if key in figures:
            main.add_row(name, _percent(figures[key]), counted(figures[whole], what))

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
    labels = _label_tables(figures) if "by_label" in figures else []
    return Group(both, "", *labels, sure, Text(error, style="dim"), "", *several)


def _label_tables(figures: dict) -> list[RenderableType]:
    table = _table("label", "words", "precision", "recall", "F1", "")
    rows = list(figures["by_label"].items())
    if len(rows) > MOST_LABELS:
        rest = [row for _, row in rows[MOST_LABELS - 1 :]]
        together = shares(*(sum(row[key] for row in rest) for key in ("words", "predicted", "correct")))
        rows[MOST_LABELS - 1 :] = [(f"{len(rest)} others", together)]
    for label, row in rows:
        numbers = (f"{row['words']:,}", _percent(row["precision"]), _percent(row["recall"]))
        table.add_row(Text(_short(label)), *numbers, *_bar(row["f1"]))
    confusions = _table("right head, label", "predicted", "words")
    confusions.columns[1].justify = "left"
    for row in figures["label_confusions"][:MOST_CONFUSIONS]:
        confusions.add_row(Text(_short(row["gold"])), Text(_short(row["predicted"])), f"{row['words']:,}")
    return [table, "", *([confusions, ""] if figures["label_confusions"] else [])]


def _kbest_table(rows: list[dict]) -> Table:
    table = _table("best trees", "% of probability", "UAS of the best", "")
    for row in rows:
        table.add_row(f"{row['trees']:,}", _percent(100 * row["mass"]), *_bar(row["oracle_uas"]))
    return table


def comparison_tables(figures: dict, rows: list[list[str]], output: str | None = None) -> Group:
    """Scores of two runs with the bootstrap, and the first arcs on which they differ, as rows; ``output`` has all."""
    runs, bootstrap, labels = figures["runs"], figures["bootstrap"], figures.get("labels", {})
    first, second = figures["tags"]
    tags = f"tags: {first}" if first == second else f"tags: 1: {first}; 2: {second}"
    parts: list[RenderableType] = [Text(f"{tags}\n\n1: {_printable(runs[0])}\n2: {_printable(runs[1])}\n")]
    if bootstrap:
        verdicts = [_verdict(key.upper(), bootstrap[key]) for key in ("uas", "las") if key in bootstrap]
        parts += [_scores_table(bootstrap, *figures["scores"]), "", Text("\n".join(verdicts) + "\n")]
    else:
        parts.append(Text("no heads in the file: not scored\n"))
    kinds = ("first right", "second right", "both wrong", "not known")
    kinds = tuple(kind for kind in kinds if figures["arcs"].get(kind) or labels.get(kind)) or kinds[:3]
    tags = _table("different arcs", *kinds)
    totals = [("heads", figures["arcs"]), ("only labels", labels)] if labels else [("all", figures["arcs"])]
    for tag, counts in [*totals, *list(figures["differences_by_pos"].items())[:MOST_TAGS]]:
        tags.add_row(Text(_short(tag)), *(f"{counts.get(kind, 0):,}" for kind in kinds))
    parts += [tags, ""]
    if rows:
        total = sum(count for counts in (figures["arcs"], labels) for kind, count in counts.items() if kind != "same")
        where = f"all of them are in {output}" if output else "--output FILE.tsv writes all of them"
        more = f"… and {total - len(rows):,} more: {where}\n" if total > len(rows) else ""
        parts += [_arcs_table(rows, with_labels=bool(labels)), Text(more)]
    return Group(*parts)


def _scores_table(bootstrap: dict, first: dict, second: dict) -> Table:
    names = {
        "uas": "UAS",
        "uas_without_punctuation": "without punctuation",
        "las": "LAS",
        "clas": "CLAS",
        "complete_matches": "complete matches",
        **{f"{column}_accuracy": name for column, name in TAG_ACCURACIES.items()},
    }
    table = _table("%", "1", "2", "2 − 1", "95 % interval", "p")
    for key, name in names.items():
        values = (_percent(first.get(key)), _percent(second.get(key)))
        if key in bootstrap:
            row = bootstrap[key]
            interval = "{:+.2f} … {:+.2f}".format(*row["interval"])
            table.add_row(name, *values, f"{row['difference']:+.2f}", interval, f"{row['p_value']:.4f}")
        elif key.endswith(("las", "accuracy")) and key in first | second:  # not drawn; or LAS of one run alone
            table.add_row(
                name, *values, *([f"{second[key] - first[key]:+.2f}"] if key in first and key in second else [])
            )
    return table


def _arcs_table(rows: list[list[str]], with_labels: bool) -> Table:
    """Arcs that differ; those that are as in the file are green."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("line", "word", "tag", "in the file", "1", "2"):
        table.add_column(name, overflow="fold")
    for cells in rows:
        row = dict(zip(HEADER, cells, strict=True))
        arcs = [(row[head], row[label] if with_labels else "_") for head, label in zip(HEADS, LABELS, strict=True)]
        shown = [Text(_printable(head if label == "_" else f"{head}, {label}")) for head, label in arcs]
        (gold, gold_label), *found = arcs
        for text, (head, label) in zip(shown[1:], found, strict=True):
            if head == gold and gold_label in ("_", label):
                text.stylize("green")
        place = row["line"].rpartition(":")[2]
        table.add_row(*(Text(_printable(cell)) for cell in (place, row["word"], row["tag"])), *shown)
    return table


def _verdict(score: str, bootstrap: dict) -> str:
    p = f"p = {bootstrap['p_value']:.4f}"
    if bootstrap["p_value"] >= SIGNIFICANT:
        return f"The difference in {score} may well be chance ({p})."
    return f"Run {1 if bootstrap['difference'] < 0 else 2} has the better {score} ({p})."


def runs_table(summaries: dict[str, dict]) -> Table:
    """The scores of several runs; a column that all of them lack is left out, but for UAS."""
    found = {key for row in summaries.values() for key, value in row.items() if value is not None}
    keys = [key for key in SCORES if key in found or key.endswith("_uas")]
    names = [f"{split} {score.upper()}" for split, score in (key.split("_") for key in keys)]
    table = _table("run", "epochs", *names, fold=True)
    for name, row in summaries.items():
        table.add_row(Text(_printable(name)), f"{row['epochs']}", *(_percent(row[key]) for key in keys))
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
