"""The relaxed tree (tritree/relaxed.py) and its gradient.

    inside     up      V of every item, and of every sum what its shares need     3 sums
    expect     up      D: how much of ∂A an item is expected to hold              3 sums    gradient only
    down       down    c, the contributions; those of the arcs are A              6 sums
                       v, the derivative for V, in the same sums                            gradient only

A share is an exponential, b_k = exp(a_k) / Σ exp(a). The term a_k is the sum of two values V, so exp(a_k) is a
product. Every item keeps its factor, exp(V) = value · 2^exponent, and a term costs a few multiplications and one power
of two. Nothing over- or underflows, whatever the scores and the temperature. Shares are computed again where they are
needed, and the backward call uses nothing from the forward call: memory grows with N². Values are in units of the
temperature.

The gradient. Σ A ∂A is D(C[0,n]), where D(I[h,m]) = D(X{h,m}) + ∂A[h,m], and a sum has D = Σ b_k d_k over terms d_k
that add two D, as V = Σ b_k a_k. Differentiate this program in reverse. The derivative for D is the contribution c. In
a sum P, b_k receives c_P d_k from D_P and v_P a_k from V_P. Through the softmax, and directly from V_P, the term a_k
receives

    b_k (v_P + v_P (a_k − V_P) + c_P (d_k − D_P))

which is added to the v of both of its items. For the only possible term of a sum both differences are 0.
"""

import math

from tritree.cpu.chart.lanes import copy_in, copy_out, exponentiate, nodes_of, scale_by, words_in_lanes
from tritree.cpu.chart.layout import Soft, SoftGradient, soft_charts, soft_gradient_charts
from tritree.cpu.chart.numbers import MINUS_INF, for_kind, generic, top_exponent
from tritree.cpu.groups import new_members, next_group
from tritree.cpu.simd import vector
from tritree.cpu.simd.exp import pow2, split_exp
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import fma, full, lanes, select

LN2 = math.log(2)


@kernel
def relaxed_kernel(work, order, scores, lengths, temperature, A, progress):
    """Fills A, for the groups that it takes."""
    members = new_members(work)
    while next_group(members, order, lengths, progress):
        charts = soft_charts(work, nodes_of(members))
        inside(charts, scores, members, temperature)
        down(charts, words_in_lanes(charts, members))
        copy_out(charts, charts.I.share, members, A, 0.0)


@kernel
def relaxed_gradient_kernel(work, order, scores, lengths, temperature, grad, result, progress):
    """Fills result, the derivative for the scores where grad is the one for A, for the groups that it takes."""
    members = new_members(work)
    while next_group(members, order, lengths, progress):
        charts = soft_gradient_charts(work, nodes_of(members))
        inside(charts, scores, members, temperature)
        expect(charts, grad, members)
        down(charts, words_in_lanes(charts, members))
        scale_by(charts, charts.I.v, full(charts.I.v, 1 / temperature))
        copy_out(charts, charts.I.v, members, result, 0.0)


@inline
def inside(charts, scores, members, temperature):
    C, nodes, row, cell = charts.C, charts.nodes, charts.row, lanes(charts.C.V)
    copy_in(scores, members, charts, charts.p.value, MINUS_INF)
    exponentiate(charts)
    scale_by(charts, charts.p.value, full(C.V, 1 / temperature))
    for h in range(nodes):
        store_item(C, h * (row + cell), full(C.V, 0.0))
    for i in range(nodes - 1, -1, -1):
        for j in range(i + 1, nodes):
            inside_span(charts, i, j)


@inline
def inside_span(charts, i, j):
    p, I, C, X, row = charts.p.value, charts.I, charts.C, charts.X, charts.row
    cell = lanes(p)
    diagonal = row + cell
    right, left = i * row + j * cell, j * row + i * cell
    # join        X{i,j} from C[i,k] ⊗ C[j,k+1]
    V = soft_sum(X, right, C, i * diagonal, cell, C, left + cell, cell, j - i)
    # attach      I[i,j] = X{i,j} ⊗ s[i,j]                     I[j,i] = X{i,j} ⊗ s[j,i]
    store_item(I, right, V + vector.load(p, right))
    store_item(I, left, V + vector.load(p, left))
    # complete    C[i,j] from I[i,k] ⊗ C[k,j]                  C[j,i] from I[j,k] ⊗ C[k,i]
    store_item(C, right, soft_sum(C, right, I, i * diagonal + cell, cell, C, right + row, row, j - i))
    store_item(C, left, soft_sum(C, left, I, left, cell, C, i * diagonal, row, j - i))


@inline
def soft_sum(P, at, A, a, step_a, B, b, step_b, count):
    """V = Σ b_k a_k of the sum P[at] over the terms A[a + k·step_a] ⊗ B[b + k·step_b], k < count.

    It is −inf if no term is possible. The mean is taken relative to (nearly) the largest a_k. Then V of a single term
    is its a_k, however large that is.
    """
    top = top_exponent(A, a, step_a, B, b, step_b, count)
    zero, minus_inf = full(top, 0.0), full(top, MINUS_INF)
    base = select(top == minus_inf, zero, top * full(top, LN2))
    total = mean = zero
    for _ in range(count):
        w = weight(top, A, a, B, b)
        total = total + w
        mean = fma(w, (vector.load(A.V, a) + vector.load(B.V, b)) - base, mean)
        a += step_a
        b += step_b
    none = total == zero
    share = select(none, zero, full(top, 1.0) / total)
    V = fma(mean, share, base)
    vector.store(P.V, at, select(none, zero, V))
    vector.store(P.top, at, top)
    vector.store(P.share, at, share)
    return select(none, minus_inf, V)


@inline
def weight(top, A, a, B, b):
    """exp(a_k) · 2^−top of the term A[a] ⊗ B[b]."""
    # The exponent is −inf where an item is impossible, and NaN where all terms are: both give 0.
    scale = pow2((vector.load(A.exponent, a) + vector.load(B.exponent, b)) - top)
    return vector.load(A.value, a) * scale * vector.load(B.value, b)


@inline
def store_item(A, at, V):
    value, exponent = split_exp(V)
    impossible = full(V, MINUS_INF) == V
    vector.store(A.V, at, select(impossible, full(V, 0.0), V))
    vector.store(A.value, at, value)
    vector.store(A.exponent, at, exponent)


@inline
def expect(charts, grad, members):
    """Fills D."""
    I, C, nodes, row, cell = charts.I, charts.C, charts.nodes, charts.row, lanes(charts.C.V)
    copy_in(grad, members, charts, I.D, 0.0)
    for h in range(nodes):
        vector.store(C.D, h * (row + cell), full(C.D, 0.0))
    for i in range(nodes - 1, -1, -1):
        for j in range(i + 1, nodes):
            expect_span(charts, i, j)


@inline
def expect_span(charts, i, j):
    I, C, X, row = charts.I, charts.C, charts.X, charts.row
    cell = lanes(C.V)
    diagonal = row + cell
    right, left = i * row + j * cell, j * row + i * cell
    D = expected(X, right, C, i * diagonal, cell, C, left + cell, cell, j - i)
    zero = full(D, 0.0)
    for at in (right, left):
        # D of an impossible arc is 0, whatever ∂A is.
        impossible = vector.load(I.value, at) == zero
        vector.store(I.D, at, select(impossible, zero, D + vector.load(I.D, at)))
    expected(C, right, I, i * diagonal + cell, cell, C, right + row, row, j - i)
    expected(C, left, I, left, cell, C, i * diagonal, row, j - i)


@inline
def expected(P, at, A, a, step_a, B, b, step_b, count):
    """Stores and returns D = Σ b_k d_k of the sum P[at], over the terms as in soft_sum."""
    top = vector.load(P.top, at)
    total = full(top, 0.0)
    for _ in range(count):
        total = fma(weight(top, A, a, B, b), vector.load(A.D, a) + vector.load(B.D, b), total)
        a += step_a
        b += step_b
    D = total * vector.load(P.share, at)
    vector.store(P.D, at, D)
    return D


@inline
def down(charts, n):
    """Fills c and, in gradient charts, v. The order of cells is that of the outside pass.

    `n`, the number of words, is a vector: each lane has its own goal.
    """
    zero, one = full(n, 0.0), full(n, 1.0)
    for i in range(charts.nodes):
        for j in range(charts.nodes - 1, i, -1):
            goal = select(n == full(n, j), one, zero) if i == 0 else zero
            down_span(charts, i, j, goal)


@inline
def down_span(charts, i, j, goal):
    """What the items of the span (i, j) receive from wider ones. `goal` is the contribution that C[i,j] begins with."""
    I, C, X, nodes, row = charts.I, charts.C, charts.X, charts.nodes, charts.row
    cell = lanes(C.V)
    diagonal = row + cell
    right, left = i * row + j * cell, j * row + i * cell
    before, after = i, nodes - 1 - j  # how many k < i, and how many k > j
    zero = full(goal, 0.0)

    # C[i,j] is a part of C[k,j] beside I[k,i], and of X{i,k} beside C[k,j+1]
    c, v = receive(C, right, zero, zero, C, j * cell, row, I, i * cell, row, before)
    c, v = receive(C, right, c, v, X, right + cell, cell, C, (j + 1) * diagonal, row, after)
    value, share = vector.load(C.value, right), vector.load(C.share, right)
    keep(C, right, fma(c, value, goal) * share, v * value * share)
    # C[j,i] is a part of C[k,i] beside I[k,j], and of X{k,j} beside C[k,i−1]
    c, v = receive(C, left, zero, zero, C, left + row, row, I, j * diagonal + row, row, after)
    c, v = receive(C, left, c, v, X, j * cell, row, C, (i - 1) * cell, row, before)
    value, share = vector.load(C.value, left), vector.load(C.share, left)
    keep(C, left, c * value * share, v * value * share)
    # I[i,j] is a part of C[i,k] beside C[j,k], and I[j,i] of C[j,k] beside C[i,k]
    c, v = receive(I, right, zero, zero, C, right, cell, C, j * diagonal, cell, after + 1)
    value = vector.load(I.value, right)
    c_right, v_right = c * value, v * value
    keep(I, right, c_right, v_right)
    c, v = receive(I, left, zero, zero, C, j * row, cell, C, i * row, cell, before + 1)
    value = vector.load(I.value, left)
    c_left, v_left = c * value, v * value
    keep(I, left, c_left, v_left)
    # X{i,j} is a part of both
    share = vector.load(X.share, right)
    keep(X, right, (c_right + c_left) * share, (v_right + v_left) * share)


@generic
def receive(A, at, c, v, P, p, step_p, B, b, step_b, count):
    """c and v, plus what item A[at] receives from the sums P[p + k·step_p], in which its factor is B[b + k·step_b].

    The factor of the item's own value, which is the same in all terms, is left out.
    """


@for_kind(receive, Soft)
def _(A, at, c, v, P, p, step_p, B, b, step_b, count):
    exponent = vector.load(A.exponent, at)
    for _ in range(count):
        scale = pow2((exponent + vector.load(B.exponent, b)) - vector.load(P.top, p))
        c = fma(vector.load(B.value, b) * scale, vector.load(P.share, p), c)
        p += step_p
        b += step_b
    return c, v


@for_kind(receive, SoftGradient)
def _(A, at, c, v, P, p, step_p, B, b, step_b, count):
    exponent, V, D = vector.load(A.exponent, at), vector.load(A.V, at), vector.load(A.D, at)
    for _ in range(count):
        scale = pow2((exponent + vector.load(B.exponent, b)) - vector.load(P.top, p))
        w = vector.load(B.value, b) * scale
        c_P, v_P = vector.load(P.share, p), vector.load(P.v, p)
        a = (V + vector.load(B.V, b)) - vector.load(P.V, p)
        d = (D + vector.load(B.D, b)) - vector.load(P.D, p)
        c = fma(w, c_P, c)
        v = fma(w, fma(v_P, a, fma(c_P, d, v_P)), v)
        p += step_p
        b += step_b
    return c, v


@generic
def keep(P, at, c, v):
    """Stores what P[at] has received: of an item as it is, of a sum times its share."""


@for_kind(keep, Soft)
def _(P, at, c, v):
    vector.store(P.share, at, c)


@for_kind(keep, SoftGradient)
def _(P, at, c, v):
    vector.store(P.share, at, c)
    vector.store(P.v, at, v)
