"""ST: self-training with the margin parser. A first parser learns from the trees and parses all other sentences. A
second one, with new weights, learns from both.

    stage 1    θ̂ by NMP's loss on L, the best epoch on the dev set
    stage 2    T̂(x) = argmax_T Σ_{(h, m) ∈ T} s(h, m; θ̂) for x in U; fresh weights θ by

               Σ_{(x, T*) ∈ L} loss(x, T*; θ) + ω Σ_{x ∈ U, confidence(x) ≥ κ} loss(x, T̂(x); θ)

Each further round is stage 2 once more. An epoch has one step on U after each step on L, and the loss of a step is the
mean over the words of its batch: a tree of L weighs more than one of U by the ratio of the batch sizes.

The paper does not mention confidence (κ = 0). Here it is the mean marginal of the tree's arcs in the tree-CRF of the
same scores: from about 1/n to 1.
"""

from argparse import Namespace
from dataclasses import replace

import torch
from torch import Tensor, nn

import tritree
from parsers.data.batches import Batch
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.networks.labeler import label_loss
from parsers.nmp import NMP
from parsers.system import Context, Metrics, Parser


class ST(Parser):
    """Two margin parsers: ``teacher`` has the weights θ̂ of the stage before, ``parser`` is being trained.

    The teacher parses a batch when it is needed, with the same result each time. So U may be larger than the memory,
    and checkpoints need not hold its trees.
    """

    trees_first = True

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        nn.Module.__init__(self)  # no networks but those of the two parsers
        self.options, self.vocab, self.vectors = options, vocab, vectors
        self.stages = 1 + options.rounds
        self.parser = NMP(options, vocab, vectors)
        self.teacher = NMP(options, vocab, vectors).requires_grad_(False)

    def make_optimizer(self) -> torch.optim.Optimizer:
        return self.parser.make_optimizer()

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.parser(batch)

    def label_log_probs(self, o: Tensor, batch: Batch, heads: Tensor) -> Tensor:
        return self.parser.label_log_probs(o, batch, heads)

    def begin_stage(self, context: Context) -> bool:
        if context.stage == 1:
            return False
        self.teacher.take_weights(self.parser)  # θ̂: the loop has loaded the best weights
        self.parser.take_weights(NMP(self.options, self.vocab, self.vectors))
        return True

    def begin_epoch(self, context: Context) -> None:
        self.parser.begin_epoch(context)

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        return self.parser.labeled_loss(batch)

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        heads, confidence, labels = self.parse(batch)  # T̂(x)
        s, o = self.parser(batch)
        kept, weight = confidence >= self.options.min_confidence, self.options.parsed_weight
        loss = weight * torch.where(kept, self.parser.margin_losses(s, batch, heads), 0).sum()
        metrics = {"kept": (kept * batch.lengths).sum()}
        if labels is None:
            return loss, metrics
        losses = label_loss(self.parser.label_log_probs(o, batch, heads), heads, labels)
        of_labels = torch.where(kept, losses, 0).sum()
        return loss + weight * self.options.label_weight * of_labels, {**metrics, "label_loss": of_labels}

    @torch.no_grad()
    def parse(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """The teacher's trees [B, N], its confidence in each, [B], and their labels [B, N], if it knows labels."""
        clean = replace(batch, noise=None)
        s, o = self.teacher(clean)
        _, heads = tritree.viterbi(s, batch.lengths, single_root=True)
        marginals = tritree.marginals(s, batch.lengths, single_root=True)
        of_arcs = marginals.gather(1, heads.clamp(0).unsqueeze(1)).squeeze(1)  # μ(ĥ(m), m)
        confidence = torch.where(heads >= 0, of_arcs, 0).sum(1) / batch.lengths.clamp_min(1)
        labels = self.teacher.labels(o, clean, heads)
        return heads, confidence, labels and labels[0]
