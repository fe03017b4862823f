"""Kills train.py at random moments, resumes it each time, and compares the end with that of an undisturbed run:

    python -m tests.parsers.kills --times 20 --model gap

Metrics (times excluded) and the model must be the same, to the bit. Nothing else may be left in the run directory.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parsers import MODELS
from tests.parsers.processes import start, write_treebank
from tests.parsers.training.interruption import figures_of

OPTIONS = ["--word-size=8", "--tag-size=4", "--lstm-size=6", "--hidden-size=5", "--labeled=0.5"]


def outcome(run: Path) -> tuple[list[dict], bytes, set[str]]:
    """What must be the same: figures that are no times, the model, and which files there are."""
    names = {path.name for path in run.iterdir() if not path.name.startswith("checkpoint-")}
    return figures_of(run), (run / "model.safetensors").read_bytes(), names


class Victim:
    """A train.py process that works on one run directory."""

    def __init__(self, run: Path, first: list[str]):
        self.run = run
        arguments = ["--resume", str(run)] if run.exists() else [*first, "--output", str(run)]
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        self.process = start("train.py", *arguments, **output)

    def seconds_to_end(self) -> float:
        """Waits for the end; the seconds since the run directory was there."""
        while not self.run.exists() and self.process.poll() is None:
            time.sleep(0.01)
        began = time.monotonic()
        self.finish()
        return time.monotonic() - began

    def finish(self) -> None:
        _, errors = self.process.communicate()
        assert self.process.returncode == 0, errors

    def kill_after(self, seconds: float) -> bool:
        """False if it came to its end before."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return True
        self.finish()
        return False


def kills(model: str, times: int, directory: Path, trees: int, epochs: int, rng: random.Random) -> int:
    """Kills so often, in as many runs as it takes; returns their number. AssertionError if one ends differently."""
    bank = directory / "bank"
    write_treebank(bank, trees)
    first = [f"--model={model}", f"--treebank={bank}", f"--epochs={epochs}", "--patience=1000", *OPTIONS]
    whole = directory / "whole"
    began = time.monotonic()
    training = Victim(whole, first).seconds_to_end()
    startup = time.monotonic() - began - training
    expected = outcome(whole)
    done = runs = 0
    while done < times:
        runs += 1
        run = directory / f"run-{runs}"
        while True:
            fresh = not run.exists()
            victim = Victim(run, first)
            if done == times:
                victim.finish()
                break
            early = rng.random() < 0.15  # while it starts
            moment = rng.uniform(0, startup) if early else startup + rng.uniform(0, training)
            if not victim.kill_after(moment):
                if fresh and not early:  # the undisturbed run took longer: it compiled the kernels, too
                    training = moment - startup
                break
            done += 1
            print(f"kill {done} of {times}: run {runs}, after {moment:.2f} s", flush=True)
        assert outcome(run) == expected, f"{run} ended differently from {whole}"
    litter = [path.name for path in directory.iterdir() if path.name.startswith(".")]
    assert len(litter) <= times, litter  # a directory that was being made when it was killed
    return runs


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parsers.kills", description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--model", choices=MODELS, default="gap")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        runs = kills(options.model, options.times, Path(directory), 400, 15, random.Random(options.seed))
    print(f"{options.times} kills in {runs} runs of {options.model}, which all ended like the undisturbed one")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
