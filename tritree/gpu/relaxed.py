"""The relaxed tree (tritree/relaxed.py) and its gradient.

Forward, the inside pass gives every item its value V, and keeps of every sum what its shares need: b_k = 2^(x−m) / a.
The outside pass is that of log Z: the expected counts of items, with these shares, are their contributions, and those
of the arcs are A.

The gradient of Σ A ∂A, where ∂A is given, is that of D(C[0,n]): D is what an item is expected to hold of ∂A.

    axiom      D(C[h,h]) = 0
    join       D(X{i,j}) = Σ b_k d_k                  d_k = D(C[i,k]) + D(C[j,k+1])
    attach     D(I[h,m]) = D(X{h,m}) + ∂A[h,m]
    complete   D(C[h,m]) = Σ b_k d_k                  d_k = D(I[h,k]) + D(C[k,m])

The inside pass computes V and D side by side. The outside pass is its reverse: the derivative for D is the
contribution, that for V follows from both (outside.py). Nothing is kept of the forward call but the scores.

As in all passes, only differences within a column of scores matter, and within a column of ∂A.
"""

import math
import sys

from torch import Tensor

from tritree.conventions import result_dtype
from tritree.gpu.chart import MEANS_KEPT, STATES
from tritree.gpu.inside import run_inside
from tritree.gpu.outside import run_outside
from tritree.gpu.semiring import LOG, MEAN, MEANS


def relaxed(scores: Tensor, lengths: Tensor, temperature: float) -> Tensor:
    """A [B, N, N]."""
    _, chart = run_inside(scores, lengths, False, MEAN, STATES, unit=_unit(scores, temperature))
    return run_outside(chart, lengths, LOG)


def relaxed_gradient(scores: Tensor, lengths: Tensor, grad: Tensor, temperature: float) -> Tensor:
    """The gradient of Σ grad · A, [B, N, N]."""
    _, chart = run_inside(scores, lengths, False, MEANS, MEANS_KEPT, grad, _unit(scores, temperature))
    return run_outside(chart, lengths, MEANS).div_(temperature)


def _unit(scores: Tensor, temperature: float) -> Tensor:
    """A score of 1 in the units of V. A tensor, because Triton makes every number float32."""
    unit = min(1 / (math.log(2) * temperature), sys.float_info.max)
    return scores.new_full((1,), unit, dtype=result_dtype(scores.dtype))
