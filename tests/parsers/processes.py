"""The commands as a user runs them: each in a process of its own or, which is faster, in this one."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from parsers.data import synthetic
from parsers.io.command import run_command

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
TWICE = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
"""Before a script or a module: torchrun starts two processes of it."""


def start(*command, **options) -> subprocess.Popen:
    """Python with these arguments, which goes on while the test does."""
    return subprocess.Popen([sys.executable, *map(str, command)], **{"cwd": ROOT, "env": ENVIRONMENT} | options)


def run(*command, code: int = 0, **options) -> subprocess.CompletedProcess:
    """Python with these arguments, which must end with this exit code."""
    options = {"cwd": ROOT, "env": ENVIRONMENT, "capture_output": True, "text": True} | options
    done = subprocess.run([sys.executable, *map(str, command)], **options)
    assert done.returncode == code, done.stderr
    return done


def wait_for_epochs(process: subprocess.Popen, directory: Path, count: int = 1) -> None:
    """Until a training has written the figures of so many epochs to its run directory."""
    metrics, deadline = directory / "metrics.jsonl", time.monotonic() + 300
    while not metrics.exists() or metrics.read_text().count("\n") < count:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()  # or it would go on after the test
            raise AssertionError(f"exit code {process.wait()} before epoch {count} was written")
        time.sleep(0.005)


def call(main: Callable[[list[str]], int], *arguments, name: str = "command") -> int:
    """The exit code of a command in this process: it ends by the same function as in one of its own."""
    return run_command(name, main, [str(argument) for argument in arguments])


def mistake(capfd, main: Callable[[list[str]], int], *arguments, lines: int = 1) -> str:
    """What a command says, called in this process, that ends with a mistake of the user."""
    name = f"{main.__module__.rpartition('.')[2]}.py"
    assert call(main, *arguments, name=name) == 2
    out, error = capfd.readouterr()
    assert out == "" and error.startswith(f"{name}: ") and error.count("\n") == lines
    return error


def write_treebank(directory: Path, trees: int, unlabeled: int = 0) -> None:
    """A new directory with so many trees to learn from, and so many sentences without trees."""
    directory.mkdir()
    for split, count in (("train", trees), ("dev", 20), ("test", 20), ("unlabeled", unlabeled)):
        if count:
            text = "".join(synthetic.conllu(split, count=count))
            (directory / f"small-ud-{split}.conllu").write_text(text, encoding="utf-8")
