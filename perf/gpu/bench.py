"""Times on a GPU: the operations and sizes of perf/cases.py, by tritree and the peers, with CUDA events.

python -m perf.gpu.bench                    a few minutes; results in perf-results/gpu_bench.json too
python -m perf.gpu.bench --output FILE      there instead
python -m perf.gpu.bench --seconds 2        longer series of calls

No time is reported for a wrong answer. If tritree's is wrong, the exit code is 1. A time is measured between two events
before and after a call: it includes the launches, and the host's time where the host is slower than the GPU. Without a
GPU the exit code is 2.
"""

import argparse
import json
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from perf.cases import OPERATIONS, SIZES, Size, operations, uniform
from perf.providers import check, expected, providers
from perf.report import OUTPUT, milliseconds

GPU_SIZES = (*SIZES, uniform(128, 40), uniform(128, 100))
"""Those of the CPU, and the two of perf.gpu.report's predictions."""

WARM_UP = 3


class Gpu:
    """The device that is measured. In tests it is the CPU."""

    device = "cuda"

    def __init__(self, series: float):
        self.series = series
        self.name = torch.cuda.get_device_name()

    def seconds(self, step: Callable) -> list[float]:
        """The time of each call of a series that takes about `series` seconds."""
        for _ in range(WARM_UP):
            step()
        calls = int(self.series / max(self._series(step, 1)[0], 1e-6))
        return self._series(step, min(max(calls, 10), 2000))

    def _series(self, step: Callable, calls: int) -> list[float]:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * calls)]
        torch.cuda.synchronize()
        for before, after in zip(events[::2], events[1::2], strict=True):
            before.record()
            step()
            after.record()
        torch.cuda.synchronize()
        return [1e-3 * before.elapsed_time(after) for before, after in zip(events[::2], events[1::2], strict=True)]

    def peak_bytes(self, step: Callable) -> int:
        """The peak of additional memory, as torch allocates it."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before


def measure(gpu: Gpu, size: Size, operation: str, provider, right) -> dict:
    """One line of the results: the figures, or why there are none."""
    line = {"size": size.label, "operation": operation, "provider": provider.name}
    try:
        step = provider.steps(*size.batch(gpu.device))[operation]
        check(operation, provider.answer(operation, step()), right)
        seconds = gpu.seconds(step)
        figures = {"median_seconds": statistics.median(seconds), "min_seconds": min(seconds), "calls": len(seconds)}
        return line | figures | {"peak_bytes": gpu.peak_bytes(step)}
    except AssertionError:
        return line | {"failure": "a wrong answer, so no time"}
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        # torch's "out of memory" is a RuntimeError too, and peers may not support all operations on a GPU.
        return line | {"failure": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


def run(gpu: Gpu, sizes: Iterable[Size], candidates: list, console: Console) -> list[dict]:
    cases = [(size, operation) for size in sizes for operation in operations(size)]
    lines = []
    for size, operation in track(cases, "measuring", console=console, transient=True):
        right = expected(operation, *size.batch())
        lines += [measure(gpu, size, operation, provider, right) for provider in candidates]
    return lines


def make_table(lines: list[dict], name: str) -> Table:
    ours, *peers = dict.fromkeys(line["provider"] for line in lines)
    found = {(line["size"], line["operation"], line["provider"]): line for line in lines}
    table = Table(title=f"{name}: median (best) time per batch, peak memory; how many times faster than each peer")
    for column in ("size", "operation", ours, *(text for peer in peers for text in (peer, "×"))):
        table.add_column(column, justify="left" if column in ("size", "operation") else "right")
    for size, operation in dict.fromkeys((line["size"], line["operation"]) for line in lines):
        mine = found[size, operation, ours]
        cells = [describe(mine)]
        for peer in peers:
            other = found[size, operation, peer]
            both = "median_seconds" in mine and "median_seconds" in other
            ratio = f"{other['median_seconds'] / mine['median_seconds']:.1f}" if both else ""
            cells += [describe(other), ratio]
        table.add_row(size, OPERATIONS[operation], *cells)
    return table


def describe(line: dict) -> str:
    if "failure" in line:
        return "–"
    median, best = milliseconds(line["median_seconds"]), milliseconds(line["min_seconds"])
    return f"{median} ({best}) {line['peak_bytes'] / 2**20:.1f} MB"


def bench(gpu: Gpu, sizes: Iterable[Size], available: list, output: Path) -> int:
    candidates = [provider for provider in available if not provider.missing]
    lines = run(gpu, sizes, candidates, Console(stderr=True))
    output.parent.mkdir(parents=True, exist_ok=True)
    machine = {"gpu": gpu.name, "torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip}
    output.write_text(json.dumps({"machine": machine, "results": lines}, indent=1) + "\n")

    console = Console(highlight=False)
    console.print(make_table(lines, gpu.name))
    notes = [provider.missing for provider in available if provider.missing]
    failures = [line for line in lines if "failure" in line]
    notes += [f"{f['provider']}, {f['size']}, {OPERATIONS[f['operation']]}: {f['failure']}" for f in failures]
    for note in [*notes, f"written to {output}"]:
        console.print(note, markup=False)
    return int(any(failure["provider"] == candidates[0].name for failure in failures))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, metavar="FILE", default=OUTPUT / "gpu_bench.json")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long a series of calls takes")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not torch.cuda.is_available():
            missing = (
                "no GPU that torch can use: run this where torch.cuda.is_available(), or python -m perf.gpu.report"
            )
            print(f"perf.gpu.bench: {missing}", file=sys.stderr)
            return 2
        return bench(Gpu(args.seconds), GPU_SIZES, providers(), args.output)


if __name__ == "__main__":
    sys.exit(main())
