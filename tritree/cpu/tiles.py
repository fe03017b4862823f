"""Both passes on tiles of 2×2 spans: what inside.py and outside.py state, with half of the loads.

A plain loop loads two numbers for one multiply–add, and a processor can do no more loads than multiply–adds. A tile

                 j    j+1
        i      │ b  │ d  │        the spans (i, j) and (i, j+1),                i and j even
        i+1    │ a  │ c  │                  (i+1, j) and (i+1, j+1)

shares its loads: each of the four spans pairs one of two rows with one of two columns, so four loads make four
multiply–adds. A span has three sums, hence twelve of each, and twelve running totals: AVX2 has registers for no more.

The splits i+2 ≤ k < j lie outside of the tile, are the same for its four spans, and make up the loop. The few that are
left use an end or another span of the tile. They follow one by one: a first, which lies within the others, then b and
c, then d. The outside pass goes the other way round.

Tiles lie on a grid that begins at 0, so each span has one order of operations, whatever the length of its sentence or
of its group: the same bits in any batch. (The number of nodes is made even by a word without arcs.)

A band of four rows of tiles is done together, column by column: what a tile reads of its columns is then in the
first-level cache for the other three. That changes the order of the tiles, not that of any span's operations.
"""

from tritree.cpu.inside import inside_span
from tritree.cpu.jit import inline
from tritree.cpu.kinds import add, empty, load, mul, muladd, one, seed, store
from tritree.cpu.outside import outside_span
from tritree.cpu.vec import full, lanes

BAND = 8  # rows of spans


@inline
def inside_tiled(charts, single_root):
    """As `inside`, for Linear and Max."""
    C, nodes, row, cell = charts.C, charts.nodes, charts.row, lanes(charts.C.value)
    for h in range(nodes):
        store(C, h * (row + cell), one(C))
    for top in range((nodes - 1) // BAND * BAND, -1, -BAND):
        for j in range(top, nodes, 2):
            if j < top + BAND:
                inside_span(charts, j, j + 1, single_root)
            for i in range(min(top + BAND, j) - 2, top - 1, -2):
                inside_tile(charts, row, cell, i, j, single_root and i == 0)


@inline
def inside_tile(charts, row, cell, i, j, only_root):
    p, C, I, X = charts.p, charts.C, charts.I, charts.X
    row_i, row_j = i * row, j * row
    row_i1, row_j1 = row_i + row, row_j + row
    at_i, at_j = i * cell, j * cell
    at_i1, at_j1 = at_i + cell, at_j + cell
    at_i2 = at_i1 + cell
    # The sums of the four spans: x for X{i,j}, r for C[i,j], which faces right, l for C[j,i], which faces left.
    nothing = empty(C)
    xa, xb, xc, xd = nothing, nothing, nothing, nothing
    ra, rb, rc, rd = nothing, nothing, nothing, nothing
    la, lb, lc, ld = nothing, nothing, nothing, nothing
    k, row_k = at_i2, row_i1 + row
    for _ in range(j - i - 2):
        # X{i,j} = ⊕ C[i,k] ⊗ C[j,k+1]
        u, v = load(C, row_i + k), load(C, row_i1 + k)
        s, t = load(C, row_j + k + cell), load(C, row_j1 + k + cell)
        xa, xb, xc, xd = muladd(xa, v, s), muladd(xb, u, s), muladd(xc, v, t), muladd(xd, u, t)
        # C[i,j] = ⊕ I[i,k] ⊗ C[k,j]
        u, v = load(I, row_i + k), load(I, row_i1 + k)
        s, t = load(C, row_k + at_j), load(C, row_k + at_j1)
        ra, rb, rc, rd = muladd(ra, v, s), muladd(rb, u, s), muladd(rc, v, t), muladd(rd, u, t)
        # C[j,i] = ⊕ I[j,k] ⊗ C[k,i]
        u, v = load(C, row_k + at_i), load(C, row_k + at_i1)
        s, t = load(I, row_j + k), load(I, row_j1 + k)
        la, lb, lc, ld = muladd(la, v, s), muladd(lb, u, s), muladd(lc, v, t), muladd(ld, u, t)
        k += cell
        row_k += row

    # What is left are terms with C[h,h] = 1, and with these:
    I_i_i1, C_i_i1, C_i1_i = load(I, row_i + at_i1), load(C, row_i + at_i1), load(C, row_i1 + at_i)
    I_j1_j, C_j_j1 = load(I, row_j1 + at_j), load(C, row_j + at_j1)
    C_j_i2, C_j1_i2 = load(C, row_j + at_i2), load(C, row_j1 + at_i2)

    right, left = row_i1 + at_j, row_j + at_i1  # a = (i+1, j)
    I_right, I_left = attach(p, I, X, right, left, add(xa, C_j_i2))
    a_right, a_left = add(ra, I_right), add(la, I_left)
    store(C, right, a_right)
    store(C, left, a_left)
    rc, lb = muladd(rc, I_right, C_j_j1), muladd(lb, I_left, C_i1_i)

    right, left = row_i + at_j, row_j + at_i  # b = (i, j)
    xb = a_left if only_root else add(muladd(xb, C_i_i1, C_j_i2), a_left)
    I_right, I_left = attach(p, I, X, right, left, xb)
    b_right, b_left = add(muladd(rb, I_i_i1, a_right), I_right), add(lb, I_left)
    store(C, right, b_right)
    store(C, left, b_left)
    rd = muladd(rd, I_right, C_j_j1)

    right, left = row_i1 + at_j1, row_j1 + at_i1  # c = (i+1, j+1)
    I_right, I_left = attach(p, I, X, right, left, add(add(xc, C_j1_i2), a_right))
    c_right, c_left = add(rc, I_right), add(muladd(lc, I_j1_j, a_left), I_left)
    store(C, right, c_right)
    store(C, left, c_left)
    ld = muladd(ld, I_left, C_i1_i)

    right, left = row_i + at_j1, row_j1 + at_i  # d = (i, j+1)
    xd = c_left if only_root else add(add(muladd(xd, C_i_i1, C_j1_i2), b_right), c_left)
    I_right, I_left = attach(p, I, X, right, left, xd)
    store(C, right, add(muladd(rd, I_i_i1, c_right), I_right))
    store(C, left, add(muladd(ld, I_j1_j, b_left), I_left))


@inline
def attach(p, I, X, right, left, x):
    """Stores X{i,j} and the two arcs over it, which it returns."""
    I_right, I_left = mul(x, load(p, right)), mul(x, load(p, left))
    store(X, right, x)
    store(I, right, I_right)
    store(I, left, I_left)
    return I_right, I_left


@inline
def outside_tiled(charts, n, single_root):
    """As `outside`, for Linear. Afterwards C[0,j] is lost if single_root."""
    C, gC, nodes, row, cell = charts.C, charts.gC, charts.nodes, charts.row, lanes(charts.C.value)
    for j in range(1, nodes):
        at = j * cell
        store(gC, at, seed(load(C, at), n == full(n, j)))
        if single_root:
            store(C, at, empty(C))  # it takes part in no join, and without it none needs to know
    for top in range(0, nodes, BAND):
        for j in range(nodes - 2, top - 1, -2):
            for i in range(top, min(top + BAND, j), 2):
                outside_tile(charts, row, cell, i, j, single_root and i == 0)
            if j < top + BAND:
                outside_span(charts, j, j + 1, single_root, load(gC, cell) if j == 0 else empty(gC))


@inline
def outside_tile(charts, row, cell, i, j, only_root):
    C, I, gC, gX = charts.C, charts.I, charts.gC, charts.gX
    row_i, row_j = i * row, j * row
    row_i1, row_j1 = row_i + row, row_j + row
    at_i, at_j = i * cell, j * cell
    at_i1, at_j1 = at_i + cell, at_j + cell
    # The sums of the four spans: r for gC[i,j], l for gC[j,i], p for gI[i,j], q for gI[j,i].
    nothing = empty(gC)
    ra, rc = nothing, nothing
    rb, rd = (load(gC, at_j), load(gC, at_j1)) if i == 0 else (nothing, nothing)
    la, lb, lc, ld = nothing, nothing, nothing, nothing
    pa, pb, pc, pd = nothing, nothing, nothing, nothing
    qa, qb, qc, qd = nothing, nothing, nothing, nothing
    k, row_k = 0, 0
    for _ in range(i):
        # gC[i,j] += gC[k,j] I[k,i]
        u, v = load(I, row_k + at_i), load(I, row_k + at_i1)
        s, t = load(gC, row_k + at_j), load(gC, row_k + at_j1)
        ra, rb, rc, rd = muladd(ra, v, s), muladd(rb, u, s), muladd(rc, v, t), muladd(rd, u, t)
        # gC[j,i] += gX{k,j} C[k,i−1]
        u, v = load(C, row_k + at_i - cell), load(C, row_k + at_i)
        s, t = load(gX, row_k + at_j), load(gX, row_k + at_j1)
        la, lb, lc, ld = muladd(la, v, s), muladd(lb, u, s), muladd(lc, v, t), muladd(ld, u, t)
        # gI[j,i] += gC[j,k] C[i,k]
        u, v = load(C, row_i + k), load(C, row_i1 + k)
        s, t = load(gC, row_j + k), load(gC, row_j1 + k)
        qa, qb, qc, qd = muladd(qa, v, s), muladd(qb, u, s), muladd(qc, v, t), muladd(qd, u, t)
        k += cell
        row_k += row
    seeds = rb, rd
    k, row_k = at_j1 + cell, row_j1 + row
    for _ in range(charts.nodes - 2 - j):
        # gC[i,j] += gX{i,k} C[k,j+1]
        u, v = load(gX, row_i + k), load(gX, row_i1 + k)
        s, t = load(C, row_k + at_j1), load(C, row_k + at_j1 + cell)
        ra, rb, rc, rd = muladd(ra, v, s), muladd(rb, u, s), muladd(rc, v, t), muladd(rd, u, t)
        # gC[j,i] += gC[k,i] I[k,j]
        u, v = load(gC, row_k + at_i), load(gC, row_k + at_i1)
        s, t = load(I, row_k + at_j), load(I, row_k + at_j1)
        la, lb, lc, ld = muladd(la, v, s), muladd(lb, u, s), muladd(lc, v, t), muladd(ld, u, t)
        # gI[i,j] += gC[i,k] C[j,k]
        u, v = load(gC, row_i + k), load(gC, row_i1 + k)
        s, t = load(C, row_j + k), load(C, row_j1 + k)
        pa, pb, pc, pd = muladd(pa, v, s), muladd(pb, u, s), muladd(pc, v, t), muladd(pd, u, t)
        k += cell
        row_k += row
    if only_root:
        rb, rd = seeds

    # What is left are terms with C[h,h] = 1, and with these:
    I_i_i1, C_i1_i = load(I, row_i + at_i1), load(C, row_i1 + at_i)
    I_j1_j, C_j_j1 = load(I, row_j1 + at_j), load(C, row_j + at_j1)

    right, left = row_i + at_j1, row_j1 + at_i  # d = (i, j+1)
    X_d = detach(charts, right, left, rd, ld, add(pd, rd), add(qd, ld))

    right, left = row_i + at_j, row_j + at_i  # b = (i, j)
    rb, lb = rb if only_root else add(rb, X_d), muladd(lb, ld, I_j1_j)
    X_b = detach(charts, right, left, rb, lb, add(muladd(pb, rd, C_j_j1), rb), add(qb, lb))

    right, left = row_i1 + at_j1, row_j1 + at_i1  # c = (i+1, j+1)
    rc, lc = muladd(rc, rd, I_i_i1), add(lc, X_d)
    X_c = detach(charts, right, left, rc, lc, add(pc, rc), add(muladd(qc, ld, C_i1_i), lc))

    right, left = row_i1 + at_j, row_j + at_i1  # a = (i+1, j)
    ra, la = muladd(add(ra, X_c), rb, I_i_i1), muladd(add(la, X_b), lc, I_j1_j)
    detach(charts, right, left, ra, la, add(muladd(pa, rc, C_j_j1), ra), add(muladd(qa, lb, C_i1_i), la))


@inline
def detach(charts, right, left, gC_right, gC_left, gI_right, gI_left):
    """Stores the gradients and the marginals of one span; returns the gradient of its X."""
    p, I = charts.p, charts.I
    gX = muladd(mul(gI_right, load(p, right)), gI_left, load(p, left))
    store(charts.gC, right, gC_right)
    store(charts.gC, left, gC_left)
    store(charts.gX, right, gX)
    store(charts.mu, right, mul(gI_right, load(I, right)))
    store(charts.mu, left, mul(gI_left, load(I, left)))
    return gX
