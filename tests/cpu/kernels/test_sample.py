"""Samples: one choice from known random numbers, and the distribution of trees."""

import math

import numpy as np
import pytest
import torch

from tests.cpu.simd.test_philox import call_philox, call_uniform
from tests.oracle import Oracle
from tritree.cpu import backend as cpu


def test_one_choice_follows_the_definition():
    """Two words: C[0,2] chooses k, and with k = 2 the join between 0 and 2 chooses its split."""
    scores = torch.tensor([[[0, 0.3, -0.2], [0, 0, 0.5], [0, 1.0, 0]]], dtype=torch.float64)
    p = scores[0].exp().numpy()
    seed = 0x123456789ABCDEF
    key = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32)
    samples = cpu.sample(scores, torch.tensor([2]), torch.tensor([seed]), 300, False)[:, 0]
    for index, tree in enumerate(samples.tolist()):
        o = call_philox(key, np.array([0 << 16 | 2, 0, index, 0], np.uint32))
        u_complete, u_join = call_uniform(o[0], o[1]), call_uniform(o[2], o[3])
        # C[0,2] = I[0,1] C[1,2] + I[0,2] C[2,2],  I[0,2] = p[0,2] (C[0,0] C[2,1] + C[0,1] C[2,2])
        terms = [p[0, 1] * p[1, 2], p[0, 2] * (p[2, 1] + p[0, 1])]
        if terms[0] > u_complete * sum(terms):
            expected = [-1, 0, 1]
        else:
            expected = [-1, 2, 0] if p[2, 1] > u_join * (p[2, 1] + p[0, 1]) else [-1, 0, 0]
        assert tree == expected


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("kind", ["linear", "scaled"])
def test_the_frequencies_of_all_trees(kind, single_root):
    """χ² over all trees of four words. The arcs of the scaled case are too small for Linear numbers."""
    n, S = 4, 40_000
    scores = torch.randn(1, n + 1, n + 1, dtype=torch.float64)
    scores[0, 1, 3] = -math.inf
    if kind == "scaled":
        # Words 1 and 2 have each other as best heads. One must take another; both ways cost about the same.
        scores[0, :, 1:3] -= 900
        scores[0, 1, 2] += 900
        scores[0, 2, 1] += 900
    oracle = Oracle(scores[0], n, single_root)
    samples = cpu.sample(scores, torch.tensor([n]), torch.tensor([99]), S, single_root)[:, 0, 1:]
    index = {tuple(t): i for i, t in enumerate(oracle.trees.tolist())}
    counts = torch.bincount(torch.tensor([index[tuple(t)] for t in samples.tolist()]), minlength=len(index))
    expected = S * oracle.probabilities
    frequent = expected > 5
    assert counts[~frequent].sum() <= 5 + 5 * expected[~frequent].sum()
    chi2 = ((counts - expected)[frequent] ** 2 / expected[frequent]).sum().item()
    freedom = int(frequent.sum()) - 1
    assert chi2 < freedom + 5 * math.sqrt(2 * freedom)


def test_arc_frequencies_of_a_long_sentence():
    n, S = 30, 4000
    scores = 2 * torch.randn(2, n + 1, n + 1)
    lengths = torch.tensor([n, n - 3])
    _, marginals = cpu.inside_outside(scores, lengths, False)
    samples = cpu.sample(scores, lengths, torch.tensor([5]), S, False)
    heads = torch.nn.functional.one_hot(samples.clamp(min=0), n + 1) * (samples >= 0).unsqueeze(-1)
    frequency = heads.float().mean(0).mT
    spread = (marginals * (1 - marginals) / S).sqrt()
    assert ((frequency - marginals).abs() <= 5.5 * spread + 2 / S).all()


def test_a_term_of_probability_zero_is_never_taken():
    scores = torch.full((1, 6, 6), -math.inf)
    heads = torch.tensor([3, 1, 0, 3, 4])
    scores[0, heads, torch.arange(1, 6)] = -5.0
    samples = cpu.sample(scores, torch.tensor([5]), torch.tensor([0]), 200, False)
    assert (samples[:, 0, 1:] == heads).all()
