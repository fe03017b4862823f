"""The trees that the stand-ins find: the best ones, and samples."""

import pytest
import torch

from tests.cases import ALL_DTYPES, assert_close, rounding
from tests.compat.libraries import crf_of, for_each_case, one_hot
from tests.frequencies import check_frequencies
from tests.oracle import Oracle

INF = float("inf")


@for_each_case(dtypes=ALL_DTYPES)
def test_best_trees(case, library):
    """k best in order, all different and all trees; the best one also by max, argmax and mode."""
    k = 4
    dist = crf_of(case, library)
    scores, heads = library.kmax(dist, k), library.heads(library.topk(dist, k), case.lengths)
    best = library.heads(dist.argmax, case.lengths)
    assert torch.equal(dist.mode, dist.argmax)
    for b, o in enumerate(case.oracles()):
        assert_close(dist.max[b], o.best, rounding(case, "triton"))
        expected = o.tree_scores.sort(descending=True).values[:k]
        missing = torch.full((k - len(expected),), -INF, dtype=torch.float64)
        assert_close(scores[b], torch.cat([expected, missing]), rounding(case, "triton"))
        if not o.possible:
            assert (heads[:, b, 1 : o.n + 1] == -1).all() and (best[b, 1 : o.n + 1] == -1).all()
            continue
        found = [heads[i, b, 1 : o.n + 1] for i in range(len(expected))]
        assert len({tuple(h.tolist()) for h in found}) == len(expected)
        for h, score in zip([best[b, 1 : o.n + 1], *found], [expected[0], *expected], strict=True):
            (tree,) = (o.trees == h).all(-1).nonzero()[0]
            assert_close(o.tree_scores[tree], score, rounding(case, "triton"))


def test_the_gradient_of_kmax_is_the_trees(library):
    lengths = torch.tensor([4, 3])
    scores = library.scores(torch.randn(2, 5, 5, dtype=torch.float64)).clone().requires_grad_()
    dist = library.crf(scores, lengths)
    for k, tree in enumerate(library.topk(dist, 3)):
        (gradient,) = torch.autograd.grad(library.kmax(dist, 3)[:, k].sum(), scores)
        heads = library.heads(tree, lengths)
        assert torch.equal(library.arcs(gradient), one_hot(heads))


@pytest.mark.parametrize("single_root", [False, True])
def test_samples(library, single_root):
    lengths = torch.tensor([4, 3, 0])
    scores = torch.randn(3, 5, 5)
    scores[0, 0, 2] = -INF
    dist = library.crf(library.scores(scores), lengths, single_root)
    assert dist.sample().shape == dist.argmax.shape and dist.sample((2, 3)).shape == (2, 3, *dist.argmax.shape)
    trees = dist.sample((5000,))
    assert dist.log_prob(trees).shape == (5000, 3) and dist.log_prob(trees).isfinite().all()
    heads = library.heads(trees, lengths)
    for b, n in enumerate(lengths.tolist()):
        oracle = Oracle(scores[b].double(), n, single_root)
        check_frequencies(heads[:, b, 1 : n + 1], oracle.trees, oracle.probabilities)
