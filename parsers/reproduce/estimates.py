"""How long the rest of a grid takes, by the runs that have ended and the sizes of treebanks."""

import time
from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from parsers.reproduce.grid import Plan, reads_text
from parsers.reproduce.lines import Line

if TYPE_CHECKING:
    from parsers.reproduce.jobs import Job


class Estimates:
    """A run takes as long per sentence as others of its system, with text or without; the median counts.

    Args:
        sizes: training sentences of each treebank.
    """

    def __init__(self, lines: Iterable[Line], sizes: dict[str, int]):
        self.sizes = sizes
        self.rates: dict[tuple, list[float]] = defaultdict(list)  # seconds per sentence
        for line in lines:
            self.add(line)

    def add(self, line: Line) -> None:
        rate = line.seconds / max(1, line.sizes["trees"] + line.sizes["text"])
        for kind in _kinds(line.system, line.options):
            self.rates[kind].append(rate)

    def seconds(self, plan: Plan) -> float | None:
        """None as long as no run has ended."""
        kind = next((kind for kind in _kinds(plan.system, plan.options) if kind in self.rates), None)
        if kind is None:
            return None
        sentences = self.sizes[plan.treebank] * (1.0 if plan.uses_text else plan.share)
        if plan.uses_text and (text := plan.options.get("unlabeled")):
            sentences += self.sizes[str(text)]
        return median(self.rates[kind]) * sentences

    def left(self, waiting: Iterable[Plan], running: Iterable["Job"], processes: int) -> float | None:
        """Seconds until all is done; None if nothing is known yet."""
        total = 0.0
        for plan in waiting:
            if (seconds := self.seconds(plan)) is None:
                return None
            total += seconds
        for job in running:
            if (seconds := self.seconds(job.plan)) is None:
                return None
            total += max(0.0, seconds - (time.monotonic() - job.began))
        return total / processes


def _kinds(system: str, options: dict[str, object]) -> list[tuple]:
    """From the most alike to all."""
    return [(system, reads_text(system, options)), (system,), ()]
