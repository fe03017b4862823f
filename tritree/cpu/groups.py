"""How threads share a batch: each takes the next part when it is done with its last.

`progress` is an array that all of them see: how many parts are taken and how many are finished, on cache lines of their
own. Taking a part is one atomic instruction, without the GIL, so that parts can be as small as one group of sentences.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tritree.cpu.simd.jit import kernel
from tritree.cpu.simd.vector import address

_LINE = 8  # int64 per cache line
_SPINS = 100_000  # about 50 µs: less than it takes to sleep and be woken


def new_progress():
    return np.zeros(2 * _LINE, np.int64)


@intrinsic
def _add_one(typingctx, pointer, index):
    """pointer[index] += 1, in one piece. The value before."""
    if pointer != types.CPointer(types.int64):
        return None

    def emit(context, builder, signature, args):
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(pointer, types.intp), emit


@intrinsic
def _read(typingctx, pointer, index):
    """pointer[index], whoever wrote it."""
    if pointer != types.CPointer(types.int64):
        return None

    def emit(context, builder, signature, args):
        return builder.load_atomic(builder.gep(args[0], [args[1]]), "acquire", 8)

    return types.int64(pointer, types.intp), emit


@kernel
def take(progress):
    """The next part's number."""
    return _add_one(address(progress), 0)


@kernel
def finish(progress):
    """One more part is finished."""
    _add_one(address(progress), _LINE)


@kernel
def all_finished(progress, count, patiently):
    """Whether `count` parts are finished, or will be within a few dozen microseconds if asked `patiently`."""
    spins = _SPINS if patiently else 1
    while spins > 0 and _read(address(progress), _LINE) < count:
        spins -= 1
    return spins > 0
