"""The definition that tests/operators.py compares relaxed trees with: that of a tree CRF but for one formula."""

import torch

import tritree
from tests.relaxed.definition import definitions, log_sum


def test_with_log_sums_the_definition_is_the_tree_crf():
    """So a relaxed tree differs from the marginals only by what an item is worth to the items above it."""
    scores = 2 * torch.randn(2, 6, 6, dtype=torch.float64)
    lengths = torch.tensor([5, 3])
    for temperature in (0.5, 1.0):
        A = definitions(scores, lengths, temperature, combine=log_sum)
        torch.testing.assert_close(A, tritree.marginals(scores / temperature, lengths))
    assert (definitions(scores, lengths) - tritree.marginals(scores, lengths)).abs().max() > 1e-2
