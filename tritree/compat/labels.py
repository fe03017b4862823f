"""Labels on arcs, for potentials [B, N, N, L].

A labelled tree is a tree whose arcs score what their labels sum up to (among the best trees: what their best label
does), and for each of its arcs a label, independent of all else.
"""

import torch
from torch import Tensor


def log_sum(potentials: Tensor) -> Tensor:
    """Log of the summed weights of an arc's labels, [B, N, N]; −inf, with gradient 0, where all are forbidden."""
    forbidden = (potentials == -torch.inf).all(-1)
    total = potentials.masked_fill(forbidden.unsqueeze(-1), 0).logsumexp(-1)
    return total.masked_fill(forbidden, -torch.inf)


def shares(potentials: Tensor) -> Tensor:
    """The probability of each label of an arc, [B, N, N, L]; where all labels are forbidden, something finite."""
    forbidden = (potentials == -torch.inf).all(-1, keepdim=True)
    return potentials.masked_fill(forbidden, 0).softmax(-1)


def cross_entropy(marginals: Tensor, potentials: Tensor, log_z: Tensor) -> Tensor:
    """log Z_q − Σ μ_p · φ_q in float64, [B]: p by its labelled marginals, q by its potentials and log partition."""
    used = marginals > 0
    forbidden = used & (potentials == -torch.inf)
    expected = marginals.double() * torch.where(used & ~forbidden, potentials, 0)
    value = log_z.double() - expected.sum((-1, -2, -3))
    value = torch.where(forbidden.flatten(1).any(-1) | (log_z == -torch.inf), torch.inf, value)
    return torch.where(used.flatten(1).any(-1), value, 0)


def k_best(best: Tensor, heads: Tensor, potentials: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The k best labelled trees, from the k best trees under the best labels.

    They are enough: each tree that is better than that of some labelled tree has a labelling that is better, too. And
    of one tree no more than k labellings are needed, which are found word by word.

    Args:
        best: ``[B, k]``, the trees' scores; −inf where there are fewer.
        heads: ``[B, k, N]``, where in ``potentials`` the head of a word is; −1 for no head.
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
