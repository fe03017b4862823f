"""What the outside pass adds to the arithmetic of numbers.py.

The gradient of log Z for an item P is kept relative to P's own exponent: g(P) = value · 2^−e_P. Then the posterior
probability of P is value(g) · value(P), so value(g) needs no exponent of its own. Gradients are Linear (or Dual) for
all charts, and what underflows in one is a probability below 2^−1022. Every P passes its own probability on to its
terms in shares term / P. So no probability exceeds 1 by more than rounding, whatever the size of the scores.

For Max, g(P) is the score of the best tree around P, without P itself: products become sums, and sums maxima. The
"marginal" of an arc is then the score of the best tree that has it.
"""

from tritree.cpu.chart.numbers import MINUS_INF, Dual, Linear, Max, Scaled, ScaledDual, add_products, for_kind, generic
from tritree.cpu.simd import vector
from tritree.cpu.simd.exp import pow2
from tritree.cpu.simd.vector import fma, full, select


@generic
def seed(x, is_goal):
    """The gradient of log Z for item x: 1 / x in the lanes where x is the goal and not zero, 0 in the others."""


@for_kind(seed, Max)
def _(x, is_goal):
    return Max(select(is_goal, full(x.value, 0.0), full(x.value, MINUS_INF)))


@for_kind(seed, Linear, Scaled)
def _(x, is_goal):
    zero = full(x.value, 0.0)
    inverse = full(x.value, 1.0) / x.value
    return Linear(select(is_goal, select(x.value == zero, zero, inverse), zero))


@for_kind(seed, Dual, ScaledDual)
def _(x, is_goal):
    zero = full(x.value, 0.0)
    inverse = select(x.value == zero, zero, full(x.value, 1.0) / x.value)
    tangent = zero - x.tangent * inverse * inverse
    return Dual(select(is_goal, inverse, zero), select(is_goal, tangent, zero))


@generic
def gather(x, g, P, gP, p, step_p, B, b, step_b, count):
    """g + Σ gP[p + k·step_p] · B[b + k·step_b] over k < count, in increasing order of k.

    This is what item x receives from items P[p + k·step_p], each of which has the term x ⊗ B[b + k·step_b].
    """


@for_kind(gather, Max, Linear, Dual)
def _(x, g, P, gP, p, step_p, B, b, step_b, count):
    return add_products(g, gP, p, step_p, B, b, step_b, count)


@for_kind(gather, Scaled)
def _(x, g, P, gP, p, step_p, B, b, step_b, count):
    total = g.value
    for _ in range(count):
        weight = pow2((vector.load(B.exponent, b) + x.exponent) - vector.load(P.exponent, p))
        total = fma(vector.load(gP.value, p), vector.load(B.value, b) * weight, total)
        p += step_p
        b += step_b
    return Linear(total)


@for_kind(gather, ScaledDual)
def _(x, g, P, gP, p, step_p, B, b, step_b, count):
    total = g.value
    tangent = g.tangent
    for _ in range(count):
        weight = pow2((vector.load(B.exponent, b) + x.exponent) - vector.load(P.exponent, p))
        f = vector.load(gP.value, p)
        y = vector.load(B.value, b) * weight
        total = fma(f, y, total)
        tangent = fma(vector.load(gP.tangent, p), y, fma(f, vector.load(B.tangent, b) * weight, tangent))
        p += step_p
        b += step_b
    return Dual(total, tangent)
