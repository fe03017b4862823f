"""Both passes on tiles of spans: what inside.py and outside.py state, with a third of the loads.

A plain loop loads two numbers for one multiply–add, and a processor can do no more loads than multiply–adds. So spans
share them. Tiles of 2×2 spans

                 j    j+1
        i      │ b  │ d  │        (i, j) and (i, j+1),          i and j even
        i+1    │ a  │ c  │        (i+1, j) and (i+1, j+1)

lie in blocks of 4×4, whose corner is (i4, j4), both multiples of 4. The splits k of a tile fall into four parts:

    far      i4+4 ≤ k < j4               the same for the 16 spans of the block, and done for all of them at once
                                         (blocks.py); the sums so far wait in the charts
    near     i+2 ≤ k < i4+4, j4 ≤ k < j  the same for the four spans of the tile, at most four of them
    ends     the rest: terms with an end or another span of the tile. They follow one by one: a first, which lies within
             the others, then b and c, then d. The outside pass goes the other way round.

Where there is no whole block, at the end of an odd number of tiles, the tile does its far splits itself: the same terms
in the same order. Blocks lie on a grid that begins at 0. So each span has one order of operations, whatever the length
of its sentence or of its group: the same bits in any batch. (The number of nodes is made even by a word without arcs.)

Two rows of blocks are done together, column by column: what a block reads of its columns is then in the first-level
cache for the other one. That changes the order of the blocks, not that of any span's operations.
"""

from tritree.cpu.blocks import block
from tritree.cpu.gradients import seed
from tritree.cpu.inside import inside_span
from tritree.cpu.jit import inline
from tritree.cpu.kinds import Linear, add, empty, load, mul, muladd, one, store
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
        for j4 in range(top, nodes, 4):
            for i4 in range(min(top + BAND - 4, j4), top - 1, -4):
                whole = i4 < j4 and j4 + 4 <= nodes
                if whole:
                    inside_block(charts, row, cell, i4, j4)
                for j in range(j4, min(j4 + 4, nodes), 2):
                    if i4 == j4:
                        inside_span(charts, j, j + 1, single_root)
                    for i in range(min(i4 + 2, j - 2), i4 - 1, -2):
                        inside_tile(charts, row, cell, i, j, i4, j4, whole, single_root and i == 0)


@inline
def inside_block(charts, row, cell, i4, j4):
    """The far splits of a block."""
    C, I, X = charts.C, charts.I, charts.X
    i, j, k = i4 * row, j4 * row, (i4 + 4) * row
    at_i, at_j, at_k = i4 * cell, j4 * cell, (i4 + 4) * cell
    count = j4 - i4 - 4
    # X{i,j} = ⊕ C[i,k] ⊗ C[j,k+1]     C[i,j] = ⊕ I[i,k] ⊗ C[k,j]     C[j,i] = ⊕ C[k,i] ⊗ I[j,k]
    block(X, i + at_j, row, cell, C, i + at_k, row, cell, C, j + at_k + cell, row, cell, count, True)
    block(C, i + at_j, row, cell, I, i + at_k, row, cell, C, k + at_j, cell, row, count, True)
    block(C, j + at_i, cell, row, C, k + at_i, cell, row, I, j + at_k, row, cell, count, True)


@inline
def inside_tile(charts, row, cell, i, j, i4, j4, far_done, only_root):
    p, C, I, X = charts.p, charts.C, charts.I, charts.X
    row_i, row_j = i * row, j * row
    row_i1, row_j1 = row_i + row, row_j + row
    at_i, at_j = i * cell, j * cell
    at_i1, at_j1 = at_i + cell, at_j + cell
    at_i2 = at_i1 + cell
    # The sums of the four spans: x for X{i,j}, r for C[i,j], which faces right, l for C[j,i], which faces left.
    xa = xb = xc = xd = ra = rb = rc = rd = la = lb = lc = ld = empty(C)
    if far_done:
        xa, xb = load(X, row_i1 + at_j), load(X, row_i + at_j)
        xc, xd = load(X, row_i1 + at_j1), load(X, row_i + at_j1)
        ra, rb = load(C, row_i1 + at_j), load(C, row_i + at_j)
        rc, rd = load(C, row_i1 + at_j1), load(C, row_i + at_j1)
        la, lb = load(C, row_j + at_i1), load(C, row_j + at_i)
        lc, ld = load(C, row_j1 + at_i1), load(C, row_j1 + at_i)
    for part in range(1 if far_done else 0, 3):
        if part == 0:
            first, last = i4 + 4, j4
        elif part == 1:
            first, last = i + 2, min(i4 + 4, j)
        else:
            first, last = max(i4 + 4, j4), j
        k, row_k = first * cell, first * row
        for _ in range(last - first):
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

    # The ends: terms with C[h,h] = 1, and with these.
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
    """As `outside`, for Linear. Afterwards C[0,j] is lost if single_root.

    The sums for gI wait in X: below the diagonal it is not used, and above it gX comes last.
    """
    C, nodes, row, cell = charts.C, charts.nodes, charts.row, lanes(charts.C.value)
    seeds = Linear(charts.scratch)
    for j in range(1, nodes):
        store(seeds, j * cell, seed(load(C, j * cell), n == full(n, j)))
        if single_root:
            store(C, j * cell, empty(C))  # it takes part in no join, and without it none needs to know
    for top in range(0, nodes, BAND):
        for j4 in range((nodes - 1) // 4 * 4, top - 1, -4):
            for i4 in range(top, min(top + BAND, j4 + 4), 4):
                whole = i4 < j4 and j4 + 4 <= nodes
                if whole:
                    outside_block(charts, row, cell, i4, j4)
                for j in range(min(j4 + 4, nodes) - 2, j4 - 1, -2):
                    for i in range(i4, min(i4 + 4, j), 2):
                        outside_tile(charts, row, cell, i, j, i4, j4, whole, single_root and i == 0)
                    if i4 == j4:
                        outside_span(charts, j, j + 1, single_root, load(seeds, cell) if j == 0 else empty(C))


@inline
def outside_block(charts, row, cell, i4, j4):
    """The far splits of a block."""
    C, I, gC, gX = charts.C, charts.I, charts.gC, charts.gX
    i, j, k = i4 * row, j4 * row, (j4 + 4) * row
    at_i, at_j, at_k = i4 * cell, j4 * cell, (j4 + 4) * cell
    right, left = i + at_j, j + at_i
    # gC[i,j] += gC[k,j] I[k,i]     gC[j,i] += gX{k,j} C[k,i−1]     gI[j,i] += gC[j,k] C[i,k]     over k < i4
    block(gC, right, row, cell, I, at_i, cell, row, gC, at_j, cell, row, i4, True)
    block(gC, left, cell, row, C, at_i - cell, cell, row, gX, at_j, cell, row, i4, True)
    block(gX, left, cell, row, C, i, row, cell, gC, j, row, cell, i4, True)
    # gC[i,j] += gX{i,k} C[k,j+1]   gC[j,i] += gC[k,i] I[k,j]       gI[i,j] += gC[i,k] C[j,k]     over k ≥ j4 + 4
    count = charts.nodes - j4 - 4
    block(gC, right, row, cell, gX, i + at_k, row, cell, C, k + at_j + cell, cell, row, count, False)
    block(gC, left, cell, row, gC, k + at_i, cell, row, I, k + at_j, cell, row, count, False)
    block(gX, right, row, cell, gC, i + at_k, row, cell, C, j + at_k, row, cell, count, True)


@inline
def outside_tile(charts, row, cell, i, j, i4, j4, far_done, only_root):
    C, I, gC, gX = charts.C, charts.I, charts.gC, charts.gX
    row_i, row_j = i * row, j * row
    row_i1, row_j1 = row_i + row, row_j + row
    at_i, at_j = i * cell, j * cell
    at_i1, at_j1 = at_i + cell, at_j + cell
    # The sums of the four spans: r for gC[i,j], l for gC[j,i], p for gI[i,j], q for gI[j,i].
    ra = rb = rc = rd = la = lb = lc = ld = empty(gC)
    pa = pb = pc = pd = qa = qb = qc = qd = empty(gC)
    if far_done:
        ra, rb = load(gC, row_i1 + at_j), load(gC, row_i + at_j)
        rc, rd = load(gC, row_i1 + at_j1), load(gC, row_i + at_j1)
        la, lb = load(gC, row_j + at_i1), load(gC, row_j + at_i)
        lc, ld = load(gC, row_j1 + at_i1), load(gC, row_j1 + at_i)
        pa, pb = load(gX, row_i1 + at_j), load(gX, row_i + at_j)
        pc, pd = load(gX, row_i1 + at_j1), load(gX, row_i + at_j1)
        qa, qb = load(gX, row_j + at_i1), load(gX, row_j + at_i)
        qc, qd = load(gX, row_j1 + at_i1), load(gX, row_j1 + at_i)
    # k < i: the far ones, then after all other far ones the near ones
    for part in range(2):
        first, last = (i4, i) if part == 1 else (i4 if far_done else 0, i4)
        k, row_k = first * cell, first * row
        for _ in range(last - first):
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
        first, last = (
            (j + 2, min(j4 + 4, charts.nodes)) if part == 1 else (j4 + 4, j4 + 4 if far_done else charts.nodes)
        )
        k, row_k = first * cell, first * row
        for _ in range(last - first):
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
    if i == 0:
        seeds = Linear(charts.scratch)
        if only_root:
            rb = rd = empty(gC)
        rb, rd = add(rb, load(seeds, at_j)), add(rd, load(seeds, at_j1))

    # The ends: terms with C[h,h] = 1, and with these.
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
