"""The speed that is promised: ratios to the peers, one thread each, measured in alternation.

python -m perf.targets            all of them, about four minutes; exit code 1 if one is missed
python -m perf.targets --seconds 0.5
"""

import argparse
import sys
import warnings

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from perf.cases import MIXED, Size, uniform
from perf.providers import Supar, TorchStruct, Tritree, compare

TARGETS = [
    # size, operation, at least so many times faster than supar 1.1.4, and than torch-struct 0.5
    (uniform(32, 20), "marginals", 120, 220),
    (uniform(32, 40), "marginals", 150, 220),
    (uniform(16, 80), "marginals", 150, 170),
    (MIXED, "marginals", 300, 400),
    (uniform(32, 40), "viterbi", 150, None),
    (uniform(32, 40), "gradient", 100, None),
]


def measure(size: Size, operation: str, seconds: float) -> dict[str, float]:
    """Best seconds per call of each provider. Its answer is checked first."""
    missing: set[str] = set()
    best = compare([Tritree("numba"), Supar(), TorchStruct()], size, operation, seconds, missing)
    if missing:
        sys.exit(f"perf.targets: {min(missing)}")
    return best


def times_faster(ratio: float, target: int | None) -> str:
    return f"{ratio:.0f}" + (f"  (≥ {target})" if target else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each alternative is timed")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # the peers use deprecated functions of torch
    torch.set_num_threads(1)
    console = Console()
    table = Table("size", "operation", "µs", "× supar", "× torch-struct", "")
    missed = 0
    for size, operation, over_supar, over_struct in track(TARGETS, "measuring", console=console, transient=True):
        best = measure(size, operation, args.seconds)
        ours, supar, struct = best["tritree-numba"], best["supar"], best["torch-struct"]
        held = supar / ours >= over_supar and (over_struct is None or struct / ours >= over_struct)
        missed += not held
        table.add_row(
            size.label,
            operation,
            f"{1e6 * ours:.0f}",
            times_faster(supar / ours, over_supar),
            times_faster(struct / ours, over_struct),
            "held" if held else "missed",
        )
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
