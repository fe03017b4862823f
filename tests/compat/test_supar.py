"""What only supar's class has: partial trees, scores, masks."""

import pytest
import torch
from hypothesis import given, settings

from tests.cases import ALL_DTYPES, cases
from tests.compat.libraries import Supar, check_distribution
from tests.oracle import projective_trees
from tritree.compat import supar


@settings(max_examples=60)
@given(cases(dtypes=ALL_DTYPES))
def test_supar_partial(case):
    """Trees of which the first half of the words have a head."""
    arcs = torch.zeros(case.scores.shape[:-1], dtype=torch.int64)
    for b, n in enumerate(case.lengths.tolist()):
        if n:
            arcs[b, 1 : n + 1] = projective_trees(n, case.single_root)[-1]
            arcs[b, 1 + n // 2 : n + 1] = -1
    log_prob = lambda b, o: o.log_prob(arcs[b, 1 : o.n + 1])  # noqa: E731
    check_distribution(case, Supar, lambda d: d.log_prob(arcs, partial=True), log_prob)
    check_distribution(case, Supar, lambda d: d.score(arcs, partial=True), lambda b, o: log_prob(b, o) + o.log_z)


def test_supar_score_and_attributes():
    scores, lens = torch.randn(2, 5, 5), torch.tensor([4, 2])
    arcs = torch.tensor([[0, 2, 0, 2, 3], [0, 2, 0, 0, 0]])
    dist = supar.DependencyCRF(scores, lens)
    torch.testing.assert_close(dist.score(arcs)[1], scores[1, 1, 2] + scores[1, 2, 0])
    torch.testing.assert_close(dist.score(arcs) - dist.log_partition, dist.log_prob(arcs))
    assert dist.scores is scores and dist.lens is lens and repr(dist) == "DependencyCRF(multiroot=False)"
    assert dist.kwargs == {}
    assert dist.mask.tolist() == [[False, True, True, True, True], [False, True, True, False, False]]
    assert supar.DependencyCRF(scores).lens.tolist() == [4, 4]


def test_supar_refuses_arcs_that_say_nothing():
    dist = supar.DependencyCRF(torch.randn(1, 4, 4))
    for function in (dist.log_prob, dist.score):
        with pytest.raises(ValueError, match="pass partial=True"):
            function(torch.tensor([[0, 2, -1, 2]]))
        with pytest.raises(ValueError, match="a head of 4, but N is 4"):
            function(torch.tensor([[0, 2, 0, 4]]), partial=True)


def test_supar_ignores_arcs_that_no_word_has():
    """tritree's heads have −1 at ROOT and in the padding, where other code has what it likes."""
    dist = supar.DependencyCRF(torch.randn(2, 5, 5), torch.tensor([4, 2]))
    arcs = torch.tensor([[0, 2, 0, 2, 3], [0, 2, 0, 0, 0]])
    for junk in (-1, 99):
        others = torch.where(dist.mask, arcs, junk)
        for function in (dist.log_prob, dist.score):
            assert torch.equal(function(others), function(arcs))
            assert torch.equal(function(others.int()), function(arcs))
            assert torch.equal(function(others, partial=True), function(arcs, partial=True))


def test_supar_refuses_what_is_no_tensor_of_arcs():
    dist = supar.DependencyCRF(torch.randn(1, 4, 4))
    for function in (dist.log_prob, dist.score):
        with pytest.raises(ValueError, match="must be an integer tensor, got list"):
            function([[0, 2, 0, 2]])
        with pytest.raises(ValueError, match=r"must have shape \[\*sample, \*\[1, 4\]\], got \[1, 3\]"):
            function(torch.tensor([[0, 2, 0]]))
