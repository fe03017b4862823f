"""How the CPU kernels are compiled.

`inline` is for the pieces, which are compiled into whatever calls them. `kernel` is for the few functions that Python
calls: they run without the GIL, and their machine code is cached on disk.

Numba's cache looks at the file of the cached function, not at the files that it imports: after a change to vector.py
alone it would go on running the old machine code. So the stamp that it compares is replaced by one of all files in
this package.
"""

import hashlib
from pathlib import Path

from numba import njit

# numpy's error model: 1 / 0 is inf, without a branch. Pieces take pointers and vectors, so Python can't call them
# anyway.
inline = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def kernel(function):
    try:
        dispatcher = njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # there is no place to keep a cache
        return njit(nogil=True, error_model="numpy")(function)
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = SOURCE_STAMP
    return dispatcher


def _stamp(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


SOURCE_STAMP = _stamp(Path(__file__).parents[1])
