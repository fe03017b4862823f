"""Every backend against the enumeration of all trees: operators, by the checks in operators.py, and distributions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tritree
from tests.cases import ALL_DTYPES, as_fast_as, assert_close, cases, check_with_gradient, make_case, rounding, seeded
from tests.operators import ROWS, check_topk
from tritree import TreeCRF
from tritree.operators import OPERATORS

pytestmark = pytest.mark.on_device

EXAMPLES = {"reference": 40, "numba": 200, "triton": 15}
"""How many cases each backend is given: Triton's interpreter takes a tenth of a second for a sentence."""


def on_drawn_cases(check, backend, kwargs):
    """Runs a check(case, backend) on drawn cases, as many as the backend is fast."""
    size = {"max_n": 4, "max_batch": 2} if as_fast_as(backend) == "triton" else {}
    settings(max_examples=EXAMPLES[as_fast_as(backend)])(
        given(cases(**kwargs | size))(lambda case: check(case, backend))
    )()


def for_each_case(**kwargs):
    def decorate(check):
        @pytest.mark.parametrize("backend", EXAMPLES)
        def test(backend):
            on_drawn_cases(check, backend, kwargs)

        test.__name__, test.__doc__, test.check = check.__name__, check.__doc__, check
        return test

    return decorate


@pytest.mark.parametrize(("row", "backend"), [(row, backend) for row in ROWS for backend in row.backends], ids=str)
def test_operator(row, backend):
    on_drawn_cases(row.check, backend, row.cases)


def test_every_operator_has_a_row():
    assert sorted(row.name for row in ROWS) == sorted(OPERATORS)


@pytest.mark.parametrize("backend", EXAMPLES)
@pytest.mark.parametrize("kind", ["normal", "ones", "forbidden"])
def test_all_trees_and_no_more(kind, backend):
    """A sentence of four words has 55 trees, 30 of them with a single root; one of three words has 12 and 7."""
    lengths, k = ([3], 14) if backend == "triton" else ([4, 2], 60)
    for single_root in (False, True):
        check_topk(make_case(kind, 5, lengths, single_root, torch.float32, "contiguous", torch.nan, 0), backend, k)


@for_each_case(dtypes=(torch.float16, torch.bfloat16, torch.float32), kinds=("normal", "forbidden"))
def test_gradients_have_the_dtype_of_the_scores(case, backend):
    scores = case.scores.clone().requires_grad_()
    tritree.log_partition(scores, case.lengths, backend=backend, **case.args).sum().backward()
    assert scores.grad.dtype == scores.dtype
    eps = torch.finfo(scores.dtype).eps
    assert_close(scores.grad, torch.stack([o.marginals for o in case.oracles()]), eps + rounding(case, backend))


def check_distribution(case, backend, ours, theirs):
    """Compares a function of the distribution, per sentence, and its gradient."""

    def function(scores):
        return ours(TreeCRF(scores, case.lengths, backend=backend, validate_args=False, **case.args))

    tolerance = 4 * rounding(case, backend) * (1 + case.magnitude)
    check_with_gradient(case, case.scores, function, theirs, tolerance)


@for_each_case(dtypes=ALL_DTYPES)
def test_entropy(case, backend):
    check_distribution(case, backend, lambda d: d.entropy(), lambda b, oracle: oracle.entropy)


@for_each_case(dtypes=ALL_DTYPES, kinds=("normal", "forbidden", "ties"))
def test_cross_entropy_and_kl(case, backend):
    """Against scores that forbid other arcs, and against scores that forbid the same ones."""
    N, dtype = case.scores.shape[-1], case.scores.dtype
    unlike = make_case("forbidden", N, case.lengths.tolist(), case.single_root, dtype, "contiguous", torch.nan, 7)
    for scores in (unlike.scores, case.scores / 2)[: 1 if backend == "triton" else 2]:
        check_against_other(case, backend, scores)


def check_against_other(case, backend, other_scores):
    q = TreeCRF(other_scores, case.lengths, backend=backend, validate_args=False, **case.args)
    q_oracles = case.oracles(other_scores.double())

    def cross_entropy(b, oracle):
        return oracle.cross_entropy(q_oracles[b])

    def kl(b, oracle):
        return oracle.cross_entropy(q_oracles[b]) - oracle.entropy

    check_distribution(case, backend, lambda p: p.cross_entropy(q), cross_entropy)
    check_distribution(case, backend, lambda p: torch.distributions.kl_divergence(p, q), kl)


@for_each_case(dtypes=ALL_DTYPES)
def test_mbr(case, backend):
    heads = TreeCRF(case.scores, case.lengths, backend=backend, validate_args=False, **case.args).mbr
    for b, oracle in enumerate(case.oracles()):
        if not oracle.possible:
            assert (heads[b] == -1).all()
            continue
        gains = torch.einsum("thm,hm->t", oracle.arcs, oracle.marginals)
        (chosen,) = (oracle.trees == heads[b, 1 : oracle.n + 1]).all(-1).nonzero()[0]
        assert_close(gains[chosen], gains.max(), 8 * rounding(case, backend))


@pytest.mark.parametrize("backend", EXAMPLES)
def test_log_prob_of_every_tree_and_of_partial_ones(backend):
    drawn = cases(dtypes=ALL_DTYPES, max_n=3, max_batch=2)

    @settings(max_examples=EXAMPLES[as_fast_as(backend)] // 4)
    @given(drawn, st.integers(0, 100))
    def check(case, seed):
        check_log_prob(case, backend, seed)

    check()


def check_log_prob(case, backend, seed=0):
    """Some trees, and the same ones with some words left free."""
    oracles = case.oracles()
    for b, oracle in enumerate(oracles):
        heads = oracle.trees[:12]
        if not oracle.possible:
            heads = torch.full((1, oracle.n), -1)
        free = torch.rand(heads.shape, generator=seeded(seed)) < 0.4
        heads = torch.cat([heads, torch.where(free, -1, heads)])
        padded = torch.full((len(heads), *case.lengths.shape, oracle.N), -1)
        padded[:, b, 1 : oracle.n + 1] = heads
        scores = case.scores.clone().requires_grad_()
        dist = TreeCRF(scores, case.lengths, backend=backend, validate_args=True, **case.args)
        actual = dist.log_prob(padded)[:, b]
        tolerance = 4 * rounding(case, backend)
        expected = [oracle.log_prob(h) for h in heads]
        assert_close(actual, torch.stack(expected), tolerance, scale=1 + 4 * case.magnitude)
        if oracle.possible and oracle.n:
            (gradient,) = torch.autograd.grad(actual.sum(), scores)
            values64 = case.scores.to(torch.float64, copy=True).requires_grad_()
            total = sum(case.oracles(values64)[b].log_prob(h) for h in heads)
            (expected_gradient,) = torch.autograd.grad(total, values64)
            rounded = torch.finfo(gradient.dtype).eps
            assert_close(gradient, expected_gradient, 4 * tolerance + rounded, scale=len(heads))
