"""The inside pass, over any of the semirings.

    axiom      C[h,h] = 1
    join       X{i,j} = ⊕ i≤k<j         C[i,k] ⊗ C[j,k+1]
    attach     I[h,m] = X{h,m} ⊗ s[h,m]
    complete   C[h,m] = ⊕ k from h to m  I[h,k] ⊗ C[k,m]            k ≠ h, k = m included
    goal       Z      = C[0,n]

X{i,j}, C[i,j] and C[j,i] run over the same pairs of narrower spans, (i,k) and (k,j), so one loop adds to all three.

Scores are taken relative to the largest one of their column. Each tree has one arc into every word, so this shifts
log Z by the sum of these maxima and changes nothing else, and the numbers in the chart are near 0 however large the
scores are. MAX takes the scores as they are: it only adds and compares, and all backends must round alike. MEAN and
MEANS multiply them with another unit.
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
    TOP,
    D,
    M,
    from_lane,
    load,
    new_chart,
    num_words,
    spans_of_tile,
    store,
    sweep,
)
from tritree.gpu.semiring import (
    DUAL,
    INF,
    MAX,
    MEANS,
    PROPAGATE,
    is_mean,
    is_pair,
    is_short,
    kept,
    lowest,
    mean,
    plus,
    times,
    value,
    zero,
)

LN2, LOG2E = tl.constexpr(0.6931471805599453), tl.constexpr(1.4426950408889634)


@triton.jit
def entry(matrix, h, m):
    """Where a matrix (base, row stride, column stride) has its entry [h, m]. Offsets have 32 bits (`near`)."""
    base, row, column = matrix
    return base + (h * row + m * column)


@triton.jit
def word_tile(
    scores, direction, chart, tops, n, i0,
    PITCH: tl.constexpr, BLOCK: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """A tile of diagonal 0: the axioms, and the largest finite score of each column with the direction of that arc."""
    dtype: tl.constexpr = chart.dtype.element_ty
    m = i0 + tl.arange(0, BLOCK)
    live = m <= n
    zeros = tl.zeros([BLOCK], dtype)
    store(chart + m, CR, (zeros, zeros), live, PITCH, SEMIRING)
    store(chart + m, CL, (zeros, zeros), live, PITCH, SEMIRING)
    if SEMIRING != MAX:
        top, d_top = tl.full([BLOCK], -INF, dtype), zeros
        for h in range(0, n + 1):
            valid = live & (h != m) & (m > 0)
            s = tl.load(entry(scores, h, m), mask=valid, other=-INF).to(dtype)
            larger = (s > top) & (s < INF)
            top = tl.where(larger, s, top)
            if is_pair(SEMIRING):
                d_top = tl.where(larger, tl.load(entry(direction, h, m), mask=valid, other=0.0), d_top)
        store(tops + m, TOP, (tl.where(top == -INF, 0.0, top), d_top), live, PITCH, SEMIRING)


@triton.jit
def load_arc(scores, direction, tops, h, m, live, PITCH: tl.constexpr, SEMIRING: tl.constexpr):
    """The score of an arc, its direction, and those of the largest one of its column. There are no arcs into ROOT."""
    live = live & (m > 0)
    s = tl.load(entry(scores, h, m), mask=live, other=-INF)
    if SEMIRING == MAX:
        return s, 0.0, 0.0, 0.0
    else:
        top = load(tops + m, TOP, PITCH, SEMIRING)
        d = tl.load(entry(direction, h, m), mask=live, other=0.0) if is_pair(SEMIRING) else 0.0
        return s, d, top[0], top[1]


@triton.jit
def arc(loaded, unit, dtype: tl.constexpr, SEMIRING: tl.constexpr):
    """s[h,m] as a weight."""
    s, d, top, d_top = loaded
    s = s.to(dtype)
    if SEMIRING == MAX:
        return s, 0.0
    else:
        possible = s != -INF
        # Scores like finfo.min must stay finite: the sum of n < 2^15 of them is above half of lowest().
        floor: tl.constexpr = lowest(dtype) * 2.0**-17
        s = (s - top) * tl.load(unit).to(dtype) if is_mean(SEMIRING) else (s - top) * LOG2E
        s = tl.where(possible, tl.maximum(s, floor, PROPAGATE), -INF)
        if is_pair(SEMIRING):
            # As with scores, only differences within a column matter. They are clamped: a sum of n² must be finite.
            limit: tl.constexpr = lowest(dtype) * 2.0**-31
            d = tl.where(possible, d, 0.0) - d_top
            return s, tl.minimum(tl.maximum(d, limit, PROPAGATE), -limit, PROPAGATE)
        else:
            return s, 0.0


@triton.jit
def product(x, X: tl.constexpr, y, Y: tl.constexpr, PITCH: tl.constexpr, SEMIRING: tl.constexpr):
    """Plane X at x ⊗ plane Y at y."""
    xy = tl.load(x + X * PITCH) + tl.load(y + Y * PITCH)
    if is_pair(SEMIRING):
        return xy, tl.load(x + (D + X) * PITCH) + tl.load(y + (D + Y) * PITCH)
    else:
        return xy, 0.0


@triton.jit
def sums(
    chart, i, w,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """X{i,j}, C[i,j] and C[j,i] but for their last terms. A lane adds up all three."""
    dtype: tl.constexpr = chart.dtype.element_ty
    ROW: tl.constexpr = PLANES * PITCH
    X, R, L = zero(BLOCK, dtype, SEMIRING), zero(BLOCK, dtype, SEMIRING), zero(BLOCK, dtype, SEMIRING)
    ik, kj = chart + ROW + i, chart + (w - 1) * ROW + i + 1
    # The loops of LOG and MAX are shorter: the compiler unrolls them without being told.
    for r in tl.range(1, w, loop_unroll_factor=2 if SEMIRING == DUAL else 1):
        k = i + r
        X = plus(X, product(ik - ROW, CR, kj, CL, PITCH, SEMIRING), k - 1, SEMIRING)  # C[i,k−1] ⊗ C[j,k]
        R = plus(R, product(ik - ROW + 1, IR, kj, CR, PITCH, SEMIRING), k, SEMIRING)  # I[i,k] ⊗ C[k,j]
        L = plus(L, product(ik, CL, kj - ROW, IL, PITCH, SEMIRING), k, SEMIRING)  # I[j,k] ⊗ C[k,i]
        ik += ROW
        kj -= ROW - 1
    return X, R, L


@triton.jit
def sums_in_lanes(
    chart, ij, i, w,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """The same with a lane for each sum: all three take two loads and the same two steps. The last lane repeats X.

    A turn of the loop is a third as long, and a term is added to the same numbers in the same order.
    """
    dtype: tl.constexpr = chart.dtype.element_ty
    ROW: tl.constexpr = PLANES * PITCH
    lane = tl.arange(0, BLOCK * LANES) % LANES
    of_r, of_l = lane == 1, lane == 2
    ik = chart + (tl.where(of_r, 1 + IR * PITCH, tl.where(of_l, ROW + CL * PITCH, CR * PITCH)) + i)
    kj = ij + (tl.where(of_r, CR * PITCH, tl.where(of_l, IL * PITCH - ROW, CL * PITCH)) - ROW + 1)
    k = i + tl.where(of_r | of_l, 0, -1)
    state = zero(BLOCK * LANES, dtype, SEMIRING)
    for r in tl.range(1, w, loop_unroll_factor=2 if is_pair(SEMIRING) else 8):
        state = plus(state, product(ik, 0, kj, 0, PITCH, SEMIRING), k + r, SEMIRING)
        ik += ROW
        kj -= ROW - 1
    X, R = state_of(state, 0, BLOCK, LANES, SEMIRING), state_of(state, 1, BLOCK, LANES, SEMIRING)
    return X, R, state_of(state, 2, BLOCK, LANES, SEMIRING)


@triton.jit
def state_of(state, lane: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, SEMIRING: tl.constexpr):
    """The state of one of the lanes of each span, in all of them."""
    m, rest = from_lane(state[0], lane, BLOCK, LANES), from_lane(state[1], lane, BLOCK, LANES)
    if SEMIRING == DUAL:
        return m, rest, from_lane(state[2], lane, BLOCK, LANES)
    elif is_mean(SEMIRING):
        return m, rest, from_lane(state[2], lane, BLOCK, LANES), from_lane(state[3], lane, BLOCK, LANES)
    else:
        return m, rest


@triton.jit
def inside_tile(
    scores, direction, chart, tops, goal, unit, n, w, i0, single_root,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """A tile of diagonal w ≥ 1: the spans (i, j = i + w) from i = i0 on."""
    dtype: tl.constexpr = chart.dtype.element_ty
    ROW: tl.constexpr = PLANES * PITCH
    i, live = spans_of_tile(n, w, i0, BLOCK, LANES)
    j = i + w
    ij = chart + (w * ROW + i)
    # Loaded before the loop, what comes from afar arrives meanwhile. Larger states leave no registers for it.
    EARLY: tl.constexpr = is_short(SEMIRING)
    if EARLY:
        s_right = load_arc(scores, direction, tops, i, j, live, PITCH, SEMIRING)
        s_left = load_arc(scores, direction, tops, j, i, live, PITCH, SEMIRING)
        last = load(ij - ROW, CR, PITCH, SEMIRING)
    if LANES == 1:
        X, R, L = sums(chart, i, w, PLANES, PITCH, BLOCK, SEMIRING)
    else:
        X, R, L = sums_in_lanes(chart, ij, i, w, PLANES, PITCH, BLOCK, LANES, SEMIRING)
    if not EARLY:
        s_right = load_arc(scores, direction, tops, i, j, live, PITCH, SEMIRING)
        s_left = load_arc(scores, direction, tops, j, i, live, PITCH, SEMIRING)
        last = load(ij - ROW, CR, PITCH, SEMIRING)
    X = plus(X, last, j - 1, SEMIRING)  # C[i,j−1] ⊗ C[j,j]
    x = value(X, SEMIRING)
    i_right = times(x, arc(s_right, unit, dtype, SEMIRING), SEMIRING)
    i_left = times(x, arc(s_left, unit, dtype, SEMIRING), SEMIRING)
    R = plus(R, i_right, j, SEMIRING)  # I[i,j] ⊗ C[j,j]
    L = plus(L, i_left, i, SEMIRING, RISING=False)  # I[j,i] ⊗ C[i,i]
    c_right, c_left = value(R, SEMIRING), value(L, SEMIRING)
    # With a single root X{0,j} may use no C[0,k] but the axiom. C[0,k] has no other use, except as the goal.
    c_right = tl.where((single_root != 0) & (i == 0) & (w < n), -INF, c_right[0]), c_right[1]

    store(ij - ROW + 1, IR, i_right, live, PITCH, SEMIRING)
    store(ij, CR, c_right, live, PITCH, SEMIRING)
    store(ij, CL, c_left, live, PITCH, SEMIRING)
    store(ij - ROW, IL, i_left, live, PITCH, SEMIRING)
    if PLANES > GX:
        store(ij, GX, (kept(X, SEMIRING), x[1]), live, PITCH, SEMIRING)
        tl.store(ij + GR * PITCH, kept(R, SEMIRING), mask=live)
        tl.store(ij + GL * PITCH, kept(L, SEMIRING), mask=live)
    if PLANES > MX:
        tl.store(ij + MX * PITCH, X[0], mask=live)
        tl.store(ij + MR * PITCH, R[0], mask=live)
        tl.store(ij + ML * PITCH, L[0], mask=live)
    if SEMIRING == MEANS:
        tl.store(ij + (M + GX) * PITCH, mean(X), mask=live)
        tl.store(ij + (M + GR) * PITCH, mean(R), mask=live)
        tl.store(ij + (M + GL) * PITCH, mean(L), mask=live)
    if w == n:
        z = c_right[0]
        if SEMIRING != MAX:
            z = z.to(tl.float64) * LN2
            for m in range(1, n + 1):
                z += tl.load(tops + TOP * PITCH + m)
        tl.store(goal + i, z, mask=live)


@triton.jit(
    do_not_specialize=["s_b", "s_h", "s_m", "d_b", "d_h", "d_m", "single_root", "N", "first", "last"],
    do_not_specialize_on_alignment=["scores", "direction", "lengths", "unit"],
)
def inside_kernel(
    chart, scores, s_b, s_h, s_m, direction, d_b, d_h, d_m, lengths, goal, unit, single_root, N, first, last,
    PLANES: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, SEMIRING: tl.constexpr,
):  # fmt: skip
    """Diagonals first ≤ w < last of the sentence program_id(0), every num_programs(1)-th tile of them."""
    b = tl.program_id(0).to(tl.int64)
    n = num_words(lengths, b, N)
    chart += b * N * (PLANES * PITCH)
    tops = chart + n * (PLANES * PITCH)
    scores = (scores + b * s_b, s_h, s_m)
    direction = (direction + b * d_b, d_h, d_m)
    for w in range(first, tl.minimum(last, n + 1)):
        if w == 0:
            for m0 in range(tl.program_id(1) * (BLOCK * LANES), n + 1, tl.num_programs(1) * (BLOCK * LANES)):
                word_tile(scores, direction, chart, tops, n, m0, PITCH, BLOCK * LANES, SEMIRING)
        else:
            for i0 in range(tl.program_id(1) * BLOCK, n + 1 - w, tl.num_programs(1) * BLOCK):
                inside_tile(
                    scores, direction, chart, tops, goal + b, unit, n, w, i0, single_root,
                    PLANES, PITCH, BLOCK, LANES, SEMIRING,
                )  # fmt: skip
        tl.debug_barrier()


def near(matrices: Tensor) -> Tensor:
    """A copy where offsets within a matrix have more than 32 bits."""
    _, N, _ = matrices.shape
    return matrices if N * sum(matrices.stride()[1:]) < 2**31 else matrices.contiguous()


def run_inside(
    scores: Tensor,
    lengths: Tensor,
    single_root: bool,
    semiring: tl.constexpr,
    planes: int,
    direction: Tensor | None = None,
    unit: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The goal [B], and the chart. `unit` is a score of 1 in the weights of MEAN and MEANS."""
    chart = new_chart(scores, planes)
    scores = near(scores)
    # Zero, because no diagonal stores the goal of a sentence without words.
    goal = scores.new_zeros(scores.shape[0], dtype=chart.dtype if semiring is MAX else torch.float64)
    direction = scores if direction is None else near(direction)
    matrices = scores, *scores.stride(), direction, *direction.stride()
    unit = goal if unit is None else unit
    arguments = *matrices, lengths.contiguous(), goal, unit, int(single_root)
    sweep(inside_kernel, chart, *arguments, most_lanes=4, SEMIRING=semiring.value)
    return goal, chart
