"""The derivative of the marginals, against differences of marginals, and its laws."""

import math

import pytest
import torch

from tritree.cpu import backend as cpu

SIZES = torch.tensor([12, 0, 7, 11, 1])


def derivative_by_differences(scores, lengths, direction, single_root, step=1e-5):
    ahead = cpu.inside_outside(scores + step * direction, lengths, single_root)[1]
    behind = cpu.inside_outside(scores - step * direction, lengths, single_root)[1]
    return (ahead - behind) / (2 * step)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("offset", [0.0, 400.0], ids=["linear", "scaled"])
def test_is_the_limit_of_differences(offset, single_root):
    scores = torch.randn(5, 13, 13, dtype=torch.float64)
    scores[torch.rand(5, 13, 13) < 0.1] = -math.inf
    for a in (1, 3, 5):  # pairs with each other as best heads: log Z falls by the offset for each
        scores[:, a, a + 1] += offset
        scores[:, a + 1, a] += offset
    direction = torch.randn(5, 13, 13, dtype=torch.float64)
    result = cpu.tangent(scores, SIZES, direction, single_root)
    expected = derivative_by_differences(scores, SIZES, direction, single_root)
    torch.testing.assert_close(result, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_is_symmetric(scale):
    scores = scale * torch.randn(5, 13, 13, dtype=torch.float64)
    a, b = torch.randn(2, 5, 13, 13, dtype=torch.float64)
    ab = (a * cpu.tangent(scores, SIZES, b, False)).sum((1, 2))
    ba = (b * cpu.tangent(scores, SIZES, a, False)).sum((1, 2))
    torch.testing.assert_close(ab, ba, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("power", [-1000, -150, 150, 900])
def test_scales_with_its_direction_exactly(power):
    """Powers of two change nothing but the exponent, so no direction is too small or too large."""
    scores, direction = torch.randn(2, 5, 13, 13, dtype=torch.float64)
    plain = cpu.tangent(scores, SIZES, direction, False)
    scaled = cpu.tangent(scores, SIZES, torch.ldexp(direction, torch.tensor(power)), False)
    torch.testing.assert_close(torch.ldexp(scaled, torch.tensor(-power)), plain, rtol=1e-13, atol=0)


def test_no_direction_and_a_shift_of_columns_move_nothing():
    scores = torch.randn(5, 13, 13, dtype=torch.float64)
    assert (cpu.tangent(scores, SIZES, torch.zeros_like(scores), False) == 0).all()
    shift = torch.randn(5, 1, 13, dtype=torch.float64).expand_as(scores)
    assert cpu.tangent(scores, SIZES, shift, False).abs().max() < 1e-13


def test_the_direction_of_an_arc_of_weight_zero_is_ignored():
    """−inf, where the direction may hold anything, and a finite mask, where it may be as large as the mask."""
    scores, direction = torch.randn(2, 5, 13, 13)
    masked = torch.rand(5, 13, 13) < 0.2
    masked[:, 0] = False
    expected = cpu.tangent(scores.masked_fill(masked, -math.inf), SIZES, direction.masked_fill(masked, 0), False)
    for junk in (math.nan, math.inf, 1e38):
        dirty = cpu.tangent(scores.masked_fill(masked, -math.inf), SIZES, direction.masked_fill(masked, junk), False)
        assert torch.equal(dirty, expected)
    lowest = torch.finfo(torch.float32).min
    finite = cpu.tangent(scores.masked_fill(masked, lowest), SIZES, direction.masked_fill(masked, lowest), False)
    assert torch.equal(finite, expected)
