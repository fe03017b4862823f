"""The training loop. Its results depend on the options, the data and the seed only: neither on where it was interrupted
nor, up to rounding, on how many processes share the work.

An epoch has three phases: its steps, the system's own end of the epoch, and the dev set. Checkpoints are written
between steps and between phases.
"""

import contextlib
import math
import signal
import time
from argparse import Namespace
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor, nn

import tritree
from parsers.data.batches import EVALUATION_BATCH, Batch
from parsers.data.dataset import Data
from parsers.data.examples import Example
from parsers.data.noise import seed_of
from parsers.evaluation.metrics import Scores
from parsers.evaluation.plots import draw_curves
from parsers.runs.run import Run
from parsers.runs.tensors import load_module
from parsers.system import Context, Loss, Parser
from parsers.training import snapshot
from parsers.training.processes import Group
from parsers.training.progress import Display, duration, epoch_line
from parsers.training.state import State
from parsers.training.totals import COUNTS, Totals, mean_per_word

SAVE_SHARE = 0.05  # the share of the time that checkpoints at the ends of epochs may take
SAVE_SECONDS = 120  # between checkpoints within an epoch


def warm_up(device: torch.device, display: Display) -> None:
    """Compiles the tree kernels before times are measured. They are cached on disk, so this is slow only once."""
    began = time.monotonic()
    with display.status("preparing the tree kernels, which takes half a minute the first time"):
        scores = torch.zeros(1, 3, 3, device=device, requires_grad=True)
        tritree.TreeCRF(scores).log_prob(torch.tensor([[-1, 0, 1]], device=device)).backward()
        tritree.viterbi(scores.detach(), single_root=True)
    if time.monotonic() - began > 5:
        display.say(f"compiled the tree kernels in {time.monotonic() - began:.0f} s; they are kept for the next time")


class Interrupted(Exception):
    """Training ended by a signal, after a checkpoint."""

    def __init__(self, signal_number: int):
        super().__init__(signal_number)
        self.signal_number = signal_number


class Diverged(Exception):
    """The loss is infinite or NaN."""


class Trainer:
    """Trains one model in one run directory."""

    def __init__(self, model: Parser, data: Data, options: Namespace, run: Run, group: Group, display: Display):
        self.model, self.data, self.options = model.to(group.device), data, options
        self.run, self.group, self.display = run, group, display
        data.place(group.rank, group.world, group.device)
        self.state = State()
        self.stages = model.stages if data.unlabeled or not model.trees_first else 1
        self.optimizer = model.make_optimizer()
        dtype = torch.float16 if options.fp16 else torch.bfloat16
        self.autocast = lambda: torch.autocast(group.device.type, dtype, enabled=options.fp16 or options.bf16)
        self.scaler = torch.amp.GradScaler(group.device.type, enabled=options.fp16)
        self.best: dict[str, Tensor] = {}
        self.totals = Totals({}, group)
        self.signal: int | None = None
        self.flags = (False, False)  # whether any process has to stop, and whether any has to save
        self.saved_at = self.began = time.monotonic()
        self.save_seconds = 0.0

    def train(self) -> State:
        """From the current state to the end."""
        with self._signals():
            while not self.state.finished:
                self._train_stage()
        return self.state

    def _context(self) -> Context:
        return Context(self.data, self.group, self.options, self.state.stage, self.state.epoch, self.options.epochs)

    def _train_stage(self) -> None:
        state = self.state
        if state.epoch == 1 and state.step == 0 and state.phase == "steps":
            torch.manual_seed(seed_of("stage", self.options.seed, state.stage))
            if self.model.begin_stage(self._context()):
                state.goal = -1.0
            if state.stage > 1:
                self.optimizer = self.model.make_optimizer()
        while state.epoch <= self.options.epochs and state.waiting < self.options.patience:
            self._train_epoch()
        if self.best:
            load_module(self.model, self.best, self.model.resizable)
        if state.stage < self.stages:
            state.stage, state.epoch, state.waiting = state.stage + 1, 1, 0
            self.save()
        else:
            self._finish()

    def _train_epoch(self) -> None:
        context, began = self._context(), time.monotonic()
        if self.state.phase == "steps":
            self.model.begin_epoch(context)
            self._take_steps(context)
            self._end_steps(context, time.monotonic() - began)
        if self.data.dev:
            self.state.record |= self.evaluate(self.data.dev).summary("dev_")
        self._end_epoch(time.monotonic() - began)

    def _take_steps(self, context: Context) -> None:
        state, model = self.state, self.model
        steps = model.num_steps(context)
        name = f"epoch {state.epoch}" if self.stages == 1 else f"stage {state.stage}, epoch {state.epoch}"
        self.totals = Totals(state.totals, self.group)
        began, sentences = time.monotonic(), 0
        model.train()
        self.display.begin_epoch(name, steps, state.step)
        try:
            for loss, batch in islice(model.steps(context), state.step, None):
                self._step(loss, batch)
                state.step += 1
                sentences += batch.size
                if self.display.due():
                    self.display.step(state.step, self._live_text(steps, sentences, time.monotonic() - began))
                stop, save = self._own_flags() if self.group.world == 1 else self.flags
                if stop:
                    self._interrupt()
                if save:
                    self.save()
        finally:
            self.display.end_epoch()

    def _own_flags(self) -> tuple[bool, bool]:
        """Whether this process has to stop, and whether it has to save."""
        return self.signal is not None, time.monotonic() - self.saved_at > SAVE_SECONDS

    def _live_text(self, steps: int, sentences: int, seconds: float) -> str:
        state = self.state
        what = self.options.stop_on.upper()
        best = f"  best dev {what} {state.best_uas:.2f}" if state.best_epoch and self.data.dev else ""
        per_second = sentences / max(seconds, 1e-9)
        left = (steps * (self._epochs_left(state.epoch) + 1) - state.step) * seconds / max(1, state.step)
        loss = mean_per_word(self.totals.values, "loss")  # as far as this process knows
        return f"loss {loss:.3f}{best}  {per_second:.0f} sentences/s  at most {duration(left)} left"

    def _epochs_left(self, epoch: int) -> int:
        """The most epochs that can follow this one, in this stage and later ones."""
        return self.options.epochs * (self.stages - self.state.stage + 1) - epoch

    def _step(self, loss_function: Loss, batch: Batch) -> None:
        """One update. A loss is a sum over sentences; divided by all words of the batch, it is the mean per word."""
        state, options, world = self.state, self.options, self.group.world
        key = (options.seed, state.stage, state.epoch, state.step)
        torch.manual_seed(seed_of("step", *key))
        batch.draw("noise", *key)
        kind = "" if batch.heads is not None else "unlabeled_"
        self.optimizer.zero_grad()
        if batch.examples:
            with self.autocast():
                loss, metrics = loss_function(batch)
            self.scaler.scale(loss / batch.num_words).backward()
            for name, value in {"loss": loss, **metrics}.items():
                self.totals.add(kind + name, value)
        self.totals.add(kind + "words", batch.num_words / world)
        self.totals.add(kind + "sentences", batch.size / world)
        self.flags = self.group.sum_gradients(self.model, self._own_flags())
        if any(parameter.grad is not None for parameter in self.model.parameters()):
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def _end_steps(self, context: Context, seconds: float) -> None:
        state, sums = self.state, self.totals.sums()
        figures = {name: mean_per_word(sums, name) for name in sorted(sums) if name not in COUNTS}
        if not all(math.isfinite(value) for name, value in figures.items() if name.endswith("loss")):
            hint = "try a smaller --learning-rate, or no --fp16"
            raise Diverged(f"the loss of epoch {state.epoch} is not finite: {hint}")
        with torch.no_grad():
            figures |= {key: float(value) for key, value in self.model.end_epoch(context).items()}
        sentences = sum(value for name, value in sorted(sums.items()) if name.endswith("sentences"))
        state.record = {"stage": state.stage, "epoch": state.epoch, **figures}
        state.record |= {"steps_seconds": seconds, "sentences_per_second": sentences / max(seconds, 1e-9)}
        state.phase, state.step, state.totals = "dev", 0, {}
        self.totals = Totals({}, self.group)

    def _end_epoch(self, seconds: float) -> None:
        state, number = self.state, len(self.state.history) + 1
        score = state.record.get(
            f"dev_{self.options.stop_on}", float(number)
        )  # without a dev set, the last is the best
        better = score > state.best_uas
        if better:
            state.best_uas, state.best_epoch = score, number
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        state.goal, state.waiting = (score, 0) if score > state.goal else (state.goal, state.waiting + 1)
        state.record["epoch_seconds"] = seconds
        state.history.append(state.record)
        left = seconds * self._epochs_left(state.epoch)
        self.display.say(epoch_line(state.record, self.stages, better, left))
        state.record, state.phase, state.epoch = {}, "steps", state.epoch + 1
        if self.group.writes:
            if better:
                self.run.save_model(self.best)
            self.run.write_metrics(state.history)
        if self.save_seconds < SAVE_SHARE * (time.monotonic() - self.saved_at):
            self.save()

    def _finish(self) -> None:
        """Adds the final record. The model has its best weights now."""
        state = self.state
        record = {"final": True, "epochs": len(state.history), "best_epoch": state.best_epoch}
        if self.data.dev:
            record |= self.evaluate(self.data.dev).summary("dev_")
        if self.data.test:
            record |= self.evaluate(self.data.test).summary("test_")
        record |= self.data.report
        record["total_seconds"] = state.seconds + time.monotonic() - self.began
        state.history.append(record)
        state.finished = True
        if self.group.writes:
            self.run.save_model(self.best)
            self.run.write_metrics(state.history)
            draw_curves(self.run.directory / "curves.png", state.history, self.run.directory.name)
        self.save()

    def evaluate(self, examples: list[Example]) -> Scores:
        """Scores of the best single-rooted trees and their labels against the trees in the file."""
        scores, label = Scores(), self.model.vocab.label
        self.model.eval()
        with torch.no_grad():
            for batch in self.data.batches(examples, EVALUATION_BATCH):
                if self.signal is not None and self.group.world == 1:
                    self._interrupt()
                if batch.examples:
                    with self.autocast():
                        s, o = self.model(batch)
                        _, heads = tritree.viterbi(s, batch.lengths, single_root=True)
                        labels = self.model.labels(o, batch, heads)
                    numbers = heads if labels is None else labels[0]
                    rows = zip(batch.examples, heads.tolist(), numbers.tolist(), strict=True)
                    for example, tree, row in rows:
                        words = slice(1, len(example) + 1)
                        found = None if labels is None else list(map(label, row[words]))
                        scores.add(tree[words], example.gold, example.punctuation, found, example.gold_labels)
        return Scores(*map(int, self.group.sum_numbers(scores.counts())))

    def save(self) -> None:
        """Writes a checkpoint."""
        began, self.state.totals = time.monotonic(), self.totals.sums()
        if self.group.writes:
            snapshot.save(self, self.state.seconds + began - self.began)
        self.saved_at = time.monotonic()
        self.save_seconds = self.saved_at - began

    def restore(self) -> bool:
        """Goes to the last valid checkpoint; False if there is none."""
        restored = snapshot.restore(self)
        if restored and self.group.writes and not self.state.finished:
            if self.best:  # the files may be of a later epoch, which runs again now
                self.run.save_model(self.best)
            self.run.write_metrics(self.state.history)
        return restored

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM take effect at the end of a step. Several processes stop at the same step: their flags are
        all-reduced with the gradients. torchrun may send a signal twice, and kills processes that take over 30 s."""

        def remember(number: int, _) -> None:
            if self.group.world > 1:
                self.signal = number
                return
            if self.signal is not None:
                raise KeyboardInterrupt
            self.signal = number
            self.display.warn("saving at the end of this step; once more to stop at once")

        old = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _interrupt(self) -> None:
        self.save()
        raise Interrupted(self.signal or signal.SIGTERM)  # it may be another process that has the signal
