"""Code that writes code: loops over spans that run at compile time and emit LLVM instructions.

A tile (tile.py) has sixteen spans. Written out with the numbers of numbers.py, so that variables stay in registers, it
would be hundreds of lines. Here the loop over the spans is a Python loop, which runs while Numba compiles: its
variables are LLVM values, and each operation emits one instruction. What runs later is straight-line code.

    total = numbers.muladd(total, x, y)     emits total ⊕ x ⊗ y
    C[h, m]                                 emits a load, or nothing if this code has computed that item before
    C[h, m] = x                             emits a store

`ONE` is the 1 of the kind and `None` an empty sum; operations with them emit less.
"""

from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils

from tritree.cpu.chart.numbers import MINUS_INF, Linear, Max
from tritree.cpu.simd.vector import VECTOR_BYTES, all_lanes, call_llvm, vector_at

ONE = object()


class Numbers:
    """Arithmetic of one kind, Linear or Max, as instructions."""

    def __init__(self, builder, chart_type):
        """`chart_type` is the Numba type of a chart: a kind over a pointer."""
        self.builder = builder
        self.is_max = {Linear: False, Max: True}[chart_type.instance_class]
        self.vector = vector_at(chart_type[0])
        self.one = all_lanes(self.vector.llvm, 0.0 if self.is_max else 1.0)
        self.zero = all_lanes(self.vector.llvm, MINUS_INF if self.is_max else 0.0)

    def add(self, x, y):
        if x is None:
            return self.one if y is ONE else y
        if y is ONE:
            y = self.one
        if self.is_max:
            return self.builder.select(self.builder.fcmp_ordered(">", y, x), y, x)
        return self.builder.fadd(x, y)

    def mul(self, x, y):
        return self.builder.fadd(x, y) if self.is_max else self.builder.fmul(x, y)

    def muladd(self, total, x, y):
        if x is ONE:
            return self.add(total, y)
        if y is ONE:
            return self.add(total, x)
        if total is None or self.is_max:
            return self.add(total, self.mul(x, y))
        return call_llvm(self.builder, "fma", x, y, total)

    def choose(self, condition, x, y):
        """x if the condition, one bit at run time, is set, else y."""
        return self.builder.select(condition, self.one if x is ONE else x, y)

    def load(self, place):
        return self.builder.load(self._as_vector(place), align=self.vector.dtype.bitwidth // 8)

    def store(self, place, x):
        self.builder.store(x, self._as_vector(place), align=self.vector.dtype.bitwidth // 8)

    def _as_vector(self, place):
        return self.builder.bitcast(place, self.vector.llvm.as_pointer())


class Anchor:
    """A node that is known at run time only, with the distance in bytes to its row and to its column in a chart."""

    def __init__(self, grid, index):
        self.index = index
        self.row = grid.builder.mul(index, grid.row)
        self.column = grid.builder.mul(index, grid.cell)


class Node(NamedTuple):
    """The node that comes `offset` places after an anchor."""

    anchor: Anchor
    offset: int

    def next(self):
        return Node(self.anchor, self.offset + 1)


class Chart:
    """A chart that is indexed by nodes.

    An address is a pointer for the anchors, plus a small multiple of the row, plus a constant. The processor computes
    that as part of a load, and few registers are needed.
    """

    def __init__(self, numbers, grid, value):
        self.numbers, self.grid = numbers, grid
        builder = numbers.builder
        self.pointer = builder.bitcast(builder.extract_value(value, 0), _bytes)
        self.anchored = {}
        self.computed = {}

    def place(self, h, m, ahead=0):
        """The address of [h, m + ahead]."""
        builder = self.numbers.builder
        anchors = h.anchor, m.anchor
        if anchors not in self.anchored:
            self.anchored[anchors] = builder.gep(self.pointer, [builder.add(h.anchor.row, m.anchor.column)])
        row = builder.gep(self.anchored[anchors], [builder.mul(self.grid.row, _size(h.offset))])
        return builder.gep(row, [_size((m.offset + ahead) * VECTOR_BYTES)])

    def __getitem__(self, item):
        h, m = item
        if h == m:
            return ONE
        if item not in self.computed:
            return self.numbers.load(self.place(h, m))
        return self.computed[item]

    def __setitem__(self, item, x):
        self.computed[item] = x
        self.numbers.store(self.place(*item), x)


class Grid:
    """Where nodes are in charts, and walks through a chart: pairs (first place, step)."""

    def __init__(self, builder, row_elements, element_bytes):
        self.builder = builder
        self.row, self.cell = builder.mul(row_elements, _size(element_bytes)), _size(VECTOR_BYTES)

    def nodes(self, first, count):
        anchor = Anchor(self, first)
        return [Node(anchor, k) for k in range(count)]

    def distance(self, left, right):
        between = self.builder.sub(right.anchor.index, left.anchor.index)
        return self.builder.add(between, _size(right.offset - left.offset))

    def along(self, A, heads, k, ahead=0):
        """For each head h a walk A[h, k + ahead], A[h, k + 1 + ahead], …"""
        return {h: (A.place(h, k, ahead), self.cell) for h in heads}

    def down(self, A, k, modifiers, ahead=0):
        """For each modifier m a walk A[k, m + ahead], A[k + 1, m + ahead], …"""
        return {m: (A.place(k, m, ahead), self.row) for m in modifiers}


_bytes = ir.IntType(8).as_pointer()


def _size(number):
    return ir.Constant(ir.IntType(64), number)


def sums(numbers, totals, first, second, count):
    """Adds first(u, k) ⊗ second(v, k) for k < count, in increasing order, to the totals of all pairs (u, v) at once.

    `first` and `second` have a walk for each u and v. Four by four totals take 8 loads for 16 multiply–adds.
    """
    builder = numbers.builder
    running = {
        pair: cgutils.alloca_once_value(builder, numbers.zero if total is None else total)
        for pair, total in totals.items()
    }

    def load(walk, k):
        place, step = walk
        return numbers.load(builder.gep(place, [builder.mul(k, step)]))

    with _loop(builder, count) as k:
        y = {v: load(second[v], k) for v in dict.fromkeys(v for _, v in totals)}
        for u in dict.fromkeys(u for u, _ in totals):
            x = load(first[u], k)
            for v in y:
                if (u, v) in totals:
                    total = builder.load(running[u, v])
                    builder.store(numbers.muladd(total, x, y[v]), running[u, v])
    return {pair: builder.load(place) for pair, place in running.items()}


def spill(chart, items):
    """Stores numbers so that they are loaded again when needed, and take no registers until then.

    LLVM would keep some in registers. An empty instruction that is declared to change all memory prevents that.
    """
    builder = chart.numbers.builder
    for (h, m), x in items.items():
        chart.numbers.store(chart.place(h, m), x)
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)


@contextmanager
def _loop(builder, count):
    """A loop over k < count. LLVM must not unroll it: the body is large, and more branches would be mispredicted."""
    zero, one = _size(0), _size(1)
    before = builder.block
    body, end = builder.append_basic_block("terms"), builder.append_basic_block("summed")
    builder.cbranch(builder.icmp_signed(">", count, zero), body, end)
    builder.position_at_end(body)
    k = builder.phi(count.type)
    k.add_incoming(zero, before)
    yield k
    following = builder.add(k, one)
    k.add_incoming(following, builder.block)
    again = builder.cbranch(builder.icmp_signed("<", following, count), body, end)
    again.set_metadata("llvm.loop", _no_unrolling(builder.module))
    builder.position_at_end(end)


def _no_unrolling(module):
    """LLVM identifies a loop by a metadata node whose first operand is the node itself."""
    advice = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    node = ir.MDValue(module, [advice], name=str(len(module.metadata)))
    node.operands = (node, advice)
    return node
