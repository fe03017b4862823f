"""The rules and the oracle, which share nothing, count the same trees; and the rules cost what they should."""

import pytest
import torch

from tests.oracle import number_of_trees, projective_trees
from tritree import rules
from tritree.semirings import Best, Count


@pytest.mark.parametrize("single_root", [False, True])
def test_number_of_trees(single_root):
    for n in range(1, 7):
        assert len(projective_trees(n, single_root)) == number_of_trees(n, single_root)
    counts = rules.inside(torch.empty(1, 21, 21), Count(), single_root)
    assert counts == [number_of_trees(n, single_root) for n in range(21)]


def test_every_tree_is_derived():
    """Each tree is the best one when only its own arcs score. (The counts above say: and derived once.)"""
    n = 4
    for tree in projective_trees(n).tolist():
        scores = torch.zeros(1, n + 1, n + 1)
        scores[0, tree, range(1, n + 1)] = 1
        best, heads = rules.inside(scores, Best(scores))[n]
        assert best == n
        assert heads[0].tolist() == [-1, *tree]


def test_number_of_terms():
    """Three sums of (N³ − N)/6 terms; the sums for arcs into ROOT are left out, N(N − 1)/2 terms."""
    for N in range(1, 30):
        count = Count()
        rules.inside(torch.empty(1, N, N), count)
        assert count.terms == 3 * (N**3 - N) // 6 - N * (N - 1) // 2
