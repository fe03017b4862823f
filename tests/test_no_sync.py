"""Nothing that runs on a GPU waits for it: no function needs the values of its tensors.

Fake tensors have none, and raise where one is read. They stand for those of a GPU: torch's CPU build has no derivatives
for fake CUDA tensors.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.distributions import kl_divergence

import tritree
from tests import operators
from tritree.compat import supar, torch_struct
from tritree.gpu.topk_by_sorting import topk_by_sorting

B, N = 3, 7


@pytest.fixture(autouse=True)
def tensors_without_values(monkeypatch):
    """What is done for CPU tensors alone is off: values are not read, and lengths are not checked."""
    monkeypatch.setattr(tritree.operators, "can_read_values", lambda tensor: False)
    monkeypatch.setattr(tritree.operators, "check_lengths", lambda lengths, N: None)
    with FakeTensorMode():
        yield


def batch():
    return torch.randn(B, N, N, requires_grad=True), torch.tensor([6, 3, 0])


def some_heads():
    return torch.randint(-1, N, (B, N))


def test_reading_a_value_would_be_noticed():
    scores, lengths = batch()
    for read in (scores.sum().item, lambda: bool((lengths > 3).any()), lengths.tolist):
        with pytest.raises(DataDependentOutputException):
            read()


@pytest.mark.parametrize("single_root", [False, True])
def test_functions(single_root):
    scores, lengths = batch()
    sizes = {"B": B, "N": N, "K": operators.K, "S": operators.S}
    for row in operators.FUNCTIONS:
        outputs = row.call(scores, lengths, single_root)
        for value, shape in zip(outputs, row.results.values(), strict=True):
            assert value.shape == tuple(sizes[letter] for letter in shape)
        if row.derivatives:
            (gradient,) = torch.autograd.grad(outputs[0].square().sum(), scores)
            assert gradient.shape == (B, N, N)
    log_z = tritree.log_partition(scores, lengths, single_root=single_root)
    (gradient,) = torch.autograd.grad(log_z.sum(), scores, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), scores)
    assert second.shape == (B, N, N)
    assert tritree.constrain(scores, some_heads()).shape == (B, N, N)


def test_many_best_trees_in_torch_operations():
    """What runs on a GPU behind the operator."""
    scores, lengths = batch()
    best, heads = topk_by_sorting(scores.detach(), lengths, 4, True)
    assert best.shape == (B, 4) and heads.shape == (B, 4, N)


def test_distributions():
    scores, lengths = batch()
    p, q = (tritree.TreeCRF(s, lengths, single_root=True) for s in (scores, torch.randn(B, N, N)))
    losses = [p.entropy(), p.cross_entropy(q), kl_divergence(p, q), p.log_prob(some_heads())]
    torch.stack(losses).sum().backward()
    assert scores.grad.shape == (B, N, N)
    assert p.mode.shape == p.mbr.shape == (B, N) and p.max_marginals.shape == (B, N, N)
    assert p.sample((2, 2)).shape == (2, 2, B, N) and p.topk(4)[1].shape == (B, 4, N)
    assert p.expand((2, B)).marginals.shape == (2, B, N, N)


def test_stand_ins():
    scores, lengths = batch()
    crf = supar.DependencyCRF(scores, lengths)
    losses = [crf.log_prob(some_heads().clamp(0)), crf.score(some_heads(), partial=True), crf.entropy, crf.max]
    losses += [crf.kl(supar.DependencyCRF(torch.randn(B, N, N), lengths)), crf.kmax(4).sum(-1)]
    torch.stack(losses).sum().backward()
    assert crf.argmax.shape == crf.sample().shape == (B, N) and crf.topk(4).shape == (B, N, 4)
    for shape in ((B, N, N), (B, N, N, 3)):
        crf = torch_struct.DependencyCRF(torch.randn(shape, requires_grad=True), lengths)
        losses = [crf.log_prob(crf.argmax), crf.entropy, crf.kl(crf), crf.max, crf.kmax(4).sum(0)]
        torch.stack(losses).sum().backward()
        assert crf.marginals.shape == shape and crf.topk(4).shape == (4, *shape) and crf.count.shape == (B,)
        assert crf.sample((2,)).shape == (2, *shape) and crf.from_event(crf.argmax)[0].shape[:2] == (B, N)
