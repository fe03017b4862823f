"""The relaxed tree as a citizen of torch: operators, compilation, vmap."""

import pytest
import torch
from torch.library import opcheck

import tritree


@pytest.mark.parametrize(("dtype", "requires_grad"), [(torch.float16, False), (torch.float32, True)])
def test_opcheck(dtype, requires_grad):
    scores = torch.randn(3, 4, 4).to(dtype).requires_grad_(requires_grad)
    lengths = torch.tensor([3, 2, 0])
    opcheck(torch.ops.tritree.relaxed, (scores, lengths, 0.5))
    grad = torch.randn(3, 4, 4)
    opcheck(torch.ops.tritree.relaxed_gradient, (scores.detach(), lengths, grad, 0.5))


def test_compile():
    def decoder(s, lengths, temperature):
        return tritree.relaxed_tree(s.tanh(), lengths, temperature=temperature).square().sum()

    scores, lengths = torch.randn(2, 5, 5), torch.tensor([4, 3])
    compiled = torch.compile(decoder, fullgraph=True, backend="aot_eager")
    for temperature in (1.0, 0.5, 0.25):  # annealed
        outcomes = []
        for function in (decoder, compiled):
            s = scores.clone().requires_grad_()
            loss = function(s, lengths, temperature)
            loss.backward()
            outcomes.append((loss.detach(), s.grad))
        torch.testing.assert_close(*outcomes)


def test_vmap():
    scores, lengths = torch.randn(3, 2, 4, 4), torch.tensor([3, 2])
    for dim in (0, 1):
        mapped = torch.vmap(lambda s: tritree.relaxed_tree(s, lengths), in_dims=dim)(scores.movedim(0, dim))
        for k in range(3):
            assert torch.equal(mapped[k], tritree.relaxed_tree(scores[k], lengths))
