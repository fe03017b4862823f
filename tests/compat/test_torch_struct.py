"""What only torch-struct's class has: counts, events."""

import pytest
import torch

from tests.oracle import number_of_trees, projective_trees
from tritree.compat import torch_struct

INF = float("inf")


@pytest.mark.parametrize("single_root", [False, True])
def test_torch_struct_counts_trees(single_root):
    lengths = [7, 0, 1, 4]
    potentials = torch.randn(4, 7, 7)
    dist = torch_struct.DependencyCRF(potentials, lengths, multiroot=not single_root)
    assert dist.count.tolist() == [number_of_trees(n, single_root) for n in lengths]
    potentials[3, 0, 0] = -INF  # the first word does not hang from ROOT
    dist = torch_struct.DependencyCRF(potentials, lengths, multiroot=not single_root)
    assert dist.count[3] == (projective_trees(4, single_root)[:, 0] != 0).sum()


def test_torch_struct_events():
    heads = torch.tensor([[2, 0, 4, 2], [0, 1, 0, 0]])
    lengths = torch.tensor([4, 2])
    dist = torch_struct.DependencyCRF(torch.randn(2, 4, 4), lengths)
    event = dist.to_event(heads, None, lengths)
    assert event.dtype == torch.int64 and event.sum((-1, -2)).tolist() == [4, 2]
    assert event[0].nonzero().tolist() == [[1, 0], [1, 1], [1, 3], [3, 2]]
    assert torch.equal(dist.from_event(event)[0], heads) and dist.from_event(event)[1] is None
    assert torch.equal(dist.struct.to_parts(heads, lengths=lengths), event)
    padded = dist.to_event(heads, None)  # heads in the padding become arcs from ROOT, which are ignored
    assert not torch.equal(padded, event) and torch.equal(dist.log_prob(padded), dist.log_prob(event))
    with pytest.raises(ValueError, match="a head is 5, but there are 4 words"):
        dist.to_event(torch.tensor([[5, 0, 1, 1]]))


def test_torch_struct_attributes():
    potentials = torch.randn(2, 4, 4)
    dist = torch_struct.DependencyCRF(potentials, args={"kept": True})
    assert dist.log_potentials is potentials and dist.lengths is None and dist.args == {"kept": True}
    assert dist.batch_shape == (2,) and dist.event_shape == (4, 4)
    torch.testing.assert_close(dist.partition, torch_struct.DependencyCRF(potentials, [4, 4]).partition)
    with pytest.raises(ValueError, match=r"\[B, N, N\] or \[B, N, N, L\], got \[2, 4, 3\]"):
        torch_struct.DependencyCRF(potentials[..., :3])
    with pytest.raises(NotImplementedError, match="relaxed_tree"):
        dist.gumbel_crf()


@pytest.mark.parametrize("labels", [(), (2,)])
def test_torch_struct_refuses_another_number_of_lengths(labels):
    for lengths in ([4, 3], torch.tensor([4, 3, 2, 1])):
        with pytest.raises(ValueError, match=r"lengths must have the batch shape of scores, \[3\], got"):
            torch_struct.DependencyCRF(torch.randn(3, 4, 4, *labels), lengths)


@pytest.mark.parametrize("labels", [(), (3,)])
def test_torch_struct_takes_large_potentials(labels):
    """A log probability is a small difference of large numbers, in float32 as in float64."""
    potentials, other = 3 * torch.randn(2, 2, 30, 30, *labels) + 1000
    p, q, exact_p, exact_q = map(torch_struct.DependencyCRF, (potentials, other, potentials.double(), other.double()))
    close = {"rtol": 1e-5, "atol": 1e-5, "check_dtype": False}
    torch.testing.assert_close(p.entropy, exact_p.entropy, **close)
    torch.testing.assert_close(p.kl(q), exact_p.kl(exact_q), **close)
    torch.testing.assert_close(p.marginals, exact_p.marginals, **close)
    torch.testing.assert_close(p.partition, exact_p.partition, rtol=2e-7, atol=0, check_dtype=False)
    torch.testing.assert_close(p.log_prob(p.argmax), exact_p.log_prob(p.argmax), **close)
    assert p.log_prob(p.argmax.double()).dtype == p.entropy.dtype == torch.float32
