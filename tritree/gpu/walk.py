"""From a chart to trees, top-down. The term of a sum that a tree uses is looked up (the best one) or drawn.

To expand C[h,m] is to choose k in its term I[h,k] ⊗ C[k,m]: the arc h → k is drawn, and C[k,m] remains. Then q in
the term of X{h,k}: for k to the right of h, C[h,q] and C[k,q+1] remain; for k to the left, C[k,q] and C[h,q+1].

A head has at most one item to expand on its right and one on its left. So lane h keeps both, as their far ends
right[h] and left[h] (h itself means none), and in one round all lanes expand what they have. The items cover disjoint
parts of the sentence: no two lanes choose the same k, and a k is chosen before it has items of its own.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tritree.gpu.chart import CL, CR, GL, GR, GX, IL, IR, ML, MR, MX, block_size, launching, num_warps, num_words
from tritree.gpu.semiring import INF


@triton.jit
def uniform(high, low, dtype: tl.constexpr):
    """64 random bits as a number in [0, 1), as many of them as dtype holds."""
    if dtype == tl.float64:
        return (((high.to(tl.uint64) << 32) | low.to(tl.uint64)) >> 11).to(tl.float64) * 2.0**-53
    else:
        return (high >> 8).to(tl.float32) * 2.0**-24


@triton.jit
def choose(
    ij, G: tl.constexpr, M: tl.constexpr, x, X: tl.constexpr, y, Y: tl.constexpr, k, count, u,
    ROW: tl.constexpr, PITCH: tl.constexpr, SAMPLE: tl.constexpr,
):  # fmt: skip
    """The split index of a term of the sum at ij, which has count terms: the first one at k, its factors at x and y.

    A draw takes the first term at which the cumulative sum exceeds the share u of the whole; or, if by rounding there
    is none, the last one that is not 0. The result is −1 if there is no term.
    """
    if SAMPLE:
        m = tl.load(ij + M * PITCH, mask=count > 0, other=0.0)
        bar = u * tl.load(ij + G * PITCH, mask=count > 0, other=0.0)
        choice, cumulative = tl.full(count.shape, -1, tl.int32), tl.zeros_like(bar)
        for r in range(0, tl.max(count, 0)):
            live = r < count
            term = tl.load(x + X * PITCH, mask=live, other=-INF) + tl.load(y + Y * PITCH, mask=live, other=-INF)
            p = tl.exp2(term - m)
            choice = tl.where((p > 0.0) & (cumulative <= bar), k + r, choice)
            cumulative += p
            x += ROW
            y -= ROW - 1
        return choice
    else:
        return tl.load(ij + G * PITCH, mask=count > 0, other=-1.0).to(tl.int32)


@triton.jit
def expand(
    chart, h, m, RIGHT: tl.constexpr, seed, b, sample,
    ROW: tl.constexpr, PITCH: tl.constexpr, SAMPLE: tl.constexpr,
):  # fmt: skip
    """k and q for the items C[h,m]; k is −1 where m = h, or where there is nothing to choose."""
    dtype: tl.constexpr = chart.dtype.element_ty
    u_complete, u_join = 0.0, 0.0
    if SAMPLE:
        o0, o1, o2, o3 = tl.philox(tl.load(seed), (h << 16) | m, b, sample, 0)
        u_complete, u_join = uniform(o0, o1, dtype), uniform(o2, o3, dtype)
    i, j = tl.minimum(h, m), tl.maximum(h, m)
    ij = chart + (j - i) * ROW + i
    if RIGHT:  # k = i + 1 … j, from (i, i+1) and (i+1, j) on
        k = choose(ij, GR, MR, chart + ROW + i, IR, ij - ROW + 1, CR, i + 1, j - i, u_complete, ROW, PITCH, SAMPLE)
    else:  # k = i … j − 1, from (i, i) and (i, j) on
        k = choose(ij, GL, ML, chart + i, CL, ij, IL, i, j - i, u_complete, ROW, PITCH, SAMPLE)
    # q = i … j − 1, from (i, i) and (i+1, j) on, with i and j now the ends of the arc
    far = tl.where(k < 0, h, k)
    i, j = tl.minimum(h, far), tl.maximum(h, far)
    ij = chart + (j - i) * ROW + i
    q = choose(ij, GX, MX, chart + i, CR, ij - ROW + 1, CL, i, j - i, u_join, ROW, PITCH, SAMPLE)
    return tl.where(q < 0, -1, k), q


@triton.jit(do_not_specialize=["B", "N"], do_not_specialize_on_alignment=["lengths", "seed"])
def walk_kernel(
    chart, lengths, seed, ends, heads, B, N,
    PLANES: tl.constexpr, PITCH: tl.constexpr, SAMPLE: tl.constexpr,
):  # fmt: skip
    """One tree per program: number sample · B + b."""
    ROW: tl.constexpr = PLANES * PITCH
    tree = tl.program_id(0)
    b, sample = tree % B, tree // B
    n = num_words(lengths, b, N)
    chart += b.to(tl.int64) * N * ROW
    heads += tree.to(tl.int64) * N
    right = ends + tree.to(tl.int64) * (2 * PITCH)
    left = right + PITCH

    h = tl.arange(0, PITCH)
    todo = (tl.load(chart + n * ROW + CR * PITCH) > -INF).to(tl.int32)
    tl.store(right + h, tl.where((h == 0) & (todo > 0), n, h))
    tl.store(left + h, h)
    rounds = 0
    # Each round draws an arc, so it takes at most n of them. The bound is there for charts that NaN got into.
    while (todo > 0) & (rounds < n):
        tl.debug_barrier()
        m, m_ = tl.load(right + h), tl.load(left + h)
        k, q = expand(chart, h, m, True, seed, b, sample, ROW, PITCH, SAMPLE)
        k_, q_ = expand(chart, h, m_, False, seed, b, sample, ROW, PITCH, SAMPLE)
        tl.debug_barrier()
        # C[h,m] leaves C[h,q], C[k,q+1] and C[k,m]
        drawn = k >= 0
        tl.store(right + h, tl.where(drawn, q, h), mask=m > h)
        tl.store(left + k, q + 1, mask=drawn)
        tl.store(right + k, m, mask=drawn)
        tl.store(heads + k, h, mask=drawn)
        # C[h,m_] leaves C[k_,q_], C[h,q_+1] and C[k_,m_]
        drawn_ = k_ >= 0
        tl.store(left + h, tl.where(drawn_, q_ + 1, h), mask=m_ < h)
        tl.store(right + k_, q_, mask=drawn_)
        tl.store(left + k_, m_, mask=drawn_)
        tl.store(heads + k_, h, mask=drawn_)
        # An item over one word leaves nothing.
        todo = tl.max(((drawn & (m > h + 1)) | (drawn_ & (m_ < h - 1))).to(tl.int32), 0)
        rounds += 1


def walk(chart: Tensor, lengths: Tensor, num_trees: int, seed: Tensor | None) -> Tensor:
    """Heads [num_trees, B, N]: drawn or, without a seed, the best."""
    B, N, planes, pitch = chart.shape
    heads = chart.new_full((num_trees, B, N), -1, dtype=torch.int64)
    ends = chart.new_empty((num_trees, B, 2, pitch), dtype=torch.int32)
    arguments = chart, lengths.contiguous(), lengths if seed is None else seed, ends, heads, B, N
    options = {"PLANES": planes, "PITCH": pitch, "SAMPLE": seed is not None}
    options |= {"num_warps": num_warps(block_size(pitch)), "enable_fp_fusion": True}
    with launching(chart):
        walk_kernel[(num_trees * B,)](*arguments, **options)
    return heads
