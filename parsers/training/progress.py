"""The progress of a training: on a terminal a bar over the whole run, and plain lines above it; elsewhere the lines."""

import contextlib
import logging
import sys
import textwrap
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from parsers.io.files import writing

LEAST_BAR = 20  # columns
WARM = 20  # steps before the time that is left is guessed: the first ones take longer
DUE = 0.25  # seconds between two states of the bar: each costs the training some of its processor


class Screen(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit silently."""
        raise BrokenPipeError


class Display:
    """Shows the progress of a run; nothing if ``quiet``, as on all processes but the first."""

    def __init__(self, quiet: bool = False):
        self.console = Screen(quiet=quiet, highlight=False, soft_wrap=True)
        self.live = self.console.is_terminal and not quiet
        self.progress: Progress | None = None
        self.shown = 0.0

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None where there is none."""
        return self.console.width if self.live else None

    def say(self, text: str) -> None:
        """A line; on a terminal several, broken between words."""
        if self.width:
            text = self._folded(text)
        with writing("standard output"):
            self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """Goes to stderr, so that it is seen even if the output is redirected; a line, or several as in ``say``."""
        if not self.console.quiet:
            print(self._folded(text) if sys.stderr.isatty() else text, file=sys.stderr)

    def _folded(self, text: str) -> str:
        return textwrap.fill(text, self.console.width, break_long_words=False, break_on_hyphens=False)

    @contextlib.contextmanager
    def notices(self) -> Iterator[None]:
        """While the block runs, what tritree logs is said here, in place of on stderr."""
        logger, handler = logging.getLogger("tritree"), logging.Handler()
        handler.emit = lambda record: self.say(record.getMessage())
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)

    def status(self, text: str) -> contextlib.AbstractContextManager:
        """On a terminal, shows a text while the block runs."""
        return self.console.status(text) if self.live else contextlib.nullcontext()

    @contextlib.contextmanager
    def bar(self) -> Iterator[None]:
        """While the block runs, ``update`` shows a bar below the lines, on a terminal."""
        if not self.live:
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[text]}"))
        # Drawn by ``update`` alone: a thread of rich's could draw a state that is half written.
        options = {"transient": True, "expand": True, "auto_refresh": False}
        with Progress(*columns, console=self.console, **options) as self.progress:
            self.task = self.progress.add_task("", total=None, text="")
            try:
                yield
            finally:
                self.progress = None

    def due(self) -> bool:
        """Whether it is time to update the bar."""
        return self.progress is not None and time.monotonic() - self.shown > DUE

    def update(self, name: str, done: float, total: float, seconds_left: float | None, *figures: str) -> None:
        """Figures come by their importance: those at the end are left out where the bar would be too short."""
        self.shown = time.monotonic()
        texts = [*figures, "" if seconds_left is None else f"at most {duration(seconds_left)} left"]
        while len(texts) > 1 and len("  ".join([name, *texts])) + LEAST_BAR + 2 > self.width:
            del texts[-2]
        self.progress.update(
            self.task, description=name, completed=done, total=total, text="  ".join(texts), refresh=True
        )


def epoch_line(
    record: dict,
    loss: str,
    better: bool,
    seconds_left: float,
    width: int | None,
    unlabeled: str = "unlabeled_loss",
) -> str:
    """The figures of an epoch for people; a star marks the best epoch so far.

    Args:
        loss: the key of the loss that is shown.
        unlabeled: that of the one on sentences without trees.
        seconds_left: shown where there is no terminal, whose bar has it.
        width: columns of the terminal; where they are too few, figures are left out.
    """
    seconds = record["epoch_seconds"]
    parts = [f"epoch {record['epoch']:>2}"]  # in their order on the line
    parts += [f"{said(key)} {record[key]:.3f}" for key in dict.fromkeys((loss, unlabeled)) if key in record]
    if "dev_uas" in record:
        las = f" LAS {record['dev_las']:5.2f}" if "dev_las" in record else ""
        parts.append(f"dev UAS {record['dev_uas']:5.2f}{las}{' *' if better else '  '}")
    parts.append(f"{seconds:.1f} s" if seconds < 100 else duration(seconds))
    if width is None:
        return "  ".join([*parts, f"at most {duration(seconds_left)} left"])
    for dropped in (-1, -2):  # the seconds, then the loss on unlabelled sentences
        if len("  ".join(parts)) >= width and len(parts) > 3:
            del parts[dropped]
    return "  ".join(parts)


def said(key: str) -> str:
    """A key of metrics.jsonl in words."""
    return "unlabelled" if key.startswith("unlabeled_") else key.replace("_", " ")


def duration(seconds: float) -> str:
    """1:02:03 or 4:05"""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
