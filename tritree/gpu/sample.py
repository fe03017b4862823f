"""Exact samples: the inside pass, and walks that draw each term with the probability of its share of the sum.

The random numbers come from a counter, not from a state: Philox-4x32-10 with the seed as its key and, for the expansion
of C[h,m] of sentence b in sample s, the counter (h << 16 | m, b, s, 0). Two of the four words choose k, two choose q.
So a sample does not depend on the order of the work, and all backends use the same random bits.
"""

from torch import Tensor

from tritree.gpu.chart import STATES
from tritree.gpu.inside import run_inside
from tritree.gpu.semiring import LOG
from tritree.gpu.walk import walk


def sample(scores: Tensor, lengths: Tensor, seed: Tensor, num_samples: int, single_root: bool) -> Tensor:
    """Heads [num_samples, B, N]."""
    _, chart = run_inside(scores, lengths, single_root, LOG, STATES)
    return walk(chart, lengths, num_samples, seed)
