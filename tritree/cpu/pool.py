"""Threads for kernels that release the GIL, and a workspace for each.

`run` cuts nothing and decides nothing about the work: it calls a function on a list of arguments, and the calling
thread works along. As many threads as torch.get_num_threads() says share the list; each takes the next
entry when it is done with its last.

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

_KEEP_BYTES = 64 << 20  # a larger workspace is given back after use
_ALIGN = 64

_thread = threading.local()


class _Job:
    def __init__(self, function, arguments):
        self.function = function
        self.arguments = arguments
        self.lock = threading.Lock()
        self.begun = 0
        self.ended = 0
        self.error = None
        self.done = threading.Event()
        # torch.set_flush_denormal holds for one thread only; helpers follow the caller, so that all compute alike.
        self.flush = _flushes_denormals()

    def work(self):
        while True:
            with self.lock:
                if self.begun == len(self.arguments):
                    return
                argument = self.arguments[self.begun]
                self.begun += 1
            try:
                if self.error is None:
                    self.function(*argument)
            except BaseException as error:
                self.error = error
            with self.lock:
                self.ended += 1
                if self.ended == len(self.arguments):
                    self.done.set()


def _flushes_denormals(tiny=sys.float_info.min):
    return tiny / 2 == 0.0


def _help(jobs):
    while True:
        job = jobs.get()
        torch.set_flush_denormal(job.flush)
        job.work()
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


def run(function, arguments, threads):
    """function(*a) for all a in arguments, on up to `threads` threads. Raises the first exception when all is quiet."""
    threads = min(threads, len(arguments))
    if threads <= 1:
        for argument in arguments:
            function(*argument)
        return
    job = _Job(function, arguments)
    _helpers.invite(job, threads - 1)
    job.work()
    job.done.wait()
    if job.error is not None:
        raise job.error


def workspace(size, dtype):
    """An uninitialised array, aligned to cache lines. It is this thread's own, and the same one at the next call."""
    nbytes = size * np.dtype(dtype).itemsize
    held = getattr(_thread, "workspace", None)
    if held is None or held.nbytes < nbytes:
        raw = np.empty(nbytes + _ALIGN, np.uint8)
        start = -raw.ctypes.data % _ALIGN
        held = raw[start : start + nbytes]
        _thread.workspace = held if nbytes <= _KEEP_BYTES else None
    return held[:nbytes].view(dtype)
