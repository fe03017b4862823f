"""A picture of the speed against the peers: what perf.targets measures, as bars.

python -m perf.picture docs/speed.png            about four minutes, as perf.targets
"""

import argparse
import datetime
import warnings

import torch
from matplotlib.figure import Figure
from rich.progress import track

from perf.cases import OPERATIONS, Size
from perf.targets import TARGETS, measure

PROVIDERS = {"tritree-numba": "#c2410c", "supar": "#94a3b8", "torch-struct": "#475569"}


def label(size: Size, operation: str) -> str:
    words = " to ".join(map(str, sorted({min(size.lengths), max(size.lengths)})))
    return f"{OPERATIONS[operation]}\n{len(size.lengths)} sentences of {words} words"


def draw(results: list[tuple[str, dict[str, float]]], path: str) -> None:
    """Milliseconds per batch, on a log scale; beside the bars of the peers, how many times longer they take."""
    figure = Figure(figsize=(8.6, 5.2), layout="constrained")
    axes = figure.subplots()
    for i, (name, color) in enumerate(PROVIDERS.items()):
        milliseconds = [1e3 * best[name] for _, best in results]
        ratios = [best[name] / best["tritree-numba"] for _, best in results]
        texts = [f"{t:.2g} ms" if i == 0 else f"{ratio:.0f} ×" for t, ratio in zip(milliseconds, ratios, strict=True)]
        rows = [row + 0.27 * (i - 1) for row in range(len(results))]
        bars = axes.barh(rows, milliseconds, height=0.25, color=color, label=name.removesuffix("-numba"))
        axes.bar_label(bars, texts, padding=3, fontsize=8, color=color)
    axes.set_yticks(range(len(results)), [name for name, _ in results], fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="milliseconds per batch, log scale")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.12)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
    how = f"one CPU thread, torch {torch.__version__}, best of alternating rounds, {datetime.date.today()}"
    figure.suptitle(f"Exact inference over dependency trees\n{how}", fontsize=9)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the picture, .png")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each alternative is timed")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # what the peers, written for older torches, warn about
    torch.set_num_threads(1)
    cases = track(TARGETS, "measuring")
    draw([(label(size, operation), measure(size, operation, args.seconds)) for size, operation, *_ in cases], args.path)


if __name__ == "__main__":
    main()
