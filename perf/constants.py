"""The constants that the paper claims for a training step, beside measured ones.

    python -m perf.constants                  about a minute; the table, and JSON in perf-results/
    python -m perf.constants --seconds 2      less noise

Only the tree computation is timed: the calls of tritree that a parser makes for a batch of 32 sentences of l words, on
one CPU thread, all calls in alternation. c is fitted to c·l³ by least squares of the relative errors. In short
sentences a call's fixed costs hide the cube; the long ones decide.

What is counted. The paper (its table of complexities) counts for LAP and NTP an inside pass alone, 4 l³, but for DPPP
the gradient too, 24 l³. Both ways of counting are shown: the paper's, and one with forward and backward for all
systems, separately for labelled and unlabelled sentences. All figures are relative to LAP; for unlabelled sentences,
where LAP computes no trees, to its labelled step.

What a term costs. The paper counts terms. A term of log Z or of the marginals is one multiply–add, in tiles, where the
scores allow it (tritree/cpu/chart/trust.py); a term of the relaxed tree always takes several operations and a power of
two. So everything is measured twice: "fastest", on mild scores, the usual case; and "alike", on scores so wide that
log Z and the marginals too need an exponent per cell and run in plain loops, so that all terms cost about the same. (A
tenth of their time there is for the multiply–adds that are tried first.)
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import tritree
from perf.cases import uniform
from perf.report import write_json
from perf.timing import take_turns

LENGTHS = (20, 40, 80, 160)
BATCH = 32
SCALES = {"fastest": 1 / 8, "alike": 300.0}
"""Factors of the scores."""


@dataclass(frozen=True)
class Step:
    """A tree computation of a training step; its sums of (N³ − N)/6 terms, as the paper and as tritree writes them."""

    label: str
    paper_sums: int
    our_sums: int


STEPS = {
    "inside": Step("log Z", 4, 3),
    "viterbi": Step("best tree", 4, 3),
    "likelihood": Step("log p, backward", 12, 9),
    "marginals": Step("marginals", 12, 9),
    "hard": Step("best, marginals", 16, 12),
    "relaxed": Step("relaxed, backward", 24, 21),
}
SAME_FOR_ALL_SCORES = ("viterbi", "relaxed")

# The way of counting, LAP's step, and the step of each system.
ACCOUNTS = [
    (
        "paper's count",
        "inside",
        {"LAP, NTP": "inside", "NMP": "viterbi", "CRFAE": "marginals", "GAP": "marginals", "DPPP": "relaxed"},
    ),
    (
        "labelled",
        "likelihood",
        {"LAP, NTP, GAP": "likelihood", "NMP": "viterbi", "CRFAE": "marginals", "DPPP": "likelihood"},
    ),
    (
        "unlabelled",
        "likelihood",
        {"LAP": None, "CRFAE": "hard", "GAP": "marginals", "DPPP": "relaxed"},
    ),
]


def steps(scores: Tensor, lengths: Tensor, backend: str | None = None) -> dict[str, Callable]:
    """The calls. Gold trees, joint scores and the incoming gradient are arbitrary."""
    leaf = scores.clone().requires_grad_()
    joint = scores + scores.roll(1, 0)
    gold = tritree.viterbi(scores.roll(1, 0), lengths)[1]
    from_above = scores.roll(2, 0)

    def likelihood():
        log_p = tritree.TreeCRF(leaf, lengths, backend=backend, validate_args=False).log_prob(gold)
        return torch.autograd.grad(log_p.sum(), leaf)[0]

    def marginals():
        return tritree.marginals(scores, lengths, backend=backend)

    def relaxed():
        return torch.autograd.grad(tritree.relaxed_tree(leaf, lengths, backend=backend), leaf, from_above)[0]

    return {
        "inside": lambda: tritree.log_partition(scores, lengths, backend=backend),
        "viterbi": lambda: tritree.viterbi(scores, lengths, backend=backend)[1],
        "likelihood": likelihood,
        "marginals": marginals,
        "hard": lambda: (tritree.viterbi(joint, lengths, backend=backend)[1], marginals()),
        "relaxed": relaxed,
    }


def check_answers() -> None:
    """Compares all steps with the reference, in float64: a wrong answer is not timed."""
    scores, lengths = uniform(3, 12).batch()
    exact = steps(scores.double(), lengths, "reference")
    for name, step in steps(scores, lengths).items():
        for ours, right in zip(_results(step()), _results(exact[name]()), strict=True):
            torch.testing.assert_close(ours.to(right.dtype), right, rtol=1e-4, atol=1e-5)


def _results(result) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@dataclass(frozen=True)
class Fit:
    """Seconds per sentence for each of LENGTHS; c of c·l³, in nanoseconds; the exponent that fits best."""

    seconds: list[float]
    c: float
    exponent: float


def fit(seconds: list[float]) -> Fit:
    l = np.array(LENGTHS, float)
    ratio = l**3 / np.array(seconds)
    c = ratio.sum() / (ratio**2).sum()  # minimises Σ (c l³ / seconds − 1)²
    return Fit(seconds, 1e9 * c, float(np.polyfit(np.log(l), np.log(seconds), 1)[0]))


Fits = dict[str, dict[str, Fit]]
"""By arithmetic, then by step."""


def measure(seconds: float) -> Fits:
    """Every step at every length, in alternation, each for about so many seconds."""
    calls = {}
    for l in LENGTHS:
        scores, lengths = uniform(BATCH, l).batch()
        for arithmetic, scale in SCALES.items():
            for name, call in steps(scale * scores, lengths).items():
                if arithmetic == "fastest" or name not in SAME_FOR_ALL_SCORES:
                    calls[arithmetic, name, l] = call
    best = {key: timing.best / BATCH for key, timing in take_turns(calls, seconds).items()}
    fits: Fits = {}
    for arithmetic in SCALES:
        source = {name: "fastest" if name in SAME_FOR_ALL_SCORES else arithmetic for name in STEPS}
        fits[arithmetic] = {name: fit([best[source[name], name, l] for l in LENGTHS]) for name in STEPS}
    return fits


def table(fits: Fits) -> Table:
    result = Table(
        title=f"Tree computation of a training step: c·l³ ns per sentence, B = {BATCH}, one thread",
        caption="labelled, unlabelled: forward and backward, for all systems. ∝: the power of l that fits best",
    )
    result.add_column("system")
    result.add_column("computes")
    for column in ("claimed", "÷ LAP", *(c for a in fits for c in (f"{a}: c", "÷ LAP", "∝"))):
        result.add_column(column, justify="right")
    for title, lap, systems in ACCOUNTS:
        result.add_section()
        result.add_row(f"[bold]{title}")
        for system, name in systems.items():
            if name is None:
                result.add_row(system, "nothing", *(["0"] * 4 + [""] + ["0"] * 2))
                continue
            step, base = STEPS[name], STEPS[lap]
            row = [system, step.label, f"{step.paper_sums} l³", f"{step.paper_sums / base.paper_sums:.2g}"]
            for by_step in fits.values():
                found = by_step[name]
                row += [f"{found.c:.3f}", f"{found.c / by_step[lap].c:.2g}", f"l^{found.exponent:.1f}"]
            result.add_row(*row)
    return result


def findings(fits: Fits) -> list[str]:
    """Which claims hold, which do not, and why."""

    def ratio(arithmetic, a, b):
        return fits[arithmetic][a].c / fits[arithmetic][b].c

    def order(arithmetic):
        gap, dppp = ratio(arithmetic, "marginals", "inside"), ratio(arithmetic, "relaxed", "inside")
        return f"1 : {gap:.1f} : {dppp:.0f}"

    sums = [STEPS[name].our_sums for name in ("inside", "marginals", "relaxed")]
    holds = all(f["inside"].c < f["marginals"].c < f["relaxed"].c for f in fits.values())
    cheaper = fits["alike"]["marginals"].c / fits["fastest"]["marginals"].c
    with_backward = {a: ratio(a, "relaxed", "likelihood") for a in fits}
    return [
        f"LAP : GAP : DPPP is claimed to be 1 : 3 : 6, and by tritree's rules {sums[0]} : {sums[1]} : {sums[2]} sums. "
        f"Where all terms cost about the same (alike) it is {order('alike')}. "
        f"The order {'holds' if holds else 'does not hold'}.",
        f"In the usual case (fastest) it is {order('fastest')}. Multiply–adds in tiles make marginals {cheaper:.0f} "
        "times faster, while a term of DPPP's relaxed tree still costs a power of two, a mean and, backward, two "
        "derivatives, in plain loops. The claimed factors are factors of terms, not of time.",
        "“LAP is 6 times faster than DPPP” leaves out LAP's backward pass but not DPPP's. With both, the factor is 2 "
        f"in terms, and {with_backward['alike']:.1f} (alike) and {with_backward['fastest']:.0f} (fastest) in time. "
        "What LAP saves is all tree computation for unlabelled sentences.",
        "Exponents below 3 come from the fixed costs of a call (packing, N² exponentials, torch's dispatch), exponents "
        "above 3 from charts that do not fit into the cache.",
    ]


def save(fits: Fits):
    measured = {
        name: asdict(step) | {arithmetic: asdict(by_step[name]) for arithmetic, by_step in fits.items()}
        for name, step in STEPS.items()
    }
    return write_json("constants", {"lengths": LENGTHS, "batch": BATCH, "scales": SCALES, "steps": measured})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each call is timed at each length")
    args = parser.parse_args()
    torch.set_num_threads(1)
    check_answers()
    fits = measure(args.seconds)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(table(fits))
    for line in findings(fits):
        console.print(f"• {line}", highlight=False)
    console.print(f"written to {save(fits)}")


if __name__ == "__main__":
    main()
