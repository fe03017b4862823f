"""What a parser gains from tritree: a training step of supar's CRF parser with its own tree layer and with tritree's.

python -m perf.swap                  about two minutes
python -m perf.swap --seconds 2

A step is supar's own code: bi-LSTM, MLPs, biaffine scores of arcs and labels, CRF loss, backward. The third column is
the same step with supar's loss without trees (a softmax over the heads of each word): no tree layer can make the step
faster than that. One thread, the three in alternation, medians.
"""

import argparse
import itertools
import sys
import warnings
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from perf.cases import MIXED, Size, uniform
from perf.providers import Supar
from perf.timing import take_turns
from tritree.compat.supar import DependencyCRF

MODELS = {
    "supar's": {},
    "small": {"n_lstm_hidden": 100, "n_lstm_layers": 1, "n_arc_mlp": 100, "n_rel_mlp": 50},
}
SIZES = (MIXED, uniform(32, 40))
WORDS, TAGS, LABELS = 5000, 17, 40


class Training:
    """supar's model on one batch of random words, whose heads are the words before them."""

    def __init__(self, size: Size, options: dict[str, int]):
        import supar.models.dep
        import supar.structs

        self.module = supar.models.dep
        self.original = supar.structs.DependencyCRF
        torch.manual_seed(0)
        options = {"n_words": WORDS, "n_tags": TAGS, "n_rels": LABELS, **options}
        self.model = self.module.CRFDependencyModel(**options, feat=["tag"], proj=True)
        position, lengths = torch.arange(size.N), torch.tensor(size.lengths)
        padding = position > lengths[:, None]
        self.words = torch.randint(1, WORDS, padding.shape).masked_fill(padding, self.model.args.pad_index)
        self.tags = torch.randint(0, TAGS, padding.shape)
        self.labels = torch.randint(0, LABELS, padding.shape)
        self.heads = (position - 1).clamp(min=0).expand(padding.shape)
        self.mask = ~padding & (position > 0)

    def step(self, crf: type | None) -> Callable:
        """A step with this class as the tree layer, or without trees."""
        model, truth = self.model, (self.heads, self.labels, self.mask)

        def step():
            torch.manual_seed(0)  # the same dropout
            model.zero_grad()
            s_arc, s_rel = model(self.words, [self.tags])
            if crf is None:
                loss = super(self.module.CRFDependencyModel, model).loss(s_arc, s_rel, *truth)
            else:
                self.module.DependencyCRF = crf
                loss, _ = model.loss(s_arc, s_rel, *truth)
            loss.backward()
            return loss.item(), model.arc_attn.weight.grad

        return step


def measure(size: Size, options: dict[str, int], seconds: float) -> dict[str, float]:
    """Median seconds per step. First checks that both tree layers give the same loss and gradient."""
    training = Training(size, options)
    supar, tritree = training.step(training.original), training.step(DependencyCRF)
    torch.testing.assert_close(tritree(), supar(), rtol=1e-3, atol=1e-4)
    steps = {"supar": supar, "tritree": tritree, "no trees": training.step(None)}
    return {name: timing.median for name, timing in take_turns(steps, seconds).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each alternative is timed")
    args = parser.parse_args()
    if missing := Supar().missing:
        sys.exit(f"perf.swap: {missing}")
    warnings.simplefilter("ignore")  # supar uses deprecated functions of torch
    torch.set_num_threads(1)
    console = Console()
    table = Table("encoder", "size", "supar", "tritree", "no trees", "step ×", "trees' share", title="ms per step")
    for (name, options), size in itertools.product(MODELS.items(), SIZES):
        with console.status(f"measuring {name}, {size.label}"):
            median = measure(size, options, args.seconds)
        supar, tritree, plain = (median[key] for key in ("supar", "tritree", "no trees"))
        times = (f"{1e3 * t:.0f}" for t in (supar, tritree, plain))
        shares = " → ".join(f"{max(0, 1 - plain / whole):.0%}" for whole in (supar, tritree))
        table.add_row(name, size.label, *times, f"{supar / tritree:.2f}", shares)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
