"""Laws of the relaxed tree, also for sentences too long for its definition."""

import pytest
import torch

import tritree
from tests.relaxed.definition import long_batch, value_and_gradient
from tritree.conventions import live_words


@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
def test_the_heads_of_each_word_sum_to_one(backend, scale):
    scores, lengths = long_batch(scale=scale, backend=backend)
    for temperature in (0.01, 1.0, 100.0):
        A = tritree.relaxed_tree(scores, lengths, temperature=temperature, backend=backend)
        torch.testing.assert_close(A.sum(-2), live_words(lengths, A.shape[-1]).double(), rtol=0, atol=1e-9)
        assert (A >= 0).all() and (A <= 1 + 1e-9).all()


def test_cold_it_is_the_best_tree(backend):
    scores, lengths = long_batch(n=10, backend=backend)
    _, heads = tritree.viterbi(scores, lengths)
    arcs = torch.nn.functional.one_hot(heads.clamp(min=0), scores.shape[-1]).mT * (heads >= 0).unsqueeze(-2)
    A = tritree.relaxed_tree(scores, lengths, temperature=1e-5, backend=backend)
    torch.testing.assert_close(A, arcs.double(), rtol=0, atol=1e-9)


def test_only_scores_over_temperature_count(backend):
    scores, lengths = long_batch(n=9, backend=backend)
    A, gradient = value_and_gradient(scores, lengths, temperature=0.25, backend=backend)
    B, gradient_of_quotient = value_and_gradient(scores / 0.25, lengths, backend=backend)
    torch.testing.assert_close(A, B)
    torch.testing.assert_close(gradient, gradient_of_quotient / 0.25)


def test_shifting_a_column_changes_nothing(backend):
    scores, lengths = long_batch(n=9, backend=backend)
    shift = 50 * torch.randn_like(scores[:, :1])
    still = value_and_gradient(scores, lengths, backend=backend)
    moved = value_and_gradient(scores + shift, lengths, backend=backend)
    for x, y in zip(still, moved, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(still[1].sum(-2), torch.zeros_like(scores[:, 0]), rtol=0, atol=1e-10)
