"""Where the time of a training step goes: `python -m perf.profile --model ntp --treebank DIR [options of train.py]`.

The graph is cut behind the encoder and behind the scorer, so that each part's backward pass can be timed alone. "tree"
is all that tritree's operators do; "loss" is what is left between the scores and the loss. Without data, the
synthetic treebank.
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

import tritree
from parsers import load_parser
from parsers.command import run_command
from parsers.data import EVALUATION_BATCH, Corpus, encode, find_sources
from parsers.options import parse
from parsers.parallel import Group
from parsers.parser import Context, Parser

PARTS = ("data", "encoder", "scorer", "tree", "loss", "optimiser")
STEPS = 200


class Clock:
    """Seconds per part; time within an inner part does not count for the outer one."""

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

    def _turn(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.stack:
            self.seconds[self.stack[-1]] += now - self.last
        self.last = now


class Cuts:
    """Modules whose results are taken as if they were given, so that the backward pass stops there."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self.made: list[tuple[str, Tensor, Tensor]] = []

    def behind(self, module: nn.Module, name: str) -> None:
        forward = module.forward

        def timed(*args, **kwargs) -> Tensor:
            with self.clock.part(name):
                result = forward(*args, **kwargs)
            if not result.requires_grad:
                return result
            leaf = result.detach().requires_grad_()
            self.made.append((name, result, leaf))
            return leaf

        module.forward = timed

    def backward(self, loss: Tensor) -> None:
        with self.clock.part("loss"):
            loss.backward()
        for name, result, leaf in reversed(self.made):
            if leaf.grad is not None:
                with self.clock.part(name):
                    result.backward(leaf.grad)
        self.made.clear()


def time_tree(clock: Clock) -> None:
    """From now on, tritree's operators are timed."""

    def timed(function: Callable) -> Callable:
        def call(*args, **kwargs):
            with clock.part("tree"):
                return function(*args, **kwargs)

        return call

    for name in ("inside", "inside_outside", "viterbi", "sample"):
        setattr(tritree.ops, name, timed(getattr(tritree.ops, name)))


def time_steps(model: Parser, context: Context, clock: Clock) -> tuple[int, int]:
    """Runs some steps as the training loop does; returns their number and that of the sentences."""
    cuts, optimizer = Cuts(clock), model.make_optimizer()
    if hasattr(model, "encoder"):
        cuts.behind(model.encoder, "encoder")
        cuts.behind(model.scorer, "scorer")
    model.begin_stage(context)
    steps, sentences, warm = 0, 0, 5
    while steps < STEPS:
        model.begin_epoch(context)
        batches = model.steps(context)
        while steps < STEPS:
            with clock.part("data"):
                loss_function, batch = next(batches, (None, None))
            if batch is None:
                break
            batch.draw("profile", context.epoch, steps)
            optimizer.zero_grad()
            with clock.part("loss"):
                loss, _ = loss_function(batch)
            cuts.backward(loss / batch.num_words)
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
    sources, group = find_sources(options), Group(options.device)
    corpus = Corpus(options, sources)
    vocab = corpus.vocabulary(options)
    data = encode(options, corpus, vocab)
    data.place(group.rank, group.world, group.device)
    torch.manual_seed(options.seed)
    model = load_parser(options.model)(options, vocab).to(group.device)
    clock = Clock()
    time_tree(clock)
    context = Context(data, group, options, stage=1, epoch=1, epochs=options.epochs)
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
