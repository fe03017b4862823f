"""What a person sees who runs the commands by hand: a terminal, and pipes that close."""

import os
import pty
import re
import subprocess

import pytest

from tests.parsers.helpers import TINY
from tests.parsers.processes import ENVIRONMENT, ROOT, run, start, write_treebank

COMMAND = [ROOT / "train.py", "--model=ntp", *TINY, "--epochs=10", "--patience=10"]


def on_a_terminal(*command, **options) -> str:
    """Everything that a process shows on a terminal of 100 columns."""
    master, slave = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"}
    process = start(*command, stdout=slave, stderr=slave, stdin=slave, env=environment, **options)
    os.close(slave)
    shown = b""
    try:
        while some := os.read(master, 2**16):
            shown += some
    except OSError:  # Linux' way to say that the other end is closed
        pass
    os.close(master)
    assert process.wait(60) == 0, shown.decode()
    return shown.decode()


@pytest.fixture
def place(tmp_path):
    write_treebank(tmp_path / "bank", 60)
    return tmp_path


def test_training_and_evaluation(place):
    """A live line with the figures so far; runs get names of their own, one after the other."""
    for number in (1, 2):
        shown = on_a_terminal(*COMMAND, "--treebank=bank", cwd=place)
        assert f"runs/ntp-bank-{number}" in shown
        assert re.search(r"epoch 1.*loss \d\.\d{3}  \d+ sentences/s  at most \d:\d\d left", shown)
        assert re.search(r"best dev UAS \d+\.\d\d  \d+ sentences/s", shown)
        assert [path.name for path in (place / "runs").iterdir() if path.name.startswith(".")] == []
    evaluation = [ROOT / "evaluate.py", "runs/ntp-bank-2", "--treebank=bank", "--split=dev"]
    assert re.search(r"UAS +\d+\.\d\d", on_a_terminal(*evaluation, cwd=place))


def test_a_pipe_that_closes(place):
    """As with `| head -1`: no traceback."""
    run(*COMMAND, "--treebank=bank", "--output=run", cwd=place)
    gold = place / "bank" / "small-ud-test.conllu"
    gold.write_text(20 * gold.read_text())  # more than a pipe holds
    command = [ROOT / "evaluate.py", "run", gold, "--output", "-"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with start(*command, cwd=place, **pipes) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(60) == 1


def test_a_training_whose_output_nobody_reads(place):
    """It ends, says so, and can be continued."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with start(*COMMAND, "--treebank=bank", "--output=run", cwd=place, **pipes) as process:
        assert process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(60) == 1
    assert error == "nobody reads the output any more; continue with: python train.py --resume run\n"
    run(ROOT / "train.py", "--resume", "run", cwd=place)


def test_a_terminal_with_few_letters():
    for command in ("train.py", "evaluate.py"):
        assert "?" in run(command, "--help", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}).stdout


def test_standard_input_that_is_closed(place):
    run(*COMMAND, "--treebank=bank", "--output=run", cwd=place)
    done = run(ROOT / "evaluate.py", "run", "-", cwd=place, code=2, preexec_fn=lambda: os.close(0))
    assert done.stderr == "evaluate.py: <stdin>: can't be read: it is closed\n"
