"""The backends: which module has the kernels, which tensors it takes, and why it can't run here.

Another device is a folder with the functions that operators.py lists, and one record here. Modules are known by name
and imported at their first use: neither Triton nor Numba is needed, or costs time, before.
"""

import functools
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from torch import Tensor

OLDEST_TRITON = 3, 5  # before, @triton.constexpr_function was not there


def _needs_cpu_tensors(device: str) -> str | None:
    return None if device == "cpu" else f"needs CPU tensors, got {device}"


def _needs_triton(device: str) -> str | None:
    if reason := why_not_triton():
        return reason
    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return (
            "needs CUDA tensors; TRITON_INTERPRET=1, set before Python starts, runs the kernels on CPU tensors, slowly"
        )
    return None


def why_not_triton() -> str | None:
    """Why Triton's kernels can't be compiled at all."""
    try:
        from triton import __version__ as version
    except ImportError:
        return "needs Triton, which is not installed: pip install triton (Linux only)"
    if tuple(map(int, version.split(".")[:2])) < OLDEST_TRITON:
        oldest = ".".join(map(str, OLDEST_TRITON))
        return f"needs Triton {oldest} or newer, and this is {version}: CUDA builds of torch bring it from 2.9 on"
    return None


@dataclass(frozen=True)
class Backend:
    name: str
    module: str
    default_for: str | None
    """The type of device for whose tensors it is chosen unless a backend is asked for."""
    why_not: Callable[[str], str | None] = lambda device: None
    """Why it can't take tensors of this type of device, here and now. None: it can."""
    reads_values: bool = False
    """Its functions read the values of their tensors. So they check the lengths themselves, and where nothing but the
    kernel would see the call they are called directly (operators.bypasses_dispatcher)."""


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("numba", "tritree.cpu.backend", "cpu", _needs_cpu_tensors, reads_values=True),
        Backend("triton", "tritree.gpu.backend", "cuda", _needs_triton),
        Backend("reference", "tritree.reference", None),
    )
}
_DEFAULTS = {backend.default_for: backend.name for backend in BACKENDS.values() if backend.default_for}


@functools.cache
def kernels(backend: str) -> ModuleType:
    """The backend's module, imported now if it has not been."""
    return importlib.import_module(BACKENDS[backend].module)


def resolve_backend(backend: str | None, scores: Tensor) -> str:
    """The name of the backend for these scores; ValueError where the one asked for can't take them."""
    device = scores.device.type
    if backend is None:
        if device not in _DEFAULTS:
            raise ValueError(f"there are no kernels for {device} tensors: move them to cpu, or use backend='reference'")
        backend = _DEFAULTS[device]
    if backend not in BACKENDS:
        raise ValueError(f"backend must be None or one of {', '.join(map(repr, BACKENDS))}, got {backend!r}")
    reason = BACKENDS[backend].why_not(device)
    if reason is not None:
        raise ValueError(f"backend={backend!r} {reason}")
    return backend
