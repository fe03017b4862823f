"""Everything can be captured in a CUDA graph: nothing waits for the GPU, and memory does not depend on values."""

import pytest
import torch

import tritree
from tritree import TreeCRF

pytestmark = [pytest.mark.on_device, pytest.mark.gpu_only]


@pytest.mark.parametrize("single_root", [False, True])
def test_capture(single_root):
    lengths = torch.tensor([11, 7, 0, 1])
    scores = torch.randn(4, 12, 12, requires_grad=True)

    def step():
        dist = TreeCRF(scores, lengths, single_root=single_root, validate_args=False)
        loss = (dist.log_partition + dist.entropy() - dist.log_prob(dist.mode)).sum()
        (gradient,) = torch.autograd.grad(loss, scores)
        best, heads = tritree.viterbi(scores.detach(), lengths, single_root=single_root)
        return loss.detach(), gradient, best, heads, dist.marginals.detach(), dist.max_marginals.detach(), dist.mbr

    stream = torch.cuda.Stream()  # kernels are compiled outside of the capture
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        scores.copy_(torch.randn(4, 12, 12))
    graph.replay()
    for found, expected in zip(captured, step(), strict=True):
        assert torch.equal(found, expected)
