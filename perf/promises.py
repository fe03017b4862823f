"""What tritree promises about its own times, apart from any peer.

python -m perf.promises            all of them, about two minutes; exit code 1 if one is missed

Small batches, mixed lengths, threads, the exact path, memory, the first call. Alternatives are timed in alternation.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Column, Table

import tritree
from perf.cases import SIZES, Size, uniform
from perf.memory import peak_bytes
from perf.timing import take_turns


@dataclass(frozen=True)
class Finding:
    what: str
    measured: str
    promised: str
    held: bool


def marginals(scores, lengths, threads: int = 1):
    def step():
        torch.set_num_threads(threads)
        dist = tritree.TreeCRF(scores, lengths, validate_args=False)
        return dist.log_partition, dist.marginals

    return step


def one_short_sentence(seconds: float) -> Iterator[Finding]:
    scores, lengths = uniform(1, 10).batch()
    leaf = scores.clone().requires_grad_()

    def gradient():
        tritree.TreeCRF(leaf, lengths, validate_args=False).log_partition.sum().backward()

    best = take_turns({"plain": marginals(scores, lengths), "gradient": gradient}, seconds)
    for name, limit in (("plain", 100), ("gradient", 400)):
        what = "marginals" if name == "plain" else "log Z, backward"
        took = 1e6 * best[name].best
        yield Finding(f"B=1 l=10: {what}", f"{took:.0f} µs", f"< {limit} µs", took < limit)


def mixed_lengths(seconds: float) -> Iterator[Finding]:
    """Padding costs nothing: the time of a batch is that of its sentences."""
    short, long = uniform(31, 10), uniform(1, 100)
    both = Size((10,) * 31 + (100,), "mixed")
    best = take_turns({size.label: marginals(*size.batch()) for size in (short, long, both)}, seconds)
    ratio = best["mixed"].best / (best[short.label].best + best[long.label].best)
    yield Finding("31 × l=10 and 1 × l=100, over the sum", f"{ratio:.2f}", "≤ 1.5", ratio <= 1.5)


def threads(seconds: float) -> Iterator[Finding]:
    for size in (*SIZES, uniform(64, 40)):
        batch = size.batch()
        best = take_turns({n: marginals(*batch, threads=n) for n in (1, 2)}, seconds, wall=True)
        gain = best[1].best / best[2].best
        least = 1.6 if size == uniform(64, 40) else 0.95
        yield Finding(f"{size.label}: two threads", f"× {gain:.2f}", f"≥ {least}", gain >= least)


def after_torch(seconds: float) -> Iterator[Finding]:
    """Torch's threads wait for work in a busy loop, which must not delay ours."""
    torch.set_num_threads(2)
    step, factor = marginals(*uniform(64, 40).batch(), threads=2), torch.randn(400, 400)
    times = []
    step()
    for _ in range(200):
        factor @ factor
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    median, late = (1e3 * sorted(times)[int(q * len(times))] for q in (0.5, 0.98))
    text = f"{median:.2f} ms, 98 %: {late:.2f}"
    yield Finding("B=64 l=40: two threads, after a product", text, "< 2 ms more", late < median + 2)


def exact_path(seconds: float) -> Iterator[Finding]:
    for size in (uniform(32, 20), uniform(32, 40), uniform(16, 80), uniform(4, 320)):
        scores, lengths = size.batch()
        mild, harsh = scores / 8, scores * 300
        best = take_turns({"linear": marginals(mild, lengths), "exact": marginals(harsh, lengths)}, seconds)
        ratio = best["exact"].best / best["linear"].best
        yield Finding(f"{size.label}: scores off the linear domain", f"× {ratio:.1f}", "≤ 10", ratio <= 10)


def memory(seconds: float) -> Iterator[Finding]:
    B, l = 16, 160
    used, limit = peak_bytes(B, l), 64 * B * (l + 1) ** 2  # 64·B·N²
    yield Finding(
        f"B={B} l={l}: peak memory of log Z, backward",
        f"{used / 1e6:.1f} MB",
        f"≤ {limit / 1e6:.1f} MB",
        used <= limit,
    )


FIRST_CALL = """
import time, torch
begin = time.perf_counter()
import tritree
imported = time.perf_counter()
tritree.TreeCRF(torch.zeros(1, 4, 4), validate_args=False).marginals
print(imported - begin, time.perf_counter() - imported)
"""


def first_call(seconds: float) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as cache:
        for state in ("no cache", "cached"):
            command = [sys.executable, "-c", FIRST_CALL]
            env = os.environ | {"NUMBA_CACHE_DIR": cache}
            output = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
            imported, called = map(float, output.split())
            text = f"{imported:.2f} s, {called:.2f} s"
            held = state == "no cache" or called < 2
            promised = "" if state == "no cache" else "call < 2 s"
            yield Finding(f"import, first marginals; {state}", text, promised, held)


PROMISES = (one_short_sentence, mixed_lengths, threads, after_torch, exact_path, memory, first_call)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each alternative is timed")
    args = parser.parse_args()
    console = Console()
    table = Table("what", Column("measured", min_width=18), Column("promised", no_wrap=True), "")
    missed = 0
    with console.status("measuring") as status:
        for promise in PROMISES:
            status.update(f"measuring: {promise.__name__.replace('_', ' ')}")
            for finding in promise(args.seconds):
                missed += not finding.held
                table.add_row(finding.what, finding.measured, finding.promised, "held" if finding.held else "missed")
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
