"""The teachers of a student (parsers/edp.py): trained before it, one after the other or side by side in processes.

Each is trained by the same loop as any parser, in a directory RUN/teachers/1, 2, … with metrics, checkpoints and model.
Data, vocabulary and options are those of the run; the seed is another one, for weights, order and noise. A teacher has
one thread in any case, so that its bits are the same in both ways.

    python -m parsers.training.teachers RUN 2      trains one, or resumes it: what the run starts for each process

Such a process ends when its standard input does: if the run is killed, nothing goes on behind it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import torch

import parsers
from parsers.data.corpus import Corpus
from parsers.data.dataset import Data
from parsers.data.noise import seed_of
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.edp import Ensemble
from parsers.evaluation.plots import read_history
from parsers.io.command import run_command
from parsers.io.errors import UserError
from parsers.io.files import writing
from parsers.networks.device import one_thread
from parsers.ntp import NTP
from parsers.runs.run import Run
from parsers.training.loop import Diverged, Interrupted, Trainer
from parsers.training.processes import Group
from parsers.training.progress import Display
from parsers.training.tagging import tag_corpus

DIVERGED = 3  # exit code


def ready_teachers(
    run: Run, data: Data, options: Namespace, vocab: Vocabulary, vectors: Vectors | None, group: Group, display: Display
) -> list[NTP]:
    """The trained teachers of a run; none if its system has none, or if there is no text. Those that are missing are
    trained now, and unfinished ones are resumed. Adds their figures to those of the run's last line."""
    if not getattr(options, "teachers", 0) or not data.unlabeled:
        return []
    numbers, began = range(1, options.teachers + 1), time.monotonic()
    missing = [number for number in numbers if group.writes and not _teacher_run(run, number).finished()]
    missing = json.loads(group.share(json.dumps(missing)))  # as process 0 finds it
    if options.processes > 1 and group.world == 1 and len(missing) > 1:
        _side_by_side(run, missing, options.processes, display)
    else:
        for number in missing:
            with display.status(f"training teacher {number} of {options.teachers}"):
                train_teacher(run, number, data, options, vocab, vectors, group)
            group.share()  # process 0 has written all
            display.say(_summary(run, number))
    if missing:
        data.report["teachers_seconds"] = time.monotonic() - began
    teachers = []
    for number in numbers:
        teacher_run = _teacher_run(run, number)
        teachers.append(teacher_run.load_weights(NTP(options_of(options, number), vocab, vectors), group.device))
        if data.dev:
            data.report[f"teacher_{number}_dev_uas"] = read_history(teacher_run.directory)[-1]["dev_uas"]
    return teachers


def ensemble_figures(trainer: Trainer, ensemble: Ensemble) -> dict[str, float]:
    """UAS and LAS of the teachers together, without a student: for the run's last line."""
    figures: dict[str, float] = {}
    for split, examples in (("dev", trainer.data.dev), ("test", trainer.data.test)):
        if examples:
            found = trainer.evaluate(examples, ensemble).summary(f"ensemble_{split}_")
            figures |= {name: value for name, value in found.items() if name.endswith(("_uas", "_las"))}
    return figures


def options_of(options: Namespace, number: int) -> Namespace:
    """The options of a teacher: it has no text, so its words are those of the trees."""
    own = {"seed": seed_of("teacher", options.seed, number) >> 1, "epochs": options.teacher_epochs}
    return Namespace(**{**vars(options), **own, "encoder_words": "trees", "threads": 1})


def train_teacher(
    run: Run, number: int, data: Data, options: Namespace, vocab: Vocabulary, vectors: Vectors | None, group: Group
) -> None:
    """Trains one, or the rest of it."""
    own = options_of(options, number)
    teacher_run = _teacher_run(run, number)
    if group.writes:
        with writing(str(teacher_run)):
            teacher_run.directory.mkdir(parents=True, exist_ok=True)
    group.share()
    with one_thread():
        torch.manual_seed(own.seed)
        model = NTP(own, vocab, vectors)
        trees = replace(data, unlabeled=[], test=[], options=own, report={})
        trainer = Trainer(model, trees, own, teacher_run, group, Display(quiet=True))
        trainer.restore()
        trainer.train()


def _teacher_run(run: Run, number: int) -> Run:
    return Run(os.path.join(str(run), "teachers", str(number)))


def _summary(run: Run, number: int) -> str:
    final = read_history(_teacher_run(run, number).directory)[-1]
    score = f"dev UAS {final['dev_uas']:.2f}, " if "dev_uas" in final else ""
    return f"teacher {number}: {score}{final['epochs']} epochs in {final['total_seconds']:.0f} s"


def _side_by_side(run: Run, missing: list[int], processes: int, display: Display) -> None:
    """So many processes at a time. Ctrl-C and SIGTERM stop them all; each saves what it has."""
    stopped: list[int] = []

    def remember(number: int, _) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)
        display.warn("saving the teachers; once more to stop at once")

    old = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    waiting, working = list(missing), {}
    try:
        with display.status(f"training {len(missing)} teachers in {processes} processes"):
            while (waiting or working) and not stopped:
                while waiting and len(working) < processes:
                    number = waiting.pop(0)
                    working[number] = _start(run, number)
                time.sleep(0.05)
                for number in [number for number, process in working.items() if process.poll() is not None]:
                    code = _code(working.pop(number))
                    if code == DIVERGED:
                        raise Diverged(f"the loss of teacher {number} is not finite: try a smaller --learning-rate")
                    if code:
                        raise UserError(f"teacher {number} ended with exit code {code}")
                    display.say(_summary(run, number))
    finally:
        for process in working.values():
            process.terminate()
        for process in working.values():
            _code(process)
        for number, handler in old.items():
            signal.signal(number, handler)
    if stopped:
        raise Interrupted(stopped[0])


def _start(run: Run, number: int) -> subprocess.Popen:
    """A process group of its own: Ctrl-C reaches this process alone, which stops the others."""
    root = str(Path(parsers.__file__).parents[1])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-m", "parsers.training.teachers", str(run.directory), str(number)]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


def _code(process: subprocess.Popen) -> int:
    """Waits for its end; its input is open until then."""
    code = process.wait()
    process.stdin.close()
    return code


def _end_with_input() -> None:
    """Files are written whole or not at all: the process may end at any moment."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    _end_with_input()
    run, number = Run.open(arguments[0]), int(arguments[1])
    options, sources = run.config()
    vocab, vectors = run.vocab(), run.vectors()
    corpus = Corpus(options, sources, with_unlabeled=False)
    if (tagger := run.tagger(vocab)) is not None:
        tag_corpus(corpus, tagger)
    try:
        with Group(options.device) as group:
            train_teacher(run, number, Data.of(options, corpus, vocab, vectors), options, vocab, vectors, group)
    except Interrupted as error:
        return 128 + error.signal_number
    except Diverged:
        return DIVERGED
    return 0


if __name__ == "__main__":
    sys.exit(run_command("train.py", main, sys.argv[1:]))
