"""⊕ and ⊗: all that differs between logsumexp, its derivative, max, and the means of the relaxed tree.

A weight is a pair: a number, and its derivative where the semiring has one. ⊕ adds its terms to a state, one by one.

LOG    weights are base-2 logarithms. The state of a sum is (m, rest): m is the largest term so far, and
       rest = Σ 2^(x−m) over the other terms x, so the value is m + log2(1 + rest). A new term costs one exp2,
       scale = 2^−|x−m|. If x ≤ m, the rest becomes rest + scale. Else x is the new m, and the rest becomes
       (1 + rest) · scale. A sum without terms has rest = −1.
DUAL   LOG, and each weight has the derivative of its natural logarithm along a direction. The state has also
       t = Σ 2^(x−m) dx over all terms; the derivative of the value is the mean t / (1 + rest).
MAX    weights are scores as they are. The state is the best term and its split index k; the smallest k wins ties.
MEAN   weights are the values V of tritree/relaxed.py, in units of temperature · ln 2. ⊕ is the mean of its terms x, in
       which each counts 2^x. The state is that of LOG and t = Σ 2^(x−m) (x − m), the value m + t / (1 + rest).
MEANS  MEAN, and each weight has its D (relaxed.py) in the place of a derivative. Their mean is taken in the same way:
       the state has also u = Σ 2^(x−m) d, and the mean is u / (1 + rest).

m starts at a finite number below all weights. So x − m is never inf − inf, and a sum without possible terms ends with
m finite and 1 + rest = 0.
"""

import triton
import triton.language as tl

LOG, DUAL, MAX, MEAN, MEANS = (tl.constexpr(semiring) for semiring in range(5))
INF = tl.constexpr(float("inf"))
PROPAGATE = tl.constexpr(tl.PropagateNan.ALL)


@triton.constexpr_function
def lowest(dtype):
    """A number below all finite weights: those are above half of it (inside.py)."""
    return -(2.0**1023) if dtype == tl.float64 else -(2.0**127)


@triton.constexpr_function
def is_mean(semiring):
    return semiring in (MEAN.value, MEANS.value)


@triton.constexpr_function
def is_pair(semiring):
    """Whether a weight has a second number."""
    return semiring in (DUAL.value, MEANS.value)


@triton.constexpr_function
def is_short(semiring):
    """Whether the state of a sum has two numbers, and no more."""
    return semiring in (LOG.value, MAX.value)


@triton.jit
def zero(BLOCK: tl.constexpr, dtype: tl.constexpr, SEMIRING: tl.constexpr):
    """The state of a sum without terms."""
    if SEMIRING == LOG:
        return tl.full([BLOCK], lowest(dtype), dtype), tl.full([BLOCK], -1.0, dtype)
    elif SEMIRING == DUAL:
        return tl.full([BLOCK], lowest(dtype), dtype), tl.full([BLOCK], -1.0, dtype), tl.zeros([BLOCK], dtype)
    elif SEMIRING == MAX:
        return tl.full([BLOCK], -INF, dtype), tl.full([BLOCK], -1, tl.int32)
    else:
        zeros = tl.zeros([BLOCK], dtype)
        return tl.full([BLOCK], lowest(dtype), dtype), tl.full([BLOCK], -1.0, dtype), zeros, zeros


@triton.jit
def plus(state, term, k, SEMIRING: tl.constexpr, RISING: tl.constexpr = True):
    """The state with one more term, of split index k. k is larger than all before, unless RISING is false."""
    m, x = state[0], term[0]
    larger = x > m
    if SEMIRING == MAX:
        if not RISING:  # else the first of equal terms has the smallest k
            larger |= (x == m) & (k < state[1])
        return tl.maximum(m, x, PROPAGATE), tl.where(larger, k, state[1])
    else:
        scale = tl.exp2(-tl.abs(x - m))
        old = tl.where(larger, scale, 1.0)
        top, rest = tl.maximum(m, x), state[1] * old + scale
        new = tl.where(larger, 1.0, scale)
        if SEMIRING == LOG:
            return top, rest
        elif SEMIRING == DUAL:
            return top, rest, state[2] * old + term[1] * new
        else:
            # Beside m, the other terms are lower by x − m if x is the new m. Where that is far, scale is 0.
            lower = scale * tl.minimum(tl.abs(x - m), 2048.0) * tl.where(larger, 1.0 + state[1], 1.0)
            return top, rest, state[2] * old - lower, state[3] * old + term[1] * new


@triton.jit
def log2(a):
    """log2 a, for a = 0 or a ≥ 1: exact for powers of two, else within 2^-22 for float32, as the inputs' rounding.

    The bits of a float32, as a number, are its exponent and mantissa: y ≤ log2 a ≤ y + 0.087. The rest is the logarithm
    of a · 2^−y = 1 + d. That takes 11 instructions; tl.log2, which knows more numbers, takes 29 on NVIDIA's GPUs.
    """
    if a.dtype == tl.float64:
        return tl.log2(a)
    else:
        y = (a.to(tl.int32, bitcast=True) - 0x3F800000).to(tl.float32) * 2.0**-23
        d = a * tl.exp2(-y) - 1.0
        return tl.where(a == 0.0, -INF, y + d * (1.4426812 + d * (-0.7199613 + d * 0.4410577)))


@triton.jit
def value(state, SEMIRING: tl.constexpr):
    """The weight of a finished sum."""
    if SEMIRING == LOG:
        return state[0] + log2(1.0 + state[1]), 0.0
    elif SEMIRING == DUAL:
        a = 1.0 + state[1]
        return state[0] + log2(a), tl.where(a == 0.0, 0.0, state[2] / a)
    elif SEMIRING == MAX:
        return state[0], 0.0
    else:
        none = state[1] == -1.0
        return tl.where(none, -INF, state[0] + mean(state)), tl.where(none, 0.0, state[3] / (1.0 + state[1]))


@triton.jit
def mean(state):
    """That of x − m over the terms x of MEAN: 0 or less."""
    return tl.where(state[1] == -1.0, 0.0, state[2] / (1.0 + state[1]))


@triton.jit
def kept(state, SEMIRING: tl.constexpr):
    """What a chart stores of a finished sum besides m: a = Σ 2^(x−m) or, for MAX, the split index."""
    return state[1] if SEMIRING == MAX else 1.0 + state[1]


@triton.jit
def times(x, y, SEMIRING: tl.constexpr):
    if is_pair(SEMIRING):
        return x[0] + y[0], x[1] + y[1]
    else:
        return x[0] + y[0], 0.0
