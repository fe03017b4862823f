"""The lines of a grid by row, treebank and share, and what stands in a cell of a table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from parsers.reproduce.grid import Grid, Plan
from parsers.reproduce.lines import Line, current
from parsers.reproduce.statistics import Mean, Pairs, pairs_of

TENTH = 0.1
PARTNERS = {"ST (L+U)": "NMP (L)", "LAP, second stage (L+U)": "LAP (L)"}  # else the row's own name with (L)

Score = Callable[[Line], float | None]


@dataclass(frozen=True)
class Results:
    """What a grid plans, and the lines of today's recipes."""

    grid: Grid
    all_lines: list[Line]

    @cached_property
    def lines(self) -> list[Line]:
        return current(self.all_lines)

    @cached_property
    def by_key(self) -> dict[str, Line]:
        """Of two with the same key, the one with a test set."""
        return {line.key: line for line in sorted(self.lines, key=lambda line: line.tested)}

    @cached_property
    def plans(self) -> list[Plan]:
        return [plan for step in self.grid.steps for plan in step.plans]

    def plans_of(self, row: str, treebank: str, share: float = TENTH) -> list[Plan]:
        found = [plan for plan in self.plans if (plan.row, plan.treebank, plan.share) == (row, treebank, share)]
        return list({plan.key: plan for plan in found}.values())

    def lines_of(self, row: str, treebank: str, share: float = TENTH) -> list[Line]:
        """One per seed that was run."""
        return self.lines_for(self.plans_of(row, treebank, share))

    def lines_for(self, plans: Iterable[Plan]) -> list[Line]:
        return [self.by_key[plan.key] for plan in plans if plan.key in self.by_key]

    def pairs(self, first: str, second: str, treebanks: Iterable[str]) -> dict[str, Pairs]:
        """Runs of two rows with the same seed, on the treebanks that have some."""
        found = {name: pairs_of(self.lines_of(first, name), self.lines_of(second, name)) for name in treebanks}
        return {name: pairs for name, pairs in found.items() if pairs}

    def missing(self, plans: list[Plan]) -> str:
        """Why a cell is empty."""
        return "–" if not plans else next((plan.skip for plan in plans if plan.skip), "not run yet")


def partner(row: str) -> str | None:
    """The row of the same system without text."""
    return PARTNERS.get(row, row.replace("(L+U)", "(L)")) if row.endswith("(L+U)") else None


def mean_of(lines: Iterable[Line], score: Score) -> Mean | None:
    values = tuple(value for line in lines if (value := score(line)) is not None)
    return Mean(values) if values else None


def test_uas(line: Line) -> float | None:
    return line.test_uas


def test_las(line: Line) -> float | None:
    """None where all words have the same label, so that labels say nothing."""
    return None if line.labels == line.heads else line.test_las


def ensemble_uas(line: Line) -> float | None:
    """Of the teachers of EDP together."""
    return line.figures.get("ensemble_test_uas")


def unique(values: Iterable) -> list:
    return list(dict.fromkeys(values))
