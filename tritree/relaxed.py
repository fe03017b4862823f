"""The relaxed tree of differentiable perturb-and-parse (Corro and Titov, 2019): a soft best tree, with a gradient.

In Viterbi, the value of an item is that of its best split. Here every split k has a share. The rules are those of
rules.py; each of their sums over terms a_k, where a_k adds the values V of two items, becomes at temperature τ

    b = softmax(a / τ)         V = Σ b_k a_k

    axiom      V(C[h,h]) = 0
    join       V(X{i,j}) from  a_k = V(C[i,k]) + V(C[j,k+1])      i ≤ k < j
    attach     V(I[h,m]) = V(X{h,m}) + s[h,m]
    complete   V(C[h,m]) from  a_k = V(I[h,k]) + V(C[k,m])        k from h to m, k ≠ h

Then, from the top: the goal C[0,n] contributes 1, and each item passes its contribution to the two items of each of
its terms, in shares b_k. A[h,m] is the contribution that reaches I[h,m]. In other words it is the probability of the
arc h → m when a tree is built from the goal down, split k being chosen with probability b_k. (With logsumexp for V this
process draws from the tree CRF, and A is its marginals. With the mean, V does not grow with the number of trees: the
best ones weigh more.)

A depends on s / τ alone, and does not change when a column of s is shifted. As τ → 0 it becomes the best tree.

Below is this definition in plain torch, for all spans of one width at once. To be read and compared with.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from tritree.conventions import live_arcs, result_dtype
from tritree.rules import at_length


class _Items:
    """Items of one direction. V and D (below) of all spans of a width w stand in one row, [2, B, N − w]."""

    def __init__(self, row: Tensor):
        self.by_start, self.by_end = [row], [row]

    def append(self, w: int, row: Tensor) -> None:
        self.by_start.append(pad(row, (0, w)))
        self.by_end.append(pad(row, (w, 0)))


def _sum(x: Tensor) -> Tensor:
    """Over the first dimension, always in the same order: that of torch.sum depends on the shape."""
    return x.cumsum(0)[-1]


def _copies(x: Tensor, count: int) -> Tensor:
    """What broadcasting would do along a new first dimension, with a derivative that is a _sum too."""
    return torch.cat([x.unsqueeze(0), x.new_zeros(count - 1, *x.shape)]).cumsum(0)


def _soft_sum(left: list[Tensor], right: list[Tensor], w: int) -> Tensor:
    """All spans (i, i + w). Term k joins left[k], which starts where the span does, and right[k], which ends there."""
    terms = torch.stack(left)[..., : left[0].shape[-1] - w] + torch.stack(right)[..., w:]
    a, d = terms.unbind(1)
    possible = a != -torch.inf
    top = a.detach().amax(0)
    weight = torch.where(possible, a - torch.where(top == -torch.inf, 0, top), -torch.inf).exp()
    total = _sum(weight)
    none = total == 0
    b = weight / _copies(torch.where(none, 1, total), len(left))
    V = torch.where(none, -torch.inf, _sum(b * torch.where(possible, a, 0)))
    return torch.stack([V, _sum(b * d)])


def relaxed(scores: Tensor, lengths: Tensor, temperature: float) -> Tensor:
    """A [B, N, N], by autograd alone: there is no pass from the top here, so agreement with the kernels checks theirs.

    Let every arc carry a token t[h,m]. D, the expected tokens of an item, follows from the same rules with the same
    shares: D(C[h,h]) = 0, D(I[h,m]) = D(X{h,m}) + t[h,m], and D = Σ b_k d_k where V = Σ b_k a_k. At the goal it is
    Σ A[h,m] t[h,m], so A is the derivative of D(C[0,n]), at any t; here t = 0.
    """
    N = scores.shape[-1]
    differentiable = torch.is_grad_enabled() and scores.requires_grad
    with torch.inference_mode(False), torch.enable_grad():
        scores, lengths = scores if differentiable else scores.detach(), lengths.clone()
        possible = live_arcs(lengths, N) & (scores != -torch.inf)
        s = torch.where(possible, scores, -torch.inf).double() / temperature
        t = torch.zeros_like(s).requires_grad_()
        arcs = torch.stack([s, t])
        nothing = arcs[..., :0].sum(-1)  # zeros that depend on the scores and the tokens, for N = 1 too
        C_right, C_left = _Items(nothing), _Items(nothing)
        I_right, I_left = _Items(nothing), _Items(nothing)  # an arc has no width 0: these are not used
        for w in range(1, N):
            # join        C[i,k] ⊗ C[j,k+1]
            X = _soft_sum(C_right.by_start, C_left.by_end[::-1], w)
            # attach      X{i,j} ⊗ s[i,j]                    X{i,j} ⊗ s[j,i]
            I_right.append(w, X + arcs.diagonal(w, -2, -1))
            I_left.append(w, X + arcs.diagonal(-w, -2, -1))
            # complete    I[i,k] ⊗ C[k,j]                    C[k,i] ⊗ I[j,k]
            right = _soft_sum(I_right.by_start[1:], C_right.by_end[::-1], w)
            left = _soft_sum(C_left.by_start, I_left.by_end[:0:-1], w)
            C_right.append(w, right)
            C_left.append(w, left)
        goal = at_length([row[1, :, 0] for row in C_right.by_start], lengths)
        (A,) = torch.autograd.grad(goal.sum(), t, create_graph=differentiable)
        A = torch.where(possible, A, nothing[0].unsqueeze(-1))
    return (A if differentiable else A.detach()).to(result_dtype(scores.dtype))


def relaxed_gradient(scores: Tensor, lengths: Tensor, grad: Tensor, temperature: float) -> Tensor:
    """The gradient of Σ grad · A, [B, N, N]."""
    with torch.inference_mode(False), torch.enable_grad():
        s = scores.to(result_dtype(scores.dtype), copy=True).requires_grad_()
        return torch.autograd.grad(relaxed(s, lengths, temperature), s, grad.clone())[0]
