"""How time and memory grow with the sentence and with the batch, with a plot."""

import importlib.util

import numpy as np
import pytest
import torch

import tritree
from perf.cases import uniform
from perf.memory import peak_bytes
from perf.report import OUTPUT, write_json
from perf.timing import again_unless, take_turns

LENGTHS = (20, 40, 80, 160, 320)
BATCHES = (32, 128, 512)


def step(size):
    """Log partition and backward, as in training. Scores are mild: Linear numbers are enough for all lengths."""
    scores, lengths = size.batch()
    leaf = (scores / 8).requires_grad_()

    def run():
        tritree.log_partition(leaf, lengths).sum().backward()
        leaf.grad = None

    return run


def exponent(x, y) -> float:
    """The slope of log y over log x for the largest three, by least squares. For small sizes the fixed cost of a call
    is too large, and memory of a few pages cannot be measured."""
    return float(np.polyfit(np.log(x[-3:]), np.log(y[-3:]), 1)[0])


def exponents(by_length, by_batch) -> dict[str, tuple[float, float, float]]:
    """Each with its bounds."""
    (length_seconds, length_bytes), (batch_seconds, batch_bytes) = by_length, by_batch
    return {
        "time over l": (exponent(LENGTHS, length_seconds), 2.3, 3.3),
        "memory over l": (exponent(LENGTHS, length_bytes), 1.7, 2.2),
        "time over B": (exponent(BATCHES, batch_seconds), 0.7, 1.1),
        "memory over B": (exponent(BATCHES, batch_bytes), 0.7, 1.1),
    }


def measure(sizes) -> tuple[list[float], list[int]]:
    timings = take_turns({s.label: step(s) for s in sizes}, seconds=0.5)
    return [timings[s.label].best for s in sizes], [peak_bytes(len(s.lengths), s.N - 1) for s in sizes]


@pytest.mark.skipif(torch.cuda.is_available(), reason="measures the memory of the CPU backend")
def test_growth(benchmark, report):
    by_length = [uniform(16, l) for l in LENGTHS]
    by_batch = [uniform(B, 40) for B in BATCHES]

    def all_within(results) -> bool:
        return all(low <= slope <= high for slope, low, high in exponents(*results).values())

    results = benchmark.pedantic(
        again_unless, args=(all_within, lambda: (measure(by_length), measure(by_batch))), rounds=1
    )
    (length_seconds, length_bytes), (batch_seconds, batch_bytes) = results
    found = exponents(*results)
    for name, (slope, low, high) in found.items():
        report.notes.append(f"growth: {name}, largest three: exponent {slope:.2f}, expected within {low} to {high}")
    series = {
        "lengths": LENGTHS,
        "seconds, B=16": length_seconds,
        "bytes, B=16": length_bytes,
        "batches": BATCHES,
        "seconds, l=40": batch_seconds,
        "bytes, l=40": batch_bytes,
    }
    write_json("growth", {"exponents": {k: v[0] for k, v in found.items()}, **series})
    report.notes.append(plot(series))
    N = LENGTHS[3] + 1
    assert length_bytes[3] <= 64 * 16 * N * N
    for name, (slope, low, high) in found.items():
        assert low <= slope <= high, name


def plot(series) -> str:
    """Makes the plot. Returns where it is, or why there is none."""
    if importlib.util.find_spec("matplotlib") is None:
        return "growth: no plot, matplotlib is not installed: pip install '.[parsers]'"
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter, LogLocator

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for row, (axis, label) in enumerate([("lengths", "B=16"), ("batches", "l=40")]):
        for column, kind in enumerate(["seconds", "bytes"]):
            x, y = np.array(series[axis]), np.array(series[f"{kind}, {label}"])
            ax = axes[row][column]
            ax.loglog(x, y, "o-", label=f"measured, exponent {exponent(x, y):.2f}")
            power = {("lengths", "seconds"): 3, ("lengths", "bytes"): 2}.get((axis, kind), 1)
            ax.loglog(x, y[-1] * (x / x[-1]) ** power, ":", color="gray", label=f"exponent {power}")
            what, unit = {"seconds": ("time", "s"), "bytes": ("memory", "B")}[kind]
            ax.set(xlabel="words l" if axis == "lengths" else "batch B", ylabel=what, title=label)
            ax.set_xticks(x, x)
            powers = max(y) > 100 * min(y)  # else too few of them would be within the axis
            ax.yaxis.set_major_locator(LogLocator(subs=(1,) if powers else (1, 2, 5)))
            ax.yaxis.set_major_formatter(EngFormatter(unit))
            ax.minorticks_off()
            ax.legend()
            ax.grid(alpha=0.3)
    figure.suptitle("tritree: log partition and its gradient")
    figure.savefig(OUTPUT / "growth.png", dpi=110)
    pyplot.close(figure)
    return f"growth: plot in {OUTPUT / 'growth.png'}"
