"""Threads for kernels that release the GIL, and a workspace for each.

`run` knows nothing of the work: it calls a function on several threads, one of them the caller's. They take parts of
the work (groups.py) until all are taken.

Why not Numba's own threads: one of its threading layers kills the children of a fork, another aborts when two Python
threads call at once. Here, threads that a fork has lost are started again, and a caller never waits for a thread that
has not begun: while all workers are busy with other calls, the caller does all of its parts itself.
"""

import os
import queue
import sys
import threading

import numpy as np
import torch

from tritree.cpu.groups import all_finished, new_progress

_KEEP_BYTES = 64 << 20  # a larger workspace is freed after use
_ALIGN = 64

_thread = threading.local()


class _Job:
    def __init__(self, function, parts):
        self.function = function
        self.parts = parts
        self.progress = new_progress()
        self.error = None
        self.done = threading.Event()
        # torch.set_flush_denormal holds for one thread. Workers take over the caller's setting: the same results.
        self.flush = _flushes_denormals()

    def is_done(self, spin=False):
        return all_finished(self.progress, self.parts, spin)

    def run_on_worker(self):
        try:
            torch.set_flush_denormal(self.flush)
            self.function(self.progress)
        except BaseException as error:
            self.error = error
        if self.error is not None or self.is_done():
            self.done.set()


def _flushes_denormals(tiny=sys.float_info.min):
    return tiny / 2 == 0.0


def _worker(jobs):
    while True:
        job = jobs.get()
        job.run_on_worker()
        del job  # it refers to the caller's tensors


class _Workers:
    """Threads that wait for jobs. More are started when a job asks for more."""

    def __init__(self):
        self.jobs = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.count = 0

    def submit(self, job, count):
        """Lets up to `count` workers take part in the job."""
        with self.lock:
            while self.count < count:
                threading.Thread(target=_worker, args=(self.jobs,), name="tritree", daemon=True).start()
                self.count += 1
        for _ in range(count):
            self.jobs.put(job)


def _new_workers():
    global _workers
    _workers = _Workers()


_new_workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_workers)


def run(function, parts, threads):
    """Calls function(progress) on up to `threads` threads. Returns when all parts are finished; raises their errors."""
    threads = min(threads, parts)
    if threads <= 1:
        function(new_progress())
        return
    job = _Job(function, parts)
    _workers.submit(job, threads - 1)
    function(job.progress)
    if not job.is_done(spin=True):
        job.done.wait()
        if job.error is not None:
            raise job.error


def workspace(size, dtype):
    """An uninitialised array, aligned to cache lines. Each thread has its own, which the next call returns again."""
    held = getattr(_thread, "workspace", None)
    if held is not None and held.size == size and held.dtype == dtype:
        return held
    nbytes = size * np.dtype(dtype).itemsize
    raw = getattr(_thread, "memory", None)
    if raw is None or raw.nbytes < nbytes:
        raw = np.empty(nbytes + _ALIGN, np.uint8)
        start = -raw.ctypes.data % _ALIGN
        raw = raw[start : start + nbytes]
    keep = nbytes <= _KEEP_BYTES
    held = raw[:nbytes].view(dtype)
    _thread.memory, _thread.workspace = (raw, held) if keep else (None, None)
    return held
