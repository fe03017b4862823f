"""Labels of arcs: P(l | h, m), from the two ends of the arc alone. The tree is chosen first.

An arc from ROOT is `root` and no other arc is, so `root` is never predicted: the networks here know the labels from
FIRST on, those that other arcs have in the trees.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad

from parsers.data.batches import Batch
from parsers.data.noise import Noise, dropout
from parsers.data.vocabulary import ROOT, SPECIAL, UNKNOWN

FIRST = len(SPECIAL)
BINS = (1, 2, 3, 4, 5, 10)  # lengths of arcs: 1, …, 5, 6–10, more
MAX_ROWS = 65_521  # a prime: with hundreds of tags there are more features, which then share weights at random


class Labeler(nn.Module):
    """A biaffine classifier (Dozat & Manning 2017) of the states of head and modifier.

    log P(l | h, m) = [r_h; 1]ᵀ U_l [r_m; 1] + const,  r = leaky ReLU of a linear function of the state
    """

    def __init__(self, size: int, hidden: int, num_labels: int):
        super().__init__()
        self.head = nn.Linear(size, hidden)
        self.modifier = nn.Linear(size, hidden)
        self.weight = nn.Parameter(torch.zeros(num_labels - FIRST, hidden + 1, hidden + 1))  # U

    def forward(self, states: Tensor, heads: Tensor, p: float = 0.0, noise: Noise | None = None) -> Tensor:
        """States [B, N, size], heads [B, N] → log P of each label of each word's arc, [B, N, labels]."""
        o = dropout(states, p, noise)
        r_h, r_m = (pad(leaky_relu(layer(o), 0.1), (0, 1), value=1.0) for layer in (self.head, self.modifier))
        r_h = r_h.gather(1, heads.clamp(0).unsqueeze(2).expand(r_h.shape))
        scores = torch.einsum("bmi,lij,bmj->bml", r_h, self.weight.to(r_h.dtype), r_m)
        return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(-1)


class TagLabeler(nn.Module):
    """A linear classifier of the tags at both ends and beside them, each with the arc's direction and its length."""

    def __init__(self, num_tags: int, num_labels: int):
        super().__init__()
        self.num_tags = num_tags + 1  # one more tag, for positions outside of the sentence
        num_rows = (5 * self.num_tags**2 + (len(BINS) + 1) * self.num_tags) * 2
        self.weight = nn.Parameter(torch.zeros(min(num_rows, MAX_ROWS), num_labels - FIRST))

    def forward(self, batch: Batch, heads: Tensor) -> Tensor:
        """Heads [B, N] → log P of each label of each word's arc, [B, N, labels]."""
        T, outside = self.num_tags, self.num_tags - 1
        t = pad(torch.where(batch.is_token, batch.pos, outside), (1, 1), value=outside)  # t[k + 1] is the tag at k
        m = torch.arange(batch.N, device=batch.device).expand(heads.shape)
        h = heads.clamp(0)
        before_m, t_m, after_m = (t.gather(1, m + k) for k in range(3))
        before_h, t_h, after_h = (t.gather(1, h + k) for k in range(3))
        pairs = (t_h, t_m), (t_m, before_m), (t_m, after_m), (t_h, before_h), (t_h, after_h)
        features = [(k * T + a) * T + b for k, (a, b) in enumerate(pairs)]
        length = torch.bucketize((m - h).abs(), torch.tensor(BINS, device=batch.device))
        features.append(len(pairs) * T**2 + length * T + t_m)
        rows = torch.stack(features, -1) * 2 + (m > h).long().unsqueeze(-1)
        return self.weight[rows % len(self.weight)].sum(2).log_softmax(-1)


def label_loss(log_p: Tensor, heads: Tensor, labels: Tensor) -> Tensor:
    """−Σ log P(l | h, m) of given labels [B, N], [B]; arcs from ROOT and unknown labels do not count."""
    counts = (heads > 0) & (labels >= FIRST)
    return -torch.where(counts, log_p.gather(2, (labels - FIRST).clamp(0).unsqueeze(2)).squeeze(2), 0).sum(1)


def best_labels(log_p: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable label of each word's arc and its probability, [B, N] each; ROOT, which is certain, for arcs
    from ROOT, and UNKNOWN at position 0 and in the padding."""
    value, label = log_p.max(-1)
    label = torch.where(heads > 0, label + FIRST, torch.where(heads == 0, ROOT, UNKNOWN))
    return label, torch.where(heads > 0, value.exp(), 1.0)
