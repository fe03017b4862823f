"""The interface between a system and the training loop. A system is a subclass of Parser in a file of its own.

parsers/__init__.py explains it on one page.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import tritree
from parsers.data.batches import Batch
from parsers.data.dataset import Data
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.networks.device import Processes
from parsers.networks.encoder import Encoder
from parsers.networks.labeler import Labeler, best_labels, label_loss
from parsers.networks.scorer import make_scorer

Metrics = dict[str, float | Tensor]
Loss = Callable[[Batch], tuple[Tensor, Metrics]]


@dataclass
class Context:
    """What the loop tells a system. Epochs count from 1 in each stage; ``epochs`` is their largest possible number."""

    data: Data
    group: Processes
    options: Namespace
    stage: int
    epoch: int
    epochs: int

    @property
    def progress(self) -> float:
        """0 in the first epoch, 1 in the last, and in those of a run that goes on: for schedules."""
        return min(1.0, (self.epoch - 1) / max(1, self.epochs - 1))


class Parser(nn.Module):
    """Scores arcs; learns from trees and, if it has an ``unlabeled_loss``, from sentences without trees."""

    stages = 1  # without unlabelled sentences there is only one
    shown_loss = "loss"  # or the key of another figure on trees, if epochs can't be compared by the loss
    shown_unlabeled = "unlabeled_loss"  # the same on sentences without trees
    trees_first = False  # the first stage learns from trees alone
    resizable: tuple[str, ...] = ()  # buffers whose shape may differ from the one at construction
    # The tensors that the optimiser keeps for a parameter: "step" is a scalar, others have the parameter's shape.
    optimizer_state: tuple[str, ...] = ("step", "exp_avg", "exp_avg_sq")

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None, num_words: int = 0):
        super().__init__()
        self.options, self.vocab, self.vectors = options, vocab, vectors
        self.encoder = Encoder(options, vocab, vectors, num_words)
        self.scorer = make_scorer(options, self.encoder.size)
        self.labeler = self.make_labeler(self.encoder.size)

    def make_labeler(self, size: int) -> Labeler | None:
        """The network for labels on states of this size; None if there are no labels to learn."""
        labels, per_sentence = self.vocab.labels, self.options.dropout_mask == "sentence"
        hidden = self.options.label_size or self.options.hidden_size
        return Labeler(size, hidden, len(labels), per_sentence) if labels else None

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """s(h, m) [B, N, N], the scores that trees are predicted from, and o [B, N, size], the states of the tokens."""
        o = self.encoder(batch)
        return self.scorer(o, self.options.dropout, batch.noise), o

    def arc_scores(self, batch: Batch) -> Tensor:
        return self(batch)[0]

    def label_log_probs(self, o: Tensor, batch: Batch, heads: Tensor) -> Tensor:
        """log P(l | h, m) of the labels of the arcs that ``heads`` [B, N] give, [B, N, labels]."""
        return self.labeler(o, heads, self.options.dropout, batch.noise)

    def labels(self, o: Tensor, batch: Batch, heads: Tensor) -> tuple[Tensor, Tensor] | None:
        """The best labels of these arcs, as numbers, and their probabilities, [B, N] each; None without labels."""
        return best_labels(self.label_log_probs(o, batch, heads), heads) if self.vocab.labels else None

    def named_labels(self, o: Tensor, batch: Batch, heads: Tensor) -> list[tuple[list[str], list[float]]] | None:
        """The same for each sentence, as names and numbers, one of each per word."""
        found = self.labels(o, batch, heads)
        if found is None:
            return None
        rows = zip(batch.examples, *(column.tolist() for column in found), strict=True)
        return [(list(map(self.vocab.label, row[1 : len(e) + 1])), values[1 : len(e) + 1]) for e, row, values in rows]

    def predict(self, batch: Batch, single_root: bool = True) -> Tensor:
        """Heads of the best trees, [B, N]."""
        return self.best_heads(self.arc_scores(batch), batch.lengths, single_root)

    def best_heads(self, s: Tensor, lengths: Tensor, single_root: bool = True) -> Tensor:
        """Heads of the best trees, [B, N]: the most probable ones, or with --decode mbr those with the largest sums of
        arc probabilities."""
        if self.options.decode == "mbr":
            return tritree.TreeCRF(s, lengths, single_root=single_root, validate_args=False).mbr
        return tritree.viterbi(s, lengths, single_root=single_root)[1]

    def take_weights(self, other: "Parser") -> None:
        """Copies the weights of another parser's encoder, scorer and labeler."""
        for name in ("encoder", "scorer", "labeler"):
            if (module := getattr(self, name)) is not None:
                module.load_state_dict(getattr(other, name).state_dict())

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """The loss, summed over the sentences of the batch, and sums to be logged per word."""
        raise NotImplementedError

    def with_labels(self, loss: Tensor, metrics: Metrics, o: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        """A loss on trees with that of their labels, −Σ log P(l | h, m), if there are labels to learn."""
        if batch.labels is None:
            return loss, metrics
        log_p = self.label_log_probs(o, batch, batch.gold_heads)
        labels = label_loss(log_p, batch.gold_heads, batch.labels).sum()
        return loss + self.options.label_weight * labels, {**metrics, "label_loss": labels}

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        raise NotImplementedError

    def steps(self, context: Context) -> Iterator[tuple[Loss, Batch]]:
        """The steps of an epoch: a loss, and the batch it is computed on.

        Here: all labelled batches, each followed by an unlabelled one if there are any.
        """
        data, epoch = context.data, context.epoch
        done = (epoch - 1) * data.num_labeled_batches
        unlabeled = data.unlabeled_forever(start=done) if self.learns_from_text(context) else None
        for batch in data.labeled_batches(context.stage, epoch):
            yield self.labeled_loss, batch
            if unlabeled is not None:
                yield self.unlabeled_loss, next(unlabeled)

    def num_steps(self, context: Context) -> int:
        """The number of steps of an epoch, to estimate the remaining time."""
        return context.data.num_labeled_batches * (2 if self.learns_from_text(context) else 1)

    def learns_from_text(self, context: Context) -> bool:
        """Whether this stage has steps on unlabelled sentences. Without ``uses_unlabeled`` in MODELS there are none."""
        return bool(context.data.unlabeled) and not (self.trees_first and context.stage == 1)

    def make_optimizer(self) -> torch.optim.Optimizer:
        rate, betas = self.options.learning_rate, (0.9, self.options.beta2)
        return torch.optim.Adam(self.parameters(), lr=rate, betas=betas, fused=True)

    def first_stage(self, data: Data) -> int:
        """1, or 0 if a stage comes first that learns nothing about trees."""
        return 1

    def begin_stage(self, context: Context) -> bool:
        """Runs before the first epoch of each stage; from the second stage on, with the best weights so far.
        Returns whether it starts from new weights: then early stopping compares with this stage's epochs only."""
        return False

    def begin_epoch(self, context: Context) -> None:
        """Runs before the steps of an epoch, and again when a run is resumed inside the epoch: its effect may depend
        only on the context and on saved state."""

    def end_epoch(self, context: Context) -> Metrics:
        """Runs after the steps of an epoch, before the dev set is parsed. Returns figures to be logged."""
        return {}
