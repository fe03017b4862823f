"""Every backend against the enumeration of all trees: values, first and second derivatives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tritree
from tests.cases import ALL_DTYPES, assert_close, cases, check_with_gradient, make_case, rounding
from tritree import TreeCRF
from tritree.conventions import result_dtype

EXAMPLES = {"reference": 40, "numba": 200, "triton": 15}
"""How many cases each backend is given: Triton's interpreter takes a tenth of a second for a sentence."""


def for_each_case(**kwargs):
    """Runs a test(case, backend) on drawn cases, as many as the backend is fast."""

    def decorate(check):
        @pytest.mark.parametrize("backend", EXAMPLES)
        def test(backend):
            size = {"max_n": 4, "max_batch": 2} if backend == "triton" else {}
            drawn = cases(**kwargs | size)
            settings(max_examples=EXAMPLES[backend])(given(drawn)(lambda case: check(case, backend)))()

        test.__name__, test.__doc__, test.check = check.__name__, check.__doc__, check
        return test

    return decorate


def directions_like(scores, seed=0):
    return torch.randn(scores.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@for_each_case(dtypes=ALL_DTYPES, max_n=6)
def test_log_partition_and_marginals(case, backend):
    log_z = tritree.log_partition(case.scores, case.lengths, backend=backend, **case.args)
    marginals = tritree.marginals(case.scores, case.lengths, backend=backend, **case.args)
    assert log_z.dtype == marginals.dtype == result_dtype(case.scores.dtype)
    oracles = case.oracles()
    assert_close(log_z, torch.stack([o.log_z for o in oracles]), rounding(case, backend))
    assert_close(marginals, torch.stack([o.marginals for o in oracles]), rounding(case, backend))
    forbidden = ~case.live | (case.scores == -torch.inf)
    assert (marginals[forbidden] == 0).all()


@for_each_case(dtypes=ALL_DTYPES, max_n=6)
def test_viterbi(case, backend):
    best, heads = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    assert best.dtype == result_dtype(case.scores.dtype) and heads.dtype == torch.int64
    for b, oracle in enumerate(case.oracles()):
        n = oracle.n
        assert_close(best[b], oracle.best, rounding(case, "triton"))
        assert heads[b, 0] == -1 and (heads[b, n + 1 :] == -1).all()
        if not oracle.possible:
            assert (heads[b] == -1).all()
            continue
        (chosen,) = (oracle.trees == heads[b, 1 : n + 1]).all(-1).nonzero()[0]  # it is one of the trees
        assert_close(oracle.tree_scores[chosen], oracle.best, rounding(case, "triton"))
    reference = tritree.viterbi(case.scores, case.lengths, backend="reference", **case.args)
    assert torch.equal(best, reference[0])
    assert torch.equal(heads, reference[1]), "ties are broken in another way"


def check_topk(case, backend, k):
    """Different trees of falling scores, the best there are; to the bit what the reference finds."""
    scores = case.scores.clone().requires_grad_()
    best, heads = tritree.topk(scores, case.lengths, k, backend=backend, **case.args)
    assert best.dtype == result_dtype(case.scores.dtype) and heads.dtype == torch.int64
    weights = torch.randn(best.shape, generator=torch.Generator().manual_seed(0)).to(best.dtype)
    (gradient,) = torch.autograd.grad(best, scores, weights)
    assert gradient.dtype == scores.dtype
    for b, oracle in enumerate(case.oracles()):
        n, count = oracle.n, min(k, len(oracle.trees))
        assert_close(best[b], oracle.best_scores(k), rounding(case, "triton"))
        assert (best[b, 1:] <= best[b, :-1]).all()
        assert (heads[b, :, 0] == -1).all() and (heads[b, :, n + 1 :] == -1).all() and (heads[b, count:] == -1).all()
        same = (heads[b, :count, None, 1 : n + 1] == oracle.trees).all(-1)
        assert (same.sum(-1) == 1).all() and (same.sum(-2) <= 1).all()  # each is a tree, and no other's
        chosen = same.nonzero()[:, 1]
        assert_close(oracle.tree_scores[chosen], best[b, :count], rounding(case, "triton"))
        expected = torch.einsum("t,thm->hm", weights[b, :count].double(), oracle.arcs[chosen])
        assert_close(gradient[b], expected, k * torch.finfo(gradient.dtype).eps)
    reference = tritree.topk(case.scores, case.lengths, k, backend="reference", **case.args)
    assert torch.equal(best, reference[0])
    assert torch.equal(heads, reference[1]), "ties are broken in another way"


@for_each_case(dtypes=ALL_DTYPES)
def test_topk(case, backend):
    check_topk(case, backend, k=5)
    best, heads = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    first = tritree.topk(case.scores, case.lengths, backend=backend, **case.args)
    assert torch.equal(best.unsqueeze(1), first[0]) and torch.equal(heads.unsqueeze(1), first[1])


@pytest.mark.parametrize("backend", EXAMPLES)
@pytest.mark.parametrize("kind", ["normal", "ones", "forbidden"])
def test_all_trees_and_no_more(kind, backend):
    """A sentence of four words has 55 trees, 30 of them with a single root."""
    for single_root in (False, True):
        check_topk(make_case(kind, 5, [4, 2], single_root, torch.float32, "contiguous", torch.nan, 0), backend, k=60)


@for_each_case(dtypes=ALL_DTYPES)
def test_max_marginals(case, backend):
    result = tritree.max_marginals(case.scores, case.lengths, backend=backend, **case.args)
    assert result.dtype == result_dtype(case.scores.dtype)
    assert_close(result, torch.stack([o.max_marginals for o in case.oracles()]), rounding(case, "triton"))


@for_each_case()
def test_first_and_second_derivative(case, backend):
    """∂log Z is the marginals, weighted per sentence; ∂⟨marginals, D⟩ is the Hessian times D."""
    scores = case.scores.clone().requires_grad_()
    D = directions_like(scores)
    weight = D[:, 0, 0]
    log_z = tritree.log_partition(scores, case.lengths, backend=backend, **case.args)
    (first,) = torch.autograd.grad(log_z, scores, weight.to(log_z.dtype), create_graph=True)
    junk = torch.where(case.live & (case.scores != -torch.inf), D, torch.nan)  # ignored in dead cells and for −inf
    second = torch.zeros_like(first)
    if first.requires_grad:  # N = 1: the reference's gradient is a constant
        (second,) = torch.autograd.grad(first, scores, junk.to(first.dtype))
    assert first.dtype == second.dtype == scores.dtype
    tolerance = 4 * rounding(case, backend)
    for b, oracle in enumerate(case.oracles()):
        assert_close(first[b], weight[b] * oracle.marginals, tolerance)
        assert_close(second[b], weight[b] * oracle.tangent(D[b]), tolerance)

    scores = case.scores.clone().requires_grad_()
    marginals = tritree.marginals(scores, case.lengths, backend=backend, **case.args)
    (gradient,) = torch.autograd.grad(marginals, scores, junk.to(marginals.dtype))
    assert_close(gradient, torch.stack([o.tangent(d) for o, d in zip(case.oracles(), D, strict=True)]), tolerance)
    assert (gradient[~case.live | (case.scores == -torch.inf)] == 0).all()


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

    @settings(max_examples=EXAMPLES[backend] // 4)
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
        free = torch.rand(heads.shape, generator=torch.Generator().manual_seed(seed)) < 0.4
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
