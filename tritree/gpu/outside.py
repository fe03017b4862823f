"""The outside pass: the expected counts of all items, from the goal down. Those of I[h,m] are the marginals.

A sum with the expected count g gives each of its terms x the share 2^(x−m) / a, where m and a = Σ 2^(x−m) are what the
inside pass kept of the sum. So with G = g / a an item gathers, from all terms in which it is a factor,

    goal        g(C[0,n]) = 1
    join        g(C[i,k]) = Σ j beyond k   G(X{i,j}) · 2^(C[i,k] + C[j,k+1] − m(X{i,j}))
    complete              + Σ h beyond i   G(C[h,k]) · 2^(I[h,i] + C[i,k] − m(C[h,k]))
    complete    μ[h,m]    = Σ k beyond m   G(C[h,k]) · 2^(I[h,m] + C[m,k] − m(C[h,k]))        k = m included
    attach      g(X{i,j}) = μ[i,j] + μ[j,i]

The exponents are the same numbers that the inside pass computed: none is positive, so nothing overflows, and the
shares of a sum add up to 1 whatever the magnitude of the scores.

With derivatives: a term T has the derivative T · d ln T, and ln T is the sum of the logarithms of its two factors
and of g / (value of the sum). The derivative of the latter, dg/g − d(value), is stored as that of G. The item that
gathers is a factor of all its terms, so its own part, Σ T · d ln item, is added at the end.

MAX is the same in logarithms, with a maximum in place of each sum, and a = 1. There g is the score of the best tree
with the item, relative to the best tree: 0 or less. A sum gives its term x the number g + (x − m). The "marginal" of an
arc, plus the best score, is the score of the best tree that has it.

MEANS differentiates the means of the inside pass (relaxed.py). Each number g has the derivative v for V beside it. The
sum P, with the mean V = m + μ of its terms x, and D of their d, gives its term, with G = g / a and H = v / a,

    2^(x−m) G                                                     for g
    2^(x−m) (H + H (x − V) ln 2 + G (d − D))                      for v

which is 2^(x−m) (K + H ln 2 (x − m) + G d) with K = H (1 − μ ln 2) − G D. The item's own part of d is added at the end.
G, H ln 2 and K replace a, D and μ.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tritree.gpu.chart import (
    CL,
    CR,
    GL,
    GR,
    GX,
    IL,
    IR,
    ML,
    MR,
    MX,
    D,
    M,
    load,
    num_words,
    spans_of_tile,
    store,
    sweep,
)
from tritree.gpu.inside import LN2
from tritree.gpu.semiring import DUAL, INF, LOG, MAX, MEANS, PROPAGATE, is_pair


@triton.jit
def share(G, x, m, SEMIRING: tl.constexpr):
    """The share of G that the term x receives."""
    if SEMIRING == MAX:
        return tl.where(x == -INF, -INF, G + (x - m))
    else:
        return G * tl.exp2(x - m)


@triton.jit
def given(G, x, m, d, SEMIRING: tl.constexpr):
    """What a sum with G gives to its term x. The second number lacks the item's own part; d is its sibling's."""
    if SEMIRING == MEANS:
        below = tl.maximum(x - m, -2048.0, PROPAGATE)  # 0 · inf would be NaN
        part = tl.exp2(below)
        return part * G[0], part * (G[2] + G[1] * below + G[0] * d)
    else:
        t = share(G[0], x, m, SEMIRING)
        return t, t * (G[1] + d)


@triton.jit
def term(
    parent, G: tl.constexpr, LARGEST: tl.constexpr, sibling, S: tl.constexpr, item,
    PITCH: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """What a sum gives to the term sibling ⊗ item."""
    x, d = load(sibling, S, PITCH, SEMIRING)
    g = load(parent, G, PITCH, SEMIRING)
    if SEMIRING == MEANS:
        g = g[0], g[1], tl.load(parent + (M + G) * PITCH)
    return given(g, x + item, tl.load(parent + LARGEST * PITCH), d, SEMIRING)


@triton.jit
def add(g, t, SEMIRING: tl.constexpr, mask=True):
    """g + t in the lanes of the mask, g elsewhere."""
    if SEMIRING == MAX:
        return tl.where(mask, tl.maximum(g[0], t[0], PROPAGATE), g[0]), g[1]
    else:
        return tl.where(mask, g[0] + t[0], g[0]), tl.where(mask, g[1] + t[1], g[1])


@triton.jit
def with_own_derivative(item, g):
    """What an item has gathered, with the item's own part of the derivative added."""
    return g[0], g[1] + g[0] * item[1]


@triton.jit
def load_sum(ij, G: tl.constexpr, live, PITCH: tl.constexpr, SEMIRING: tl.constexpr):
    """What the inside pass kept of a sum besides m: a and, of means, μ."""
    a = tl.load(ij + G * PITCH, mask=live, other=1.0) if SEMIRING != MAX else 1.0
    mean = tl.load(ij + (M + G) * PITCH, mask=live, other=0.0) if SEMIRING == MEANS else 0.0
    return a, mean


@triton.jit
def load_sums(ij, live, PITCH: tl.constexpr, SEMIRING: tl.constexpr):
    """Of X{i,j}, C[i,j] and C[j,i]; m of the latter two."""
    X, R = load_sum(ij, GX, live, PITCH, SEMIRING), load_sum(ij, GR, live, PITCH, SEMIRING)
    return X, R, load_sum(ij, GL, live, PITCH, SEMIRING), tl.load(ij + MR * PITCH), tl.load(ij + ML * PITCH)


@triton.jit
def put_g(ij, G: tl.constexpr, kept, g, d_value, live, PITCH: tl.constexpr, SEMIRING: tl.constexpr):
    """Stores G = g / a of a sum in place of a. An impossible sum has a = 0; its G is 0."""
    a, mean = kept
    if SEMIRING == MEANS:
        share_of_g, h = tl.where(a == 0.0, 0.0, g[0] / a), tl.where(a == 0.0, 0.0, g[1] / a)
        K = h * (1.0 - mean * LN2) - share_of_g * d_value
        store(ij, G, (share_of_g, h * LN2), live, PITCH, SEMIRING)
        tl.store(ij + (M + G) * PITCH, K, mask=live)
        return share_of_g, h * LN2, K
    else:
        if SEMIRING == MAX:
            weight = g[0], 0.0
        else:
            nothing = (g[0] == 0.0) | (a == 0.0)
            weight = tl.where(nothing, 0.0, g[0] / a), 0.0
            if SEMIRING == DUAL:
                weight = weight[0], tl.where(nothing, 0.0, g[1] / g[0]) - d_value
        store(ij, G, weight, live, PITCH, SEMIRING)
        return weight


@triton.jit
def outside_tile(
    chart, marginals, n, w, i0, N,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """A tile of diagonal w ≥ 1: the spans (i, j = i + w) from i = i0 on."""
    dtype: tl.constexpr = chart.dtype.element_ty
    ROW: tl.constexpr = PLANES * PITCH
    i, live = spans_of_tile(n, w, i0, BLOCK, 1)
    j = i + w
    ij = chart + (w * ROW + i)
    i_right, i_left = load(ij - ROW + 1, IR, PITCH, SEMIRING), load(ij - ROW, IL, PITCH, SEMIRING)
    c_right, c_left = load(ij, CR, PITCH, SEMIRING), load(ij, CL, PITCH, SEMIRING)
    # Loaded before the loop, what comes from afar arrives meanwhile. Pairs leave no registers for it.
    EARLY: tl.constexpr = not is_pair(SEMIRING)
    if EARLY:
        X, R, L, m_right, m_left = load_sums(ij, live, PITCH, SEMIRING)
    zeros = tl.zeros([BLOCK], dtype)
    none = tl.full([BLOCK], -INF, dtype) if SEMIRING == MAX else zeros
    g_right, g_left, mu_right, mu_left = (none, zeros), (none, zeros), (none, zeros), (none, zeros)

    # The wider spans are (i, j') with j < j' ≤ n, on the right, and (i', j) with 0 ≤ i' < i, on the left: n − j of the
    # one kind and i of the other. That is n − w in every lane, so a lane takes one in each step, first those on the
    # right, and no lane is ever idle. Those on the left come widest first: then all lanes that look left are on one
    # diagonal. Each span has a term for g(C[i,j]), one for g(C[j,i]), and one for μ[i,j] or, on the left, μ[j,i].
    # Planes are numbered such that one address serves both sides. On the left, all siblings are one plane before those
    # on the right, in the same places. The sums are one plane after; only GX, in place of GL, is two before.
    for t in tl.range(1, n - w + 1, loop_unroll_factor=4 if SEMIRING == LOG else 2):
        right = t <= n - j
        step = tl.where(right, t * ROW, (n - w + 1 - t) * (ROW - 1) + PITCH)
        wider = ij + step  # (i, j') or (i', j)
        wider_ = ij + (step - tl.where(right, 0, 3 * PITCH))
        beside = chart + (step + tl.where(right, j + PITCH, i - PITCH))  # (j, j') or (i', i)
        # C[i,j] C[j',j+1] in X{i,j'}, or I[i',i] C[i,j] in C[i',j]
        g_right = add(g_right, term(wider, GX, MX, beside - ROW + 1, IR, c_right[0], PITCH, SEMIRING), SEMIRING)
        # I[j',j] C[j,i] in C[j',i], or C[i',i−1] C[j,i] in X{i',j}
        g_left = add(g_left, term(wider_, GL, ML, beside - ROW, CR, c_left[0], PITCH, SEMIRING), SEMIRING)
        # I[i,j] C[j,j'] in C[i,j'], or I[j,i] C[i,i'] in C[j,i']
        x = term(wider, GR, MR, beside, CL, tl.where(right, i_right[0], i_left[0]), PITCH, SEMIRING)
        mu_right, mu_left = add(mu_right, x, SEMIRING, right), add(mu_left, x, SEMIRING, ~right)
    if not EARLY:
        X, R, L, m_right, m_left = load_sums(ij, live, PITCH, SEMIRING)
    goal = tl.where(w == n, 0.0, -INF) if SEMIRING == MAX else tl.where(w == n, 1.0, 0.0)
    g_right = add(with_own_derivative(c_right, g_right), (goal, 0.0), SEMIRING)
    g_left = with_own_derivative(c_left, g_left)

    # I[i,j] C[j,j] in C[i,j], and I[j,i] C[i,i] in C[j,i]
    G = put_g(ij, GR, R, g_right, c_right[1], live, PITCH, SEMIRING)
    t = given(G, i_right[0], m_right, 0.0, SEMIRING)
    mu_right = with_own_derivative(i_right, add(mu_right, t, SEMIRING))
    G = put_g(ij, GL, L, g_left, c_left[1], live, PITCH, SEMIRING)
    t = given(G, i_left[0], m_left, 0.0, SEMIRING)
    mu_left = with_own_derivative(i_left, add(mu_left, t, SEMIRING))
    # attach
    d_x = tl.load(ij + (D + GX) * PITCH, mask=live) if is_pair(SEMIRING) else 0.0
    put_g(ij, GX, X, add(mu_right, mu_left, SEMIRING), d_x, live, PITCH, SEMIRING)

    OUT: tl.constexpr = 1 if is_pair(SEMIRING) else 0
    tl.store(marginals + i * N + j, mu_right[OUT], mask=live)
    tl.store(marginals + j * N + i, mu_left[OUT], mask=live & (i > 0))


@triton.jit(do_not_specialize=["N", "first", "last"], do_not_specialize_on_alignment=["lengths"])
def outside_kernel(
    chart, lengths, marginals, N, first, last,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """Diagonals first ≤ w < last, w ≥ 1, of the sentence program_id(0), every num_programs(1)-th tile of them."""
    b = tl.program_id(0).to(tl.int64)
    n = num_words(lengths, b, N)
    chart += b * N * (PLANES * PITCH)
    marginals += b * N * N
    for w in range(tl.minimum(last - 1, n), tl.maximum(first - 1, 0), -1):
        for i0 in range(tl.program_id(1) * BLOCK, n + 1 - w, tl.num_programs(1) * BLOCK):
            outside_tile(chart, marginals, n, w, i0, N, PLANES, PITCH, BLOCK, SEMIRING)
        tl.debug_barrier()


def run_outside(chart: Tensor, lengths: Tensor, semiring: tl.constexpr) -> Tensor:
    """The marginals [B, N, N], or their derivatives; for MAX their logarithms."""
    B, N, *_ = chart.shape
    marginals = chart.new_full((B, N, N), -torch.inf if semiring is MAX else 0.0)
    sweep(outside_kernel, chart, lengths.contiguous(), marginals, downwards=True, SEMIRING=semiring.value)
    return marginals
