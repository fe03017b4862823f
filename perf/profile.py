"""Where the time of a training step goes: `python -m perf.profile --model ntp --treebank DIR [options of train.py]`.

The forward and backward passes of a part are counted together. "tree" is the time in tritree's operators. "loss" is the
rest: from the scores to the loss, decoders, the choice of a sentence's random numbers. Systems whose first stage has
labelled sentences only are measured in their second stage. Without data, the synthetic treebank is used.
"""

import contextlib
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from parsers import MODELS, load_parser
from parsers.data.batches import EVALUATION_BATCH
from parsers.data.corpus import Corpus
from parsers.data.dataset import Data
from parsers.data.sources import find_sources
from parsers.io.command import run_command
from parsers.networks.encoder import Encoder
from parsers.networks.scorer import ArcScorer
from parsers.options import build_parser, parse
from parsers.system import Context, Parser
from parsers.training.processes import Group
from tritree import backends, operators

PARTS = ("data", "encoder", "scorer", "tree", "loss", "optimiser")
STEPS = 200


class Clock:
    """Seconds per part. The time of an inner part does not count for the outer one."""

    def __init__(self):
        self.seconds: dict[str, float] = defaultdict(float)
        self.stack: list[str] = []
        self.last = time.perf_counter()

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._turn()
        self.stack.append(name)
        try:
            yield
        finally:
            self._turn()
            self.stack.pop()

    def switch(self, name: str) -> None:
        """Replaces the innermost part by this one."""
        self._turn()
        self.stack[-1] = name

    def _turn(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.stack:
            self.seconds[self.stack[-1]] += now - self.last
        self.last = now


def time_module(module: nn.Module, name: str, clock: Clock) -> None:
    """From now on, both passes of this module are timed: hooks on its output and inputs run where its backward pass
    begins and ends. Autograd goes in reverse order of the computation, so a module's backward pass is in one piece."""
    forward = module.forward

    def timed(*args, **kwargs) -> Tensor:
        with clock.part(name):
            result = forward(*map(_out_of, args), **kwargs)
        if result.requires_grad:
            result.register_hook(lambda _: clock.switch(name))
        return result

    def _out_of(value):
        if not isinstance(value, Tensor) or not value.requires_grad:
            return value
        value = value.view_as(value)  # so that the hook sees the gradient from this module alone
        value.register_hook(lambda _: clock.switch("loss"))
        return value

    module.forward = timed


def time_tree(device: torch.device, clock: Clock) -> None:
    """From now on, tritree's operators are timed, and the kernels, which backward passes call directly."""

    def timed(function: Callable) -> Callable:
        def call(*args, **kwargs):
            with clock.part("tree"):
                return function(*args, **kwargs)

        return call

    kernels = backends.kernels(backends.resolve_backend(None, torch.empty(0, device=device)))
    for module, names in ((kernels, kernels.__all__), (operators, ("call",))):
        for name in names:
            setattr(module, name, timed(getattr(module, name)))


def time_steps(model: Parser, context: Context, clock: Clock) -> tuple[int, int]:
    """Runs STEPS steps as the training loop does. Returns the numbers of steps and of sentences."""
    optimizer = model.make_optimizer()
    for module in model.modules():
        if isinstance(module, Encoder | ArcScorer):
            time_module(module, "encoder" if isinstance(module, Encoder) else "scorer", clock)
    steps, sentences, warm = 0, 0, 5
    while steps < STEPS:
        model.begin_epoch(context)
        batches = model.steps(context)
        while steps < STEPS:
            with clock.part("data"):
                loss_function, batch = next(batches, (None, None))
            if batch is None:
                break
            optimizer.zero_grad()
            with clock.part("loss"):
                batch.draw("profile", context.epoch, steps)
                loss, _ = loss_function(batch)
                (loss / batch.num_words).backward()
            with clock.part("optimiser"):
                nn.utils.clip_grad_norm_(model.parameters(), context.options.clip)
                optimizer.step()
            steps, sentences = steps + 1, sentences + batch.size
            if warm:  # the first steps compile and allocate
                warm, steps, sentences = warm - 1, 0, 0
                clock.seconds.clear()
        context.epoch += 1
    return steps, sentences


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.help:
        print("The options of train.py, of which those of the data, the network and the system have an effect:\n")
        build_parser(options.model).print_help()
        return 0
    sources, group = find_sources(options), Group(options.device)
    corpus = Corpus(options, sources, options.use_unlabeled and MODELS[options.model].uses_unlabeled)
    vocab = corpus.vocabulary(options)
    data = Data.of(options, corpus, vocab)
    data.place(group.rank, group.world, group.device)
    torch.manual_seed(options.seed)
    model = load_parser(options.model)(options, vocab).to(group.device)
    clock = Clock()
    time_tree(group.device, clock)
    context = Context(data, group, options, stage=1, epoch=1, epochs=options.epochs)
    model.begin_stage(context)
    if model.stages > 1 and data.unlabeled:
        context.stage = 2
        model.begin_stage(context)
    steps, sentences = time_steps(model, context, clock)

    total = sum(clock.seconds.values())
    table = Table("part", "ms per step", "share", title=f"{options.model} on {sources.name}, {sentences / steps:.1f} "
                  f"sentences per step, {torch.get_num_threads()} threads")  # fmt: skip
    for name in PARTS:
        seconds = clock.seconds[name]
        table.add_row(name, f"{1e3 * seconds / steps:.2f}", f"{100 * seconds / total:.1f} %")
    table.add_row("all", f"{1e3 * total / steps:.2f}", "", style="bold")
    console = Console(highlight=False)
    console.print(table)

    with torch.no_grad():
        model.predict(next(data.batches(data.dev, 1)))  # compiles
        began = time.perf_counter()
        for batch in data.batches(data.dev, EVALUATION_BATCH):
            model.predict(batch)
    seconds = time.perf_counter() - began
    console.print(
        f"training {sentences / total:.0f} sentences/s; parsing the dev set {len(data.dev) / seconds:.0f} sentences/s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_command("perf.profile", main, sys.argv[1:]))
