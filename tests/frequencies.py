"""Samples are as frequent as their probabilities say."""

import torch
from torch import Tensor


def check_frequencies(samples: Tensor, possible: Tensor, probabilities: Tensor) -> None:
    """samples [S, *], each of which is one of those that are possible, [T, *], whose probabilities are [T]."""
    which = (samples.flatten(1).unsqueeze(1) == possible.flatten(1)).all(-1)
    assert (which.sum(-1) == 1).all(), "each sample is one of the possible trees"
    assert chi_squared_is_plausible(which.sum(0), probabilities)


def chi_squared_is_plausible(counts: Tensor, probabilities: Tensor) -> bool:
    """χ² with rare trees pooled, within five standard deviations of its mean. A fixed seed: it holds or it doesn't."""
    expected = probabilities * counts.sum()
    common = expected >= 5
    observed = torch.cat([counts[common], counts[~common].sum(0, keepdim=True)]).double()
    expected = torch.cat([expected[common], expected[~common].sum(0, keepdim=True)])
    observed, expected = observed[expected > 0], expected[expected > 0]
    chi2 = ((observed - expected) ** 2 / expected).sum().item()
    freedom = len(expected) - 1
    return chi2 <= freedom + 5 * (2 * max(freedom, 1)) ** 0.5
