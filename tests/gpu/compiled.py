"""Runs a command in which kernels are compiled. In the tests' own process they are interpreted."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

# Triton 3.7, which CUDA builds of torch 2.13 require, has one instruction more per term and one barrier more in a walk.
MORE = int(version("triton").startswith("3.7."))


def run_compiled(module: str, *arguments: str, **environment: str) -> str:
    """The output of `python -m module`."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | environment
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
