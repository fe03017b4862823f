"""How threads share a batch: each takes the next group of sentences when it has finished its last one.

A group has as many sentences as a vector has lanes. They follow each other in `order`, so they have similar lengths. A
group that is not full repeats its first sentence, whose results are then computed and written more than once: no lane
needs special treatment.

What a thread takes is a part: a group, or for samples one of several `pieces` of a group's samples. `progress` is an
array that all threads of a call see. It counts the parts that are taken and those that are finished, on cache lines of
their own. Taking a part is one atomic instruction and needs no GIL, so a part can be as small as one group.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tritree.cpu.chart.lanes import Members
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import address, lanes

_LINE = 8  # int64 per cache line
_SPINS = 100_000  # about 50 µs: less than it takes to sleep and be woken


def new_progress():
    return np.zeros(2 * _LINE, np.int64)


@intrinsic
def _add_one(typingctx, pointer, index):
    """pointer[index] += 1, atomically. Returns the value before."""
    if pointer != types.CPointer(types.int64):
        return None

    def emit(context, builder, signature, args):
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(pointer, types.intp), emit


@intrinsic
def _read(typingctx, pointer, index):
    """pointer[index], atomically: as the thread that wrote last left it."""
    if pointer != types.CPointer(types.int64):
        return None

    def emit(context, builder, signature, args):
        return builder.load_atomic(builder.gep(args[0], [args[1]]), "acquire", 8)

    return types.int64(pointer, types.intp), emit


@inline
def take(progress):
    """The number of the next part."""
    return _add_one(address(progress), 0)


@inline
def finish(progress):
    """Counts one more part as finished."""
    _add_one(address(progress), _LINE)


@kernel
def all_finished(progress, count, spin):
    """Whether `count` parts are finished. With `spin`, waits up to a few dozen microseconds for them."""
    spins = _SPINS if spin else 1
    while spins > 0 and _read(address(progress), _LINE) < count:
        spins -= 1
    return spins > 0


@inline
def new_members(work):
    cell = lanes(address(work))
    return Members(np.empty(cell, np.int64), np.empty(cell, np.int64), np.empty(cell, np.int64), np.full(1, -1))


@inline
def next_group(members, order, lengths, progress, pieces=1):
    """Finishes the part that `members` holds, if any, and takes the next one. Returns whether there was one."""
    if members.part[0] >= 0:
        finish(progress)
    cell = members.sentences.size
    part = members.part[0] = take(progress)
    first = part // pieces * cell
    if first >= order.size:
        return False
    for lane in range(cell):
        b = order[first + lane if first + lane < order.size else first]
        members.sentences[lane] = b
        members.words[lane] = lengths[b]
    return True
