"""A Numba type that is an LLVM vector.

The chart kernels run several sentences at once, one per SIMD lane. A loop over four lanes that hopes for the
vectoriser does not get there: it sees stores that may alias, wrap-around of negative indices, reference counts. So
the vector is made a value of the language:

    Vector(float64, 4)   is LLVM's  <4 x double>     one AVX register, or two NEON or SSE registers: LLVM sees to that
    Vector(float32, 8)   is LLVM's  <8 x float>

Both are 32 bytes; the element type decides. In compiled code

    a = load(pointer, k)                 # the lanes at pointer[k], pointer[k + 1], …; no alignment needed
    b = full(pointer, 1.0)               # all lanes equal; of the type that load(pointer, …) has
    c = fma(a, b, a * b + a)             # one instruction each: + − * / fma maximum absolute
    c = select(a < b, a, c)              # a comparison gives a Mask, a vector of single bits; & joins two
    store(pointer, k, c)

Three things make this work. `Vector` and `Mask` are the types that Numba's type inference passes around.
`PrimitiveModel` says that such a value is held in LLVM as it is, so that a variable becomes a register. And each
operation has two halves: a typing rule (types in, type out) and a few lines that emit LLVM instructions
(`builder.fadd(a, b)`). An `@intrinsic` holds both halves; for operators they are `type_callable` and `lower_builtin`.

Pointers are Numba's `CPointer`: `address(array)` gives one, `advance(pointer, k)` moves it, `pointer[k]` reads a
single element. Unlike arrays they carry no reference count, so they can be passed down to the innermost function and
kept in tuples for nothing. Whoever takes an address keeps the array alive, and nothing checks bounds: the arithmetic
on indices in this package is small on purpose.

Nothing here sets fast-math flags. a * b + c stays two roundings and NaN stays NaN; where one rounding is wanted the
code says fma.

exp, pow2 and exponent are written out below with the same builder; they are what the C library would do, on all lanes
at once.
"""

import math
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

VECTOR_BYTES = 32
_i32, _i64 = ir.IntType(32), ir.IntType(64)


class Vector(types.Type):
    def __init__(self, dtype):
        self.dtype = dtype
        self.lanes = VECTOR_BYTES * 8 // dtype.bitwidth
        super().__init__(name=f"Vector({dtype}, {self.lanes})")


class Mask(types.Type):
    def __init__(self, lanes):
        self.lanes = lanes
        super().__init__(name=f"Mask({lanes})")


def _llvm(vector):
    element = ir.DoubleType() if vector.dtype == types.float64 else ir.FloatType()
    return ir.VectorType(element, vector.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, _llvm(vector))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager, mask):
        super().__init__(manager, mask, ir.VectorType(ir.IntType(1), mask.lanes))


def _vector_at(pointer):
    """The type of the vectors behind a pointer, or None: then Numba reports that the arguments do not fit."""
    if isinstance(pointer, types.CPointer) and pointer.dtype in (types.float32, types.float64):
        return Vector(pointer.dtype)
    return None


def _all_lanes(vector_type, value):
    """An LLVM constant with the same number in each lane."""
    return ir.Constant(vector_type, [ir.Constant(vector_type.element, value)] * vector_type.count)


def _call(builder, name, *operands):
    """LLVM's own function `name` on vectors of doubles or floats."""
    vector = operands[0].type
    suffix = f"v{vector.count}{'f64' if isinstance(vector.element, ir.DoubleType) else 'f32'}"
    signature = ir.FunctionType(vector, [vector] * len(operands))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.{suffix}")
    return builder.call(function, operands)


# Pointers.


@intrinsic
def address(typingctx, array):
    """Pointer to the first element of a contiguous array."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None

    def emit(context, builder, signature, args):
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), emit


@intrinsic
def advance(typingctx, pointer, count):
    def emit(context, builder, signature, args):
        return builder.gep(args[0], [args[1]])

    return pointer(pointer, types.intp), emit


def _lanes_pointer(builder, vector, pointer, index):
    return builder.bitcast(builder.gep(pointer, [index], inbounds=True), _llvm(vector).as_pointer())


@intrinsic
def load(typingctx, pointer, index):
    vector = _vector_at(pointer)
    if vector is None:
        return None

    def emit(context, builder, signature, args):
        return builder.load(_lanes_pointer(builder, vector, *args), align=vector.dtype.bitwidth // 8)

    return vector(pointer, types.intp), emit


@intrinsic
def store(typingctx, pointer, index, lanes):
    vector = _vector_at(pointer)
    if vector is None or lanes != vector:
        return None

    def emit(context, builder, signature, args):
        builder.store(args[2], _lanes_pointer(builder, vector, *args[:2]), align=vector.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(pointer, types.intp, vector), emit


@intrinsic
def lanes(typingctx, pointer):
    """How many lanes a vector at this pointer has: a constant in compiled code."""
    vector = _vector_at(pointer)
    if vector is None:
        return None

    def emit(context, builder, signature, args):
        return context.get_constant(types.intp, vector.lanes)

    return types.intp(pointer), emit


@intrinsic
def full(typingctx, like, number):
    """All lanes the same number. `like`, a vector or a pointer to what vectors are loaded from, gives the type."""
    vector = like if isinstance(like, Vector) else _vector_at(like)
    if vector is None:
        return None

    def emit(context, builder, signature, args):
        zeros = ir.Constant(ir.VectorType(_i32, vector.lanes), None)
        blank = ir.Constant(_llvm(vector), ir.Undefined)
        first = builder.insert_element(blank, args[1], ir.Constant(_i32, 0))
        return builder.shuffle_vector(first, blank, zeros)

    return vector(like, vector.dtype), emit


# Square blocks between sentences, which follow each other in memory, and lanes.


def _transposed(builder, rows):
    """Lane k of row r becomes lane r of row k: log2(lanes) rounds, each of which swaps blocks of half the size."""
    count = len(rows)
    blank_mask = ir.VectorType(_i32, count)
    half = 1
    while half < count:
        swapped = list(rows)
        for r in range(count):
            if not r & half:
                a, b = rows[r], rows[r | half]
                low = [count + k - half if k & half else k for k in range(count)]
                high = [count + k if k & half else k + half for k in range(count)]
                swapped[r] = builder.shuffle_vector(a, b, ir.Constant(blank_mask, low))
                swapped[r | half] = builder.shuffle_vector(a, b, ir.Constant(blank_mask, high))
        rows = swapped
        half *= 2
    return rows


def _converted(builder, value, element):
    """A vector of floats or doubles with the other element type, if that is asked for."""
    kind = ir.VectorType(element, value.type.count)
    if value.type == kind:
        return value
    widens = isinstance(element, ir.DoubleType)
    return builder.fpext(value, kind) if widens else builder.fptrunc(value, kind)


def _block_rows(builder, pointer, starts, offset, lanes):
    """Pointers to `lanes` elements at pointer[starts[lane] + offset], one for each lane."""
    for lane in range(lanes):
        start = builder.load(builder.gep(starts, [ir.Constant(_i64, lane)]))
        at = builder.gep(pointer, [builder.add(start, offset)])
        yield builder.bitcast(at, ir.VectorType(pointer.type.pointee, lanes).as_pointer())


@intrinsic
def load_block(typingctx, chart, at, tensor, starts, offset):
    """chart[at + k·lanes + lane] = tensor[starts[lane] + offset + k], for all lanes and as many k."""
    vector = _vector_at(chart)
    if vector is None or _vector_at(tensor) is None:
        return None

    def emit(context, builder, signature, args):
        target, at, source, first, offset = args
        size = tensor.dtype.bitwidth // 8
        rows = [builder.load(row, align=size) for row in _block_rows(builder, source, first, offset, vector.lanes)]
        columns = _transposed(builder, [_converted(builder, row, _llvm(vector).element) for row in rows])
        for k, column in enumerate(columns):
            place = builder.add(at, ir.Constant(_i64, k * vector.lanes))
            builder.store(column, _lanes_pointer(builder, vector, target, place), align=vector.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(chart, types.intp, tensor, starts, types.intp), emit


@intrinsic
def store_block(typingctx, chart, at, tensor, starts, offset):
    """tensor[starts[lane] + offset + k] = chart[at + k·lanes + lane], for all lanes and as many k."""
    vector = _vector_at(chart)
    if vector is None or _vector_at(tensor) is None:
        return None

    def emit(context, builder, signature, args):
        source, at, target, first, offset = args
        columns = []
        for k in range(vector.lanes):
            place = builder.add(at, ir.Constant(_i64, k * vector.lanes))
            columns.append(
                builder.load(_lanes_pointer(builder, vector, source, place), align=vector.dtype.bitwidth // 8)
            )
        rows = _block_rows(builder, target, first, offset, vector.lanes)
        for row, pointer in zip(_transposed(builder, columns), rows, strict=True):
            builder.store(_converted(builder, row, target.type.pointee), pointer, align=tensor.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(chart, types.intp, tensor, starts, types.intp), emit


# Arithmetic, comparison, choice.


def _operator(symbol, instruction, result):
    """Gives a Python operator a meaning on two equal vectors (or masks)."""

    @type_callable(symbol)
    def typing_rule(context):
        def typer(a, b):
            if a == b and isinstance(a, Vector if instruction != "and_" else Mask):
                return result(a)

        return typer

    def emit(context, builder, signature, args):
        if isinstance(instruction, tuple):
            return getattr(builder, instruction[0])(instruction[1], *args)
        return getattr(builder, instruction)(*args)

    operand = Mask if instruction == "and_" else Vector
    lower_builtin(symbol, operand, operand)(emit)


def _same(operand):
    return operand


def _mask(operand):
    return Mask(operand.lanes)


_operator(operator.add, "fadd", _same)
_operator(operator.sub, "fsub", _same)
_operator(operator.mul, "fmul", _same)
_operator(operator.truediv, "fdiv", _same)
# Ordered comparisons: false where an operand is NaN, as in Python.
_operator(operator.lt, ("fcmp_ordered", "<"), _mask)
_operator(operator.le, ("fcmp_ordered", "<="), _mask)
_operator(operator.gt, ("fcmp_ordered", ">"), _mask)
_operator(operator.eq, ("fcmp_ordered", "=="), _mask)
_operator(operator.and_, "and_", _same)


@intrinsic
def select(typingctx, mask, a, b):
    """a where the mask is set, else b."""
    if not (isinstance(mask, Mask) and isinstance(a, Vector) and a == b):
        return None

    def emit(context, builder, signature, args):
        return builder.select(*args)

    return a(mask, a, b), emit


@intrinsic
def fma(typingctx, a, b, c):
    """a * b + c with one rounding."""
    if not (isinstance(a, Vector) and a == b == c):
        return None

    def emit(context, builder, signature, args):
        return _call(builder, "fma", *args)

    return a(a, b, c), emit


@intrinsic
def maximum(typingctx, a, b):
    """a where a > b, else b: one instruction, and a NaN in `a` is passed over (one in `b` stays)."""
    if not (isinstance(a, Vector) and a == b):
        return None

    def emit(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), emit


@intrinsic
def absolute(typingctx, a):
    if not isinstance(a, Vector):
        return None

    def emit(context, builder, signature, args):
        return _call(builder, "fabs", *args)

    return a(a), emit


# Powers, for vectors of float64. A double is sign, 11 bits of exponent (biased by 1023) and 52 bits of fraction.

# Adding 1.5 · 2^52 to a double of moderate size rounds it to an integer, which then stands in the low bits of the sum.
_ROUND = 1.5 * 2.0**52
_BIAS = 1023
_FRACTION_BITS = 52
_LN2_HIGH, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17


def _is_float64(vector):
    return isinstance(vector, Vector) and vector.dtype == types.float64


def _bits(builder, lanes_value):
    return builder.bitcast(lanes_value, ir.VectorType(_i64, lanes_value.type.count))


def _emit_pow2(builder, k):
    """2^k. Clamped to −1023, whose biased exponent is 0: without fraction bits that is the number 0. NaN likewise."""
    kind = k.type
    k = builder.select(builder.fcmp_ordered(">", k, _all_lanes(kind, -_BIAS)), k, _all_lanes(kind, -_BIAS))
    k = builder.select(builder.fcmp_ordered("<", k, _all_lanes(kind, _BIAS)), k, _all_lanes(kind, _BIAS))
    biased = _bits(builder, builder.fadd(k, _all_lanes(kind, _ROUND + _BIAS)))
    return builder.bitcast(builder.shl(biased, _all_lanes(biased.type, _FRACTION_BITS)), kind)


def _emit_split(builder, x):
    """k and r with exp(x) = 2^k · exp(r), k an integer and |r| ≤ ln 2 / 2."""
    kind = x.type
    scaled = builder.fmul(x, _all_lanes(kind, 1 / math.log(2)))
    k = _call(builder, "rint", scaled)
    minus_k = builder.fneg(k)
    r = _call(builder, "fma", minus_k, _all_lanes(kind, _LN2_HIGH), x)
    return k, _call(builder, "fma", minus_k, _all_lanes(kind, _LN2_LOW), r)


def _emit_exp_near_0(builder, r):
    """exp(r) for |r| ≤ ln 2 / 2 from the series: the first term left out is r^14 / 14! < 5e-18. exp(0) is 1 exactly."""
    total = _all_lanes(r.type, 1 / math.factorial(13))
    for power in range(12, -1, -1):
        total = _call(builder, "fma", total, r, _all_lanes(r.type, 1 / math.factorial(power)))
    return total


@intrinsic
def pow2(typingctx, k):
    """2^k for integer-valued k. Exactly 0 below the normal range and for NaN; no more than 2^1023."""
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
        biased = builder.lshr(bits, _all_lanes(bits.type, _FRACTION_BITS))
        # A small integer becomes a double when it is put in the fraction bits of 2^52, and 2^52 subtracted.
        with_offset = builder.or_(biased, _all_lanes(bits.type, (_BIAS + _FRACTION_BITS) << _FRACTION_BITS))
        with_offset = builder.bitcast(with_offset, args[0].type)
        return builder.fsub(with_offset, _all_lanes(args[0].type, 2.0**_FRACTION_BITS + _BIAS))

    return x(x), emit


EXP_UNDERFLOW = -708.0  # a little above ln 2^-1022: no result is subnormal


@intrinsic
def exp(typingctx, x):
    """exp(x) to one unit in the last place, for x up to 709. Exactly 0 below EXP_UNDERFLOW; NaN for NaN and +inf."""
    if not _is_float64(x):
        return None

    def emit(context, builder, signature, args):
        kind = args[0].type
        too_low = builder.fcmp_ordered("<", args[0], _all_lanes(kind, EXP_UNDERFLOW))
        k, r = _emit_split(builder, builder.select(too_low, _all_lanes(kind, EXP_UNDERFLOW), args[0]))
        value = builder.fmul(_emit_exp_near_0(builder, r), _emit_pow2(builder, k))
        return builder.select(too_low, _all_lanes(kind, 0.0), value)

    return x(x), emit


@intrinsic
def split_exp(typingctx, x):
    """exp(x) as (m, k), meaning m · 2^k: 1/√2 ≤ m ≤ √2 and k integer-valued, for any finite x.

    Past 2^52 the spacing of doubles is wider than ln 2 and r would be noise, so it is held to its range: an error of
    x in the last place. −inf gives (0, −inf); NaN and +inf give (NaN, 0).
    """
    if not _is_float64(x):
        return None
    pair = types.UniTuple(x, 2)

    def emit(context, builder, signature, args):
        kind = args[0].type
        infinite = _all_lanes(kind, -math.inf)
        half_ln2 = math.log(2) / 2
        k, r = _emit_split(builder, args[0])
        for limit, side in ((half_ln2, ">"), (-half_ln2, "<")):
            limit = _all_lanes(kind, limit)
            r = builder.select(builder.fcmp_ordered(side, r, limit), limit, r)
        m = _emit_exp_near_0(builder, r)
        is_zero = builder.fcmp_ordered("==", args[0], infinite)
        is_number = builder.fcmp_ordered("<", args[0], _all_lanes(kind, math.inf))
        m = builder.select(is_zero, _all_lanes(kind, 0.0), m)
        k = builder.select(is_number, k, _all_lanes(kind, 0.0))
        return context.make_tuple(builder, signature.return_type, [m, k])

    return pair(x), emit
