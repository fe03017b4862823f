"""A Numba type that is an LLVM vector.

The chart kernels run several sentences at once, one per SIMD lane. LLVM's vectoriser fails on a loop over four lanes:
it sees stores that may alias, wrap-around of negative indices, reference counts. So the vector becomes a value of the
language:

    Vector(float64, 4)   is LLVM's  <4 x double>     one AVX register, or two NEON or SSE registers
    Vector(float32, 8)   is LLVM's  <8 x float>

Both are 32 bytes; the element type decides the number of lanes. In compiled code

    a = load(pointer, k)                 # the lanes at pointer[k], pointer[k + 1], …; no alignment needed
    b = full(pointer, 1.0)               # all lanes equal; of the type that load(pointer, …) has
    c = fma(a, b, a * b + a)             # one instruction each: + − * / fma maximum absolute
    c = select(a < b, a, c)              # a comparison gives a Mask, a vector of single bits; & joins two
    store(pointer, k, c)

Three things make this work. `Vector` and `Mask` are the types that Numba's type inference uses. `PrimitiveModel` says
that LLVM holds such a value as it is, so a variable becomes a register. And each operation has two halves: a typing
rule (types in, type out) and a few lines that emit LLVM instructions (`builder.fadd(a, b)`). An `@intrinsic` has both
halves; for operators they are `type_callable` and `lower_builtin`.

Pointers are Numba's `CPointer`: `address(array)` gives one, `advance(pointer, k)` moves it, `pointer[k]` reads a
single element. Unlike arrays they have no reference count, so passing them to functions and keeping them in tuples
costs nothing. The code that takes an address must keep the array alive, and nothing checks bounds.

Nothing here sets fast-math flags. a * b + c has two roundings and NaN stays NaN; fma has one rounding.

exp and powers of two are in exp.py.
"""

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

    @property
    def llvm(self):
        return ir.VectorType(ir.DoubleType() if self.dtype == types.float64 else ir.FloatType(), self.lanes)


class Mask(types.Type):
    def __init__(self, lanes):
        self.lanes = lanes
        super().__init__(name=f"Mask({lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, vector.llvm)


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager, mask):
        super().__init__(manager, mask, ir.VectorType(ir.IntType(1), mask.lanes))


def vector_at(pointer):
    """The type of the vectors at a pointer, or None: then Numba reports that the arguments have the wrong types."""
    if isinstance(pointer, types.CPointer) and pointer.dtype in (types.float32, types.float64):
        return Vector(pointer.dtype)
    return None


def all_lanes(vector_type, value):
    """An LLVM constant with the same number in each lane."""
    return ir.Constant(vector_type, [ir.Constant(vector_type.element, value)] * vector_type.count)


def call_llvm(builder, name, *operands):
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


def lanes_pointer(builder, vector, pointer, index):
    return builder.bitcast(builder.gep(pointer, [index], inbounds=True), vector.llvm.as_pointer())


@intrinsic
def load(typingctx, pointer, index):
    vector = vector_at(pointer)
    if vector is None:
        return None

    def emit(context, builder, signature, args):
        return builder.load(lanes_pointer(builder, vector, *args), align=vector.dtype.bitwidth // 8)

    return vector(pointer, types.intp), emit


@intrinsic
def store(typingctx, pointer, index, lanes):
    vector = vector_at(pointer)
    if vector is None or lanes != vector:
        return None

    def emit(context, builder, signature, args):
        builder.store(args[2], lanes_pointer(builder, vector, *args[:2]), align=vector.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(pointer, types.intp, vector), emit


@intrinsic
def lanes(typingctx, pointer):
    """How many lanes a vector at this pointer has: a constant in compiled code."""
    vector = vector_at(pointer)
    if vector is None:
        return None

    def emit(context, builder, signature, args):
        return context.get_constant(types.intp, vector.lanes)

    return types.intp(pointer), emit


@intrinsic
def full(typingctx, like, number):
    """All lanes the same number. `like`, a vector or a pointer to what vectors are loaded from, gives the type."""
    vector = like if isinstance(like, Vector) else vector_at(like)
    if vector is None:
        return None

    def emit(context, builder, signature, args):
        zeros = ir.Constant(ir.VectorType(_i32, vector.lanes), None)
        blank = ir.Constant(vector.llvm, ir.Undefined)
        first = builder.insert_element(blank, args[1], ir.Constant(_i32, 0))
        return builder.shuffle_vector(first, blank, zeros)

    return vector(like, vector.dtype), emit


# Square blocks, copied between tensors, where sentences follow each other, and charts, where they are in lanes.


def _transposed(builder, rows):
    """Lane k of row r becomes lane r of row k, in log2(lanes) rounds that swap blocks of 1, 2, 4 … lanes."""
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
    """A vector of floats or doubles, converted to this element type."""
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
    """chart[at + k·lanes + lane] = tensor[starts[lane] + offset + k] for all lanes and k < lanes."""
    vector = vector_at(chart)
    if vector is None or vector_at(tensor) is None:
        return None

    def emit(context, builder, signature, args):
        target, at, source, first, offset = args
        size = tensor.dtype.bitwidth // 8
        rows = [builder.load(row, align=size) for row in _block_rows(builder, source, first, offset, vector.lanes)]
        columns = _transposed(builder, [_converted(builder, row, vector.llvm.element) for row in rows])
        for k, column in enumerate(columns):
            place = builder.add(at, ir.Constant(_i64, k * vector.lanes))
            builder.store(column, lanes_pointer(builder, vector, target, place), align=vector.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(chart, types.intp, tensor, starts, types.intp), emit


@intrinsic
def store_block(typingctx, chart, at, tensor, starts, offset):
    """tensor[starts[lane] + offset + k] = chart[at + k·lanes + lane] for all lanes and k < lanes."""
    vector = vector_at(chart)
    if vector is None or vector_at(tensor) is None:
        return None

    def emit(context, builder, signature, args):
        source, at, target, first, offset = args
        columns = []
        for k in range(vector.lanes):
            place = builder.add(at, ir.Constant(_i64, k * vector.lanes))
            columns.append(
                builder.load(lanes_pointer(builder, vector, source, place), align=vector.dtype.bitwidth // 8)
            )
        rows = _block_rows(builder, target, first, offset, vector.lanes)
        for row, pointer in zip(_transposed(builder, columns), rows, strict=True):
            builder.store(_converted(builder, row, target.type.pointee), pointer, align=tensor.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(chart, types.intp, tensor, starts, types.intp), emit


# Arithmetic, comparison, selection.


def _operator(symbol, instruction, result):
    """Defines a Python operator for two vectors (or masks) of the same type."""

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
        return call_llvm(builder, "fma", *args)

    return a(a, b, c), emit


@intrinsic
def maximum(typingctx, a, b):
    """a where a > b, else b: one instruction. A NaN in `a` is ignored, one in `b` stays."""
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
        return call_llvm(builder, "fabs", *args)

    return a(a), emit
