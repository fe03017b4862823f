"""Every edge case of the conventions (tritree/conventions.py) for the relaxed tree, and what a user gets wrong."""

import math

import numpy as np
import pytest
import torch

import tritree
from tests.cases import fill
from tests.relaxed.definition import long_batch, value_and_gradient
from tritree.conventions import live_arcs

INF = float("inf")


def test_no_words(backend):
    for N in (1, 4):
        A, gradient = value_and_gradient(
            torch.full((2, N, N), torch.nan), torch.zeros(2, dtype=torch.int64), backend=backend
        )
        assert (A == 0).all() and (gradient == 0).all()


def test_one_word(backend):
    scores = torch.tensor([[torch.nan, 2.5], [torch.nan, torch.nan]])
    A, gradient = value_and_gradient(scores, backend=backend)
    assert A.tolist() == [[0, 1], [0, 0]] and (gradient == 0).all()


def test_no_tree_possible(backend):
    """No head for word 2 in the first sentence, only crossing arcs in the second; the third has its own results."""
    scores = torch.randn(3, 5, 5)
    scores[0, :, 2] = -INF
    scores[1, :, 3:] = -INF
    scores[1, 1, 3] = scores[1, 2, 4] = 0
    A, gradient = value_and_gradient(scores, backend=backend)
    assert (A[:2] == 0).all() and (gradient[:2] == 0).all()
    expected = value_and_gradient(scores[2:], backend=backend)
    assert torch.equal(A[2:], expected[0]) and torch.equal(gradient[2:], expected[1])


def test_the_only_tree_has_no_gradient(backend):
    """Every arc but those of one tree is forbidden; the scores do not matter then, however different."""
    scores = torch.full((5, 5), -INF, dtype=torch.float64)
    for m, h in enumerate([2, 0, 2, 3], 1):
        scores[h, m] = [-1e30, 1e9, 3.0, -1e4][m - 1]
    A, gradient = value_and_gradient(scores, backend=backend)
    assert torch.equal(A, torch.isfinite(scores).double())
    assert (gradient.abs() < 1e-12).all()


def test_large_negative_scores_as_a_mask(backend):
    scores = torch.randn(4, 5, 5)
    scores[:, 1, 2] = torch.tensor([-1e4, -1e9, -1e30, torch.finfo(torch.float32).min])
    forbidden = scores.clone()
    forbidden[:, 1, 2] = -INF
    for x, y in zip(
        value_and_gradient(scores, backend=backend), value_and_gradient(forbidden, backend=backend), strict=True
    ):
        torch.testing.assert_close(x, y)


def test_dead_cells_are_ignored(backend):
    lengths = torch.tensor([3, 2, 0, 1])
    scores = torch.randn(4, 4, 4)
    live = live_arcs(lengths, 4)
    clean = value_and_gradient(torch.where(live, scores, 0), lengths, backend=backend)
    for junk in (torch.nan, INF, -INF, 1e38):
        dirty = value_and_gradient(torch.where(live, scores, junk), lengths, backend=backend)
        assert torch.equal(clean[0], dirty[0]) and torch.equal(clean[1], dirty[1])


def test_nan_stays_in_its_sentence(backend):
    scores = torch.randn(5, 4, 4)
    clean = value_and_gradient(scores, backend=backend)
    scores[2, 2, 3] = torch.nan
    dirty = value_and_gradient(scores, backend=backend)
    others = torch.arange(5) != 2
    assert all(torch.equal(x[others], y[others]) for x, y in zip(clean, dirty, strict=True))


def test_half_precision_is_computed_in_more(backend):
    scores, lengths = long_batch(torch.float32, n=12, backend=backend)
    for dtype in (torch.float16, torch.bfloat16):
        half = scores.to(dtype)
        A, gradient = value_and_gradient(half, lengths, backend=backend)
        assert A.dtype == torch.float32 and gradient.dtype == dtype
        exact = value_and_gradient(half.double(), lengths, backend=backend)
        torch.testing.assert_close(A.double(), exact[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(gradient, exact[1].to(dtype), rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("batch", [(), (2, 1, 2), (0,)])
def test_batch_shapes(backend, batch):
    scores = fill("normal", 4, 4, torch.Generator().manual_seed(0))[: math.prod(batch)].reshape(*batch, 4, 4)
    lengths = torch.randint(1, 4, batch)
    shaped = value_and_gradient(scores, lengths, backend=backend)
    flat = value_and_gradient(scores.reshape(-1, 4, 4), lengths.reshape(-1), backend=backend)
    for x, y in zip(shaped, flat, strict=True):
        assert x.shape == (*batch, 4, 4) and torch.equal(x.reshape(-1, 4, 4), y)


def test_inputs_are_not_modified(backend):
    scores, lengths = long_batch(n=5)
    weights = torch.randn_like(scores)
    copies = scores.clone(), lengths.clone(), weights.clone()
    value_and_gradient(scores, lengths, weights, backend=backend)
    assert all(torch.equal(x, y) for x, y in zip((scores, lengths, weights), copies, strict=True))


def test_temperatures_of_numpy(backend):
    scores = torch.randn(4, 4)
    expected = tritree.relaxed_tree(scores, temperature=2.0, backend=backend)
    for temperature in (2, np.float32(2), np.float16(2), np.int64(2)):
        assert torch.equal(tritree.relaxed_tree(scores, temperature=temperature, backend=backend), expected)


def test_what_a_user_gets_wrong(backend):
    scores = torch.zeros(2, 3, 3)
    for wrong in (0.0, -1.0, INF, math.nan, True, np.True_, "1", None, torch.tensor(1.0)):
        with pytest.raises(ValueError, match="temperature must be a positive number"):
            tritree.relaxed_tree(scores, temperature=wrong, backend=backend)
    with pytest.raises(ValueError, match=r"lengths\[1\] is 3, but scores with N = 3 hold 0 to 2 words"):
        tritree.relaxed_tree(scores, torch.tensor([2, 3]), backend=backend)
    with pytest.raises(ValueError, match=r"shape \[\*batch, N, N\]"):
        tritree.relaxed_tree(torch.zeros(3, 4), backend=backend)
