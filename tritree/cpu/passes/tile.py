"""The rules on a tile: a square of 4×4 spans, written out by emit.py.

                 j    j+1  j+2  j+3
        i      │    │    │    │    │        i and j are multiples of 4: rows and columns of a grid that begins at 0.
        i+1    │    │    │    │    │        On the diagonal, i = j, a tile is the triangle of the spans among its four
        i+2    │    │    │    │    │        nodes. At the end of the sentence a tile may be two columns wide.
        i+3    │    │    │    │    │

The splits k of a span fall into two parts:

    far     nodes outside the tile's rows and columns. They are the same for all spans of the tile, which share the
            loads: a plain loop has two loads per multiply–add, this one half a load.
    near    nodes of the tile itself: terms with its own spans, and with those of the diagonal next to its rows and
            columns. They follow span by span, in an order in which each finds what it needs. Neighbours in that order
            do not depend on each other, so the processor works on several at once.

Every span has one order of operations: far before near, and each in a fixed order, wherever its sentence ends and
whatever else is in its group. So a sentence gets the same bits in any batch.
"""

from itertools import pairwise

from numba import types
from numba.extending import intrinsic

from tritree.cpu.passes.emit import Chart, Grid, Numbers, spill, sums

SIDE = 4


def _narrow_first(rows, columns):
    """The spans of a tile as pairs of nodes, narrow ones first. On the diagonal, where rows are columns, only i < j."""
    numbered = [(v - u, u, v) for u in range(len(rows)) for v in range(len(columns)) if rows is not columns or u < v]
    return [(rows[u], columns[v]) for _, u, v in sorted(numbered)]


def _turned(totals):
    """Totals by (j, i) instead of (i, j): for left-facing items."""
    return {(j, i): total for (i, j), total in totals.items()}


def _inside(numbers, grid, p, C, I, X, rows, columns, only_root):
    spans = _narrow_first(rows, columns)
    nodes, following = rows, dict(pairwise(rows))
    x = dict.fromkeys(spans)
    is_square = rows is not columns
    if is_square:
        k = rows[-1].next()
        nodes, following = [*rows, *columns], dict([*pairwise([*rows, k]), *pairwise(columns)])
        far = grid.distance(k, columns[0])
        # C[i,j] = ⊕ I[i,k] ⊗ C[k,j]     C[j,i] = ⊕ C[k,i] ⊗ I[j,k]     X{i,j} = ⊕ C[i,k] ⊗ C[j,k+1]
        spill(C, sums(numbers, x, grid.along(I, rows, k), grid.down(C, k, columns), far))
        spill(C, _turned(sums(numbers, x, grid.down(C, k, rows), grid.along(I, columns, k), far)))
        x = sums(numbers, x, grid.along(C, rows, k), grid.along(C, columns, k, ahead=1), far)
    for i, j in spans:
        u, v = nodes.index(i), nodes.index(j)
        # join        X{i,j} = ⊕ i≤k<j  C[i,k] ⊗ C[j,k+1]          with only_root, k = 0 alone for i = 0
        total = x[i, j]
        for k in nodes[u:v]:
            total = numbers.muladd(total, C[i, k], C[j, following[k]])
        if i is rows[0]:
            total = numbers.choose(only_root, C[j, following[i]], total)
        # attach      I[i,j] = X{i,j} ⊗ p[i,j]                     I[j,i] = X{i,j} ⊗ p[j,i]
        X[i, j], I[i, j], I[j, i] = total, numbers.mul(total, p[i, j]), numbers.mul(total, p[j, i])
        # complete    C[i,j] = ⊕ i<k≤j  I[i,k] ⊗ C[k,j]            C[j,i] = ⊕ i≤k<j  I[j,k] ⊗ C[k,i]
        right, left = (C[i, j], C[j, i]) if is_square else (None, None)
        for k in nodes[u + 1 : v]:
            right = numbers.muladd(right, I[i, k], C[k, j])
            left = numbers.muladd(left, I[j, k], C[k, i])
        C[i, j], C[j, i] = numbers.add(right, I[i, j]), numbers.add(left, I[j, i])


def _outside(numbers, grid, p, C, I, gC, gX, mu, rows, columns, start, end, only_root):
    """The rules are in outside.py. `start` is ROOT, `end` follows the last node.

    For the first row of the tile, the number that gC[i,j] begins with is already in its place: the seeds, if that row
    is ROOT. gI[j,i] is kept in gX[j,i], which is not used otherwise.
    """
    spans = _narrow_first(rows, columns)
    k = columns[-1].next()
    before, after = grid.distance(start, rows[0]), grid.distance(k, end)
    # k < i   gC[i,j] += I[k,i] gC[k,j]     gC[j,i] += C[k,i−1] gX{k,j}     gI[j,i] += C[i,k] gC[j,k]
    # k > j   gC[i,j] += gX{i,k} C[k,j+1]   gC[j,i] += gC[k,i] I[k,j]       gI[i,j] += gC[i,k] C[j,k]
    none = dict.fromkeys(spans)
    begin = {(i, j): gC[i, j] for i, j in spans if i is rows[0]}
    right = sums(numbers, none | begin, grid.down(I, start, rows), grid.down(gC, start, columns), before)
    spill(gC, sums(numbers, right, grid.along(gX, rows, k), grid.down(C, k, columns, ahead=1), after))
    left = sums(numbers, none, grid.down(C, start, rows, ahead=-1), grid.down(gX, start, columns), before)
    spill(gC, _turned(sums(numbers, left, grid.down(gC, k, rows), grid.down(I, k, columns), after)))
    spill(gX, _turned(sums(numbers, none, grid.along(C, rows, start), grid.along(gC, columns, start), before)))
    arc_right = sums(numbers, none, grid.along(gC, rows, k), grid.along(C, columns, k), after)
    for i, j in reversed(spans):
        above, beyond = rows[: rows.index(i)], columns[columns.index(j) + 1 :]
        g, f, g_arc, f_arc = gC[i, j], gC[j, i], arc_right[i, j], gX[j, i]
        for k in above:
            g = numbers.muladd(g, gC[k, j], I[k, i])
            f = numbers.muladd(f, gX[k, j], C[k, above[-1]])
            f_arc = numbers.muladd(f_arc, gC[j, k], C[i, k])
        for k in beyond:
            g = numbers.muladd(g, gX[i, k], C[k, beyond[0]])
            f = numbers.muladd(f, gC[k, i], I[k, j])
            g_arc = numbers.muladd(g_arc, gC[i, k], C[j, k])
        if i is rows[0]:
            g = numbers.choose(only_root, begin[i, j], g)
        gC[i, j], gC[j, i] = g, f
        g_arc, f_arc = numbers.add(g_arc, g), numbers.add(f_arc, f)
        gX[i, j] = numbers.muladd(numbers.mul(g_arc, p[i, j]), f_arc, p[j, i])
        mu[i, j], mu[j, i] = numbers.mul(g_arc, I[i, j]), numbers.mul(f_arc, I[j, i])


def _inside_tile(height, width):
    @intrinsic
    def tile(typingctx, p, C, I, X, row, i, j, only_root):
        def emit(context, builder, signature, args):
            *charts, row, i, j, only_root = args
            numbers, grid, rows, columns = _tile(builder, C, row, i, j, height, width)
            _inside(numbers, grid, *(Chart(numbers, grid, x) for x in charts), rows, columns, only_root)
            return context.get_dummy_value()

        size = types.intp
        return types.void(p, C, I, X, size, size, size, types.boolean), emit

    return tile


def _outside_tile(height, width):
    @intrinsic
    def tile(typingctx, p, C, I, gC, gX, mu, row, i, j, nodes, only_root):
        def emit(context, builder, signature, args):
            *charts, row, i, j, nodes, only_root = args
            numbers, grid, rows, columns = _tile(builder, C, row, i, j, height, width)
            (start,), (end,) = grid.nodes(nodes.type(0), 1), grid.nodes(nodes, 1)
            charts = (Chart(numbers, grid, x) for x in charts)
            _outside(numbers, grid, *charts, rows, columns, start, end, only_root)
            return context.get_dummy_value()

        size = types.intp
        return types.void(p, C, I, gC, gX, mu, size, size, size, size, types.boolean), emit

    return tile


def _tile(builder, chart, row, i, j, height, width):
    """Numbers, grid, and the nodes of the rows and columns. Without a width, the columns are the rows."""
    numbers = Numbers(builder, chart)
    grid = Grid(builder, row, numbers.vector.dtype.bitwidth // 8)
    rows = grid.nodes(i, height)
    return numbers, grid, rows, grid.nodes(j, width) if width else rows


# A square, a square of two columns only, and the triangles of four nodes and of two.
inside_square, inside_half = _inside_tile(SIDE, SIDE), _inside_tile(SIDE, 2)
inside_triangle, inside_pair = _inside_tile(SIDE, None), _inside_tile(2, None)
outside_square, outside_half = _outside_tile(SIDE, SIDE), _outside_tile(SIDE, 2)
outside_triangle, outside_pair = _outside_tile(SIDE, None), _outside_tile(2, None)
