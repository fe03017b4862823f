"""The best tree: the inside pass over max, which stores the split index of each best term, and a walk along them."""

from torch import Tensor

from tritree.gpu.chart import BACKPOINTERS
from tritree.gpu.inside import run_inside
from tritree.gpu.semiring import MAX
from tritree.gpu.walk import walk


def viterbi(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """The best score [B] and its heads [B, N]."""
    best, chart = run_inside(scores, lengths, single_root, MAX, BACKPOINTERS)
    return best, walk(chart, lengths, 1, None)[0]
