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
from parsers.training.average import Average
from parsers.training.processes import Group
from parsers.training.progress import WARM, Display, epoch_line
from parsers.training.state import State
from parsers.training.totals import COUNTS, Totals, mean_per_word

SAVE_SHARE = 0.05  # the share of the time that checkpoints at the ends of epochs may take
SAVE_SECONDS = 120  # between checkpoints within an epoch
TAGGED = ("tagger_test_uas", "tagger_test_las", "tagger_test_clas")  # figures with predicted tags


def warm_up(device: torch.device, display: Display) -> None:
    """Compiles the tree kernels before times are measured. They are cached on disk, so this is slow only once."""
    with display.status("preparing the tree kernels"):
        scores = torch.zeros(1, 3, 3, device=device, requires_grad=True)
        tritree.TreeCRF(scores).log_prob(torch.tensor([[-1, 0, 1]], device=device)).backward()
        tritree.viterbi(scores.detach(), single_root=True)


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
        self.state = State(stage=model.first_stage(data))
        self.stages = model.stages if data.unlabeled else 1
        self.optimizer = model.make_optimizer()
        self.average = Average(model, options.ema) if options.ema else None
        dtype = torch.float16 if options.fp16 else torch.bfloat16
        self.autocast = lambda: torch.autocast(group.device.type, dtype, enabled=options.fp16 or options.bf16)
        self.scaler = torch.amp.GradScaler(group.device.type, enabled=options.fp16)
        self.best: dict[str, Tensor] = {}
        self.totals = Totals({}, group)
        self.signal: int | None = None
        self.flags = (False, False)  # whether any process has to stop, and whether any has to save
        self.saved_at = self.began = time.monotonic()
        self.save_seconds = 0.0
        self.continued = run.continued()
        self.epoch_seconds = 0.0  # of the last epoch of this stage; 0: none has ended

    def train(self) -> State:
        """From the current state to the end."""
        with self._signals(), self.display.bar():
            while self._goes_on():
                self._train_stage()
        return self.state

    def _goes_on(self) -> bool:
        """Whether there is something to do. A finished run that shall go on is begun again where it ended: with its
        last weights, which need not be the best ones."""
        state = self.state
        if state.finished and state.continued < len(self.continued):
            state.continued, state.finished, state.waiting = state.continued + 1, False, 0
            state.history.pop()
        return not state.finished

    def _context(self) -> Context:
        # Schedules end where the run was first meant to end, also where it goes on.
        epochs = self.options.epochs if self.state.stage else self._epochs(0)
        return Context(self.data, self.group, self.options, self.state.stage, self.state.epoch, epochs)

    def _epochs(self, stage: int) -> int:
        """The most epochs of a stage; of the last one, in a run that goes on, until it ends this time."""
        if stage == 0:
            return min(self.options.epochs, self.options.pretrain_epochs)
        times = self.state.continued
        return self.continued[times - 1] if times and stage == self.stages else self.options.epochs

    def _train_stage(self) -> None:
        state = self.state
        if state.epoch == 1 and state.step == 0 and state.phase == "steps":
            torch.manual_seed(seed_of("stage", self.options.seed, state.stage))
            if self.model.begin_stage(self._context()):
                state.goal = -1.0
            if state.stage > self.model.first_stage(self.data):
                self.optimizer = self.model.make_optimizer()
            if self.average:
                self.average.restart()
            if state.stage == 0:
                self.display.say("pretraining: text")
            elif self.stages > 1 or self.model.first_stage(self.data) == 0:
                sentences = "trees and text" if self.model.learns_from_text(self._context()) else "trees"
                stage = f"stage {state.stage} of {self.stages}" if self.stages > 1 else "training"
                self.display.say(f"{stage}: {sentences}")
        self.epoch_seconds = 0.0
        while state.epoch <= self._epochs(state.stage) and state.waiting < self.options.patience:
            self._train_epoch()
        if state.stage < self.stages:
            self._load(self.best)
            state.stage, state.epoch, state.waiting = state.stage + 1, 1, 0
            self.save()
        else:
            self._finish()

    def _train_epoch(self) -> None:
        context, began = self._context(), time.monotonic()
        if self.state.phase == "steps":
            self.model.begin_epoch(context)
            self._take_steps(context)
        with self.average.used() if self.average else contextlib.nullcontext():
            if self.state.phase == "steps":
                self._end_steps(context, time.monotonic() - began)
            if context.stage == 0:
                self._end_pretraining_epoch(time.monotonic() - began)
                return
            if self.data.dev:
                self.state.record |= self.evaluate(self.data.dev).summary("dev_")
            self._end_epoch(time.monotonic() - began)

    def _take_steps(self, context: Context) -> None:
        state, model = self.state, self.model
        steps = model.num_steps(context)
        self.totals = Totals(state.totals, self.group)
        began, first = time.monotonic(), state.step
        model.train()
        for loss, batch in islice(model.steps(context), state.step, None):
            self._step(loss, batch)
            state.step += 1
            if self.display.due():
                taken = state.step - first
                self._show((time.monotonic() - began) / taken if taken > WARM else None, steps)
            stop, save = self._own_flags() if self.group.world == 1 else self.flags
            if stop:
                self._interrupt()
            if save:
                self.save()

    def _own_flags(self) -> tuple[bool, bool]:
        """Whether this process has to stop, and whether it has to save."""
        return self.signal is not None, time.monotonic() - self.saved_at > SAVE_SECONDS

    def _show(self, seconds: float | None, steps: int) -> None:
        """The bar: all steps that the run can have; in this epoch of so many steps, one takes so long, if that is
        known."""
        state, done, total = self.state, self.state.step, 0
        for stage in range(self.model.first_stage(self.data), self.stages + 1):
            of_stage = self._steps(stage)
            total += self._epochs(stage) * of_stage
            if stage <= state.stage:
                done += (self._epochs(stage) if stage < state.stage else state.epoch - 1) * of_stage
        part = "pretraining, " if state.stage == 0 else f"stage {state.stage}, " * (self.stages > 1)
        name = f"{part}epoch {state.epoch} of {self._epochs(state.stage)}"
        key = self.model.shown_loss if self.model.shown_loss in self.totals.values else self.model.shown_unlabeled
        figures = [f"loss {mean_per_word(self.totals.values, key):.3f}"]  # as far as this process knows
        if state.best_epoch and self.data.dev:
            figures.append(f"best dev {self.options.stop_on.upper()} {state.best_uas:.2f}")
        epoch_seconds, left = self.epoch_seconds or (seconds or 0.0) * steps, None
        if epoch_seconds:
            left = epoch_seconds * (1 - state.step / max(steps, state.step)) + self._seconds_left(epoch_seconds)
        self.display.update(name, done, total, left, *figures)

    def _steps(self, stage: int) -> int:
        context = self._context()
        context.stage = stage
        return self.model.num_steps(context)

    def _seconds_left(self, epoch_seconds: float) -> float:
        """How long all epochs can take that may follow this one, if each of its stage takes as long. A later stage is
        taken to have steps that are as long as these."""
        stage = self.state.stage
        left = (self._epochs(stage) - self.state.epoch) * epoch_seconds
        for later in range(stage + 1, self.stages + 1):
            left += self._epochs(later) * epoch_seconds * self._steps(later) / max(self._steps(stage), 1)
        return left

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
            if self.average:
                self.average.add()

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
        # Without a dev set, the last epoch is the best.
        score = state.record[f"dev_{self.options.stop_on}"] if self.data.dev else float(number)
        better = score > state.best_uas
        if better:
            state.best_uas, state.best_epoch = score, number
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        state.goal, state.waiting = (score, 0) if score > state.goal else (state.goal, state.waiting + 1)
        state.record["epoch_seconds"] = seconds
        state.history.append(state.record)
        self.epoch_seconds, left = seconds, self._seconds_left(seconds)
        self._say_epoch(state.record, better, left)
        state.record, state.phase, state.epoch = {}, "steps", state.epoch + 1
        if self.group.writes:
            if better:
                self.run.save_model(self.best)
            self.run.write_metrics(state.history)
        self._save_sometimes()

    def _end_pretraining_epoch(self, seconds: float) -> None:
        """The scores of a parser that has seen no tree say nothing: there is no dev set, and no best epoch."""
        state = self.state
        self.epoch_seconds, left = seconds, self._seconds_left(seconds)
        record = state.record | {"epoch_seconds": seconds}
        self._say_epoch(record, False, left)
        state.history.append(state.record)
        state.record, state.phase, state.epoch = {}, "steps", state.epoch + 1
        if self.group.writes:
            self.run.write_metrics(state.history)
        self._save_sometimes()

    def _say_epoch(self, record: dict, better: bool, left: float) -> None:
        losses, width = (self.model.shown_loss, self.model.shown_unlabeled), self.display.width
        self.display.say(epoch_line(record, losses[0], better, left, width, losses[1]))

    def _save_sometimes(self) -> None:
        if self.save_seconds < SAVE_SHARE * (time.monotonic() - self.saved_at):
            self.save()

    def _finish(self) -> None:
        """Adds the final record. The checkpoint keeps the last weights, from which the run can go on; the model has
        its best ones in the end."""
        state, last = self.state, {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        best = self.best or last  # after pretraining alone there is no best epoch
        self._load(best)
        record = {"final": True, "epochs": len(state.history), "best_epoch": state.best_epoch}
        if self.data.dev:
            record |= self.evaluate(self.data.dev).summary("dev_")
        if self.data.test:
            record |= self.evaluate(self.data.test).summary("test_")
        if self.data.retagged:
            found = self.evaluate(self.data.retagged).summary("tagger_test_")
            record |= {name: value for name, value in found.items() if name in TAGGED}
        record |= self.data.report
        record["total_seconds"] = state.seconds + time.monotonic() - self.began
        state.history.append(record)
        state.finished = True
        if self.group.writes:
            self.run.save_model(best)
            self.run.write_metrics(state.history)
            draw_curves(self.run.directory / "curves.png", state.history, self.run.directory.name)
        self._load(last)
        self.save()
        if state.continued == len(self.continued):
            self._load(self.best)

    def _load(self, weights: dict[str, Tensor]) -> None:
        if weights:
            load_module(self.model, weights, self.model.resizable)

    def evaluate(self, examples: list[Example], model: Parser | None = None) -> Scores:
        """Scores of the best single-rooted trees and their labels against the trees in the file; of the trained model,
        or of another one."""
        scores, model = Scores(), model or self.model
        model.eval()
        with torch.no_grad():
            for batch in self.data.batches(examples, EVALUATION_BATCH):
                if self.signal is not None and self.group.world == 1:
                    self._interrupt()
                if batch.examples:
                    with self.autocast():
                        s, o = model(batch)
                        heads = model.best_heads(s, batch.lengths)
                        labels = model.named_labels(o, batch, heads)
                    for i, (example, tree) in enumerate(zip(batch.examples, heads.tolist(), strict=True)):
                        found, tree = labels and labels[i][0], tree[1 : len(example) + 1]
                        scores.add(tree, example.gold, example.punctuation, found, example.gold_labels)
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
