"""The gradient of the relaxed tree, against finite differences and the reference."""

import pytest
import torch
from torch.autograd import gradcheck

import tritree
from tests.relaxed.definition import long_batch, value_and_gradient
from tritree.conventions import live_arcs

INF = float("inf")


@pytest.mark.parametrize("backend", ["reference", "numba"])
@pytest.mark.parametrize("temperature", [0.4, 1.0])
def test_gradient_by_finite_differences(backend, temperature):
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    scores[0, 1, 2] = scores[1, 0, 3] = -INF
    lengths = torch.tensor([4, 3, 0])
    possible = live_arcs(lengths, 5) & (scores != -INF)

    def of_possible_arcs(x):
        s = torch.full_like(scores, -INF).masked_scatter(possible, x)
        return tritree.relaxed_tree(s, lengths, temperature=temperature, backend=backend)

    assert gradcheck(of_possible_arcs, scores[possible].requires_grad_())


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_gradient_of_the_kernel_is_that_of_the_reference(temperature):
    scores, lengths = long_batch(n=17)
    weights = torch.randn_like(scores)
    ours, theirs = (
        value_and_gradient(scores, lengths, weights, temperature=temperature, backend=name)
        for name in ("numba", "reference")
    )
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-9, atol=1e-9)


def test_no_gradient_is_computed_where_none_is_asked_for(backend):
    scores = torch.randn(2, 4, 4, requires_grad=True)
    with torch.no_grad():
        assert not tritree.relaxed_tree(scores, backend=backend).requires_grad
    assert not tritree.relaxed_tree(scores.detach(), backend=backend).requires_grad
    with torch.inference_mode():
        tritree.relaxed_tree(scores, backend=backend)


def test_nothing_but_the_scores_is_kept():
    scores = torch.randn(2, 12, 12, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t.numel()), t)[1], lambda t: t):
        tritree.relaxed_tree(scores)
    assert sum(saved) <= scores.numel() + 2


def test_second_derivatives_are_refused():
    scores = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    A = tritree.relaxed_tree(scores)
    (gradient,) = torch.autograd.grad(A.square().sum(), scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="differentiable once"):
        gradient.sum().backward()
