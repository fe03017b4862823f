"""Every edge case of the conventions (tritree/conventions.py), with exactly the stated outcome, on every backend."""

import functools

import pytest
import torch
from torch.distributions import kl_divergence

import tritree
from tests.results import everything
from tritree import TreeCRF

pytestmark = pytest.mark.on_device

INF = float("inf")


def crf(scores, lengths=None, **kwargs):
    return TreeCRF(scores, lengths, validate_args=False, **kwargs)


def test_no_words(backend):
    for N in (1, 4):
        results = everything(torch.full((2, N, N), torch.nan), torch.zeros(2, dtype=torch.int64), backend=backend)
        for name in ("heads", "k heads", "mbr", "samples"):
            assert (results.pop(name) == -1).all(), name
        assert results.pop("k best").tolist() == [[0, -INF, -INF]] * 2  # the one tree without arcs
        assert (results.pop("max_marginals") == -INF).all()
        for name, value in results.items():
            assert (value == 0).all(), name


def test_one_word(backend):
    scores = torch.tensor([[torch.nan, 2.5], [torch.nan, torch.nan]])
    for single_root in (False, True):
        results = everything(scores, None, single_root, backend)
        assert results["log_partition"].item() == results["best"].item() == 2.5
        assert results["heads"].tolist() == results["mbr"].tolist() == [-1, 0]
        assert results["k best"].tolist() == [2.5, -INF, -INF]
        assert results["k heads"].tolist() == [[-1, 0], [-1, -1], [-1, -1]]
        assert results["max_marginals"].tolist() == [[-INF, 2.5], [-INF, -INF]]
        assert results["samples"].tolist() == [[-1, 0]] * 2
        assert results["marginals"].tolist() == results["gradient of log_partition"].tolist() == [[0, 1], [0, 0]]
        assert results["entropy"].item() == results["log_prob"].item() == 0


@pytest.mark.parametrize(
    ("dtype", "single_root"), [(torch.float16, False), (torch.float32, True), (torch.float64, False)]
)
def test_no_tree_possible(backend, dtype, single_root):
    """Word 2 has no possible head in the first sentence; the second has its results all the same."""
    scores = torch.randn(2, 4, 4).to(dtype)
    scores[0, :, 2] = -INF
    results = everything(scores, None, single_root, backend)
    for name in ("log_partition", "best", "log_prob"):
        assert results[name][0] == -INF and results[name][1].isfinite(), name
    for name in ("k best", "max_marginals"):
        assert (results[name][0] == -INF).all() and results[name][1].isfinite().any(), name
    for name in ("heads", "k heads", "mbr"):
        assert (results[name][0] == -1).all(), name
    assert (results["samples"][:, 0] == -1).all()
    for name in ("marginals", "entropy", *(n for n in results if n.startswith("gradient"))):
        assert (results[name][0] == 0).all(), name
        assert results[name][1].isfinite().all(), name


def test_no_tree_possible_because_of_projectivity(backend):
    """1 → 3 and 2 → 4 are the only arcs into 3 and 4, and they cross."""
    scores = torch.zeros(5, 5)
    scores[:, 3:] = -INF
    scores[1, 3] = scores[2, 4] = 0
    results = everything(scores, None, False, backend)
    assert results["log_partition"] == results["best"] == -INF
    assert (results["marginals"] == 0).all() and (results["heads"] == -1).all()
    assert (results["max_marginals"] == -INF).all() and (results["k heads"] == -1).all()


def test_no_tree_possible_because_of_single_root(backend):
    scores = torch.full((3, 3), -INF)
    scores[0] = 1.0
    assert everything(scores, None, False, backend)["log_partition"] == 2
    results = everything(scores, None, True, backend)
    assert results["log_partition"] == -INF and (results["heads"] == -1).all()


def test_forbidden_arcs_have_exact_zeros(backend):
    scores = torch.randn(2, 4, 4, dtype=torch.float64)
    forbidden = torch.rand(2, 4, 4) < 0.3
    forbidden[:, 0] = False
    results = everything(scores.masked_fill(forbidden, -INF), backend=backend)
    for name in ("marginals", *(n for n in results if n.startswith("gradient"))):
        assert (results[name][forbidden] == 0).all(), name
        assert results[name].isfinite().all(), name
    assert (results["max_marginals"][forbidden] == -INF).all()


def test_dead_cells_are_ignored(backend):
    lengths = torch.tensor([3, 2, 0, 1])
    scores = torch.randn(4, 4, 4)
    junk = torch.tensor([torch.nan, INF, -INF, 1e38])[:, None, None].expand_as(scores)
    live = tritree.conventions.live_arcs(lengths, 4)
    clean = everything(torch.where(live, scores, 0), lengths, backend=backend)
    dirty = everything(torch.where(live, scores, junk), lengths, backend=backend)
    for name, value in clean.items():
        assert torch.equal(value, dirty[name]), name


def test_nan_stays_in_its_sentence(backend):
    scores = torch.randn(5, 4, 4)
    clean = everything(scores, backend=backend)
    scores[2, 2, 3] = torch.nan
    dirty = everything(scores, backend=backend)
    others = torch.arange(5) != 2
    for name, value in clean.items():
        dim = 1 if name == "samples" else 0
        assert torch.equal(*(v.movedim(dim, 0)[others] for v in (value, dirty[name]))), name
    assert dirty["log_partition"][2].isnan()


@pytest.mark.parametrize("value", [torch.nan, INF])
def test_dead_cells_of_a_sentence_without_a_score(backend, value):
    scores, lengths = torch.randn(2, 5, 5), torch.tensor([4, 3])
    scores[:, 2, 3] = value
    dead = ~tritree.conventions.live_arcs(lengths, 5)
    assert (tritree.max_marginals(scores, lengths, backend=backend)[dead] == -INF).all()
    assert (tritree.marginals(scores, lengths, backend=backend)[dead] == 0).all()


def test_large_negative_scores_as_a_mask(backend):
    """A finite mask is no −inf: the arc stays possible, and nothing becomes NaN."""
    scores = torch.randn(4, 4, 4)
    scores[:, 1, 2] = torch.tensor([-1e4, -1e9, -1e30, torch.finfo(torch.float32).min])
    forbidden = scores.clone()
    forbidden[:, 1, 2] = -INF
    results, expected = everything(scores, backend=backend), everything(forbidden, backend=backend)
    for name in ("log_partition", "marginals", "best", "heads", "k best", "k heads", "mbr", "entropy"):
        torch.testing.assert_close(results[name], expected[name])
    with_arc = results.pop("max_marginals")
    assert (with_arc[:, 1, 2].isfinite()).all() and (with_arc[:, 1, 2] < -9e3).all()
    assert all(value.isfinite().all() for value in results.values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_large_negative_scores_and_no_others(backend, dtype):
    """A tree is found as long as the sum of its scores is a number of the dtype of the results."""
    scores = torch.full((5, 5), -1e30 if dtype != torch.float16 else torch.finfo(dtype).min, dtype=dtype)
    results = everything(scores, backend=backend)
    for name in ("log_partition", "best", "k best", "marginals"):
        assert results[name].isfinite().all(), name
    for name in ("heads", "k heads", "mbr", "samples"):
        assert (results[name][..., 1:] >= 0).all(), name
    if dtype == torch.float16:
        return
    results = everything(torch.full((5, 5), torch.finfo(dtype).min, dtype=dtype), backend=backend)
    for name in ("log_partition", "best", "k best", "max_marginals"):
        assert (results[name] == -INF).all(), name
    assert (results["heads"] == -1).all() and (results["k heads"] == -1).all()


def test_ties_take_the_smallest_split(backend):
    """With equal scores every tree is a best one. The smallest k in C[0,4] is 1, in C[1,4] it is 2: a chain."""
    assert tritree.viterbi(torch.zeros(5, 5), backend=backend)[1].tolist() == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize("single_root", [False, True])
def test_equal_trees_come_in_the_stated_order(backend, single_root):
    """All derivations of every item, sorted by score, split index, rank of the left part and rank of the right one."""
    n, k = (3, 7) if backend == "triton" else (4, 20)
    scores = torch.randint(-1, 2, (5, n + 1, n + 1)).float()
    best, heads = tritree.topk(scores, k=k, single_root=single_root, backend=backend)
    for b in range(5):
        expected = derivations(scores[b].tolist(), n, single_root)[:k]
        assert best[b].tolist() == [weight for weight, _ in expected]
        for t, (_, arcs) in enumerate(expected):
            assert heads[b, t, 1:].tolist() == [arcs[m] for m in range(1, n + 1)]


def derivations(s, n, single_root):
    """(weight, {m: h}) of all derivations of the goal, in order."""

    @functools.cache
    def complete(h, m):
        if h == m:
            return [(0, {})]
        low, high = (h + 1, m + 1) if h < m else (m, h)
        return ordered([(attach(h, k), complete(k, m)) for k in range(low, high)])

    @functools.cache
    def attach(h, m):
        i, j = min(h, m), max(h, m)
        splits = [0] if single_root and i == 0 else range(i, j)
        joined = ordered([(complete(i, k), complete(j, k + 1)) for k in splits])
        return [(weight + s[h][m], arcs | {m: h}) for weight, arcs in joined]

    return complete(0, n)


def ordered(terms):
    """As they come, by split index and the ranks of both parts; then, without changing that among equals, by weight."""
    found = [(x + y, a | b) for left, right in terms for x, a in left for y, b in right]
    return sorted(found, key=lambda derivation: -derivation[0])


def test_kl_is_infinite_where_q_forbids_what_p_allows(backend):
    p_scores = torch.zeros(3, 3)
    q_scores = p_scores.clone()
    q_scores[1, 2] = -INF
    p, q = crf(p_scores, backend=backend), crf(q_scores, backend=backend)
    assert kl_divergence(p, q) == p.cross_entropy(q) == INF
    assert kl_divergence(q, p).isfinite()
    # also where the probability of the arc rounds to zero
    p_scores[1, 2] = -1e4
    p = crf(p_scores, backend=backend)
    assert p.marginals[1, 2] == 0 and kl_divergence(p, q) == INF
    # but not for an arc that no tree of p has, even though its score is finite
    p_scores[0, 1] = p_scores[2, 1] = -INF
    p_scores[0, 1] = 0
    p_scores[1, 2] = -INF
    assert kl_divergence(crf(p_scores, backend=backend), q).isfinite()


def test_kl_to_an_impossible_sentence_and_from_one(backend):
    possible = crf(torch.zeros(3, 3), backend=backend)
    impossible = crf(torch.full((3, 3), -INF), backend=backend)
    assert kl_divergence(possible, impossible) == INF
    assert kl_divergence(impossible, possible) == 0
    assert kl_divergence(impossible, impossible) == impossible.entropy() == 0


def test_kl_between_single_and_multiple_roots(backend):
    many, one = (crf(torch.zeros(3, 3), single_root=r, backend=backend) for r in (False, True))
    assert kl_divergence(many, one) == INF
    torch.testing.assert_close(kl_divergence(one, many), torch.tensor(1.5).log())  # 2 trees of 3
    word = [crf(torch.zeros(2, 2), single_root=r, backend=backend) for r in (False, True)]
    assert kl_divergence(*word) == 0


def test_a_forbidden_tree_has_probability_zero(backend):
    scores = torch.zeros(3, 3)
    scores[0, 1] = -INF
    scores.requires_grad_()
    log_prob = crf(scores, backend=backend).log_prob(torch.tensor([-1, 0, 0]))
    assert log_prob == -INF
    (gradient,) = torch.autograd.grad(log_prob, scores)
    assert (gradient == 0).all()


def test_a_partial_tree_sums_its_completions(backend):
    scores = torch.randn(4, 4)
    dist = crf(scores, backend=backend)
    first_word = torch.tensor([[-1, h, -1, -1] for h in (0, 2, 3)])
    torch.testing.assert_close(dist.log_prob(first_word).exp(), dist.marginals[[0, 2, 3], 1])
    torch.testing.assert_close(dist.log_prob(torch.full((4,), -1)), torch.tensor(0.0))


def test_constrain():
    scores = torch.randn(2, 4, 4)
    heads = torch.tensor([[-1, 2, -1, 2], [-1, -1, -1, -1]])
    result = tritree.constrain(scores, heads)
    assert torch.equal(result[1], scores[1])
    assert torch.equal(result[0, :, 2], scores[0, :, 2])
    assert (result[0, [0, 1, 3], 1] == -INF).all() and result[0, 2, 1] == scores[0, 2, 1]
    marginals = tritree.marginals(result)
    assert marginals[0, 2, 1] == marginals[0, 2, 3] == 1


def test_empty_batch(backend):
    results = everything(torch.empty(0, 4, 4), backend=backend)
    assert results["log_partition"].shape == (0,) and results["samples"].shape == (2, 0, 4)


@pytest.mark.parametrize("batch", [(), (2, 1, 2)])
def test_batch_shapes(backend, batch):
    scores = torch.randn(*batch, 4, 4)
    lengths = torch.randint(1, 4, batch)
    flat = everything(scores.reshape(-1, 4, 4), lengths.reshape(-1), backend=backend)
    shaped = everything(scores, lengths, backend=backend)
    for name, value in shaped.items():
        lead = (2, *batch) if name == "samples" else batch
        assert value.shape[: len(lead)] == lead, name
        assert torch.equal(value.reshape(flat[name].shape), flat[name]), name


def test_inputs_are_not_modified(backend):
    scores, lengths = torch.randn(2, 4, 4), torch.tensor([3, 2])
    copies = scores.clone(), lengths.clone()
    everything(scores, lengths, backend=backend)
    assert torch.equal(scores, copies[0]) and torch.equal(lengths, copies[1])
