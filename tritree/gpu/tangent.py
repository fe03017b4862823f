"""The derivative of the marginals along a direction: the Hessian of log Z times a vector.

Both passes, each number with its derivative (DUAL in semiring.py; outside.py). They are computed anew, because the
charts of the first derivative are not kept: they are large, and most are never needed again.
"""

from torch import Tensor

from tritree.gpu.chart import DERIVATIVES
from tritree.gpu.inside import run_inside
from tritree.gpu.outside import run_outside
from tritree.gpu.semiring import DUAL


def tangent(scores: Tensor, lengths: Tensor, direction: Tensor, single_root: bool) -> Tensor:
    """dμ(scores + t · direction) / dt at t = 0, [B, N, N]."""
    _, chart = run_inside(scores, lengths, single_root, DUAL, DERIVATIVES, direction)
    return run_outside(chart, lengths, DUAL)
