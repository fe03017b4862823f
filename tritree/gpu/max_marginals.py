"""For each arc the score of the best tree that has it: both passes over max."""

import torch
from torch import Tensor

from tritree.gpu.chart import STATES
from tritree.gpu.inside import run_inside
from tritree.gpu.outside import run_outside
from tritree.gpu.semiring import MAX


def max_marginals(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """[B, N, N], −inf where no tree has the arc."""
    best, chart = run_inside(scores, lengths, single_root, MAX, STATES)
    relative = run_outside(chart, lengths, MAX)
    # best + relative would be NaN instead of −inf where the best score is NaN or +inf.
    return torch.where(relative == -torch.inf, -torch.inf, best[:, None, None] + relative)
