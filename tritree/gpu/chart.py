"""Where an item is in memory, and how the work is divided into programs.

A chart is stored by diagonals: chart[b, w, plane, i] belongs to the span (i, j = i + w) of sentence b. The spans of a
diagonal are computed side by side, the span from i in lane i, so the loads of every recurrence are contiguous in i.
A plane is one kind of number:

    CR, CL      C[i,j] and C[j,i]: the head is the left or the right end
    IR, IL      I[i,j] and I[j,i], which are stored with the span without the head: (i+1, j) and (i, j−1)
    GX, GR, GL  for the sums X{i,j}, C[i,j] and C[j,i]: a = Σ 2^(x−m) over their terms x, which the outside pass
                replaces by G (outside.py); for MAX the split index of the best term
    MX, MR, ML  m, the largest term of these sums
    D + plane   the derivative, for the planes up to GL; for MEANS the second number of a weight
    M + plane   for the planes GX to GL and MEANS: the mean of x − m, which the outside pass replaces (outside.py)

Diagonal 0 has the axioms C[m,m]. On diagonal n there is no I: the plane TOP has the column maximum of word m there.

PITCH, the length of a row, is a constant of the kernel, so the step to a neighbouring span costs no arithmetic:

    (i, j) → (i, j+1)   + ROW          (i, j) → (i−1, j)   + ROW − 1
    (i, j) → (i, j−1)   − ROW          (i, j) → (i+1, j)   − ROW + 1          ROW = PLANES · PITCH

It is a power of two: a few compiled kernels are enough for all N.

A lane adds up all terms of a sum itself, in one order. It has all sums of its span or, in the inside pass of few short
sentences, one of them (inside.py). So no bit of a result depends on the tile, on the padding, or on the launch shape.
"""

import contextlib

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tritree.conventions import result_dtype
from tritree.gpu.semiring import is_pair

IR, CL, CR, IL = (tl.constexpr(plane) for plane in range(4))
GX, GR, GL = (tl.constexpr(plane) for plane in range(4, 7))
MX, MR, ML = (tl.constexpr(plane) for plane in range(7, 10))
D, M = tl.constexpr(10), tl.constexpr(13)
TOP = IR

MULTIPROCESSORS = 132  # of an H100
# How many planes a chart has: C and I only, up to GL, up to ML, with derivatives, or with means.
WEIGHTS, BACKPOINTERS, STATES, DERIVATIVES, MEANS_KEPT = 4, 7, 10, 17, 20


def pitch(N: int) -> int:
    return max(32, triton.next_power_of_2(N))


def new_chart(scores: Tensor, planes: int) -> Tensor:
    B, N, _ = scores.shape
    if N * planes * pitch(N) >= 2**31:
        raise ValueError(f"N = {N} is too large: in the kernels, offsets within a sentence have 32 bits")
    return scores.new_empty((B, N, planes, pitch(N)), dtype=result_dtype(scores.dtype))


def one_program_per_sentence(B: int, N: int) -> bool:
    """Whether one program goes over all diagonals of its sentence, or every diagonal has a launch of its own.

    One program per sentence saves N − 1 launches, but it keeps only one multiprocessor busy. N launches are better
    where diagonals are long and sentences too few to fill the device.
    """
    return N <= 256 or B >= 128


def tile(B: int, N: int, most_lanes: int) -> tuple[int, int]:
    """How many spans a tile has, and how many lanes each of them: one, or `most_lanes`, which share its sums.

    Where sentences are many, two for each multiprocessor, the number of instructions counts. A warp past the end of its
    diagonal only repeats work, so a program has one warp.
    Where they are few, the time of a diagonal counts. A program has up to four warps, one for each scheduler of a
    multiprocessor. The short diagonals of short sentences leave room for several lanes per span.
    """
    if B >= 2 * MULTIPROCESSORS:
        return 32, 1
    lanes = most_lanes if N <= 64 else 1
    return min(pitch(N) * lanes, 128) // lanes, lanes


def num_warps(block: int) -> int:
    """One thread for each lane."""
    return max(1, block // (64 if torch.version.hip else 32))


def sweep(kernel, chart: Tensor, *args, downwards: bool = False, most_lanes: int = 1, **options) -> None:
    """Runs a kernel over all diagonals. A launch does first ≤ w < last, which are the kernel's last arguments."""
    B, *_, N, planes, width = chart.shape
    block, lanes = tile(B, N, most_lanes)
    options |= {"PLANES": planes, "PITCH": width, "BLOCK": block, "num_warps": num_warps(block * lanes)}
    if most_lanes > 1:
        options["LANES"] = lanes
    options["enable_fp_fusion"] = True  # the default, which Triton 3.10 will change
    if torch.version.cuda:
        # Without a limit ptxas takes 32 registers, which allows more warps than there ever are and leaves too few
        # registers to keep loads in flight.
        options["maxnreg"] = 16 * chart.element_size()
    with launching(chart):
        if one_program_per_sentence(B, N):
            kernel[B, 1](chart, *args, N, 0, N, **options)
        else:
            for w in reversed(range(N)) if downwards else range(N):
                kernel[B, triton.cdiv(N - w, block)](chart, *args, N, w, w + 1, **options)


@contextlib.contextmanager
def launching(tensor: Tensor):
    """On the tensor's device. NumPy, which the interpreter uses, does not warn of log2(0), which is intended."""
    with torch.cuda.device_of(tensor), np.errstate(all="ignore"):
        yield


@triton.jit
def num_words(lengths, b, N):
    """The length, clamped: a wrong length gives wrong results, but no access outside the tensors."""
    return tl.minimum(tl.maximum(tl.load(lengths + b), 0), N - 1).to(tl.int32)


@triton.jit
def spans_of_tile(n, w, i0, BLOCK: tl.constexpr, LANES: tl.constexpr):
    """The span i of each lane of a tile of diagonal w, and which lanes store its results.

    Lanes past the end repeat the last span and store nothing: no loop needs a mask.
    """
    lane = tl.arange(0, BLOCK * LANES)
    span = i0 + lane // LANES
    return tl.minimum(span, n - w), (span <= n - w) & (lane % LANES == 0)


@triton.jit
def from_lane(x, lane: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr):
    """What one of the lanes of each span has, in all of them. They are in one warp: a shuffle."""
    x = tl.gather(tl.reshape(x, [BLOCK, LANES]), tl.full([BLOCK, LANES], lane, tl.int32), 1)
    return tl.reshape(x, [BLOCK * LANES])


@triton.jit
def load(cell, PLANE: tl.constexpr, PITCH: tl.constexpr, SEMIRING: tl.constexpr):
    """A weight: a number and, where the semiring has one, its derivative."""
    if is_pair(SEMIRING):
        return tl.load(cell + PLANE * PITCH), tl.load(cell + (D + PLANE) * PITCH)
    else:
        return tl.load(cell + PLANE * PITCH), 0.0


@triton.jit
def store(cell, PLANE: tl.constexpr, weight, live, PITCH: tl.constexpr, SEMIRING: tl.constexpr):
    tl.store(cell + PLANE * PITCH, weight[0], mask=live)
    if is_pair(SEMIRING):
        tl.store(cell + (D + PLANE) * PITCH, weight[1], mask=live)
