"""The k best trees: the inside pass over max, with the k best derivations of every item, then a walk for each tree.

A derivation of an item is a term of its sum, the q-th, and a derivation of each of the two factors: (q, l, r), where l
and r are the ranks of the factors' derivations, and 0 is the best. It is stored as one number, its code, and an item's
derivations are in the order of their weights, equal ones in that of their codes.

The chart of a rank has the layout of chart.py and holds the derivations of this rank, of all items; −inf where an item
has fewer. X{i,j} is not stored: its derivations are those of I[i,j] and I[j,i].

The derivations of a sum are found one by one. The next one is the first, in this order, of those that come after the
last one and are among

    (q, 0, 0)                   for all q
    (q, l, r+1)                 for all (q, l, r) that were found
    (q, l+1, 0)                 for all (q, l, 0) that were found

because any other one comes after one of these. A lane finds all derivations of its sum, and no two lanes share
candidates.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tritree.gpu.chart import CL, CR, IL, IR, WEIGHTS, launching, new_chart, num_warps, num_words, sweep
from tritree.gpu.inside import entry, near
from tritree.gpu.semiring import INF
from tritree.gpu.topk_by_sorting import topk_by_sorting

RANKS = tl.constexpr(64)
"""Codes have room for so many ranks: a power of two."""
LAST_CODE = tl.constexpr(2**31 - 1)
CHUNK = tl.constexpr(4)
"""How many candidates a lane compares at once."""
# The planes of codes: of the sums X{i,j}, C[i,j] and C[j,i].
OF_X, OF_CR, OF_CL = (tl.constexpr(plane) for plane in range(3))
CODES = tl.constexpr(3)


@triton.jit
def split_of(code):
    return code // (RANKS * RANKS)


@triton.jit
def ranks_of(code):
    return (code // RANKS) % RANKS, code % RANKS


@triton.jit
def find_derivations(
    chart, x, step_x, y, step_y, w, k, RANK, to, arc, to_other, other_arc, codes, code_at, CODES_RANK,
    candidates, their_codes, column, live, WIDTH: tl.constexpr, LANES: tl.constexpr, JOIN: tl.constexpr,
):  # fmt: skip
    """Stores the k best derivations of sums of w terms.

    The factors of term q are in the chart at x + q · step_x and y + q · step_y. The derivations are stored at `to`,
    with `arc` as one more factor, their codes at `code_at`; those of a join at `to_other` too, with the other arc. The
    candidates are in a column of rows of this WIDTH: w for the pairs (q, 0, 0), then two for each derivation found.
    """
    dtype: tl.constexpr = chart.dtype.element_ty
    row = tl.arange(0, CHUNK)[:, None]
    in_chunk = row * WIDTH + column
    for q0 in range(0, w, CHUNK):
        q = q0 + row
        there = live & (q < w)
        left, right = chart + (x + q * step_x), chart + (y + q * step_y)
        term = tl.load(left, mask=there, other=-INF) + tl.load(right, mask=there, other=-INF)
        # A NaN counts as +inf, so that it reaches the goal.
        tl.store(candidates + (q0 * WIDTH + in_chunk), tl.where(term == term, term, INF), mask=there)
        tl.store(their_codes + (q0 * WIDTH + in_chunk), q * (RANKS * RANKS), mask=there)
    last, last_code = tl.full([LANES], INF, dtype), tl.full([LANES], -1, tl.int32)
    for t in range(0, k):
        # The first of the candidates that come after the last derivation.
        weight, code = tl.full([LANES], -INF, dtype), tl.full([LANES], LAST_CODE, tl.int32)
        count = w + 2 * t
        for c0 in range(0, count, CHUNK):
            there = live & (c0 + row < count)
            weights = tl.load(candidates + (c0 * WIDTH + in_chunk), mask=there, other=-INF)
            of_chunk = tl.load(their_codes + (c0 * WIDTH + in_chunk), mask=there, other=LAST_CODE)
            weights = tl.where((weights > last) | ((weights == last) & (of_chunk <= last_code)), -INF, weights)
            largest = tl.max(weights, 0)
            first = tl.min(tl.where(weights == largest, of_chunk, LAST_CODE), 0)
            earlier = (largest > weight) | ((largest == weight) & (first < code))
            weight, code = tl.where(earlier, largest, weight), tl.where(earlier, first, code)
        tl.store(chart + (to + t * RANK), weight + arc, mask=live)
        if JOIN:
            tl.store(chart + (to_other + t * RANK), weight + other_arc, mask=live)
        tl.store(codes + (code_at + t * CODES_RANK), code, mask=live)
        # Its successors (q, l, r+1) and (q, l+1, 0).
        q = split_of(code)
        l, r = ranks_of(code)
        possible = live & (weight > -INF)
        left, right = chart + (x + q * step_x + l * RANK), chart + (y + q * step_y + r * RANK)
        more, new = possible & (r < k - 1), possible & (r == 0) & (l < k - 1)
        after = count * WIDTH + column
        term = tl.load(left, mask=more, other=-INF) + tl.load(right + RANK, mask=more, other=-INF)
        tl.store(candidates + after, term, mask=live)
        tl.store(their_codes + after, code + 1, mask=live)
        term = tl.load(left + RANK, mask=new, other=-INF) + tl.load(right, mask=new, other=-INF)
        tl.store(candidates + (after + WIDTH), term, mask=live)
        tl.store(their_codes + (after + WIDTH), code + RANKS, mask=live)
        last, last_code = weight, code


@triton.jit
def axiom_tile(chart, RANK, k, n, i0, PITCH: tl.constexpr, BLOCK: tl.constexpr):
    """A tile of diagonal 0: C[h,h] = 1, the only derivation."""
    m = i0 + tl.arange(0, BLOCK)
    for t in range(0, k):
        axiom = tl.full([BLOCK], 0.0 if t == 0 else -INF, chart.dtype.element_ty)
        tl.store(chart + (t * RANK + CR * PITCH) + m, axiom, mask=m <= n)
        tl.store(chart + (t * RANK + CL * PITCH) + m, axiom, mask=m <= n)


@triton.jit
def topk_tile(
    scores, chart, RANK, codes, CODES_RANK, candidates, their_codes, n, w, i0, k, single_root,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A tile of diagonal w ≥ 1: the spans (i, j = i + w) from i = i0 on."""
    dtype: tl.constexpr = chart.dtype.element_ty
    ROW: tl.constexpr = PLANES * PITCH
    row, narrower, row_of_codes = w * ROW, (w - 1) * ROW, w * (CODES * PITCH)
    # join        X{i,j} = ⊕ i≤k<j  C[i,k] ⊗ C[j,k+1]
    # attach      I[h,m] = X{h,m} ⊗ s[h,m]; there are no arcs into ROOT
    lane = i0 + tl.arange(0, BLOCK)
    live = lane <= n - w
    i = tl.minimum(lane, n - w)
    s_right = tl.load(entry(scores, i, i + w), mask=live, other=-INF).to(dtype)
    s_left = tl.load(entry(scores, i + w, i), mask=live & (i > 0), other=-INF).to(dtype)
    find_derivations(
        chart, CR * PITCH + i, ROW, narrower + (1 + CL * PITCH) + i, 1 - ROW, w, k, RANK,
        narrower + (1 + IR * PITCH) + i, s_right, narrower + IL * PITCH + i, s_left,
        codes, row_of_codes + OF_X * PITCH + i, CODES_RANK, candidates, their_codes, i, live, 2 * PITCH, BLOCK, True,
    )  # fmt: skip
    tl.debug_barrier()
    # complete    C[i,j] = ⊕ i<k≤j  I[i,k] ⊗ C[k,j]           C[j,i] = ⊕ i≤k<j  I[j,k] ⊗ C[k,i]
    # There is a lane for each, first those that face right.
    lane = tl.arange(0, 2 * BLOCK)
    right = lane < BLOCK
    lane = i0 + tl.where(right, lane, lane - BLOCK)
    live = lane <= n - w
    i = tl.minimum(lane, n - w)
    x = tl.where(right, 1 + IR * PITCH, narrower + IL * PITCH) + i
    y = tl.where(right, narrower + (1 + CR * PITCH), CL * PITCH) + i
    # With a single root X{0,j} may use no C[0,k] but the axiom. C[0,k] has no other use, except as the goal.
    impossible = right & (single_root != 0) & (i == 0) & (w < n)
    to = row + tl.where(right, CR * PITCH, CL * PITCH) + i
    find_derivations(
        chart, x, tl.where(right, ROW, 1 - ROW), y, tl.where(right, 1 - ROW, ROW), w, k, RANK,
        to, tl.where(impossible, -INF, 0.0), to, 0.0,
        codes, row_of_codes + tl.where(right, OF_CR * PITCH, OF_CL * PITCH) + i, CODES_RANK,
        candidates, their_codes, tl.where(right, i, PITCH + i), live, 2 * PITCH, 2 * BLOCK, False,
    )  # fmt: skip


@triton.jit(
    do_not_specialize=["s_b", "s_h", "s_m", "k", "single_root", "N", "first", "last"],
    do_not_specialize_on_alignment=["scores", "lengths"],
)
def topk_kernel(
    chart, codes, candidates, their_codes, scores, s_b, s_h, s_m, lengths, k, single_root, N, first, last,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Diagonals first ≤ w < last of the sentence program_id(0), every num_programs(1)-th tile of them."""
    b = tl.program_id(0).to(tl.int64)
    n = num_words(lengths, b, N)
    RANK, CODES_RANK = N * (PLANES * PITCH), N * (CODES * PITCH)  # from a rank to the next one
    chart += b * k * RANK
    codes += b * k * CODES_RANK
    candidates += b * (N + 2 * k) * (2 * PITCH)
    their_codes += b * (N + 2 * k) * (2 * PITCH)
    scores = (scores + b * s_b, s_h, s_m)
    for w in range(first, tl.minimum(last, n + 1)):
        for i0 in range(tl.program_id(1) * BLOCK, n + 1 - w, tl.num_programs(1) * BLOCK):
            if w == 0:
                axiom_tile(chart, RANK, k, n, i0, PITCH, BLOCK)
            else:
                topk_tile(
                    scores, chart, RANK, codes, CODES_RANK, candidates, their_codes, n, w, i0, k, single_root,
                    PLANES, PITCH, BLOCK,
                )  # fmt: skip
        tl.debug_barrier()


@triton.jit(do_not_specialize=["k", "N"], do_not_specialize_on_alignment=["lengths"])
def read_kernel(
    chart, codes, stack, lengths, best, heads, k, N,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The scores and heads of the trees of the sentence program_id(0), one tree per lane.

    A lane has a stack of the items that it has to expand, each with the rank of the derivation that its tree uses.
    To expand an item finds an arc, and leaves up to three items. They are narrower by one, together: there are never
    more items than words to find heads for.
    """
    ROW: tl.constexpr = PLANES * PITCH
    b = tl.program_id(0).to(tl.int64)
    n = num_words(lengths, b, N)
    t = tl.arange(0, BLOCK)
    chart += b * k * N * ROW + n * ROW + CR * PITCH
    codes += b * k * N * (CODES * PITCH)
    stack += b * N * k + t
    heads += (b * k + t) * N
    goal = tl.load(chart + t * (N * ROW), mask=t < k, other=-INF)
    goal = tl.where(tl.load(chart) < INF, goal, float("nan"))
    tl.store(best + b * k + t, goal, mask=t < k)

    live = goal > -INF
    depth = tl.where(live & (n > 0), 1, 0)
    tl.store(stack, n.to(tl.int64) * RANKS + t, mask=depth > 0)
    for _ in range(0, n):
        live = depth > 0
        depth -= 1
        item = tl.load(stack + depth * k, mask=live, other=0)
        h, m, rank = (item >> 32).to(tl.int32), ((item & 0xFFFFFFFF) // RANKS).to(tl.int32), (item % RANKS).to(tl.int32)
        # C[h,m] = ⊕ I[h,e] ⊗ C[e,m]
        right = h < m
        i, j = tl.minimum(h, m), tl.maximum(h, m)
        plane = tl.where(right, OF_CR * PITCH, OF_CL * PITCH)
        code = tl.load(codes + ((rank * N + j - i) * (CODES * PITCH) + plane + i), mask=live, other=0)
        e = i + split_of(code) + tl.where(right, 1, 0)
        rank, of_rest = ranks_of(code)
        tl.store(heads + e, h, mask=live)
        # X{i,j} = ⊕ C[i,q] ⊗ C[j,q+1], with i and j now the ends of the arc
        i, j = tl.minimum(h, e), tl.maximum(h, e)
        code = tl.load(codes + ((rank * N + j - i) * (CODES * PITCH) + OF_X * PITCH + i), mask=live, other=0)
        q = i + split_of(code)
        of_left, of_right = ranks_of(code)
        depth = push(stack, depth, k, e, m, of_rest, live)
        depth = push(stack, depth, k, i, q, of_left, live)
        depth = push(stack, depth, k, j, q + 1, of_right, live)


@triton.jit
def push(stack, depth, k, h, m, rank, live):
    """C[h,m] onto the stack, unless it is an axiom. Returns the new depth."""
    live = live & (h != m)
    tl.store(stack + depth * k, (h.to(tl.int64) << 32) | (m * RANKS + rank), mask=live)
    return depth + tl.where(live, 1, 0)


def topk(scores: Tensor, lengths: Tensor, k: int, single_root: bool) -> tuple[Tensor, Tensor]:
    """The k best scores [B, k] and their heads [B, k, N]."""
    if k > RANKS.value:
        return topk_by_sorting(scores, lengths, k, single_root)
    B, N, _ = scores.shape
    chart = new_chart(scores, k * WEIGHTS)
    scores = near(scores)
    pitch = chart.shape[-1]
    chart = chart.view(B, k, N, WEIGHTS, pitch)
    codes = chart.new_empty((B, k, N, CODES.value, pitch), dtype=torch.int32)
    candidates = chart.new_empty((B, N + 2 * k, 2, pitch))
    their_codes = candidates.new_empty(candidates.shape, dtype=torch.int32)
    lengths = lengths.contiguous()
    arguments = scores, *scores.stride(), lengths, k, int(single_root)
    sweep(topk_kernel, chart, codes, candidates, their_codes, *arguments)

    best, heads = chart.new_empty((B, k)), chart.new_full((B, k, N), -1, dtype=torch.int64)
    stack = heads.new_empty((B, N, k))
    block = max(32, triton.next_power_of_2(k))
    options = {"PLANES": WEIGHTS, "PITCH": pitch, "BLOCK": block, "num_warps": num_warps(block)}
    with launching(chart):
        read_kernel[(B,)](chart, codes, stack, lengths, best, heads, k, N, **options, enable_fp_fusion=True)
    return best, heads
