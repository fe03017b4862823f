"""The k best trees, in torch operations on the device: no kernel of its own, and no synchronisation.

All spans of a diagonal are computed at once. An item has the weights of its k best derivations, the best first and −inf
where there are fewer. A term of its sum is a split and a pair of derivations of the two factors. Of the pairs (l, r),
counted from 0, only those with (l + 1)(r + 1) ≤ k can be among the k best, because the (l + 1)(r + 1) − 1 pairs below
(l, r) come first: about k·ln k pairs. They are in the order that decides between equal weights (split, left, right),
and the sort is stable.

Then all trees are read at once. As in walk.py, a head has at most one item to expand on each side, and a round expands
all of them. With each item goes the rank of the derivation that the tree uses. There are as many rounds as words.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from tritree.conventions import live_arcs, result_dtype


def topk_by_sorting(scores: Tensor, lengths: Tensor, k: int, single_root: bool) -> tuple[Tensor, Tensor]:
    """The k best scores [B, k] and their heads [B, k, N]."""
    B, N, _ = scores.shape
    lengths = lengths.clamp(0, N - 1)  # a wrong length gives wrong results, but no access outside the tensors
    s = torch.where(live_arcs(lengths, N), scores, -torch.inf).to(result_dtype(scores.dtype))
    pairs = _Pairs(k, s.device)
    C, I = s.new_full((2, B, N, N, k), -torch.inf)
    chosen = _Chosen(*lengths.new_zeros((2, B, N, N, k)))
    C.diagonal(dim1=1, dim2=2)[:, 0] = 0
    for w in range(1, N):
        i = torch.arange(N - w, device=s.device)
        j, q = i + w, i[:, None] + torch.arange(w, device=s.device)
        # join        X{i,j} = ⊕ i≤q<j  C[i,q] ⊗ C[j,q+1]
        terms = pairs.weights(C[:, i[:, None], q], C[:, j[:, None], q + 1])
        if single_root:
            terms[:, 0, 1:] = -torch.inf
        X, chosen.join[:, i, j] = pairs.best(terms)
        # attach      I[h,m] = X{h,m} ⊗ s[h,m]
        I[:, i, j] = X + s[:, i, j].unsqueeze(-1)
        I[:, j, i] = X + s[:, j, i].unsqueeze(-1)
        # complete    C[h,m] = ⊕ q from h to m  I[h,q] ⊗ C[q,m]
        C[:, i, j], chosen.complete[:, i, j] = pairs.best(
            pairs.weights(I[:, i[:, None], q + 1], C[:, q + 1, j[:, None]])
        )
        C[:, j, i], chosen.complete[:, j, i] = pairs.best(pairs.weights(I[:, j[:, None], q], C[:, q, i[:, None]]))
    best = C[torch.arange(B, device=s.device), 0, lengths]
    return best, _read_trees(chosen, pairs, best > -torch.inf, lengths)


class _Chosen(NamedTuple):
    """For each derivation of X{i,j} and C[h,m] the position of its split and pair among all terms."""

    join: Tensor
    complete: Tensor


class _Pairs:
    """The pairs (left, right) of derivations, in order."""

    def __init__(self, k: int, device: torch.device):
        self.k = k
        counts = [k // (left + 1) for left in range(k)]
        self.left = torch.cat([torch.full((count,), left, device=device) for left, count in enumerate(counts)])
        self.right = torch.cat([torch.arange(count, device=device) for count in counts])

    def weights(self, a: Tensor, b: Tensor) -> Tensor:
        """The weights of all pairs: from [B, spans, splits, k] twice to [B, spans, splits, pairs]."""
        return a[..., self.left] + b[..., self.right]

    def best(self, terms: Tensor) -> tuple[Tensor, Tensor]:
        """The k largest of a span's terms [B, spans, splits, pairs], and their positions."""
        weights, positions = terms.flatten(2).sort(dim=-1, descending=True, stable=True)
        return weights[..., : self.k], positions[..., : self.k]

    def split(self, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The split, counted from 0, and the pair at a position."""
        pair = position % self.left.numel()
        return position // self.left.numel(), self.left[pair], self.right[pair]


def _read_trees(chosen: _Chosen, pairs: _Pairs, possible: Tensor, lengths: Tensor) -> Tensor:
    """Heads [B, k, N] of the derivations of the goals.

    The items to expand are in lanes, [B, k, 2, N]: C[h, end] of the rank `rank`, to the right of h in the first row and
    to the left in the second. If the end is h, there is none. One more lane, `nowhere`, takes what must not be written.
    """
    B, k = possible.shape
    N, device = chosen.join.shape[1], possible.device
    b = torch.arange(B, device=device)[:, None, None, None]
    nowhere = N
    h = torch.arange(N, device=device).expand(B, k, 2, N)
    is_right = torch.arange(2, device=device)[:, None] == 0
    end = torch.arange(N + 1, device=device).repeat(B, k, 2, 1)
    end[:, :, 0, 0] = torch.where(possible, lengths[:, None], 0)
    rank = torch.zeros_like(end)
    rank[:, :, 0, 0] = torch.arange(k, device=device)
    heads = torch.full((B, k, N + 1), -1, device=device)
    for _ in range(N - 1):
        m, m_rank = end[..., :N].clone(), rank[..., :N]
        expanded = m != h
        # C[h,m] = ⊕ I[h,q] ⊗ C[q,m]
        split, of_arc, of_rest = pairs.split(chosen.complete[b, h, m, m_rank])
        q = torch.minimum(h, m) + split + is_right
        i, j = torch.minimum(h, q), torch.maximum(h, q)
        # X{i,j} = ⊕ C[i,r] ⊗ C[j,r+1]
        split, of_left, of_right = pairs.split(chosen.join[b, i, j.clamp(max=N - 1), of_arc])
        r = i + split
        word = torch.where(expanded, q, nowhere)
        heads.scatter_(2, word.flatten(2), h.flatten(2))
        # What remains: an item of h on the same side, and one of the word q on each side.
        end[..., :N] = torch.where(expanded, torch.where(is_right, r, r + 1), h)
        rank[..., :N] = torch.where(is_right, of_left, of_right)
        end.scatter_(3, word, m)
        rank.scatter_(3, word, of_rest)
        end.scatter_(3, word.flip(2), torch.where(is_right, r + 1, r).flip(2))
        rank.scatter_(3, word.flip(2), torch.where(is_right, of_right, of_left).flip(2))
    return heads[..., :N].contiguous()
