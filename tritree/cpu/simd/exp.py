"""exp and powers of two on all lanes at once, written as LLVM instructions.

For vectors of float64. A double is sign, 11 bits of exponent (biased by 1023) and 52 bits of fraction.
"""

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tritree.cpu.simd.vector import Vector, all_lanes, call_llvm

# Adding 1.5 · 2^52 to a double of moderate size rounds it to an integer, which is then in the low bits of the sum.
_ROUND = 1.5 * 2.0**52
_BIAS = 1023
_FRACTION_BITS = 52
_LN2_HIGH, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17


def _is_float64(vector):
    return isinstance(vector, Vector) and vector.dtype == types.float64


def _bits(builder, lanes_value):
    return builder.bitcast(lanes_value, ir.VectorType(ir.IntType(64), lanes_value.type.count))


def _emit_pow2(builder, k):
    """2^k. k is clamped to −1023, and so is NaN: the biased exponent 0 without fraction bits is the number 0."""
    kind = k.type
    k = builder.select(builder.fcmp_ordered(">", k, all_lanes(kind, -_BIAS)), k, all_lanes(kind, -_BIAS))
    biased = _bits(builder, builder.fadd(k, all_lanes(kind, _ROUND + _BIAS)))
    return builder.bitcast(builder.shl(biased, all_lanes(biased.type, _FRACTION_BITS)), kind)


def _emit_rest(builder, x, k):
    """x − k ln 2, exact to the last place of x even where the two are almost equal."""
    r = call_llvm(builder, "fma", k, all_lanes(x.type, -_LN2_HIGH), x)
    return call_llvm(builder, "fma", k, all_lanes(x.type, -_LN2_LOW), r)


# exp(r) ≈ 1 + r + r² q(r), with q through exp at the Chebyshev points: off by less than 2e-17 for |r| ≤ ln 2 / 2.
_EXP_COEFFICIENTS = (
    1.0,
    1.0,
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662413,
    0.008333333333330062,
    0.0013888888917213717,
    0.00019841269863053618,
    2.4801521295954376e-05,
    2.7557268459997064e-06,
    2.7620088445409746e-07,
    2.510038549551032e-08,
)


def _emit_exp_near_0(builder, r):
    """exp(r) for |r| ≤ ln 2 / 2. exp(0) is 1 exactly.

    Terms are added in pairs, and the pairs by Horner's rule in r². Term by term, the chain of dependent instructions
    would be twice as long.
    """
    terms = [all_lanes(r.type, c) for c in _EXP_COEFFICIENTS]
    square = builder.fmul(r, r)
    pairs = zip(terms[::2], terms[1::2], strict=True)
    *lower, total = (call_llvm(builder, "fma", odd, r, even) for even, odd in pairs)
    for pair in reversed(lower):
        total = call_llvm(builder, "fma", total, square, pair)
    return total


@intrinsic
def pow2(typingctx, k):
    """2^k for integer-valued k up to 1023. Exactly 0 below the normal range and for NaN."""
    if not _is_float64(k):
        return None

    def emit(context, builder, signature, args):
        return _emit_pow2(builder, args[0])

    return k(k), emit


@intrinsic
def exponent(typingctx, x):
    """The k of x = m · 2^k with 1 ≤ m < 2, for positive normal x; −1023 for 0 and subnormals; 1024 for inf, NaN."""
    if not _is_float64(x):
        return None

    def emit(context, builder, signature, args):
        bits = _bits(builder, args[0])
        biased = builder.lshr(bits, all_lanes(bits.type, _FRACTION_BITS))
        # A small integer becomes a double if it is put in the fraction bits of 2^52 and 2^52 is subtracted.
        with_offset = builder.or_(biased, all_lanes(bits.type, (_BIAS + _FRACTION_BITS) << _FRACTION_BITS))
        with_offset = builder.bitcast(with_offset, args[0].type)
        return builder.fsub(with_offset, all_lanes(args[0].type, 2.0**_FRACTION_BITS + _BIAS))

    return x(x), emit


EXP_UNDERFLOW = -708.0  # a little above ln 2^-1022: no result is subnormal


@intrinsic
def exp(typingctx, x):
    """exp(x) to one unit in the last place, for x up to 709. Exactly 0 below EXP_UNDERFLOW; NaN for NaN and +inf."""
    if not _is_float64(x):
        return None

    def emit(context, builder, signature, args):
        (x,), kind = args, args[0].type
        offset = all_lanes(kind, _ROUND + _BIAS)
        biased = call_llvm(builder, "fma", x, all_lanes(kind, 1 / math.log(2)), offset)
        value = _emit_exp_near_0(builder, _emit_rest(builder, x, builder.fsub(biased, offset)))
        bits = _bits(builder, biased)
        power = builder.bitcast(builder.shl(bits, all_lanes(bits.type, _FRACTION_BITS)), kind)
        too_low = builder.fcmp_ordered("<", x, all_lanes(kind, EXP_UNDERFLOW))
        return builder.select(too_low, all_lanes(kind, 0.0), builder.fmul(value, power))

    return x(x), emit


@intrinsic
def split_exp(typingctx, x):
    """exp(x) as (m, k), meaning m · 2^k: 1/√2 ≤ m ≤ √2 and k integer-valued, for any finite x.

    Past 2^52 the spacing of doubles is wider than ln 2 and r would be noise. It is clamped to its range, an error in
    the last place of x. −inf gives (0, −inf); NaN and +inf give (NaN, 0).
    """
    if not _is_float64(x):
        return None
    pair = types.UniTuple(x, 2)

    def emit(context, builder, signature, args):
        kind = args[0].type
        infinite = all_lanes(kind, -math.inf)
        half_ln2 = math.log(2) / 2
        k = call_llvm(builder, "rint", builder.fmul(args[0], all_lanes(kind, 1 / math.log(2))))
        r = _emit_rest(builder, args[0], k)
        for limit, side in ((half_ln2, ">"), (-half_ln2, "<")):
            limit = all_lanes(kind, limit)
            r = builder.select(builder.fcmp_ordered(side, r, limit), limit, r)
        m = _emit_exp_near_0(builder, r)
        is_zero = builder.fcmp_ordered("==", args[0], infinite)
        is_number = builder.fcmp_ordered("<", args[0], all_lanes(kind, math.inf))
        m = builder.select(is_zero, all_lanes(kind, 0.0), m)
        k = builder.select(is_number, k, all_lanes(kind, 0.0))
        return context.make_tuple(builder, signature.return_type, [m, k])

    return pair(x), emit
