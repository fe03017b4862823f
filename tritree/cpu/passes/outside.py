"""The outside pass: the gradient g of log Z for every item, top-down, and the marginals of the arcs.

Differentiate the rules of the inside pass in reverse, from the goal. A product a ⊗ b with the gradient g adds g · b to
the gradient of a. So an item has one sum for each rule in which it is a factor. With i < j:

    seed       gC[0,n]  =  1 / Z
    complete   gC[i,j] += Σ k<i  gC[k,j] I[k,i]       gC[j,i] += Σ k>j  gC[k,i] I[k,j]
    join       gC[i,j] += Σ k>j  gX{i,k} C[k,j+1]     gC[j,i] += Σ k<i  gX{k,j} C[k,i−1]
    complete   gI[i,j]  = Σ k≥j  gC[i,k] C[j,k]       gI[j,i]  = Σ k≤i  gC[j,k] C[i,k]
    attach     gX{i,j}  = gI[i,j] p[i,j] + gI[j,i] p[j,i]

These are six sums, each as large as one of the inside pass's three. The marginal of an arc is that of its item:
μ[h,m] = gI[h,m] I[h,m].

Spans are filled with i rising and j falling: all spans around (i, j) come before it. A sum gathers from them, so every
cell is written once and the order of operations does not depend on the group. Sums that run to the end of the chart
run outwards, so that zeros come last.
"""

from tritree.cpu.chart.gradients import gather, seed
from tritree.cpu.chart.numbers import add, empty, load, mul, store
from tritree.cpu.passes.inside import BAND
from tritree.cpu.simd.jit import inline
from tritree.cpu.simd.vector import full, lanes


@inline
def outside(charts, n, single_root):
    """`n`, the number of words, is a vector: each lane has its own goal."""
    C, nodes, cell = charts.C, charts.nodes, lanes(charts.C.value)
    for top in range(0, nodes, BAND):
        for j in range(nodes - 1, top, -1):
            for i in range(top, min(top + BAND, j)):
                x = load(C, i * charts.row + j * cell)
                g = seed(x, n == full(n, j)) if i == 0 else empty(charts.gC)
                outside_span(charts, i, j, single_root, g)


@inline
def outside_span(charts, i, j, single_root, g):
    """The gradients of the items of the span (i, j), from those of wider ones. The sum for C[i,j] begins with g."""
    p, C, I, X, nodes, row = charts.p, charts.C, charts.I, charts.X, charts.nodes, charts.row
    gC, gX, mu = charts.gC, charts.gX, charts.mu
    cell = lanes(C.value)
    diagonal = row + cell
    right, left = i * row + j * cell, j * row + i * cell
    before, after = i, nodes - 1 - j  # how many k < i, and how many k > j
    # With a single root, C[0,j] with j > 0 is in no join: neither it nor its partners C[k,j+1] receive from one.
    rooted = single_root and i == 0
    skip = 1 if single_root and i > 1 else 0

    x = load(C, right)
    g = gather(x, g, C, gC, j * cell, row, I, i * cell, row, before)
    g = gather(x, g, X, gX, right + cell, cell, C, (j + 1) * diagonal, row, 0 if rooted else after)
    store(gC, right, g)

    x = load(C, left)
    g = gather(x, empty(gC), C, gC, left + row, row, I, j * diagonal + row, row, after)
    g = gather(x, g, X, gX, skip * row + j * cell, row, C, skip * row + (i - 1) * cell, row, before - skip)
    store(gC, left, g)

    x, y = load(I, right), load(I, left)
    g = gather(x, empty(gC), C, gC, right, cell, C, j * diagonal, cell, after + 1)
    f = gather(y, empty(gC), C, gC, j * row, cell, C, i * row, cell, before + 1)
    store(gX, right, add(mul(g, load(p, right)), mul(f, load(p, left))))
    store(mu, right, mul(g, x))
    store(mu, left, mul(f, y))
