"""The inside pass: the rules of tritree/rules.py, bottom-up, over any kind of number.

Spans are filled with i falling and j rising: all spans within (i, j) come before it. Several rows are done at a time,
so that the items of column j stay in the cache. Every span has one order of operations, which does not depend on the
size of the chart: a sentence gets the same bits whatever is in its group.
"""

from tritree.cpu.chart.numbers import dot, load, mul, one, store
from tritree.cpu.simd.jit import inline
from tritree.cpu.simd.vector import lanes

BAND = 16  # rows


@inline
def inside(charts, single_root):
    C, nodes, row, cell = charts.C, charts.nodes, charts.row, lanes(charts.C.value)
    for h in range(nodes):
        store(C, h * (row + cell), one(C))
    for top in range((nodes - 1) // BAND * BAND, -1, -BAND):
        for j in range(top + 1, nodes):
            for i in range(min(top + BAND, j) - 1, top - 1, -1):
                inside_span(charts, i, j, single_root)


@inline
def inside_span(charts, i, j, single_root):
    """The items of the span (i, j), from those of narrower ones."""
    p, C, I, X, row = charts.p, charts.C, charts.I, charts.X, charts.row
    cell = lanes(C.value)
    diagonal = row + cell  # C[h,h] is at h · diagonal
    right, left = i * row + j * cell, j * row + i * cell
    # join        X{i,j} = ⊕ i≤k<j  C[i,k] ⊗ C[j,k+1]          with single_root, k = 0 alone for i = 0
    splits = 1 if single_root and i == 0 else j - i
    x = dot(C, i * diagonal, cell, C, left + cell, cell, splits)
    store(X, right, x)
    # attach      I[i,j] = X{i,j} ⊗ p[i,j]                     I[j,i] = X{i,j} ⊗ p[j,i]
    store(I, right, mul(x, load(p, right)))
    store(I, left, mul(x, load(p, left)))
    # complete    C[i,j] = ⊕ i<k≤j  I[i,k] ⊗ C[k,j]            C[j,i] = ⊕ i≤k<j  I[j,k] ⊗ C[k,i]
    store(C, right, dot(I, i * diagonal + cell, cell, C, right + row, row, j - i))
    store(C, left, dot(I, left, cell, C, i * diagonal, row, j - i))
