"""What a person sees of an evaluation: tables of its figures, and progress on a terminal. The figures are those of
--json; here they are rounded."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from parsers.conllu import Sentence
from parsers.output import writing

MOST_TAGS = 17  # the universal ones; of others, the rarest are shown together
MOST_ARCS = 10


class Report:
    """Prints to standard output, or to stderr where that has the data."""

    def __init__(self, to_stderr: bool = False):
        stream: TextIO = sys.stderr if to_stderr else sys.stdout
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know fewer characters than a treebank has
        self.name = "standard error" if to_stderr else "standard output"
        self.console = Console(file=stream, highlight=False, markup=False, emoji=False)

    @property
    def width(self) -> int:
        return self.console.width

    @property
    def color(self) -> bool:
        return self.console.is_terminal and not self.console.no_color

    def show(self, *parts: RenderableType) -> None:
        with writing(self.name):
            self.console.print(*parts, sep="\n")

    def write(self, text: str) -> None:
        """Text that has its colours already."""
        with writing(self.name):
            self.console.file.write(text)


def evaluation_tables(figures: dict) -> Group:
    """The tables of a file that was scored."""
    main = _table("", "%", "of")
    for name, key, whole in (
        ("UAS", "uas", f"{figures['words']:,} words"),
        ("without punctuation", "uas_without_punctuation", f"{figures['plain_words']:,} words"),
        ("complete matches", "complete_matches", f"{figures['sentences']:,} sentences"),
        ("root accuracy", "root_accuracy", f"{figures['roots']:,} roots"),
    ):
        main.add_row(name, _percent(figures[key]), whole)
    main.add_row("calibration error", _percent(100 * figures["expected_calibration_error"]), "probability")

    lengths = _table("sentence", "words", "UAS")
    for row in figures["by_sentence_length"]:
        lengths.add_row(_range(row), f"{row['words']:,}", _percent(row["uas"]))
    arcs = _table("arc", "words", "UAS", "precision")
    for row in figures["by_arc_length"]:
        name = "from root" if "from_root" in row else _range(row)
        arcs.add_row(name, f"{row['words']:,}", _percent(row["uas"]), _percent(row["precision"]))
    tags = _table("tag", "words", "UAS")
    for tag, row in _most_frequent(figures["by_pos"]):
        tags.add_row(Text(_short(tag)), f"{row['words']:,}", _percent(row["uas"]))
    sure = _table("probability", "words %", "right %", "errors below %")
    for row in figures["thresholds"]:
        shares = [None if row[key] is None else 100 * row[key] for key in ("coverage", "accuracy", "errors_below")]
        sure.add_row(f"≥ {row['threshold']:g}", *map(_percent, shares))
    left = Table.grid()
    for table in (main, "", lengths, "", arcs, "", sure):
        left.add_row(table)
    both = Table.grid(padding=(0, 5))
    both.add_row(left, tags)
    return Group(both, "")


def comparison_tables(figures: dict, runs: list[str], rows: list[list[str]]) -> Group:
    """Scores of two runs with the bootstrap, and arcs on which they differ."""
    first, second = figures["scores"]
    parts: list[RenderableType] = [Text(f"1: {_printable(runs[0])}\n2: {_printable(runs[1])}\n")]
    if figures["bootstrap"]:
        scores = _table("%", "1", "2", "2 − 1", "95 % interval", "p")
        names = {
            "uas": "UAS",
            "uas_without_punctuation": "without punctuation",
            "complete_matches": "complete matches",
        }
        for key, name in names.items():
            if key in figures["bootstrap"]:
                row = figures["bootstrap"][key]
                interval = "{:+.2f} … {:+.2f}".format(*row["interval"])
                values = (_percent(first[key]), _percent(second[key]), f"{row['difference']:+.2f}", interval)
                scores.add_row(name, *values, f"{row['p_value']:.4f}")
        parts += [scores, ""]
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
        for row in rows:
            arcs.add_row(*(Text(_printable(cell)) for cell in (row[0].rpartition(":")[2], *row[1:6])))
        total = sum(figures["arcs"].values()) - figures["arcs"].get("same", 0)
        more = f"… and {total - len(rows):,} more: --output FILE.tsv writes all of them\n" if total > len(rows) else ""
        parts += [arcs, Text(more)]
    return Group(*parts)


def runs_table(summaries: dict[str, dict]) -> Table:
    table = _table("run", "epochs", "dev UAS", "test UAS")
    for name, row in summaries.items():
        table.add_row(Text(_printable(name)), f"{row['epochs']}", _percent(row["dev_uas"]), _percent(row["test_uas"]))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="left" if name == "of" else "right", no_wrap=True)
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


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _printable(text: str) -> str:
    """What a file contains must not steer the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _short(text: str) -> str:
    text = _printable(text)
    return text if len(text) <= 16 else text[:15] + "…"


@contextlib.contextmanager
def reading(path: str) -> Iterator[Callable[[Iterable[Sentence]], Iterator[Sentence]]]:
    """Shows on a terminal how far a file has been read: gives what the sentences are to be passed through."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield iter
        return
    total = os.path.getsize(path) if os.path.isfile(path) and not path.endswith(".gz") else None
    columns = (TextColumn("parsing"), BarColumn(None), TextColumn("{task.fields[text]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        task = progress.add_task("", total=total, text="")

        def watch(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
            done = 0
            for count, sentence in enumerate(sentences, 1):
                done += sum(len(line.encode()) for line in sentence.lines)
                if count % 64 == 0:
                    progress.update(task, completed=done, text=f"{count:,} sentences")
                yield sentence

        yield watch
