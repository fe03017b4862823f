"""Labels of arcs: P(l | h, m), from the two ends of the arc alone. The tree is chosen first.

An arc from ROOT is `root` and no other arc is, so `root` is never predicted: the networks here know the labels from
FIRST on, those that other arcs have in the trees.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad

from parsers.data.noise import Noise, dropout
from parsers.data.vocabulary import ROOT, SPECIAL, UNKNOWN
from parsers.networks.device import float32_on_cpu

FIRST = len(SPECIAL)


class Labeler(nn.Module):
    """A biaffine classifier (Dozat & Manning 2017) of the states of head and modifier.

    log P(l | h, m) = [r_h; 1]ᵀ U_l [r_m; 1] + const,  r = leaky ReLU of a linear function of the state
    """

    def __init__(self, size: int, hidden: int, num_labels: int, per_sentence: bool = False):
        super().__init__()
        self.per_sentence = per_sentence  # dropout
        self.head = nn.Linear(size, hidden)
        self.modifier = nn.Linear(size, hidden)
        self.weight = nn.Parameter(torch.zeros(num_labels - FIRST, hidden + 1, hidden + 1))  # U

    def forward(self, states: Tensor, heads: Tensor, p: float = 0.0, noise: Noise | None = None) -> Tensor:
        """States [B, N, size], heads [B, N] → log P of each label of each word's arc, [B, N, labels]."""
        o = dropout(states, p, noise, self.per_sentence)
        with float32_on_cpu(o.device):
            if not o.is_cuda:
                o = o.to(torch.promote_types(o.dtype, torch.float32))
            r_h, r_m = (pad(leaky_relu(layer(o), 0.1), (0, 1), value=1.0) for layer in (self.head, self.modifier))
            r_h = r_h.gather(1, heads.clamp(0).unsqueeze(2).expand(r_h.shape))
            scores = torch.einsum("bmi,lij,bmj->bml", r_h, self.weight.to(r_h.dtype), r_m)
        return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(-1)


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
