"""How the CPU code is compiled. All private names of Numba that tritree uses are in this file.

`inline` is for functions that only compiled code calls: they are compiled into their callers. `kernel` is for the few
functions that Python calls: they run without the GIL, and their machine code is cached on disk.

Numba decides by the file of the cached function whether its machine code is still valid. The files which that one
imports do not count: after a change in vector.py alone the old machine code would run. So the stamp that Numba compares
is replaced by a hash of all files of tritree/cpu.
"""

import hashlib
from pathlib import Path

from numba import njit

# numpy's error model: 1 / 0 is inf, without a branch. The arguments of inline functions are pointers and vectors, so
# Python can't call them: no wrappers.
inline = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def kernel(function):
    options = {"nogil": True, "error_model": "numpy"}
    try:
        dispatcher = njit(cache=True, **options)(function)
    except RuntimeError:  # there is no directory for the cache
        return njit(**options)(function)
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if not hasattr(cache_file, "_source_stamp"):  # a later Numba: better compile in each process than run old code
        return njit(**options)(function)
    cache_file._source_stamp = SOURCE_STAMP
    return dispatcher


def _stamp(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


SOURCE_STAMP = _stamp(Path(__file__).parents[1])
