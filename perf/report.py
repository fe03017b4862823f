"""The table at the end of a benchmark run, and its figures as JSON."""

import io
import json
import platform
from collections import defaultdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from perf.cases import OPERATIONS

OUTPUT = Path("perf-results")
"""Where results are written, below the directory that pytest runs in."""


def write_json(name: str, results: object) -> Path:
    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / f"{name}.json"
    machine = {"cpu": platform.processor() or platform.machine(), "torch": torch.__version__}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    temporary.replace(path)
    return path


class Report:
    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self.tables: list[Table] = []
        self.missing: set[str] = set()
        self.notes: list[str] = []

    def add(self, size: str, operation: str, provider: str, seconds: float) -> None:
        self.seconds[size, operation][provider] = seconds

    def render(self, width: int) -> str:
        if not (self.seconds or self.tables or self.notes):
            return ""
        console = Console(file=io.StringIO(), width=max(width, 110), color_system=None)
        if self.seconds:
            console.print(self._table())
            rows = [{"size": s, "operation": o, "seconds": t} for (s, o), t in self.seconds.items()]
            console.print(f"written to {write_json('operations', rows)}")
        for table in self.tables:
            console.print(table)
        for line in [*sorted(self.missing), *self.notes]:
            console.print(line, highlight=False, markup=False)
        return console.file.getvalue()

    def _table(self) -> Table:
        names = list(dict.fromkeys(name for times in self.seconds.values() for name in times))
        ours, *peers = names
        table = Table(
            title="Time per batch, one thread, best round, in alternation; how many times faster than each peer"
        )
        for column in ("size", "operation", ours, *(f"{c}{p}" for p in peers for c in ("", "× "))):
            table.add_column(column, justify="left" if column in ("size", "operation") else "right")
        for (size, operation), times in self.seconds.items():
            cells = []
            for peer in peers:
                known = peer in times and ours in times
                cells += [milliseconds(times.get(peer)), f"{times[peer] / times[ours]:.0f}" if known else ""]
            table.add_row(size, OPERATIONS[operation], milliseconds(times.get(ours)), *cells)
        return table


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3g} ms"
