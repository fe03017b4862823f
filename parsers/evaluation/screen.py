"""What a person sees of an evaluation on the screen: printed results, and progress while it runs."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from parsers.evaluation.parse import Parse
from parsers.io.files import writing


class Printer:
    """Prints to standard output, or to stderr where standard output has the data."""

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

    def show(self, part: RenderableType) -> None:
        with writing(self.name):
            self.console.print(part)

    def write(self, text: str) -> None:
        """Text that has its colours already."""
        with writing(self.name):
            self.console.file.write(text)


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Shows a text while the block runs, on a terminal."""
    console = Console(stderr=True)
    with console.status(text) if console.is_terminal else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def progress(path: str | None) -> Iterator[Callable[[Iterable[Parse]], Iterator[Parse]]]:
    """Shows on a terminal how much of a file has been parsed, as the parses go through the function that it gives. None
    is a file whose sentences are not the lines in it: then only their number is shown."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield iter
        return
    total = os.path.getsize(path) if path and os.path.isfile(path) and not path.endswith(".gz") else None
    columns = (TextColumn("parsing"), BarColumn(None), TextColumn("{task.fields[text]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("", total=total, text="")

        def watch(parses: Iterable[Parse]) -> Iterator[Parse]:
            done = 0
            for count, parse in enumerate(parses, 1):
                done += sum(len(line.encode()) for line in parse.sentence.lines)
                if count % 64 == 0:
                    bar.update(task, completed=done, text=f"{count:,} sentences")
                yield parse

        yield watch
