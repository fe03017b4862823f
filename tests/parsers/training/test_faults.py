"""What the machine does to a run: full disks, directories that can't be written to, processes that are killed."""

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

import train
from parsers.data.dataset import Data
from parsers.evaluation.plots import read_history
from parsers.runs.run import Run
from tests.parsers import kills
from tests.parsers.helpers import TINY, small_data, small_trainer, tiny_options
from tests.parsers.processes import TWICE, call, mistake, start, wait_for_epochs
from tests.parsers.training.interruption import figures, figures_of

OPTIONS = ("--epochs=3", "--batch-size=4")


def test_killed_at_any_moment(tmp_path):
    """`python -m tests.parsers.kills` does it more often."""
    kills.kills("gap", 2, tmp_path, trees=100, epochs=4, rng=random.Random(1))


class Disk:
    """A disk that is full after some bytes, as far as parsers.io.files can see."""

    def __init__(self, monkeypatch, room):
        self.room, original = room, os.fsync

        def fsync(handle):
            if os.path.isfile(f"/proc/self/fd/{handle}"):
                self.room -= os.fstat(handle).st_size
            if self.room < 0:
                raise OSError(28, "No space left on device")
            original(handle)

        monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("room", [10_000, 60_000, 100_000, 200_000])
def test_a_disk_that_fills_up(room, tmp_path, monkeypatch, capfd):
    """One line; what was whole stays whole, and the run can go on when there is room again."""
    whole = small_trainer(tiny_options("gap", *OPTIONS), tmp_path / "whole").train().history
    options, path = tiny_options("gap", *OPTIONS), tmp_path / "run"
    trainer = small_trainer(options, path)
    disk = Disk(monkeypatch, room)
    assert call(lambda _: trainer.train()) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and "can't be written: No space left on device" in error
    assert not list(path.glob(".*"))
    disk.room = 10**9
    again = small_trainer(options, path)
    again.restore()
    assert figures(again.train().history) == figures(whole)


def test_no_room_for_a_run(tmp_path, monkeypatch, capfd):
    Disk(monkeypatch, 100)
    error = mistake(capfd, train.main, "--model=ntp", *TINY, "--output", tmp_path / "run")
    assert "can't be written: No space left on device" in error
    assert not list(tmp_path.iterdir())


def test_a_flipped_bit(tmp_path, capfd):
    """Anywhere in the last checkpoint: it is passed over with a line that says so, and the one before is used."""
    options = tiny_options("ntp", *OPTIONS)
    trainer = small_trainer(options, tmp_path / "run")
    trainer.save()
    trainer.save()
    rng = random.Random(1)
    for name in ("checkpoint-2.json", "checkpoint-2.safetensors"):
        path = tmp_path / "run" / name
        content = path.read_bytes()
        for _ in range(10):
            place, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            again = small_trainer(options, tmp_path / "run")
            again.display.console.quiet = False
            assert again.restore()
            assert "using the checkpoint before it" in capfd.readouterr().err, (name, place, bit)
        path.write_bytes(content)


@contextlib.contextmanager
def two_processes(*arguments):
    """train.py by torchrun."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with start(*TWICE, "train.py", *arguments, **silent) as process:
        try:
            yield process
        finally:
            process.kill()


def test_one_of_two_processes_is_killed(tmp_path):
    """The other ends with an error, soon, and the run is resumed, here by one process."""
    path, options = tmp_path / "run", ["--epochs=6", "--patience=1000", "--no-tagger"]
    with two_processes("--model=ntp", "--output", path, *TINY, *options) as process:
        wait_for_epochs(process, path)
        victim = workers(process.pid)[-1]
        os.kill(victim, signal.SIGKILL)
        assert process.wait(60) != 0
    before = read_history(path)
    assert 0 < len(before) < 6
    assert call(train.main, "--resume", path) == 0
    after = read_history(path)
    assert [line.get("epoch") for line in after] == [*range(1, 7), None]  # the last line: scores of the best model
    assert after[: len(before)] == before and not list(path.glob(".*"))


def test_two_processes_stop_at_the_same_step(tmp_path):
    """SIGTERM, as from a batch system: they save inside of an epoch, and end as if nothing had been."""
    path, whole = tmp_path / "run", tmp_path / "whole"
    options = ["--model=ntp", *TINY, "--epochs=3", "--patience=1000", "--batch-size=1", "--labeled=0.3", "--no-tagger"]
    with two_processes(*options, "--output", whole) as process:
        assert process.wait(300) == 0
    with two_processes(*options, "--output", path) as process:
        wait_for_epochs(process, path)
        process.terminate()
        assert process.wait(60) != 0
    checkpoints = Run.open(str(path)).checkpoints
    place = checkpoints.state(next(iter(checkpoints.numbers())))["training"]
    assert place["epoch"] in (2, 3) and place["step"] > 0 and place["totals"]["sentences"] == place["step"]
    with two_processes("--resume", path) as process:
        assert process.wait(300) == 0
    for one, two in zip(figures_of(whole), figures_of(path), strict=True):
        assert two == pytest.approx(one, rel=1e-12)


def workers(parent: int) -> list[int]:
    """The processes that another one started, in order of their rank."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if int((directory / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                environment = (directory / "environ").read_bytes().split(b"\0")
                rank = next((e for e in environment if e.startswith(b"LOCAL_RANK=")), None)
                if rank:
                    found.append((int(rank.split(b"=")[1]), int(directory.name)))
        except (OSError, ValueError):
            continue
    return [number for _, number in sorted(found)]


def test_a_stream_is_held_in_windows(monkeypatch):
    """How far reading is ahead of the batches that were given out does not depend on the length of the file."""
    monkeypatch.setattr("parsers.data.batches.WINDOW", 50)
    options = tiny_options("gap")
    data, _ = small_data(options, 20)
    read = given = 0

    class Stream:
        def __iter__(self):
            nonlocal read
            for _ in range(100):
                for example in data.labeled:
                    read += 1
                    yield example

    large = Data([], Stream(), [], [], options)
    for batch in large.unlabeled_batches():
        given += batch.size
        assert read - given <= 50
    assert given == 2000
