"""Looks for faults in the tree library with random batches, until the time is over:

    python -m tests.fuzz --minutes 5
    python -m tests.fuzz --cells 10_000_000      until so many scores have been drawn
    python -m tests.fuzz --seed 123              one case again

A case follows from its seed alone. Short sentences are compared with all trees, enumerated; long ones obey the laws of
tests/test_laws.py, and backends agree on them. The first failure is printed with its seed, and ends the run.
"""

import argparse
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when the kernels are decorated

import torch

import tritree
from tests import test_laws, test_oracle
from tests.cases import ALL_DTYPES, JUNK, KINDS, LAYOUTS, Case, assert_close, make_case, rounding
from tests.operators import ROWS, check_samples, directions_like
from tests.relaxed import definition
from tests.results import everything
from tests.threads import threads
from tritree import TreeCRF

LENGTH_DTYPES = (torch.int64, torch.int32, torch.int16, torch.uint8)
OF_DISTRIBUTIONS = [
    test_oracle.test_entropy.check,
    test_oracle.test_cross_entropy_and_kl.check,
    test_oracle.test_mbr.check,
    test_oracle.check_log_prob,
]
LAWS = [
    test_laws.test_the_heads_of_each_word_sum_to_one.check,
    test_laws.test_entropy_is_cross_entropy_with_itself.check,
    test_laws.test_kl_is_not_negative.check,
    test_laws.test_the_best_tree_bounds_the_sum.check,
    test_laws.test_the_best_tree_with_each_arc.check,
    test_laws.test_the_k_best_trees.check,
    test_laws.test_batch_and_padding_do_not_matter_bitwise.check,
    test_laws.test_strides_do_not_matter_bitwise.check,
]


def checks_of(case: Case, backend: str) -> list[Callable[[Case, str], None]]:
    """What a short case is compared with."""
    half = case.scores.dtype in (torch.float16, torch.bfloat16)
    checks = [row.check for row in ROWS if backend in row.backends and not (half and "dtypes" not in row.cases)]
    if half:
        checks.append(test_oracle.test_gradients_have_the_dtype_of_the_scores.check)
    return [*checks, *OF_DISTRIBUTIONS, check_constrained]


def draw_case(rng: random.Random, longest: int, largest: int, dtypes=ALL_DTYPES) -> Case:
    N = rng.randint(1, longest + 1)
    return make_case(
        kind=rng.choice([*KINDS, "mixed", "mixed"]),
        N=N,
        lengths=[rng.randint(0, N - 1) for _ in range(rng.randint(1, largest))],
        single_root=rng.random() < 0.5,
        dtype=rng.choice(dtypes),
        layout=rng.choice(LAYOUTS),
        junk=rng.choice(JUNK),
        seed=rng.randrange(2**32),
    )


def check_constrained(case: Case, backend: str) -> None:
    """Under the heads of its best tree for every second word, the best tree stays, and these arcs are certain."""
    best, heads = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    known = heads.clone()
    known[:, 1::2] = -1
    scores = tritree.constrain(case.scores, known)
    again = tritree.viterbi(scores, case.lengths, backend=backend, **case.args)
    assert torch.equal(best, again[0]) and torch.equal(heads, again[1])
    mu = tritree.marginals(scores, case.lengths, backend=backend, **case.args)
    certain = mu.gather(-2, known.clamp(min=0).unsqueeze(-2)).squeeze(-2)[known >= 0]
    assert_close(certain, torch.ones_like(certain), 4 * rounding(case, backend))
    dist = TreeCRF(case.scores, case.lengths, backend=backend, validate_args=False, **case.args)
    log_z = tritree.log_partition(scores, case.lengths, backend=backend, **case.args)
    impossible = best == -torch.inf
    expected = torch.where(impossible, -torch.inf, log_z - dist.log_partition)
    assert_close(dist.log_prob(known), expected, 4 * rounding(case, backend), scale=1 + 4 * case.magnitude)


def check_shapes(case: Case, backend: str, rng: random.Random) -> None:
    """Another batch shape and another type of lengths change nothing."""
    B, N = case.scores.shape[:2]
    shape = rng.choice([(B,), (1, B), (B, 1), (1, B, 1)])
    lengths = case.lengths.to(rng.choice(LENGTH_DTYPES) if N <= 128 else torch.int64)
    flat = everything(case.scores, case.lengths, case.single_root, backend)
    shaped = everything(case.scores.reshape(*shape, N, N), lengths.reshape(shape), case.single_root, backend)
    for name, value in flat.items():
        assert torch.equal(value, shaped[name].reshape(value.shape)) or value.isnan().any(), name


def check_agreement(case: Case, backend: str, other: str) -> None:
    """Values and derivatives of two backends. Both round the same scores, each in its own way."""
    values = []
    for name in (backend, other):
        scores = case.scores.detach().clone().requires_grad_()
        dist = TreeCRF(scores, case.lengths, backend=name, validate_args=False, **case.args)
        (entropy_gradient,) = torch.autograd.grad(dist.entropy().sum(), scores)
        direction = directions_like(scores).to(dist.marginals.dtype)
        mu = tritree.marginals(scores, case.lengths, backend=name, **case.args)
        hessian_times_direction = torch.zeros_like(scores)
        if mu.requires_grad:
            (hessian_times_direction,) = torch.autograd.grad(mu, scores, direction)
        values.append([dist.log_partition, dist.marginals, hessian_times_direction, dist.entropy(), entropy_gradient])
        best, heads = tritree.viterbi(case.scores, case.lengths, backend=name, **case.args)
        values[-1] += [best, heads]
    rounded = torch.finfo(case.scores.dtype).eps
    worst = backend if "triton" not in (backend, other) else "triton"
    tolerance = 16 * rounding(case, worst)
    log_z, mu, hessian, entropy, gradient, best, heads = zip(*values, strict=True)
    assert_close(*log_z, tolerance)
    assert_close(*mu, tolerance)
    assert_close(*hessian, tolerance * case.scores.shape[-1] + rounded)
    assert_close(*entropy, tolerance * (1 + case.magnitude))
    assert_close(*gradient, tolerance * (1 + case.magnitude) * case.scores.shape[-1] + rounded)
    assert torch.equal(*best) and torch.equal(*heads)


def check_threads(case: Case) -> None:
    results = []
    for number in (1, 2):
        with threads(number):
            results.append(test_laws.results(case.scores, case.lengths, case, "numba"))
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))


def check_long_relaxed(case: Case) -> None:
    """The kernel and the reference; each word has one head in all."""
    A = tritree.relaxed_tree(case.scores, case.lengths, backend="numba")
    possible = tritree.log_partition(case.scores, case.lengths) != -torch.inf
    words = tritree.conventions.live_words(case.lengths, case.scores.shape[-1]) & possible.unsqueeze(-1)
    assert_close(A.sum(-2), words, definition.tolerance(case, "numba") * case.scores.shape[-1])
    if case.scores.shape[-1] <= 30:
        definition.check_gradient(case, "numba")


def run_case(seed: int) -> int:
    """Returns the number of its scores. Raises where something is wrong."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    ways = {"numba": 60, "reference": 8, "triton": 1, "laws": 25, "agreement": 5, "triton agreement": 1}
    (way,) = rng.choices(list(ways), list(ways.values()))
    if way in ("numba", "reference", "triton"):
        case = draw_case(rng, *((5, 3) if way == "numba" else (4, 3) if way == "reference" else (3, 2)))
        checks = [lambda check=check: check(case, way) for check in checks_of(case, way)]
        checks.append(lambda: check_shapes(case, way, rng))
        if way == "triton":  # a second each
            checks = rng.sample(checks, 2)
    elif way == "laws":
        case = draw_case(rng, rng.choice([10, 20, 40, 80, 160]), rng.choice([1, 4, 16]), ALL_DTYPES[2:])
        checks = [lambda check=check: check(case, "numba") for check in rng.sample(LAWS, 2)]
        checks += [lambda: check_samples(case, "numba"), lambda: check_constrained(case, "numba")]
        checks += [lambda: check_threads(case), lambda: check_long_relaxed(case)]
    elif way == "agreement":
        case = draw_case(rng, rng.choice([10, 30]), 4, ALL_DTYPES[2:])
        checks = [lambda: check_agreement(case, "numba", "reference")]
    else:
        case = draw_case(rng, 8, 2, ALL_DTYPES[2:])
        checks = [lambda: check_agreement(case, "triton", "numba")]
    before = case.scores.clone()
    try:
        for check in checks:
            check()
        assert torch.equal(before.nan_to_num(), case.scores.nan_to_num()), "the scores were changed"
    except Exception as error:
        raise AssertionError(f"{way}: {case}") from error
    return case.scores.numel()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--cells", type=int, help="stop after so many scores instead")
    parser.add_argument("--first", type=int, help="seed of the first case; the next ones follow (default: any)")
    parser.add_argument("--seed", type=int, help="run this case alone")
    options = parser.parse_args(arguments)
    warnings.simplefilter("error")
    first = options.first if options.first is not None else random.SystemRandom().randrange(2**32)
    began = shown = time.monotonic()
    cells = count = 0
    while True:
        seed = options.seed if options.seed is not None else first + count
        try:
            cells += run_case(seed)
        except Exception:
            traceback.print_exc()
            print(f"failed after {cells:,} cells in {count:,} cases; once more: python -m tests.fuzz --seed {seed}")
            return 1
        count += 1
        now = time.monotonic()
        over = cells >= options.cells if options.cells else now - began > 60 * options.minutes
        over = over or options.seed is not None
        if over or now - shown > 10:
            shown = now
            print(f"{cells:,} cells in {count:,} cases without a failure, {now - began:.0f} s, from seed {first}")
        if over:
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
