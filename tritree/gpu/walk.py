"""From a chart to trees, top-down. The term of a sum that a tree uses is the best one, or drawn at random.

To expand C[h,m], choose k of a term I[h,k] ⊗ C[k,m]: this is the arc h → k, and C[k,m] remains to be expanded. Then
choose q of a term of X{h,k}: for k to the right of h, C[h,q] and C[k,q+1] remain; for k to the left, C[k,q] and
C[h,q+1].

A head has at most one item to expand on its right and one on its left. There is a lane for each: lane h for the right
item and lane PITCH + h for the left one. A lane holds the far end m of its item, or h if there is none. In each round
all lanes expand their items. The items cover disjoint parts of the sentence: no two lanes choose the same k, and k has
no items of its own before it is chosen.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tritree.gpu.chart import CL, CR, GR, GX, IL, IR, MR, MX, launching, num_warps, num_words
from tritree.gpu.semiring import INF


@triton.jit
def uniform(high, low, dtype: tl.constexpr):
    """A number in [0, 1) from 64 random bits: the first 53 of them for float64, the first 24 for float32."""
    if dtype == tl.float64:
        return (((high.to(tl.uint64) << 32) | low.to(tl.uint64)) >> 11).to(tl.float64) * 2.0**-53
    else:
        return (high >> 8).to(tl.float32) * 2.0**-24


@triton.jit
def choose(total, largest, x, y, k, count, most, u, ROW: tl.constexpr, SAMPLE: tl.constexpr):
    """The split index of the chosen term of a sum. The sum has count ≤ most terms; the first has the split index k and
    its factors at x and y.

    `total` and `largest` point to a and m of the sum; for the best tree `total` points to the split index. A draw takes
    the first term at which the cumulative sum exceeds u times the whole sum or, if by rounding there is none, the last
    term that is not 0. The result is −1 if there is no term.
    """
    if SAMPLE:
        m = tl.load(largest, mask=count > 0, other=0.0)
        bar = u * tl.load(total, mask=count > 0, other=0.0)
        choice, cumulative = tl.full(count.shape, -1, tl.int32), tl.zeros_like(bar)
        for r in range(0, most):
            live = r < count
            p = tl.exp2(tl.load(x, mask=live, other=-INF) + tl.load(y, mask=live, other=-INF) - m)
            choice = tl.where((p > 0.0) & (cumulative <= bar), k + r, choice)
            cumulative += p
            x += ROW
            y -= ROW - 1
        return choice
    else:
        return tl.load(total, mask=count > 0, other=-1.0).to(tl.int32)


@triton.jit
def expand(
    chart, h, m, right, widest, seed, b, sample,
    ROW: tl.constexpr, PITCH: tl.constexpr, SAMPLE: tl.constexpr,
):  # fmt: skip
    """k and q for the items C[h,m], of which `widest` is the largest width; k is −1 if m = h or no term is possible."""
    dtype: tl.constexpr = chart.dtype.element_ty
    u_k, u_q = 0.0, 0.0
    if SAMPLE:
        o0, o1, o2, o3 = tl.philox(tl.load(seed), (h << 16) | m, b, sample, 0)
        u_k, u_q = uniform(o0, o1, dtype), uniform(o2, o3, dtype)
    # C[i,j]: k = i + 1 … j, from I[i,i+1] and C[i+1,j] on; C[j,i]: k = i … j − 1, from C[i,i] and I[j,i] on
    i, j = tl.minimum(h, m), tl.maximum(h, m)
    ij = chart + (j - i) * ROW + i
    kept = ij + tl.where(right, 0, PITCH)
    x = chart + i + tl.where(right, IR * PITCH + 1, CL * PITCH)
    y = ij - ROW + tl.where(right, CR * PITCH + 1, IL * PITCH)
    first = tl.where(right, i + 1, i)
    k = choose(kept + GR * PITCH, kept + MR * PITCH, x, y, first, j - i, widest, u_k, ROW, SAMPLE)
    # X{i,j}: q = i … j − 1, from C[i,i] and C[j,i+1] on, with i and j now the ends of the arc
    far = tl.where(k < 0, h, k)
    i, j = tl.minimum(h, far), tl.maximum(h, far)
    ij = chart + (j - i) * ROW + i
    x, y = chart + i + CR * PITCH, ij - ROW + 1 + CL * PITCH
    q = choose(ij + GX * PITCH, ij + MX * PITCH, x, y, i, j - i, widest, u_q, ROW, SAMPLE)
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
    ends += tree.to(tl.int64) * (2 * PITCH)

    lane = tl.arange(0, 2 * PITCH)
    right = lane < PITCH
    h = tl.where(right, lane, lane - PITCH)
    # Where the lanes of a word k begin: on the side of this lane's item, and on the other side.
    side, other_side = tl.where(right, 0, PITCH), tl.where(right, PITCH, 0)
    widest = tl.where(tl.load(chart + n * ROW + CR * PITCH) > -INF, n, 0)
    tl.store(ends + lane, tl.where(lane == 0, widest, h))
    rounds = 0
    # Each round finds an arc, so n rounds are enough. The bound is for charts with NaN.
    while (widest > 0) & (rounds < n):
        tl.debug_barrier()
        m = tl.load(ends + lane)
        k, q = expand(chart, h, m, right, widest, seed, b, sample, ROW, PITCH, SAMPLE)
        tl.debug_barrier()
        # C[h,m] leaves C[k,m] and, to the right, C[h,q] and C[k,q+1], to the left C[h,q+1] and C[k,q].
        drawn = k >= 0
        near, beyond = tl.where(right, q, q + 1), tl.where(right, q + 1, q)
        tl.store(ends + lane, tl.where(drawn, near, h), mask=m != h)
        tl.store(ends + side + k, m, mask=drawn)
        tl.store(ends + other_side + k, beyond, mask=drawn)
        tl.store(heads + k, h, mask=drawn)
        # The largest width bounds the sums of the next round: the only reduction across lanes.
        width = tl.maximum(tl.maximum(tl.abs(m - k), tl.abs(near - h)), tl.abs(beyond - k))
        widest = tl.max(tl.where(drawn, width, 0), 0)
        rounds += 1


def walk(chart: Tensor, lengths: Tensor, num_trees: int, seed: Tensor | None) -> Tensor:
    """Heads [num_trees, B, N]: drawn or, without a seed, the best."""
    B, N, planes, pitch = chart.shape
    heads = chart.new_full((num_trees, B, N), -1, dtype=torch.int64)
    ends = chart.new_empty((num_trees, B, 2, pitch), dtype=torch.int32)
    arguments = chart, lengths.contiguous(), lengths if seed is None else seed, ends, heads, B, N
    options = {"PLANES": planes, "PITCH": pitch, "SAMPLE": seed is not None}
    # One thread per lane, up to the largest program possible. With several lanes per thread the compiler moves lanes
    # between threads, which takes ten times as many barriers.
    options |= {"num_warps": num_warps(min(2 * pitch, 1024)), "enable_fp_fusion": True}
    if torch.version.cuda:
        # As many as the largest program can have. Without this ptxas takes fewer, and spills.
        options["maxnreg"] = 64
    with launching(chart):
        walk_kernel[(num_trees * B,)](*arguments, **options)
    return heads
