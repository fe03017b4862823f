"""From a chart to a tree, top-down: the rules read backwards.

    C[h,m]  →  choose k  →  I[h,k], C[k,m]        and word k has found its head, h
    I[h,k]  →  choose r  →  C[i,r], C[j,r+1]      i, j = the smaller and the larger of h and k

The kind of chart decides how a term is chosen. In a Max chart it is the first term that attains the maximum. In Linear
and Scaled charts it is random: its probability is its share of the sum. A choice takes time linear in the span, so a
tree takes O(n²) at most. All numbers here are scalars: positions include the lane.
"""

from collections import namedtuple

from numba import types
from numba.extending import overload
from numpy import uint32

from tritree.cpu.chart.numbers import Linear, Max, Scaled, for_kind, generic
from tritree.cpu.simd.jit import inline
from tritree.cpu.simd.philox import philox, uniform
from tritree.cpu.simd.vector import lanes

# What the random numbers of one sample of one sentence depend on. Viterbi passes None instead.
Stream = namedtuple("Stream", "key sentence sample")


def draw(stream, h, m):
    """Two uniforms for the item C[h, m]: one to choose k, one to choose r for the arc h → k."""


@overload(draw)
def _(stream, h, m):
    if isinstance(stream, types.NoneType):
        return lambda stream, h, m: (0.0, 0.0)

    def from_philox(stream, h, m):
        counter = uint32(h << 16 | m), uint32(stream.sentence), uint32(stream.sample), uint32(0)
        a, b, c, d = philox(stream.key, counter)
        return uniform(a, b), uniform(c, d)

    return from_philox


@generic
def choose(P, at, A, a, step_a, B, b, step_b, count, u):
    """Which k < count, of the terms A[a + k·step_a] ⊗ B[b + k·step_b] of the sum P[at]; −1 if there is none."""


@for_kind(choose, Max)
def _(P, at, A, a, step_a, B, b, step_b, count, u):
    for k in range(count):
        if A.value[a + k * step_a] + B.value[b + k * step_b] == P.value[at]:
            return k
    return -1


@for_kind(choose, Linear)
def _(P, at, A, a, step_a, B, b, step_b, count, u):
    target = u * P.value[at]
    total = 0.0
    last = -1
    for k in range(count):
        term = A.value[a + k * step_a] * B.value[b + k * step_b]
        total += term
        if term > 0.0:
            last = k
            if total > target:
                return k
    return last  # by rounding, the total of the terms is below the target


@for_kind(choose, Scaled)
def _(P, at, A, a, step_a, B, b, step_b, count, u):
    target = u * P.value[at]
    total = 0.0
    last = -1
    for k in range(count):
        shift = A.exponent[a + k * step_a] + B.exponent[b + k * step_b] - P.exponent[at]
        if shift > -1000.0:
            term = A.value[a + k * step_a] * B.value[b + k * step_b] * 2.0**shift
            total += term
            if term > 0.0:
                last = k
                if total > target:
                    return k
    return last


@inline
def walk(charts, lane, n, single_root, stream, stack, heads):
    """Writes the heads of the words of one tree. The goal must be possible.

    `stack` holds the items that are still to be expanded. They cover disjoint words, so there are at most n of them.
    """
    C, I, X, row = charts.C, charts.I, charts.X, charts.row
    cell = lanes(C.value)
    stack[0, 0], stack[0, 1] = 0, n
    depth = 1 if n > 0 else 0
    while depth > 0:
        depth -= 1
        h, m = stack[depth, 0], stack[depth, 1]
        u_complete, u_join = draw(stream, h, m)
        # C[h,m] = ⊕ I[h,k] ⊗ C[k,m]
        first, count = (h + 1, m - h) if h < m else (m, h - m)
        at = h * row + m * cell + lane
        row_h, column_m = h * row + first * cell + lane, first * row + m * cell + lane
        k = choose(C, at, I, row_h, cell, C, column_m, row, count, u_complete)
        if k < 0:
            return
        k += first
        heads[k] = h
        # X{i,j} = ⊕ C[i,r] ⊗ C[j,r+1]
        i, j = min(h, k), max(h, k)
        count = 1 if single_root and i == 0 else j - i
        row_i, row_j = i * (row + cell) + lane, j * row + (i + 1) * cell + lane
        r = choose(X, i * row + j * cell + lane, C, row_i, cell, C, row_j, cell, count, u_join)
        if r < 0:
            return
        r += i
        for head, end in ((k, m), (i, r), (j, r + 1)):
            if head != end:
                stack[depth, 0], stack[depth, 1] = head, end
                depth += 1
