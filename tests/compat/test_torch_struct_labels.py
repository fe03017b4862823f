"""torch-struct's potentials with labels, against the enumeration of all labelled trees."""

import itertools

import pytest
import torch
from torch.autograd import gradcheck

from tests.frequencies import check_frequencies
from tests.oracle import projective_trees
from tritree.compat import torch_struct

INF = float("inf")


class LabelledOracle:
    """All labelled trees of one sentence: [T, n] heads (0 is ROOT) and labels, enumerated."""

    def __init__(self, potentials, n, single_root):
        self.events, scores = [], []
        for tree in projective_trees(n, single_root).tolist():
            for labels in itertools.product(range(potentials.shape[-1]), repeat=n):
                rows = [m if h == 0 else h - 1 for m, h in enumerate(tree)]
                score = sum(potentials[rows[m], m, labels[m]] for m in range(n))
                if score > -INF:
                    event = torch.zeros_like(potentials)
                    event[rows, range(n), labels] = 1
                    self.events.append(event)
                    scores.append(score)
        self.scores, self.events = torch.stack(scores), torch.stack(self.events)
        self.log_z, self.p = self.scores.logsumexp(0), self.scores.softmax(0)
        self.marginals = torch.einsum("t,thml->hml", self.p, self.events)

    def log_prob(self, events):
        """[S] log probabilities of [S, N, N, L]."""
        which = (self.events.flatten(1) == events.flatten(1).unsqueeze(1)).all(-1)
        assert (which.sum(-1) == 1).all(), "each is one of the possible trees"
        return (self.scores - self.log_z)[which.double().argmax(-1)]


@pytest.mark.parametrize("single_root", [False, True])
def test_torch_struct_labels(single_root):
    """[B, N, N, L]: a label for each arc, which may be forbidden alone, or with all others."""
    lengths = torch.tensor([3, 2, 1])
    p, q = torch.randn(2, 3, 3, 3, 2, dtype=torch.float64)
    p[0, 1, 2, 0] = p[0, 0, 1, :] = q[0, 0, 1, :] = q[1, 0, 1, 1] = -INF
    p[1, 2], p[2, :, 1] = torch.nan, INF  # in the padding
    p.requires_grad_()
    dist = torch_struct.DependencyCRF(p, lengths, multiroot=not single_root)
    other = torch_struct.DependencyCRF(q, lengths, multiroot=not single_root)
    k, draws = 5, dist.sample((2000,))
    kmax, topk, cross_entropy, kl = dist.kmax(k), dist.topk(k), dist.cross_entropy(other), dist.kl(other)
    assert topk.shape == (k, 3, 3, 3, 2) and draws.shape == (2000, 3, 3, 3, 2)
    for b, n in enumerate(lengths.tolist()):
        o = LabelledOracle(p.detach()[b], n, single_root)
        torch.testing.assert_close(dist.partition[b], o.log_z)
        torch.testing.assert_close(dist.marginals[b], o.marginals)
        assert dist.count[b] == len(o.scores)
        torch.testing.assert_close(dist.entropy[b], -(o.p * o.p.log()).sum())
        assert torch.equal(dist.argmax[b], o.events[o.scores.argmax()]) and dist.max[b] == o.scores.max()
        best = o.scores.sort(descending=True).values[:k]
        found = len(best)
        torch.testing.assert_close(kmax[:found, b], best)
        assert (kmax[found:, b] == -INF).all() and (topk[found:, b] == 0).all()
        torch.testing.assert_close(o.log_prob(topk[:found, b]), best - o.log_z)
        torch.testing.assert_close(dist.log_prob(topk)[:found, b], best - o.log_z)
        check_frequencies(draws[:, b], o.events, o.p)
        theirs = LabelledOracle(q[b], n, single_root)
        allowed = all((theirs.events == event).flatten(1).all(-1).any() for event in o.events)
        expected = -(o.p * theirs.log_prob(o.events)).sum() if allowed else torch.tensor(INF, dtype=torch.float64)
        torch.testing.assert_close(cross_entropy[b], expected)
        torch.testing.assert_close(kl[b], expected - dist.entropy[b])
    assert cross_entropy.isinf().tolist() == [False, True, False]


def labelled(potentials, lengths=None, multiroot=True):
    return torch_struct.DependencyCRF(potentials, lengths, multiroot=multiroot)


def test_torch_struct_labels_and_the_number_of_roots():
    """With one root q forbids what p allows, unless there is one word or p's other roots are forbidden."""
    potentials = torch.randn(3, 3, 3, 2).requires_grad_()
    lengths = torch.tensor([3, 1, 2])
    only_first = torch.ones(3, 3, 3, 2, dtype=torch.bool)
    only_first[2, 1, 1] = False
    p = labelled(potentials.where(only_first, -INF), lengths)
    q = labelled(potentials.detach(), lengths, multiroot=False)
    assert p.kl(q).isinf().tolist() == p.cross_entropy(q).isinf().tolist() == [True, False, False]
    assert (q.kl(p)[:2] >= -1e-6).all() and q.kl(p)[2] == INF
    (gradient,) = torch.autograd.grad(p.cross_entropy(q)[0], potentials)
    assert (gradient == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_torch_struct_labels_that_only_q_forbids(dtype):
    """However small their probability is: that of the label, or that of the arc."""
    p = torch.zeros(4, 3, 3, 2, dtype=dtype)
    p[0, 0, 1, 0] = p[1, 0, 1] = -500
    p[2, 0, 1], p[2, 0, 0], p[2, 2, 0] = 0, -INF, -INF  # 1 → 2 is in no tree: 1 can hang from 2 alone
    q = p.clone()
    q[:3, 0, 1, 0] = -INF
    q[3] += 1
    assert labelled(p).kl(labelled(q)).tolist() == [INF, INF, 0, 0]


def test_torch_struct_labels_without_trees():
    p, q = torch.randn(2, 2, 3, 3, 2)
    p[0, :, 1] = q[1, :, 1] = -INF
    p, q = labelled(p), labelled(q)
    assert p.entropy[0] == 0 and p.kl(q).tolist() == p.cross_entropy(q).tolist() == [0, INF]
    empty = labelled(torch.randn(2, 0, 0, 3))
    assert empty.partition.tolist() == empty.entropy.tolist() == empty.kl(empty).tolist() == [0, 0]


def test_torch_struct_gradients_with_labels():
    lengths = torch.tensor([3, 2])
    p, q = torch.randn(2, 2, 3, 3, 2, dtype=torch.float64)
    p[0, 0, 1, :] = -INF
    p.requires_grad_()
    dist = labelled(p, lengths)
    (gradient,) = torch.autograd.grad(dist.partition.sum(), p, retain_graph=True)
    torch.testing.assert_close(gradient, dist.marginals.detach())
    (gradient,) = torch.autograd.grad(dist.max.sum(), p, retain_graph=True)
    assert torch.equal(gradient, dist.argmax)

    def functions(p, q):
        dist = labelled(p, lengths)
        return dist.entropy, dist.kl(labelled(q, lengths)), dist.marginals

    assert gradcheck(functions, (p.detach().nan_to_num(neginf=0).requires_grad_(), q.requires_grad_()))
    q = p.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(functions(p, q)[1].sum(), q)
    torch.testing.assert_close(gradient, torch.zeros_like(q))  # KL is least where both are the same
    for value in functions(p, q):
        (gradient,) = torch.autograd.grad(value.sum(), p, retain_graph=True)
        assert gradient.isfinite().all() and (gradient[0, 0, 1] == 0).all()
