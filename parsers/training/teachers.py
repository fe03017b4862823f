"""What is trained before a student (parsers/edp.py): the encoder that all begin with, then the teachers, one after the
other or side by side in processes.

Each is trained by the same loop as any parser, in a directory RUN/pretrained, RUN/teachers/1, 2, … with metrics,
checkpoints and model. Data, vocabulary and options are those of the run; the seed is another one, for weights, order
and noise. All have one thread in any case, so that a teacher's bits are the same in both ways.

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
from dataclasses import dataclass, replace
from pathlib import Path

import torch

import parsers
from parsers.data.corpus import Corpus
from parsers.data.dataset import Data
from parsers.data.noise import seed_of
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.edp import EDP, Ensemble, Reconstructor
from parsers.evaluation.plots import read_history
from parsers.io.command import run_command
from parsers.io.errors import UserError
from parsers.io.files import writing
from parsers.networks.device import one_thread
from parsers.ntp import NTP
from parsers.runs.run import Run
from parsers.system import Parser
from parsers.training.loop import Diverged, Interrupted, Trainer
from parsers.training.processes import Group
from parsers.training.progress import Display
from parsers.training.tagging import tag_corpus

DIVERGED = 3  # exit code


@dataclass
class Preparation:
    """What comes before the student's own training."""

    run: Run
    data: Data
    options: Namespace
    vocab: Vocabulary
    vectors: Vectors | None
    group: Group

    def prepare(self, student: Parser, display: Display) -> Ensemble | None:
        """Gives the student its teachers, and the encoder that it begins with unless it has another run's (--init).
        Does nothing if the system has no teachers, or if there is no text. What is missing is trained now, what is
        unfinished is resumed. Adds figures to those of the run's last line."""
        if not isinstance(student, EDP) or not self.data.unlabeled:
            return None
        if self.options.pretrain_epochs:
            self._pretrain(display)
            if not self.options.init:
                self._begin_with_encoder(student)
        self._train_teachers(display)
        teachers = []
        for number in range(1, self.options.teachers + 1):
            run = _teacher_run(self.run, number)
            model = NTP(options_of(self.options, number), self.vocab, self.vectors)
            teachers.append(run.load_weights(model, self.group.device))
            if self.data.dev:
                self.data.report[f"teacher_{number}_dev_uas"] = read_history(run.directory)[-1]["dev_uas"]
        return student.learn_from(teachers)

    def _pretrain(self, display: Display) -> None:
        run, options = _pretrained_run(self.run), pretraining_options(self.options)
        if not self._unfinished({0: run}):
            return
        text = replace(self.data, labeled=[], dev=[], test=[], retagged=[], options=options, report={})
        with display.status("pretraining: text"):
            self._train(Reconstructor, run, text)
        *epochs, final = read_history(run.directory)
        seconds, loss = final["total_seconds"], epochs[-1]["unlabeled_loss"]
        self.data.report["pretraining_seconds"] = seconds
        display.say(f"pretrained on text: loss {loss:.3f}, {len(epochs)} epochs in {seconds:.0f} s")

    def _begin_with_encoder(self, parser: Parser) -> None:
        """All of it: what the text has taught."""
        model = Reconstructor(pretraining_options(self.options), self.vocab, self.vectors)
        _pretrained_run(self.run).load_weights(model, self.group.device)
        parser.encoder.load_state_dict(model.encoder.state_dict())

    def _train_teachers(self, display: Display) -> None:
        began, count = time.monotonic(), self.options.teachers
        missing = self._unfinished({number: _teacher_run(self.run, number) for number in range(1, count + 1)})
        if self.options.processes > 1 and self.group.world == 1 and len(missing) > 1:
            _side_by_side(self.run, missing, self.options.processes, display)
        else:
            for number in missing:
                with display.status(f"training teacher {number} of {count}"):
                    self.train_teacher(number)
                display.say(_summary(self.run, number))
        if missing:
            self.data.report["teachers_seconds"] = time.monotonic() - began

    def train_teacher(self, number: int) -> None:
        """Trains one, or the rest of it."""
        options = options_of(self.options, number)
        trees = replace(self.data, unlabeled=[], test=[], retagged=[], options=options, report={})
        self._train(NTP, _teacher_run(self.run, number), trees)

    def _train(self, kind: type[Parser], run: Run, data: Data) -> None:
        """Trains a parser on these data with their options, or the rest of it."""
        options = data.options
        if self.group.writes:
            with writing(str(run)):
                run.directory.mkdir(parents=True, exist_ok=True)
        self.group.share()
        with one_thread():
            torch.manual_seed(options.seed)
            model = kind(options, self.vocab, self.vectors)
            if kind is NTP and options.pretrain_epochs:
                self._begin_with_encoder(model)
            trainer = Trainer(model, data, options, run, self.group, Display(quiet=True))
            trainer.restore()
            trainer.train()
        self.group.share()  # process 0 has written all

    def _unfinished(self, runs: dict[int, Run]) -> list[int]:
        """Which of these runs are missing or not finished, as process 0 finds it."""
        found = [number for number, run in runs.items() if self.group.writes and not run.finished()]
        return json.loads(self.group.share(json.dumps(found)))


def ensemble_figures(trainer: Trainer, ensemble: Ensemble) -> dict[str, float]:
    """UAS and LAS of the teachers together, without a student: for the run's last line."""
    figures: dict[str, float] = {}
    for split, examples in (("dev", trainer.data.dev), ("test", trainer.data.test)):
        if examples:
            found = trainer.evaluate(examples, ensemble).summary(f"ensemble_{split}_")
            figures |= {name: value for name, value in found.items() if name.endswith(("_uas", "_las"))}
    return figures


def options_of(options: Namespace, number: int) -> Namespace:
    """The options of a teacher. Unless its encoder has learnt from the text, its words are those of the trees."""
    own = {"seed": seed_of("teacher", options.seed, number) >> 1, "epochs": options.teacher_epochs, "threads": 1}
    if not options.pretrain_epochs:
        own["encoder_words"] = "trees"
    return Namespace(**{**vars(options), **own})


def pretraining_options(options: Namespace) -> Namespace:
    """The weights of the last step are kept, not their average: training goes on from there."""
    return Namespace(**{**vars(options), "seed": seed_of("pretraining", options.seed) >> 1, "ema": 0.0, "threads": 1})


def _pretrained_run(run: Run) -> Run:
    return Run(os.path.join(str(run), "pretrained"))


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
            data = Data.of(options, corpus, vocab, vectors)
            Preparation(run, data, options, vocab, vectors, group).train_teacher(number)
    except Interrupted as error:
        return 128 + error.signal_number
    except Diverged:
        return DIVERGED
    return 0


if __name__ == "__main__":
    sys.exit(run_command("train.py", main, sys.argv[1:]))
