"""How the CPU code is compiled. All private names of Numba that tritree uses are in this file.

`inline` is for functions that only compiled code calls: they are compiled into their callers. `kernel` is for the few
functions that Python calls: they run without the GIL, and their machine code is cached on disk.

Numba decides by the file of the cached function whether its machine code is still valid. The files which that one
imports do not count: after a change in vector.py alone the old machine code would run. So the stamp that Numba compares
is replaced by a hash of all files of tritree/cpu.

Before the first kernel of a process that is not in the cache is compiled, the logger `tritree` says so.
"""

import hashlib
import logging
from pathlib import Path

from numba import njit
from numba.core import event

OPTIONS = {"nogil": True, "error_model": "numpy"}  # numpy's error model: 1 / 0 is inf, without a branch
_KERNELS: set = set()

# The arguments of inline functions are pointers and vectors, so Python can't call them: no wrappers.
inline = njit(**OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def kernel(function):
    dispatcher = _cached(function) or njit(**OPTIONS)(function)
    _KERNELS.add(dispatcher)
    return dispatcher


def _cached(function):
    """None where nothing can be cached."""
    try:
        dispatcher = njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # there is no directory for the cache
        return None
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if not hasattr(cache_file, "_source_stamp"):  # a later Numba: better compile in each process than run old code
        return None
    cache_file._source_stamp = SOURCE_STAMP
    return dispatcher


class _Notice(event.Listener):
    """Says once in a process that kernels are compiled. What the cache has is not."""

    said = False

    def on_start(self, event):
        dispatcher = event.data["dispatcher"]
        if not self.said and dispatcher in _KERNELS:
            self.said = True
            often = "once" if dispatcher.stats.cache_path else "in each process, since they can't be cached"
            message = "tritree compiles its CPU kernels, which takes up to half a minute, %s"
            logging.getLogger("tritree").warning(message, often)

    def on_end(self, event):
        """All is said."""


def _stamp(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


SOURCE_STAMP = _stamp(Path(__file__).parents[1])
NOTICE = _Notice()
event.register("numba:compile", NOTICE)
