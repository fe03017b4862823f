"""Runs what a grid plans: one process per core, a line for each run that ends."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from parsers.data import synthetic
from parsers.data.conllu import read
from parsers.data.sources import find_split, find_treebank
from parsers.io.errors import UserError
from parsers.io.files import read_json
from parsers.reproduce import RECIPES
from parsers.reproduce.child import RESULT, Task
from parsers.reproduce.commit import ROOT, commit
from parsers.reproduce.display import Display
from parsers.reproduce.estimates import Estimates
from parsers.reproduce.grid import Plan, machine_arguments
from parsers.reproduce.lines import Line, append, read_lines

POLL = 0.2  # seconds
CHILD = (sys.executable, "-m", "parsers.reproduce.child")
PATIENCE = 60  # seconds that a process has to write its checkpoint


@dataclass
class Job:
    """A run that is being done."""

    plan: Plan
    directory: Path
    process: subprocess.Popen
    began: float = field(default_factory=time.monotonic)

    @property
    def log(self) -> Path:
        return beside(self.directory, ".log")

    def last_line(self) -> str:
        """Of what it has printed."""
        with open(self.log, "rb") as file:
            file.seek(max(0, self.log.stat().st_size - 2000))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")


class Jobs:
    """``treebanks`` are those that were found: name → directory, None for the synthetic one."""

    def __init__(self, plans: list[Plan], lines: Path, scratch: Path, count: int, keep: bool, display: Display):
        self.lines, self.scratch, self.count, self.keep, self.display = lines, scratch, count, keep, display
        self.treebanks = find_treebanks(plans, display)
        old = read_lines(lines)
        self.plans = [plan for plan in remaining(plans, old) if data_of(plan) <= self.treebanks.keys()]
        self.done = len(plans) - len(remaining(plans, old))
        self.estimates = Estimates(old, {name: size_of(path) for name, path in self.treebanks.items()})
        self.commit = commit()  # now, since it may change before a run ends
        self.failed: list[Plan] = []

    def run(self) -> int:
        """The exit code: 1 if a run failed, 130 after Ctrl-C or SIGTERM."""
        waiting, running = deque(self.plans), []
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            with self.display:
                while waiting or running:
                    while waiting and len(running) < self.count:
                        running.append(self.start(waiting.popleft()))
                    for job in [job for job in running if job.process.poll() is not None]:
                        running.remove(job)
                        self.finish(job)
                    seconds = self.estimates.left(waiting, running, self.count)
                    self.display.update(running, self.done, len(self.failed), len(waiting), seconds)
                    time.sleep(POLL)
        except KeyboardInterrupt:
            self.stop(running)
            return 130
        finally:
            signal.signal(signal.SIGTERM, before)
            for job in running:  # after an error of ours
                if job.process.poll() is None:
                    job.process.terminate()
        return 1 if self.failed else 0

    def start(self, plan: Plan) -> Job:
        directory = self.scratch / run_name(plan)
        arguments = [f"--model={plan.system}", *self.data(plan), f"--seed={plan.seed}"]
        arguments += [argument for argument in plan.arguments if not argument.startswith("--unlabeled=")]
        task = Task(str(directory), [*arguments, *machine_arguments(plan.system)], os.getpid())
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        # The same code as here, wherever Python would find it from.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with open(beside(directory, ".log"), "ab") as log:
            # In a session of its own: Ctrl-C comes from `stop`, and only once.
            process = subprocess.Popen(
                [*CHILD, task.to_json()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self.display.started(plan)
        return Job(plan, directory, process)

    def data(self, plan: Plan) -> list[str]:
        path = self.treebanks[plan.treebank]
        found = []
        if path is not None and not plan.dev_only:
            found = [f"--treebank={path}"]
        elif path is not None:
            files = {split: find_split(path, split, required=split == "train") for split in ("train", "dev")}
            found = [f"--{split}={file}" for split, file in files.items() if file]
        if text := plan.options.get("unlabeled"):
            found.append(f"--unlabeled={find_split(self.treebanks[str(text)], 'train')}")
        return found

    def finish(self, job: Job) -> None:
        """Writes the line, and removes the run."""
        try:
            if job.process.returncode:
                raise UserError(f"{job.last_line() or 'it was killed'} ({job.log})")
            plan = job.plan
            known = (plan.system, plan.options, plan.treebank, plan.seed, RECIPES[plan.system])
            line = Line(*known, commit=self.commit, **read_json(job.directory / RESULT))
            append(self.lines, line)
        except (UserError, ValueError, TypeError) as error:
            self.failed.append(job.plan)
            self.display.failed(job.plan, str(error))
            return
        self.done += 1
        self.estimates.add(line)
        self.display.finished(job.plan, line)
        if not self.keep:
            shutil.rmtree(job.directory, ignore_errors=True)
            for suffix in (".log", ".lock"):
                beside(job.directory, suffix).unlink(missing_ok=True)

    def stop(self, running: list[Job]) -> None:
        """Lets the processes write a checkpoint; once more Ctrl-C, and they end at once."""
        self.display.say("stopping: the runs write their checkpoints (once more Ctrl-C to stop at once)")
        for job in running:
            job.process.terminate()
        try:
            deadline = time.monotonic() + PATIENCE
            for job in running:
                job.process.wait(max(0.1, deadline - time.monotonic()))
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            for job in running:
                job.process.kill()
        self.display.say("stopped; the same command goes on from here")


def _interrupt(*_) -> None:
    raise KeyboardInterrupt


def remaining(plans: list[Plan], lines: list[Line]) -> list[Plan]:
    """Those without a line. One without a test set is enough where the grid wants no more."""
    found = {(line.key, line.tested) for line in lines}
    return [
        plan for plan in plans if (plan.key, True) not in found and not (plan.dev_only and (plan.key, False) in found)
    ]


def find_treebanks(plans: list[Plan], display: Display) -> dict[str, Path | None]:
    """Where they are; those that are not there are said. A UserError if there are none."""
    found: dict[str, Path | None] = {}
    missing: dict[str, str] = {}
    for name in sorted(set().union(*map(data_of, plans))):
        try:
            found[name] = None if name == synthetic.NAME else find_treebank(name)
        except UserError as error:
            missing[name] = str(error)
    if missing and not found:
        raise UserError(f"none of the treebanks is there: {next(iter(missing.values()))}")
    if missing:
        display.say(f"not there, and left out: {', '.join(missing)} (set TRITREE_DATA to where treebanks are)")
    return found


def data_of(plan: Plan) -> set[str]:
    """The names of the treebanks that it reads."""
    text = plan.options.get("unlabeled")
    return {plan.treebank} | ({str(text)} if text else set())


@cache
def size_of(path: Path | None) -> int:
    """Training sentences."""
    file = find_split(path, "train") if path else None
    return sum(1 for _ in (read(file, keep_lines=False) if file else synthetic.sentences("train")))


def run_name(plan: Plan) -> str:
    """Of its directory: the same after a restart, another one for each recipe."""
    digest = hashlib.sha256(json.dumps([plan.key, plan.dev_only]).encode()).hexdigest()[:8]
    return f"{plan.system}-{plan.treebank}-{plan.seed}-{digest}"


def beside(directory: Path, suffix: str) -> Path:
    return directory.with_name(directory.name + suffix)
