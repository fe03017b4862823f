"""The charts, and their places in a thread's workspace.

Sentences are taken in groups of as many as a vector has lanes (four float64, eight float32), and the lane is the
innermost index of every chart:

    chart[h, m, lane]   at   h · row + m · cell + lane        cell = lanes, row = padded nodes · cell

Right-facing items, m > h, lie above the diagonal and left-facing ones below it, so that one rule serves both: the row
of h holds all items with head h, and a step down a column goes to the next head with the same m.

The workspace begins with a row of scratch. The charts follow, one field after another. The workspace has room for the
longest sentence of the batch; every group uses as much of it as its own longest sentence needs.
"""

from collections import namedtuple

from tritree.cpu.chart.numbers import Dual, Linear, Max, Scaled, ScaledDual
from tritree.cpu.simd.jit import inline
from tritree.cpu.simd.vector import address, advance, lanes

# p holds the arcs. In the outside pass mu, their marginals, overwrites p, and gX overwrites X (used for i < j).
Charts = namedtuple("Charts", "nodes row scratch p C I X gC gX mu")

# Charts of the relaxed tree (kernels/relaxed.py). I and C have items, X and C have sums. An impossible item has the
# value 0, the exponent −inf and, so that nothing becomes NaN, V = 0. In a sum a term of weight
# w = value · value′ · 2^(exponent + exponent′ − top) has the share w · share. The pass down multiplies `share` by the
# sum's contribution c. In I, `share` is c alone.
Soft = namedtuple("Soft", "V value exponent top share")
SoftGradient = namedtuple("SoftGradient", "V value exponent top share D v")
SoftCharts = namedtuple("SoftCharts", "nodes row scratch p I C X")

FIELDS = {Max: 5, Linear: 5, Scaled: 9, Dual: 10, ScaledDual: 14, Soft: 12, SoftGradient: 18}


@inline
def padded(nodes):
    """The length of a row in nodes: 2, 6, 10, …

    A cell is 32 bytes, so a row is an odd multiple of 64 bytes. Then the cells of a column, which both passes go down,
    spread over all sets of the first-level cache.
    """
    return nodes + (2 - nodes) % 4


def workspace_size(kind, nodes, cell):
    """In elements."""
    N = padded.py_func(nodes)
    return N * cell * (1 + FIELDS[kind] * N)


@inline
def carve(work, nodes):
    """The length of a row, and pointers to the scratch row and to the first field."""
    scratch = address(work)
    row = padded(nodes) * lanes(scratch)
    return row, scratch, advance(scratch, row)


@inline
def field(fields, row, k):
    """A pointer to the k-th field."""
    return advance(fields, k * row * (row // lanes(fields)))


@inline
def max_charts(work, nodes):
    row, scratch, f = carve(work, nodes)
    p, C, I = Max(f), Max(field(f, row, 1)), Max(field(f, row, 2))
    X, gC = Max(field(f, row, 3)), Max(field(f, row, 4))
    return Charts(nodes, row, scratch, p, C, I, X, gC, X, p)


@inline
def linear_charts(work, nodes):
    row, scratch, f = carve(work, nodes)
    p, C, I = Linear(f), Linear(field(f, row, 1)), Linear(field(f, row, 2))
    X, gC = Linear(field(f, row, 3)), Linear(field(f, row, 4))
    return Charts(nodes, row, scratch, p, C, I, X, gC, X, p)


@inline
def scaled_charts(work, nodes):
    row, scratch, f = carve(work, nodes)
    p = Scaled(f, field(f, row, 1))
    C = Scaled(field(f, row, 2), field(f, row, 3))
    I = Scaled(field(f, row, 4), field(f, row, 5))
    X = Scaled(field(f, row, 6), field(f, row, 7))
    gC = Linear(field(f, row, 8))
    return Charts(nodes, row, scratch, p, C, I, X, gC, Linear(X.value), Linear(p.value))


@inline
def dual_charts(work, nodes):
    row, scratch, f = carve(work, nodes)
    p = Dual(f, field(f, row, 1))
    C = Dual(field(f, row, 2), field(f, row, 3))
    I = Dual(field(f, row, 4), field(f, row, 5))
    X = Dual(field(f, row, 6), field(f, row, 7))
    gC = Dual(field(f, row, 8), field(f, row, 9))
    return Charts(nodes, row, scratch, p, C, I, X, gC, X, p)


@inline
def scaled_dual_charts(work, nodes):
    row, scratch, f = carve(work, nodes)
    p = ScaledDual(f, field(f, row, 1), field(f, row, 2))
    C = ScaledDual(field(f, row, 3), field(f, row, 4), field(f, row, 5))
    I = ScaledDual(field(f, row, 6), field(f, row, 7), field(f, row, 8))
    X = ScaledDual(field(f, row, 9), field(f, row, 10), field(f, row, 11))
    gC = Dual(field(f, row, 12), field(f, row, 13))
    return Charts(nodes, row, scratch, p, C, I, X, gC, Dual(X.value, X.tangent), Dual(p.value, p.tangent))


@inline
def soft_charts(work, nodes):
    """The scores p are where I's V will be."""
    row, scratch, f = carve(work, nodes)
    I = Soft(f, field(f, row, 1), field(f, row, 2), None, field(f, row, 3))
    C = Soft(field(f, row, 4), field(f, row, 5), field(f, row, 6), field(f, row, 7), field(f, row, 8))
    X = Soft(field(f, row, 9), None, None, field(f, row, 10), field(f, row, 11))
    return SoftCharts(nodes, row, scratch, Max(f), I, C, X)


@inline
def soft_gradient_charts(work, nodes):
    row, scratch, f = carve(work, nodes)
    soft = soft_charts(work, nodes)
    I = with_gradient(soft.I, field(f, row, 12), field(f, row, 13))
    C = with_gradient(soft.C, field(f, row, 14), field(f, row, 15))
    X = with_gradient(soft.X, field(f, row, 16), field(f, row, 17))
    return SoftCharts(nodes, row, scratch, soft.p, I, C, X)


@inline
def with_gradient(A, D, v):
    return SoftGradient(A.V, A.value, A.exponent, A.top, A.share, D, v)
