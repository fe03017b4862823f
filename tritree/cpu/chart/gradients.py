"""What the outside pass does with numbers (numbers.py).

The gradient of log Z for an item P is kept relative to P's own exponent: g(P) = value · 2^−e_P. Then the
posterior probability of P is value(g) · value(P), so value(g) needs no exponent of its own: gradients are Linear (or
Dual) for all charts, and what underflows in one is a probability below 2^−1022. Since every P hands on its own
probability in shares term / P, no probability exceeds 1 by more than rounding, whatever the size of the scores.

For Max, g(P) is the score of the best tree around P, without P itself: what is a product elsewhere is a sum here, and a
sum a maximum. The "marginal" of an arc is then the score of the best tree that has it.
"""

from tritree.cpu.chart.numbers import MINUS_INF, Dual, Linear, Max, Scaled, ScaledDual, for_kind, generic
from tritree.cpu.simd import vector
from tritree.cpu.simd.exp import pow2
from tritree.cpu.simd.vector import fma, full, maximum, select


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
def no_gradient(x):
    """The gradient 0."""


@for_kind(no_gradient, Max)
def _(x):
    return Max(full(x.value, MINUS_INF))


@for_kind(no_gradient, Linear, Scaled)
def _(x):
    return Linear(full(x.value, 0.0))


@for_kind(no_gradient, Dual, ScaledDual)
def _(x):
    return Dual(full(x.value, 0.0), full(x.value, 0.0))


@generic
def gather(x, g, P, gP, p, step_p, B, b, step_b, count):
    """g + Σ gP[p + k·step_p] · B[b + k·step_b] over k < count, in increasing order of k.

    This is what item x receives from items P[p + k·step_p], each of which has the term x ⊗ B[b + k·step_b].
    """


@for_kind(gather, Max)
def _(x, g, P, gP, p, step_p, B, b, step_b, count):
    best = g.value
    for _ in range(count):
        best = maximum(vector.load(gP.value, p) + vector.load(B.value, b), best)
        p += step_p
        b += step_b
    return Max(best)


@for_kind(gather, Linear)
def _(x, g, P, gP, p, step_p, B, b, step_b, count):
    total = g.value
    for _ in range(count):
        total = fma(vector.load(gP.value, p), vector.load(B.value, b), total)
        p += step_p
        b += step_b
    return Linear(total)


@for_kind(gather, Dual)
def _(x, g, P, gP, p, step_p, B, b, step_b, count):
    total = g.value
    tangent = g.tangent
    for _ in range(count):
        f = vector.load(gP.value, p)
        y = vector.load(B.value, b)
        total = fma(f, y, total)
        tangent = fma(vector.load(gP.tangent, p), y, fma(f, vector.load(B.tangent, b), tangent))
        p += step_p
        b += step_b
    return Dual(total, tangent)


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


@generic
def through(g, x):
    """The gradient of y from the gradient g of the product x ⊗ y."""


@for_kind(through, Max)
def _(g, x):
    return Max(g.value + x.value)


@for_kind(through, Linear)
def _(g, x):
    return Linear(g.value * x.value)


@for_kind(through, Dual)
def _(g, x):
    return Dual(g.value * x.value, fma(g.value, x.tangent, g.tangent * x.value))
