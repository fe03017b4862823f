"""Both passes, tile by tile (tile.py): the same as inside.py and outside.py, with a quarter of the loads.

Two rows of tiles are done together, column by column: what one tile reads of its columns is then in the first-level
cache for the other. That changes the order of the tiles, not that of any span's operations. The number of nodes must be
even; a node without arcs is added where it is odd.
"""

from tritree.cpu.chart.gradients import seed
from tritree.cpu.chart.numbers import empty, load, one, store
from tritree.cpu.passes.tile import (
    SIDE,
    inside_half,
    inside_pair,
    inside_square,
    inside_triangle,
    outside_half,
    outside_pair,
    outside_square,
    outside_triangle,
)
from tritree.cpu.simd.jit import inline
from tritree.cpu.simd.vector import full, lanes

BAND = 2 * SIDE  # rows of spans


@inline
def inside_tiled(charts, single_root):
    """As `inside`, for Linear and Max."""
    p, C, I, X, nodes, row = charts.p, charts.C, charts.I, charts.X, charts.nodes, charts.row
    for h in range(nodes):
        store(C, h * (row + lanes(C.value)), one(C))
    for top in range((nodes - 1) // BAND * BAND, -1, -BAND):
        for j in range(top, nodes, SIDE):
            for i in range(min(top + BAND - SIDE, j), top - 1, -SIDE):
                only_root = single_root and i == 0
                if j + SIDE <= nodes:
                    if i < j:
                        inside_square(p, C, I, X, row, i, j, only_root)
                    else:
                        inside_triangle(p, C, I, X, row, i, i, only_root)
                elif i < j:
                    inside_half(p, C, I, X, row, i, j, only_root)
                else:
                    inside_pair(p, C, I, X, row, i, i, only_root)


@inline
def outside_tiled(charts, n, single_root):
    """As `outside`, for Linear and Max. Afterwards C[0,j] is lost if single_root."""
    p, C, I, nodes, row = charts.p, charts.C, charts.I, charts.nodes, charts.row
    gC, gX, mu = charts.gC, charts.gX, charts.mu
    cell = lanes(C.value)
    for j in range(1, nodes):
        x = load(C, j * cell)
        store(gC, j * cell, seed(x, n == full(n, j)))
        for i in range(SIDE, j, SIDE):
            store(gC, i * row + j * cell, empty(gC))
        if single_root:
            store(C, j * cell, empty(C))  # then no join needs a test for it
    for top in range(0, nodes, BAND):
        for j in range((nodes - 1) // SIDE * SIDE, top - 1, -SIDE):
            for i in range(top, min(top + BAND - SIDE, j) + 1, SIDE):
                only_root = single_root and i == 0
                if j + SIDE <= nodes:
                    if i < j:
                        outside_square(p, C, I, gC, gX, mu, row, i, j, nodes, only_root)
                    else:
                        outside_triangle(p, C, I, gC, gX, mu, row, i, i, nodes, only_root)
                elif i < j:
                    outside_half(p, C, I, gC, gX, mu, row, i, j, nodes, only_root)
                else:
                    outside_pair(p, C, I, gC, gX, mu, row, i, i, nodes, only_root)
