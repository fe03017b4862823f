"""Dependency parsers on top of tritree: LAP, GAP, the systems that they are compared with, and EDP; one file each.

**A system** is a subclass of `Parser` (system.py), a torch module. All it needs is a loss over trees:

    class NTP(Parser):
        def labeled_loss(self, batch):
            s, o = self(batch)
            crf = tritree.TreeCRF(s, batch.lengths, validate_args=False)
            return self.with_labels(-crf.log_prob(batch.heads).sum(), {}, o, batch)

`Parser` provides the shared bi-LSTM encoder (`self.encoder(batch)` → states o [B, N, size]) and the arc scorer
(`self.scorer(o)` → s [B, N, N]). `forward` chains the two and returns s and o; trees are predicted from s, labels from
o (`labeler`), and `with_labels` adds the labels' loss. A system with other networks calls `nn.Module.__init__` in place
of `Parser.__init__` and overrides `forward` and `label_log_probs`.

**A batch** (data/batches.py) has `words`, `pos`, `xpos` [B, N], `feats` [B, N, F], `lengths` [B], `heads` [B, N] (−1 at
position 0 and in the padding; None for unlabelled sentences), `gold_heads` and `labels` [B, N] (the arcs in the file,
which need not be projective, and their labels; None if there are none to learn), all in tritree's conventions and on
the run's device.
Masks [B, N] are `is_word` and `is_token` (with ROOT); `hide(words, tags)` makes symbols unknown where masks are True.
`batch.words` numbers the whole vocabulary; the encoder knows its first `num_words` words (by default those of the
trees; `Parser.__init__(…, num_words=len(vocab.words))` for systems that train it on unlabelled text).

**A loss** is the sum over the sentences of the batch, not the mean: the loop divides it by the number of words in the
batch of all processes. A dict of other sums comes with it and is logged per word. Random numbers come from
`batch.noise` only (`dropout(x, p, batch.noise)`, `batch.noise.normal(N, size)`, `.uniform`, `.gumbel`; shape [B, …], a
row per sentence). It is None outside of training, where nothing is random. This makes runs repeatable, resumable
and independent of the number of processes.

**The loop** (training/loop.py) does, for each stage (`stages`, usually one) and epoch:

    model.begin_stage(context)      once; from the second stage on with the best weights so far. If it starts from new
                                    weights (self-training), it returns True: early stopping starts over, too
    model.begin_epoch(context)      schedules: context.progress goes from 0 to 1 over the epochs
    for loss, batch in model.steps(context): one update by model.make_optimizer()
                                    by default labeled_loss on each labelled batch, each followed by unlabeled_loss
                                    on an unlabelled batch, if there are any
    model.end_epoch(context)        without gradients: closed-form updates, passes over all unlabelled sentences;
                                    returns figures to be logged
    dev set, early stopping, checkpoint

With `trees_first`, the first stage has no unlabelled sentences. Where there are none, it is the only stage. A stage
0 (`first_stage`) comes before all trees: it has no dev set and no early stopping, and its last weights are kept.

`context` has `data`, `group`, `options`, `stage`, `epoch`, `epochs`. `context.data` has `labeled_batches()`,
`unlabeled_batches()` (one pass in a fixed order, streamed), `unlabeled_forever(start)` and `batches(examples, size,
key)`. Each yields this process's share of the sentences, which may be empty. Sums over sentences that are not part of a
loss go through `context.group.sum_(tensor)`.

What is shown of an epoch is the loss, or the figure that ``shown_loss`` names where epochs can't be compared by it; so
too ``shown_unlabeled`` for sentences without trees.

**State.** Parameters and buffers are saved and restored, and nothing else: `begin_epoch` sets the rest, and runs again
when a run is resumed inside an epoch. `resizable` names buffers whose shape varies, `optimizer_state` the tensors that
the optimiser keeps for a parameter. The constructor must also run under `torch.device("meta")`: this is how the shapes
in a model file are checked before memory is allocated.

**Options** are records in the table below, with types that check their range. Their values are in `self.options` and in
config.json. An older run's config.json lacks an option that is newer than it. Its value there is `before`: what the
program did then, if that differs from today's default.

**To add a system:**

1. Write parsers/NAME.py with a subclass of `Parser`.
2. Add a row to MODELS: its class, whether it uses words and unlabelled sentences, its options, and what it has in place
   of the defaults of other options.
3. Run `pytest tests/parsers`. Every row must learn 20 sentences by heart, have gradients that agree with finite
   differences, and train in half precision and in two processes.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsers.io.arguments import COUNT, SHARE, SIZE, number
from parsers.io.errors import UserError
from parsers.io.extra import check_extra

if TYPE_CHECKING:
    import os

    import torch

    from parsers.evaluation.api import Loaded
    from parsers.system import Parser


@dataclass(frozen=True)
class Option:
    """An option of train.py. If its default is True or False, it is a flag that negates the default."""

    name: str  # --like-this
    type: Callable | tuple[str, ...] | None  # converts and checks a string; or the possible strings; None for flags
    default: object
    metavar: str | None
    help: str
    before: object = None  # the value in runs that are older than the option; None: the default
    rare: bool = False  # shown by --help only together with --model
    key: str = ""  # in config.json; by default the name with underscores

    @property
    def dest(self) -> str:
        return self.key or self.name.removeprefix("--").replace("-", "_")

    @property
    def is_flag(self) -> bool:
        return isinstance(self.default, bool)


@dataclass(frozen=True)
class Model:
    """A system as train.py knows it before torch is imported."""

    path: str  # module:class
    uses_unlabeled: bool = False
    uses_words: bool = True  # and XPOS, FEATS, vectors; all systems use tags
    options: tuple[Option, ...] = ()
    defaults: dict[str, object] = field(default_factory=dict)  # in place of those of the common options; by ``dest``
    paper: dict[str, object] | None = None  # what --paper sets beside; None: the paper does not have this system


NATURAL = number(int, 0, 10**9)
WEIGHT, POSITIVE = number(float, 0, 1e6), number(float, 0, 1e9, True)
PRETRAIN_EPOCHS = Option("--pretrain-epochs", NATURAL, 15, "N", "on text alone, first; at most --epochs (15)", before=0)
SOFT_EPOCHS = Option("--soft-epochs", NATURAL, 3, "N", "with log Σ exp for max (3)")

MODELS = {
    "lap": Model("parsers.lap:LAP", uses_unlabeled=True, options=(
        PRETRAIN_EPOCHS,
        Option("--second-stage", None, False, None, "learn from the trees that it finds in the text, too"),
        Option("--latent-size", SIZE, 100, "N", "of z (100)"),
        Option("--samples", COUNT, 1, "N", "of z per step, in training (1)"),
        Option("--kl-weight", WEIGHT, 0.0002, "W", "of the KL term, in the end (0.0002)"),
        Option("--free-nats", WEIGHT, 0.0, "N", "KL of a token that costs nothing (0)"),
        Option("--reconstruction", WEIGHT, 0.1, "W", "its weight, in the end (0.1)"),
        Option("--reconstruction-start", WEIGHT, 0.1, "W", "in the first epoch (0.1)"),
        Option("--anneal", SHARE, 0.2, "SHARE", "of the epochs, until weights are final (0.2)"),
        Option("--mask", SHARE, 0.3, "P", "hide words and tags of unlabelled sentences (0.3)"),
        Option("--negatives", NATURAL, 1000, "N", "negative samples per step; 0: all words (1000)"),
    ), paper={
        "pretrain_epochs": 0, "kl_weight": 1.0, "reconstruction": 1.0, "reconstruction_start": 1.0, "anneal": 0.0,
        "mask": 0.0, "negatives": 0,
    }),
    "gap": Model("parsers.gap:GAP", uses_unlabeled=True, options=(
        Option("--theta", ("words", "tags"), "tags", None, "what heads generate (tags, and where they are)"),
        Option("--theta-weight", number(float, 0, 100), None, "L", "of log θ in s′ (the best on the dev set)"),
        Option("--smoothing", POSITIVE, 5.0, "K", "of Θ, in arcs (5)"),
        Option("--rare", NATURAL, 1, "N", "words this rare are one for Θ (1)"),
        Option("--power", ("arc", "tree"), "tree", None, "what is raised to 1/(1−σ) (tree)"),
        Option("--sigma", SHARE, 0.3, "S", "goes from 1 to S (0.3)"),
        Option("--unlabeled-weight", WEIGHT, 1.0, "W", "of J_u for the encoder (1)"),
        Option("--posterior", ("fixed", "moving"), "fixed", None, "whose Q it learns from (fixed)"),
        Option("--tree-counts", ("always", "first"), "always", None, "in B: in all epochs, or the first (always)"),
    ), paper={
        "theta": "words", "theta_weight": 1.0, "rare": 0, "power": "arc", "unlabeled_weight": 0.0,
        "tree_counts": "first",
    }),
    "edp": Model("parsers.edp:EDP", uses_unlabeled=True, options=(
        PRETRAIN_EPOCHS,
        Option("--teachers", number(int, 1, 1000), 4, "K", "tree-CRFs that learn from the trees first (4)"),
        Option("--teacher-epochs", COUNT, 40, "N", "of each, at most (40)"),
        Option("--processes", number(int, 1, 1024), 1, "N", "that train teachers side by side (1)"),
        Option("--combine", ("mean", "product"), "mean", None, "of the teachers' distributions (mean)"),
        Option("--taught-on", ("text", "trees"), "text", None, "the text, or the trees' own sentences (text)"),
        Option("--sigma", number(float, 0, 0.99), 0.0, "S", "their power is 1 / (1 − S) (0)"),
        Option("--unlabeled-weight", WEIGHT, 1.0, "W", "of the loss on text (1)"),
    ), defaults={
        "char_filters": 50, "encoder_words": "all", "scorer": "biaffine", "distance": True,
        "dropout_mask": "sentence", "decode": "mbr", "learning_rate": 2e-3, "beta2": 0.95, "ema": 0.998,
        "epochs": 60, "patience": 10,
    }),
    "ntp": Model("parsers.ntp:NTP", paper={}),
    "nmp": Model("parsers.nmp:NMP", options=(SOFT_EPOCHS,), paper={"soft_epochs": 0}),
    "crfae": Model("parsers.crfae:CRFAE", uses_unlabeled=True, uses_words=False, options=(
        Option("--soft", None, False, None, "all trees of an unlabelled sentence count, not only the best"),
        Option("--gamma", WEIGHT, 1.0, "G", "weight of unlabelled sentences (1)"),
        Option("--l1", WEIGHT, 1e-5, "L", "weight of ‖w‖₁ (0.00001)"),
        Option("--adagrad-rate", POSITIVE, 0.1, "R", "in place of --learning-rate (0.1)"),
        Option("--smoothing", POSITIVE, 1e-8, "N", "added to each count of Θ (1e-8)"),
    ), paper={}),
    "dppp": Model("parsers.dppp:DPPP", uses_unlabeled=True, options=(
        Option("--temperature", number(float, 0, 1e6, True), 1.0, "T", "of relaxed trees (1)"),
        Option("--tree-weight", WEIGHT, 1.0, "L", "λ: of log P(T*) against log p(s | T*) (1)"),
        Option("--unlabeled-weight", WEIGHT, 0.1, "W", "ω: of unlabelled sentences (0.1)"),
        Option("--decoder-size", SIZE, 100, "N", "of its embeddings, LSTM and g (100)"),
    ), paper={}),
    "st": Model("parsers.st:ST", uses_unlabeled=True, options=(
        SOFT_EPOCHS,
        Option("--rounds", COUNT, 1, "N", "times the unlabelled sentences are parsed (1)"),
        Option("--parsed-weight", WEIGHT, 1.0, "W", "of their loss (1)"),
        Option("--min-confidence", SHARE, 0.0, "P", "leave out trees below this (0: none)"),
    ), paper={"soft_epochs": 0}),
}  # fmt: skip


def load(path: "str | os.PathLike", device: "str | torch.device | None" = None) -> "Loaded":
    """A run as a parser to be called from Python: ``parsers.load("runs/gap-1").parse(["It", "rains"])``.

    Args:
        path: a directory that train.py made; of a run that is not finished, the best model so far.
        device: cpu, cuda, cuda:1; by default cuda if there is one.

    It imports inside itself: torch takes seconds, and the rest of this file is needed before.
    """
    try:
        check_extra()
    except UserError as error:
        raise ImportError(str(error)) from None
    from parsers.evaluation.api import load_run

    return load_run(path, device)


def load_parser(name: str) -> "type[Parser]":
    """The class of a system. Its file is imported now, and no other's."""
    module, _, cls = MODELS[name].path.partition(":")
    return getattr(importlib.import_module(module), cls)
