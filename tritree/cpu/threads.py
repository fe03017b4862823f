"""Threads for kernels that release the GIL, and a workspace for each.

`run` cuts nothing and decides nothing about the work: it calls a function on several threads, the caller's among them,
which share a number of parts (groups.py) until all are taken.

Why not Numba's own threads: one of its layers kills the children of a fork, another aborts when two Python threads
call at once. Here, threads that a fork has lost are simply started again, and a caller never waits for a thread that
has not begun: if all helpers are busy with somebody else's work, it does its own alone.
"""

import os
import queue
import sys
import threading

import numpy as np
import torch

from tritree.cpu.groups import all_finished, new_progress

_KEEP_BYTES = 64 << 20  # a larger workspace is given back after use
_ALIGN = 64

_thread = threading.local()


class _Job:
    def __init__(self, function, parts):
        self.function = function
        self.parts = parts
        self.progress = new_progress()
        self.error = None
        self.done = threading.Event()
        # torch.set_flush_denormal holds for one thread only; helpers follow the caller, so that all compute alike.
        self.flush = _flushes_denormals()

    def work(self):
        self.function(self.progress)

    def is_done(self, patiently=False):
        return all_finished(self.progress, self.parts, patiently)

    def help(self):
        try:
            torch.set_flush_denormal(self.flush)
            self.work()
        except BaseException as error:
            self.error = error
        if self.error is not None or self.is_done():
            self.done.set()


def _flushes_denormals(tiny=sys.float_info.min):
    return tiny / 2 == 0.0


def _help(jobs):
    while True:
        job = jobs.get()
        job.help()
        del job  # it holds the caller's tensors


class _Helpers:
    """Threads that wait for jobs; more are started when more are asked for."""

    def __init__(self):
        self.jobs = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.count = 0

    def invite(self, job, count):
        with self.lock:
            while self.count < count:
                threading.Thread(target=_help, args=(self.jobs,), name="tritree", daemon=True).start()
                self.count += 1
        for _ in range(count):
            self.jobs.put(job)


def _forget_helpers():
    global _helpers
    _helpers = _Helpers()


_forget_helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def run(function, parts, threads):
    """function(progress) on up to `threads` threads, until so many parts are finished. Raises a helper's exception."""
    threads = min(threads, parts)
    if threads <= 1:
        function(new_progress())
        return
    job = _Job(function, parts)
    _helpers.invite(job, threads - 1)
    job.work()
    if not job.is_done(patiently=True):
        job.done.wait()
        if job.error is not None:
            raise job.error


def workspace(size, dtype):
    """An uninitialised array, aligned to cache lines. It is this thread's own, and the same one at the next call."""
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
