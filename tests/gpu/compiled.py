"""Where kernels are compiled: processes of their own, since in the tests' process they are interpreted."""

import functools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import pytest

VERSION = tuple(map(int, version("triton").split(".")[:2]))
# Triton 3.7, which CUDA builds of torch 2.13 require, has one instruction more per term and one barrier more in a walk.
MORE = int(VERSION == (3, 7))
# The machine code of Triton 3.5 is right and longer. That of the k best trees spills, and has more barriers.
has_limits = pytest.mark.skipif(VERSION < (3, 7), reason="limits for machine code are for Triton 3.7 or newer")


def run_compiled(module: str, *arguments: str, **environment: str) -> str:
    """The output of `python -m module`."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | environment
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def call_compiled(function: Callable, *arguments):
    """The result of a module's function, or its exception, from a process that serves all calls."""
    return _process().submit(function, *arguments).result()


@functools.cache
def _process() -> ProcessPoolExecutor:
    process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with mock.patch.dict(os.environ):
        os.environ.pop("TRITON_INTERPRET", None)
        process.submit(os.getpid).result()  # it starts with the first call
    return process
