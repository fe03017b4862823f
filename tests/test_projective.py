"""Lifted trees against every sequence of lifts on small trees."""

from itertools import product

import pytest
import torch

from parsers.data.conllu import cycle
from tritree import TreeCRF, projectivize
from tritree.projective import is_projective, lift


def trees(n):
    """All trees with one root."""
    for heads in product(range(n + 1), repeat=n):
        if heads.count(0) == 1 and all(h != m for m, h in enumerate(heads, 1)) and not cycle(list(heads)):
            yield list(heads)


def crosses(heads):
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, 1)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


def fewest_lifts(heads):
    level, lifts = {tuple(heads)}, 0
    while all(crosses(tree) for tree in level):
        level = {
            (*tree[:i], tree[tree[i] - 1], *tree[i + 1 :]) for tree in level for i in range(len(tree)) if tree[i] > 0
        }
        lifts += 1
    return lifts


@pytest.mark.parametrize("n", range(1, 6))
def test_projective_is_without_crossings(n):
    assert all(is_projective(heads) != crosses(heads) for heads in trees(n))


@pytest.mark.parametrize("n", range(1, 6))
def test_lifts(n):
    exact = total = 0
    for heads in trees(n):
        lifted, lifts = lift(heads)
        assert is_projective(lifted) and lifted.count(0) == 1
        fewest = fewest_lifts(heads)
        assert fewest <= lifts <= fewest + 1
        exact, total = exact + (lifts == fewest), total + 1
        for m, h in enumerate(lifted, 1):  # every new head was above the old one
            above = heads[m - 1]
            while above not in (h, 0):
                above = heads[above - 1]
            assert above == h
    assert exact > 0.95 * total


def test_the_input_is_kept():
    heads = [3, 0, 2, 1]
    lift(heads)
    assert heads == [3, 0, 2, 1]


def test_several_roots():
    assert lift([0, 0, 2]) == ([0, 0, 2], 0)
    assert lift([3, 0, 0]) == ([0, 0, 0], 1)  # 3 → 1 passes over a word that hangs from ROOT


def padded(all_heads, N):
    return torch.tensor([[-1, *heads, *[-1] * (N - 1 - len(heads))] for heads in all_heads])


def test_tensors_are_lifted_as_lists_are():
    """All trees of up to five words in one batch, with and without lengths, in any shape."""
    many = [heads for n in range(1, 6) for heads in trees(n)]
    heads, lengths = padded(many, 8), torch.tensor([len(heads) for heads in many])
    expected = padded([lift(heads)[0] for heads in many], 8)
    given = heads.clone()
    for found in (projectivize(heads), projectivize(heads, lengths), projectivize(heads.int())):
        assert torch.equal(found, expected) and found.dtype == torch.int64
    assert torch.equal(heads, given)
    shaped = projectivize(heads[:12].reshape(3, 4, 8), lengths[:12].reshape(3, 4))
    assert torch.equal(shaped, expected[:12].reshape(3, 4, 8))
    assert torch.equal(projectivize(heads[-1]), expected[-1])
    TreeCRF(torch.zeros(len(many), 8, 8), lengths, single_root=True, validate_args=True).log_prob(expected)


def test_what_stays():
    """Position 0, the padding, sentences without a tree, no sentences and no words."""
    heads = torch.tensor([[7, 3, 0, 2, 1, -5], [-1] * 6])
    lifted = projectivize(heads, torch.tensor([4, 4]))
    assert lifted.tolist() == [[7, 2, 0, 2, 2, -5], [-1] * 6]
    assert projectivize(torch.tensor([-1])).tolist() == [-1] and projectivize(heads[:0]).shape == (0, 6)


@pytest.mark.parametrize("heads, lengths, message", [
    ([[-1, 0, 1], [-1, 2, 1]], None, "sentence 1: heads are no tree: word 1 is in a cycle"),
    ([-1, 0, 3, 7], None, "heads are no tree: word 3 is out of range"),
    ([-1, 0, -1, 2], None, "heads are no tree: word 2 has no head"),
    ([-1, 0, -1], 2, "heads are no tree: word 2 has no head"),
    ([-1, 0, 1], 3, "lengths\\[0\\] is 3"),
    ([-1, 0, 1], [2], "lengths must have the batch shape of heads"),
    ([[]], None, "heads must have shape"),
    ([-1.0, 0.0], None, "heads must be an integer tensor"),
])  # fmt: skip
def test_what_is_no_tree(heads, lengths, message):
    heads = torch.tensor(heads) if heads != [[]] else torch.zeros(1, 0, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        projectivize(heads, None if lengths is None else torch.tensor(lengths))


def test_the_error_about_crossing_arcs_names_it():
    heads = torch.tensor([-1, 3, 0, 2, 1])
    dist = TreeCRF(torch.zeros(5, 5), validate_args=True)
    with pytest.raises(ValueError, match=r"crosses another \(tritree.projectivize lifts such arcs\)"):
        dist.log_prob(heads)
    assert dist.log_prob(projectivize(heads)).isfinite()
