"""The progress of a training: a live line with rich on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from parsers.io.files import writing


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

    def say(self, text: str) -> None:
        with writing("standard output"):
            self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """Goes to stderr, so that it is seen even if the output is redirected."""
        if not self.console.quiet:
            print(text, file=sys.stderr)

    def status(self, text: str) -> contextlib.AbstractContextManager:
        """On a terminal, shows a text while the block runs."""
        return self.console.status(text) if self.live else contextlib.nullcontext()

    def begin_epoch(self, name: str, steps: int, done: int) -> None:
        if self.live:
            columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[text]}"))
            self.progress = Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True, expand=True)
            self.task = self.progress.add_task(name, total=steps, completed=done, text="")
            self.progress.start()

    def due(self) -> bool:
        """Whether it is time to update the live line: at most four times a second."""
        return self.progress is not None and time.monotonic() - self.shown > 0.25

    def step(self, done: int, text: str) -> None:
        self.shown = time.monotonic()
        self.progress.update(self.task, completed=done, text=text)

    def end_epoch(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


def epoch_line(record: dict, stages: int, better: bool, seconds_left: float) -> str:
    """The figures of an epoch for people; a star marks the best epoch so far."""
    text = f"stage {record['stage']}  " if stages > 1 else ""
    text += f"epoch {record['epoch']:>3}"
    for name in ("loss", "unlabeled_loss"):
        if name in record:
            text += f"  {name.replace('_', ' ')} {record[name]:.4f}"
    if "dev_uas" in record:
        las = f" LAS {record['dev_las']:.2f}" if "dev_las" in record else ""
        text += f"  dev UAS {record['dev_uas']:.2f}{las}{' *' if better else '  '}"
    text += f"  {record['sentences_per_second']:.0f} sentences/s  {record['epoch_seconds']:.1f} s"
    return f"{text}  at most {duration(seconds_left)} left"


def duration(seconds: float) -> str:
    """1:02:03 or 4:05"""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
