"""The reference backend: the rules over semirings, in plain torch on any device. To be read and compared with.

Marginals are the gradient of the log partition, taken by autograd over the chart, and max-marginals are the scores of
the best trees of constrained sentences. There is no outside pass here, so agreement with the kernels checks theirs.
The relaxed tree is in relaxed.py.
"""

import torch
from torch import Tensor

from tritree import rules
from tritree.conventions import live_arcs, result_dtype
from tritree.relaxed import relaxed as relaxed
from tritree.relaxed import relaxed_gradient as relaxed_gradient
from tritree.rules import at_length
from tritree.semirings import Best, Draw, KBest, LogSum


def _possible(scores: Tensor, lengths: Tensor) -> Tensor:
    return live_arcs(lengths, scores.shape[-1]) & (scores != -torch.inf)


def _mask(scores: Tensor, lengths: Tensor) -> Tensor:
    """−inf in dead cells. A score of −inf becomes a constant, too: its gradient is 0, whatever is multiplied by it."""
    return torch.where(_possible(scores, lengths), scores, -torch.inf)


def inside(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    s = _mask(scores, lengths).double()
    return at_length(rules.inside(s, LogSum(s), single_root), lengths)


def inside_outside(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    differentiable = torch.is_grad_enabled() and scores.requires_grad
    with torch.enable_grad():
        s = scores.double() if differentiable else scores.detach().double().requires_grad_()
        log_z = inside(s, lengths, single_root)
        (marginals,) = torch.autograd.grad(log_z.sum(), s, create_graph=differentiable)
        nothing = s[:, :, :0].sum(-1, keepdim=True)  # zeros that make the marginals of N = 1 depend on the scores
        marginals = torch.where(_possible(scores, lengths), marginals, nothing)
    if not differentiable:
        log_z, marginals = log_z.detach(), marginals.detach()
    return log_z, marginals.to(result_dtype(scores.dtype))


def tangent(scores: Tensor, lengths: Tensor, direction: Tensor, single_root: bool) -> Tensor:
    """The Hessian of log Z is symmetric: its product with the direction is the gradient of Σ μ · direction."""
    with torch.inference_mode(False), torch.enable_grad():
        s = scores.to(result_dtype(scores.dtype), copy=True).requires_grad_()
        _, marginals = inside_outside(s, lengths.clone(), single_root)
        return torch.autograd.grad(marginals, s, direction.clone())[0]


def viterbi(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    s = _mask(scores, lengths).to(result_dtype(scores.dtype))
    goals = rules.inside(s, Best(s), single_root)
    best = at_length([weight for weight, _ in goals], lengths)
    heads = at_length([heads for _, heads in goals], lengths)
    return best, torch.where((best == -torch.inf)[:, None], -1, heads)


def topk(scores: Tensor, lengths: Tensor, k: int, single_root: bool) -> tuple[Tensor, Tensor]:
    s = _mask(scores, lengths).to(result_dtype(scores.dtype))
    goals = rules.inside(s, KBest(s, k), single_root)
    best = at_length([weights for weights, _ in goals], lengths)
    heads = at_length([heads for _, heads in goals], lengths)
    return best, torch.where((best == -torch.inf).unsqueeze(-1), -1, heads)


def max_marginals(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """For each word m and each head h the best tree of the sentence in which m has no other head."""
    s = _mask(scores, lengths).to(result_dtype(scores.dtype))
    B, N, _ = s.shape
    result = torch.full_like(s, -torch.inf)
    live = live_arcs(lengths, N)
    for m in range(1, N):
        only = torch.where(torch.eye(N, dtype=torch.bool, device=s.device), s[:, None, :, m], -torch.inf)
        constrained = s.repeat_interleave(N, 0)  # sentence b · N + h is for the arc h → m
        constrained[:, :, m] = only.flatten(0, 1)
        best, _ = viterbi(constrained, lengths.repeat_interleave(N), single_root)
        result[:, :, m] = torch.where(live[:, :, m], best.view(B, N), -torch.inf)
    return result


def sample(scores: Tensor, lengths: Tensor, seed: Tensor, num_samples: int, single_root: bool) -> Tensor:
    s = _mask(scores, lengths).double()
    generator = torch.Generator(s.device).manual_seed(int(seed))
    draws = []
    for _ in range(num_samples):
        goals = rules.inside(s, Draw(s, generator), single_root)
        log_z = at_length([weight for weight, _ in goals], lengths)
        heads = at_length([heads for _, heads in goals], lengths)
        draws.append(torch.where((log_z == -torch.inf)[:, None], -1, heads))
    return torch.stack(draws) if draws else lengths.new_empty((0, *scores.shape[:2]))
