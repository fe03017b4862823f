"""TreeCRF as torch.distributions wants a distribution."""

import pytest
import torch
from torch.distributions import Distribution, Independent, constraints

import tritree
from tests.oracle import projective_trees
from tritree import TreeCRF


def test_it_is_a_distribution():
    dist = TreeCRF(torch.zeros(2, 3, 5, 5), torch.full((2, 3), 4))
    assert isinstance(dist, Distribution)
    assert dist.batch_shape == (2, 3) and dist.event_shape == (5,)
    assert not dist.has_rsample
    assert set(TreeCRF.arg_constraints) == {"scores", "lengths"}
    for name, constraint in TreeCRF.arg_constraints.items():
        assert isinstance(constraint, constraints.Constraint)
        assert getattr(dist, name).dim() - constraint.event_dim == 2
    assert dist.support.is_discrete and dist.support.event_dim == 1
    assert "TreeCRF(scores" in repr(dist)


def test_independent_and_its_log_prob():
    dist = TreeCRF(torch.randn(2, 3, 4, 4))
    joint = Independent(dist, 1)
    heads = dist.mode
    torch.testing.assert_close(joint.log_prob(heads), dist.log_prob(heads).sum(-1))
    torch.testing.assert_close(joint.entropy(), dist.entropy().sum(-1))


@pytest.mark.parametrize("single_root", [False, True])
def test_support_is_all_projective_trees(single_root):
    """Of all assignments of heads, check accepts exactly those that the oracle enumerates."""
    n = 4
    heads = torch.cartesian_prod(torch.tensor([-1]), *[torch.arange(n + 1)] * n)
    accepted = TreeCRF(torch.zeros(n + 1, n + 1), single_root=single_root).support.check(heads)
    trees = projective_trees(n, single_root)
    assert set(map(tuple, heads[accepted][:, 1:].tolist())) == set(map(tuple, trees.tolist()))


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("length", range(6))
def test_support_says_what_is_wrong_where_something_is(length, single_root):
    """The kernel that checks and the operations that explain agree on all heads: free, out of range, in the padding."""
    n = 5
    heads = torch.cartesian_prod(torch.tensor([-1]), *[torch.arange(-2, n + 2)] * n)
    support = TreeCRF(torch.zeros(n + 1, n + 1), torch.tensor(length), single_root=single_root).support
    faulty = torch.stack(list(support.faults(heads).values())).any(0).any(-1)
    assert torch.equal(support.check(heads), ~faulty)
    assert 0 < faulty.sum() < len(heads) or length == 0


def test_support_with_lengths_and_padding():
    support = TreeCRF(torch.zeros(2, 4, 4), torch.tensor([3, 1])).support
    heads = torch.tensor([[-1, 0, 1, 2], [-1, 0, -1, -1]])
    assert support.check(heads).tolist() == [True, True]
    heads[1] = torch.tensor([7, 0, 9, -5])  # position 0 and the padding are ignored
    assert support.check(heads).tolist() == [True, True]
    heads[1, 1] = 2
    assert support.check(heads).tolist() == [True, False]


@pytest.mark.parametrize("cached", [False, True])
def test_expand(cached):
    scores = torch.randn(2, 5, 5, requires_grad=True)
    dist = TreeCRF(scores, torch.tensor([4, 3]), single_root=True, validate_args=True)
    if cached:
        _ = dist.log_partition, dist.max_marginals
    big = dist.expand((3, 2))
    assert isinstance(big, TreeCRF)
    assert big.batch_shape == (3, 2) and big.event_shape == (5,)
    assert big.single_root and big.backend == dist.backend and big._validate_args
    assert torch.equal(big.log_partition, dist.log_partition.expand(3, 2))
    assert torch.equal(big.marginals, dist.marginals.expand(3, 2, 5, 5))
    assert torch.equal(big.mode, dist.mode.expand(3, 2, 5))
    assert torch.equal(big.max_marginals, dist.max_marginals.expand(3, 2, 5, 5))
    assert torch.equal(big.topk(2)[1], dist.topk(2)[1].expand(3, 2, 2, 5))
    assert big.sample((2,)).shape == (2, 3, 2, 5)
    big.entropy().sum().backward()
    assert scores.grad.isfinite().all()


def test_log_prob_of_samples_with_leading_dimensions():
    dist = TreeCRF(torch.randn(2, 5, 5), torch.tensor([4, 3]))
    samples = dist.sample((6, 2))
    log_prob = dist.log_prob(samples)
    assert log_prob.shape == (6, 2, 2)
    torch.testing.assert_close(log_prob[3, 1], dist.log_prob(samples[3, 1]))


def test_validation_follows_the_default_of_torch():
    bad = torch.full((3, 3), torch.nan)
    default = Distribution._validate_args
    try:
        Distribution.set_default_validate_args(False)
        TreeCRF(bad)
        Distribution.set_default_validate_args(True)
        with pytest.raises(ValueError, match="the score of arc 0 → 1 is nan"):
            TreeCRF(bad)
    finally:
        Distribution.set_default_validate_args(default)


def test_probabilities_of_all_trees_sum_to_one():
    trees = torch.cat([torch.full((55, 1), -1), projective_trees(4)], 1)
    dist = TreeCRF(torch.randn(5, 5))
    torch.testing.assert_close(dist.log_prob(trees).exp().sum(), torch.tensor(1.0))
    torch.testing.assert_close(dist.log_prob(trees).max(), dist.log_prob(dist.mode))


def test_the_k_best_trees_are_the_most_probable():
    dist = TreeCRF(torch.randn(2, 5, 5), single_root=True)
    best, heads = dist.topk(30)
    assert torch.equal(heads[:, 0], dist.mode)
    log_prob = dist.log_prob(heads.movedim(1, 0)).mT
    torch.testing.assert_close(log_prob, best - dist.log_partition.unsqueeze(-1))
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(2))


def test_max_marginals_are_computed_once(monkeypatch):
    dist = TreeCRF(torch.randn(2, 5, 5))
    first = dist.max_marginals
    monkeypatch.setattr(tritree.cpu.backend, "max_marginals", None)
    assert dist.max_marginals is first


def test_minimum_bayes_risk_may_differ_from_the_mode():
    """Two words that favour each other's head: the best single tree is not the one with the likeliest arcs."""
    torch.manual_seed(0)
    dist = TreeCRF(torch.randn(200, 5, 5))
    differs = (dist.mode != dist.mbr).any(-1)
    assert differs.any()
    gain = lambda heads: dist.marginals.gather(-2, heads.clamp(min=0).unsqueeze(-2)).squeeze(-2)[:, 1:].sum(-1)  # noqa: E731
    assert (gain(dist.mbr) >= gain(dist.mode) - 1e-6).all()
    assert (dist.log_prob(dist.mode) >= dist.log_prob(dist.mbr) - 1e-5).all()


def test_heads_of_any_integer_dtype():
    dist = TreeCRF(torch.randn(2, 5, 5))
    for dtype in (torch.int8, torch.int16, torch.int32):
        assert torch.equal(dist.log_prob(dist.mode.to(dtype)), dist.log_prob(dist.mode))


def test_known_heads_through_constrain():
    scores = torch.randn(4, 4)
    known = torch.tensor([-1, 3, -1, -1])
    free, fixed = TreeCRF(scores), TreeCRF(tritree.constrain(scores, known))
    torch.testing.assert_close(fixed.log_partition - free.log_partition, free.log_prob(known))
    assert (fixed.sample((20,))[:, 1] == 3).all()
