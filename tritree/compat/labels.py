"""Labels on arcs, for potentials [B, N, N, L].

A labelled tree is a tree and a label for each of its arcs. Given the tree, the labels are independent of each other. So
trees are scored with the logsumexp of each arc's labels, and the best trees with the best label of each arc.
"""

import torch
from torch import Tensor


def log_sum(potentials: Tensor) -> Tensor:
    """Log of the summed weights of an arc's labels, [B, N, N]; −inf, with gradient 0, where all are forbidden."""
    forbidden = (potentials == -torch.inf).all(-1)
    return _some_allowed(potentials).logsumexp(-1).masked_fill(forbidden, -torch.inf)


def tree_scores(potentials: Tensor) -> tuple[Tensor, Tensor]:
    """Arc scores [B, N, N] under which a tree weighs as much as its labellings, up to a constant, and that constant.

    The constant is [B], in float64: the sum over the words of the best potential of an arc into the word. With it taken
    out, probable arcs have scores near 0, which lose nothing to rounding when the potentials are large.
    """
    best = potentials.detach().amax(-1)
    best = torch.cat([best, best.new_full((len(best), 1, best.shape[2]), -torch.inf)], 1).amax(1)  # N may be 0
    best = torch.where(best == -torch.inf, 0, best)
    return log_sum(potentials - best[:, None, :, None]), best.double().sum(-1)


def shares(potentials: Tensor) -> Tensor:
    """The probability of each label of an arc, [B, N, N, L]; where all labels are forbidden, something finite."""
    return _some_allowed(potentials).softmax(-1)


def cross_entropy(marginals: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """The part of the labels in the cross-entropy, [B] in float64: Σ μ · H(p's labels of an arc, q's labels of it).

    From the marginals of p's arcs and the potentials of both. Labels that q forbids count as 0 here.
    """
    log_q = _some_allowed(q.double()).log_softmax(-1).masked_fill(q == -torch.inf, 0)
    return -(marginals * (shares(p.double()) * log_q).sum(-1)).sum((-1, -2))


def k_best(best: Tensor, heads: Tensor, potentials: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The k best labelled trees, from the k best trees under the best labels.

    These trees are enough: if a labelled tree is among the k best, fewer than k trees have a better labelling. No more
    than k labellings are needed of each tree; they are found word by word.

    Args:
        best: ``[B, k]``, the trees' scores; −inf where there are fewer.
        heads: ``[B, k, N]``, their heads as indices of ``potentials``; −1 for no head.
        potentials: ``[B, N, N, L]``.

    Returns:
        Scores ``[B, k]``, heads ``[B, k, N]`` and labels ``[B, k, N]``.
    """
    (B, k, N), L = heads.shape, potentials.shape[-1]
    at_head = heads.clamp(min=0)[:, :, None, :, None].expand(-1, -1, 1, -1, L)
    by_label = potentials.unsqueeze(1).expand(-1, k, -1, -1, -1).gather(2, at_head).squeeze(2)  # [B, k, N, L]
    only_first = torch.where(torch.arange(L, device=heads.device) == 0, 0, -torch.inf)
    by_label = torch.where(heads.unsqueeze(-1) < 0, only_first, by_label)

    total = torch.where(best == -torch.inf, -torch.inf, 0).to(potentials.dtype).unsqueeze(-1)  # [B, k, labellings]
    labels = heads.new_empty(B, k, 1, 0)
    for m in range(N):
        total, choice = (total.unsqueeze(-1) + by_label[:, :, None, m]).flatten(-2).topk(min(k, total.shape[-1] * L))
        before = (choice // L).unsqueeze(-1).expand(-1, -1, -1, m)
        labels = torch.cat([labels.gather(2, before), (choice % L).unsqueeze(-1)], -1)

    labellings = total.shape[-1]
    total, choice = total.flatten(1).topk(k)
    heads = heads.gather(1, (choice // labellings).unsqueeze(-1).expand(-1, -1, N))
    labels = labels.flatten(1, 2).gather(1, choice.unsqueeze(-1).expand(-1, -1, N))
    return total, heads.where(total.unsqueeze(-1) > -torch.inf, -1), labels


def _some_allowed(potentials: Tensor) -> Tensor:
    """The potentials, with 0 for all labels of an arc that has no allowed one: its softmax is then finite."""
    return potentials.masked_fill((potentials == -torch.inf).all(-1, keepdim=True), 0)
