"""The training loop. What it does is a function of the options, the data and the seed; where it was interrupted and how
many processes share the work leaves no trace in the results.

An epoch has three phases: its steps, the system's own end of the epoch, and the dev set. Checkpoints are taken between
steps and between phases.
"""

import contextlib
import math
import signal
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice

import torch
from torch import Tensor, nn

import tritree
from parsers.data.batches import Batch
from parsers.data.corpus import EVALUATION_BATCH, Data
from parsers.data.examples import Example
from parsers.data.noise import seed_of
from parsers.evaluation.metrics import Scores
from parsers.evaluation.plots import draw_curves
from parsers.io.errors import DataError
from parsers.runs.run import Run
from parsers.runs.tensors import (
    load_module,
    load_optimizer,
    module_shapes,
    optimizer_shapes,
    pack_optimizer,
    read_tensors,
)
from parsers.system import Context, Parser
from parsers.training.processes import Group
from parsers.training.progress import Display, duration
from parsers.training.state import State

SAVE_SHARE = 0.05  # of the time may go into checkpoints at the ends of epochs
SAVE_SECONDS = 120  # within an epoch


def warm_up(device: torch.device, display: Display) -> None:
    """Has the tree kernels compiled before the clock runs. They are kept on disk, so it takes long only once."""
    began = time.monotonic()
    with display.status("preparing the tree kernels, which takes half a minute the first time"):
        scores = torch.zeros(1, 3, 3, device=device, requires_grad=True)
        tritree.TreeCRF(scores).log_prob(torch.tensor([[-1, 0, 1]], device=device)).backward()
        tritree.viterbi(scores.detach(), single_root=True)
    if time.monotonic() - began > 5:
        display.say(f"compiled the tree kernels in {time.monotonic() - began:.0f} s; they are kept for the next time")


class Interrupted(Exception):
    """A signal asked for the end; the run was saved as far as possible."""

    def __init__(self, signal_number: int):
        super().__init__(signal_number)
        self.signal_number = signal_number


class Diverged(Exception):
    """The loss is not a number any more."""


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
        self.totals: dict[str, Tensor] = {}
        self.signal: int | None = None
        self.agreed = [False, False]  # what _wishes says, of all processes
        self.saved_at = self.began = time.monotonic()
        self.save_seconds = 0.0

    def train(self) -> State:
        """From the state it is in to the end."""
        with self._signals():
            while not self.state.finished:
                self._train_stage()
        return self.state

    def _context(self) -> Context:
        state = self.state
        return Context(self.data, self.group, self.options, state.stage, state.epoch, self.options.epochs)

    def _train_stage(self) -> None:
        state = self.state
        if state.epoch == 1 and state.step == 0 and state.phase == "steps":
            self._begin_stage()
        while state.epoch <= self.options.epochs and state.waiting < self.options.patience:
            self._train_epoch()
        if self.best:
            load_module(self.model, self.best, self.model.resizable)
        if state.stage < self.stages:
            state.stage, state.epoch, state.waiting = state.stage + 1, 1, 0
            self.save()
        else:
            self._finish()

    def _begin_stage(self) -> None:
        torch.manual_seed(seed_of("stage", self.options.seed, self.state.stage))
        if self.model.begin_stage(self._context()):
            self.state.goal = -1.0
        if self.state.stage > 1:
            self.optimizer = self.model.make_optimizer()

    def _train_epoch(self) -> None:
        state, context = self.state, self._context()
        began = time.monotonic()
        if state.phase == "steps":
            self.model.begin_epoch(context)
            self._take_steps(context)
            self._end_steps(context, time.monotonic() - began)
        if self.data.dev:
            scores = self.evaluate(self.data.dev)
            state.record |= scores.summary("dev_")
        self._end_epoch(time.monotonic() - began)

    def _take_steps(self, context: Context) -> None:
        state, model = self.state, self.model
        steps = model.num_steps(context)
        name = f"epoch {state.epoch}" if self.stages == 1 else f"stage {state.stage}, epoch {state.epoch}"
        # What was summed up before an interruption belongs to no process in particular.
        world = self.group.world
        self.totals = {key: torch.tensor(value / world, dtype=torch.float64) for key, value in state.totals.items()}
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
                stop, save = self._wishes() if self.group.world == 1 else self.agreed
                if stop:
                    self._interrupt()
                if save:
                    self.save()
        finally:
            self.display.end_epoch()

    def _wishes(self) -> list[bool]:
        """Whether to stop and whether to save, as far as this process is concerned."""
        return [self.signal is not None, time.monotonic() - self.saved_at > SAVE_SECONDS]

    def _live_text(self, steps: int, sentences: int, seconds: float) -> str:
        state = self.state
        best = f"  best dev UAS {state.best_uas:.2f}" if state.best_epoch and self.data.dev else ""
        per_second = sentences / max(seconds, 1e-9)
        per_step = seconds / max(1, state.step)
        left = (steps * (self._epochs_left(state.epoch) + 1) - state.step) * per_step
        return f"loss {self._mean('loss'):.3f}{best}  {per_second:.0f} sentences/s  at most {duration(left)} left"

    def _epochs_left(self, epoch: int) -> int:
        """After this one, at most, in this stage and those to come."""
        return self.options.epochs * (self.stages - self.state.stage + 1) - epoch

    def _step(self, loss_function, batch: Batch) -> None:
        """One update. A loss is a sum over sentences: divided by all words of the batch, it is the mean per word."""
        state, options = self.state, self.options
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
                self._add(kind + name, value)
        self._add(kind + "words", batch.num_words / self.group.world)
        self._add(kind + "sentences", batch.size / self.group.world)
        self.agreed = self.group.sum_gradients(self.model, self._wishes())
        if any(parameter.grad is not None for parameter in self.model.parameters()):
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def _add(self, name: str, value: float | Tensor) -> None:
        """Adds to the sums of the epoch without waiting for a GPU."""
        value = value.detach().double() if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
        old = self.totals.get(name)
        self.totals[name] = value if old is None else old.to(value.device) + value

    def _mean(self, name: str) -> float:
        kind = "unlabeled_" if name.startswith("unlabeled_") else ""
        return float(self.totals[name]) / max(1.0, float(self.totals[kind + "words"])) if name in self.totals else 0.0

    def _sums(self) -> dict[str, float]:
        """Over the steps of this epoch so far, on all processes: these must ask together."""
        return self.group.add_up({name: float(value) for name, value in self.totals.items()})

    def _end_steps(self, context: Context, seconds: float) -> None:
        state, sums = self.state, self._sums()
        names = sorted(sums)
        self.totals = {name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()}
        counts = ("words", "sentences", "unlabeled_words", "unlabeled_sentences")
        figures = {name: self._mean(name) for name in names if name not in counts}
        if not all(math.isfinite(figures[name]) for name in figures if name.endswith("loss")):
            raise Diverged(
                f"the loss of epoch {state.epoch} is not finite: try a smaller --learning-rate, or no --fp16"
            )
        sentences = sum(float(self.totals[name]) for name in names if name.endswith("sentences"))
        with torch.no_grad():
            figures |= {key: float(value) for key, value in self.model.end_epoch(context).items()}
        state.record = {"stage": state.stage, "epoch": state.epoch, **figures}
        state.record |= {"steps_seconds": seconds, "sentences_per_second": sentences / max(seconds, 1e-9)}
        state.phase, state.step, state.totals, self.totals = "dev", 0, {}, {}

    def _end_epoch(self, seconds: float) -> None:
        state = self.state
        number = len(state.history) + 1
        uas = state.record.get("dev_uas", float(number))  # without a dev set, the last epoch is the best
        better = uas > state.best_uas
        if better:
            state.best_uas, state.best_epoch = uas, number
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        state.goal, state.waiting = (uas, 0) if uas > state.goal else (state.goal, state.waiting + 1)
        state.record["epoch_seconds"] = seconds
        state.history.append(state.record)
        self._report(state.record, better)
        state.record, state.phase, state.epoch = {}, "steps", state.epoch + 1
        if self.group.writes:
            if better:
                self.run.save_model(self.best)
            self.run.write_metrics(state.history)
        now = time.monotonic()
        if self.save_seconds < SAVE_SHARE * (now - self.saved_at):
            self.save()

    def _report(self, record: dict, better: bool) -> None:
        stage = f"stage {record['stage']}  " if self.stages > 1 else ""
        text = f"{stage}epoch {record['epoch']:>3}"
        for name in ("loss", "unlabeled_loss"):
            if name in record:
                text += f"  {name.replace('_', ' ')} {record[name]:.4f}"
        if "dev_uas" in record:
            text += f"  dev UAS {record['dev_uas']:.2f}{' *' if better else '  '}"
        text += f"  {record['sentences_per_second']:.0f} sentences/s"
        left = record["epoch_seconds"] * self._epochs_left(record["epoch"])
        self.display.say(f"{text}  {record['epoch_seconds']:.1f} s  at most {duration(left)} left")

    def _finish(self) -> None:
        """The model is the best one now. The final line has what is known at the end."""
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
        """Scores of the best single-rooted trees against the trees in the file."""
        scores = Scores()
        self.model.eval()
        with torch.no_grad():
            for batch in self.data.batches(examples, EVALUATION_BATCH):
                if self.signal is not None and self.group.world == 1:
                    self._interrupt()
                if batch.examples:
                    with self.autocast():
                        heads = self.model.predict(batch)
                    for example, row in zip(batch.examples, heads.tolist(), strict=True):
                        scores.add(row[1 : len(example) + 1], example.gold, example.punctuation)
        return Scores(*map(int, self.group.sum_numbers(scores.counts())))

    def save(self) -> None:
        """Writes a checkpoint of this moment."""
        began = time.monotonic()
        state = self.state
        state.totals = self._sums() if self.totals else {}
        if self.group.writes:
            optimizer, rest = pack_optimizer(self.optimizer)
            tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
            tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
            fields = asdict(state) | {"seconds": state.seconds + began - self.began}
            extra = {"optimizer": rest, "scaler": self.scaler.state_dict(), "model": self.model.extra_state()}
            self.run.checkpoints.save(tensors | optimizer, {"training": fields, **extra})
        self.saved_at = time.monotonic()
        self.save_seconds = self.saved_at - began

    def restore(self) -> bool:
        """Goes to the state of the last whole checkpoint; False if there is none."""
        for number in self.run.checkpoints.numbers():
            try:
                self._restore(number)
                return True
            except DataError as error:
                self.display.warn(f"{error}; using the checkpoint before it")
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                name = self.run.checkpoints.tensor_file(number)
                self.display.warn(
                    f"{name}: not a checkpoint of this run ({type(error).__name__}); using the one before"
                )
        return False

    def _restore(self, number: int) -> None:
        saved = self.run.checkpoints.state(number)
        state = State(**saved["training"])
        state.check(self.stages, self.options.epochs)
        resizable = self.model.resizable
        expected = module_shapes(self.model, resizable, "model.")
        if state.best_epoch:
            expected |= module_shapes(self.model, resizable, "best.")
        expected |= optimizer_shapes(self.optimizer, saved["optimizer"])
        tensors = read_tensors(self.run.checkpoints.tensor_file(number), expected)
        self.model.load_extra_state(saved["model"])
        load_module(self.model, _below("model.", tensors), resizable)
        self.best = {name: tensor.to(self.group.device) for name, tensor in _below("best.", tensors).items()}
        load_optimizer(self.optimizer, tensors, saved["optimizer"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(saved["scaler"])
        self.state = state
        if self.group.writes and not state.finished:  # the files may be of a later epoch, which is done again now
            if state.best_epoch:
                self.run.save_model(self.best)
            self.run.write_metrics(state.history)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM wait for the end of a step. Several processes stop at the same one, which they agree on
        with the gradients; torchrun may send a signal more than once, and ends those that take longer than 30 s."""

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
        raise Interrupted(self.signal or signal.SIGTERM)  # with several processes it may be another one's


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
