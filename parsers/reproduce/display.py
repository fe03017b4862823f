"""What runs, what has ended and the time left: live on a terminal, plain lines elsewhere."""

import time
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from parsers.reproduce.grid import Plan
from parsers.reproduce.lines import Line
from parsers.training.progress import Screen, duration

if TYPE_CHECKING:
    from parsers.reproduce.jobs import Job


class Display:
    """As a context manager, it shows the running jobs on a terminal."""

    def __init__(self) -> None:
        self.console = Screen(highlight=False, soft_wrap=True)
        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self.shown = 0.0

    def __enter__(self) -> "Display":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_) -> None:
        self.live.stop()

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def started(self, plan: Plan) -> None:
        if not self.console.is_terminal:
            self.say(f"begun: {plan}")

    def finished(self, plan: Plan, line: Line) -> None:
        scores = {"dev UAS": line.dev_uas, "LAS": line.dev_las, "test UAS": line.test_uas, "test LAS": line.test_las}
        shown = ", ".join(f"{name} {score:.2f}" for name, score in scores.items() if score is not None)
        self.say(f"done: {plan}: {shown} ({duration(line.seconds)})")

    def failed(self, plan: Plan, why: str) -> None:
        self.say(f"failed: {plan}: {why}")

    def update(self, running: list["Job"], done: int, failed: int, waiting: int, seconds: float | None) -> None:
        if not self.console.is_terminal or time.monotonic() - self.shown < 0.5:
            return
        self.shown = time.monotonic()
        table = Table.grid(padding=(0, 2))
        for _ in range(2):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for job in running:
            table.add_row(str(job.plan), duration(self.shown - job.began), Text(job.last_line(), style="dim"))
        parts = [f"{done} done", f"{len(running)} running", f"{waiting} waiting"] + [f"{failed} failed"] * bool(failed)
        left = "unknown until a run has ended" if seconds is None else f"about {duration(seconds)}"
        table.add_row(Text(", ".join(parts) + f"; time left: {left}", style="bold"))
        self.live.update(table, refresh=True)
