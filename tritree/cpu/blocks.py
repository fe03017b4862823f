"""The inner loop of both passes: all products of four rows and four columns, added up over the splits.

For 16 running totals there are 8 loads per split, half as many as multiply–adds. A processor can do as many of the one
as of the other, so this runs at the speed of the multiply–adds. AVX-512 has the registers for it; with AVX2 some of the
totals live in the first-level cache, and still no more is loaded than by smaller tiles.
"""

from tritree.cpu.jit import inline
from tritree.cpu.kinds import empty, load, muladd, store


@inline
def block(T, t, row_t, column_t, A, a, row_a, step_a, B, b, column_b, step_b, count, fresh):
    """T[t + r·row_t + c·column_t] ⊕= ⊕ k  A[a + r·row_a + k·step_a] ⊗ B[b + c·column_b + k·step_b]  for r, c < 4.

    `fresh`: T holds nothing yet. The splits k < count are added in increasing order.
    """
    t0, t1, t2, t3 = t, t + row_t, t + 2 * row_t, t + 3 * row_t
    c1, c2, c3 = column_t, 2 * column_t, 3 * column_t
    if fresh:
        x00 = x01 = x02 = x03 = x10 = x11 = x12 = x13 = empty(T)
        x20 = x21 = x22 = x23 = x30 = x31 = x32 = x33 = empty(T)
    else:
        x00, x01, x02, x03 = load(T, t0), load(T, t0 + c1), load(T, t0 + c2), load(T, t0 + c3)
        x10, x11, x12, x13 = load(T, t1), load(T, t1 + c1), load(T, t1 + c2), load(T, t1 + c3)
        x20, x21, x22, x23 = load(T, t2), load(T, t2 + c1), load(T, t2 + c2), load(T, t2 + c3)
        x30, x31, x32, x33 = load(T, t3), load(T, t3 + c1), load(T, t3 + c2), load(T, t3 + c3)
    for _ in range(count):
        b0, b1 = load(B, b), load(B, b + column_b)
        b2, b3 = load(B, b + 2 * column_b), load(B, b + 3 * column_b)
        u = load(A, a)
        x00, x01, x02, x03 = muladd(x00, u, b0), muladd(x01, u, b1), muladd(x02, u, b2), muladd(x03, u, b3)
        u = load(A, a + row_a)
        x10, x11, x12, x13 = muladd(x10, u, b0), muladd(x11, u, b1), muladd(x12, u, b2), muladd(x13, u, b3)
        u = load(A, a + 2 * row_a)
        x20, x21, x22, x23 = muladd(x20, u, b0), muladd(x21, u, b1), muladd(x22, u, b2), muladd(x23, u, b3)
        u = load(A, a + 3 * row_a)
        x30, x31, x32, x33 = muladd(x30, u, b0), muladd(x31, u, b1), muladd(x32, u, b2), muladd(x33, u, b3)
        a += step_a
        b += step_b
    store(T, t0, x00)
    store(T, t0 + c1, x01)
    store(T, t0 + c2, x02)
    store(T, t0 + c3, x03)
    store(T, t1, x10)
    store(T, t1 + c1, x11)
    store(T, t1 + c2, x12)
    store(T, t1 + c3, x13)
    store(T, t2, x20)
    store(T, t2 + c1, x21)
    store(T, t2 + c2, x22)
    store(T, t2 + c3, x23)
    store(T, t3, x30)
    store(T, t3 + c1, x31)
    store(T, t3 + c2, x32)
    store(T, t3 + c3, x33)
