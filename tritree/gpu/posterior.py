"""log Z and the arc marginals."""

from torch import Tensor

from tritree.gpu.chart import STATES, WEIGHTS
from tritree.gpu.inside import run_inside
from tritree.gpu.outside import run_outside
from tritree.gpu.semiring import LOG


def inside(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """log Z [B], float64."""
    return run_inside(scores, lengths, single_root, LOG, WEIGHTS)[0]


def inside_outside(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """log Z [B], float64, and the marginals [B, N, N]."""
    log_z, chart = run_inside(scores, lengths, single_root, LOG, STATES)
    return log_z, run_outside(chart, lengths, LOG)
