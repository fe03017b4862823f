"""Lifted trees against every sequence of lifts on small trees."""

from itertools import product

import pytest

from parsers.data.conllu import cycle
from parsers.data.projective import is_projective, projectivize


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
        lifted, lifts = projectivize(heads)
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
    projectivize(heads)
    assert heads == [3, 0, 2, 1]


def test_several_roots():
    assert projectivize([0, 0, 2]) == ([0, 0, 2], 0)
    assert projectivize([3, 0, 0]) == ([0, 0, 0], 1)  # 3 → 1 passes over a word that hangs from ROOT
