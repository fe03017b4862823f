"""What a person sees who runs the commands by hand: a terminal, and pipes that close."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from tests.parsers.helpers import TINY
from tests.parsers.processes import ENVIRONMENT, ROOT, run, start, write_treebank

COMMAND = [ROOT / "train.py", "--model=ntp", *TINY, "--epochs=10", "--patience=10", "--no-tagger"]


def on_a_terminal(*command, columns: int = 100, **options) -> str:
    """Everything that a process shows on a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**ENVIRONMENT, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES"):  # where they are set, rich believes them
        environment.pop(name, None)
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
    """A bar with the figures so far; runs get names of their own, one after the other."""
    for number, columns in ((1, 80), (2, 120)):
        shown = on_a_terminal(*COMMAND, "--treebank=bank", cwd=place, columns=columns)
        assert f"runs/ntp-bank-{number}" in shown
        lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "\n", shown).splitlines()
        assert max(map(len, lines)) <= columns
        epochs = [line for line in lines if re.match(r"epoch +\d+  loss", line)]
        assert len(epochs) == 10 and not any("left" in line for line in epochs)
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)
        bars = re.findall(r"epoch (\d+) of 10 ([━╸╺]+) loss \d\.\d{3}([^\r\n]*?)at most \d:\d\d left", text)
        assert bars and all(len(bar) >= 20 for _, bar, _ in bars)
        for epoch, _, middle in bars:  # those of an epoch that is very short may be missing
            has_best = re.search(r"best dev UAS \d+\.\d\d", middle) is not None
            assert has_best == (columns == 120 and int(epoch) > 1), (epoch, middle)
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
