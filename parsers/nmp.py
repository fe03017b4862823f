"""NMP: the neural margin parser (Kiperwasser & Goldberg 2016). The right tree must beat every other by its errors."""

from argparse import _ArgumentGroup

import torch
from torch import Tensor

import tritree
from parsers.data.batches import Batch
from parsers.io.arguments import number
from parsers.system import Context, Metrics, Parser


class NMP(Parser):
    """loss = max(0, max_T [Σ_{(h, m) ∈ T} s(h, m) + errors(T)] − Σ_{(h, m) ∈ T*} s(h, m)), T* being the right tree.

    As long as the scores are mostly wrong, the quickest way to a smaller loss is to make all of them 0, and from there
    it is a long way: with 300 trees, 25 epochs in which next to nothing is learnt. So log Σ_T exp replaces max_T in
    the first few epochs, which tells all arcs at once in which direction to go.
    """

    softened = False

    @classmethod
    def add_options(cls, group: _ArgumentGroup) -> None:
        add = group.add_argument
        add("--soft-epochs", type=number(int, 0, 10**9), default=3, metavar="N", help="with log Σ exp for max (3)")

    def begin_epoch(self, context: Context) -> None:
        self.softened = context.epoch <= self.options.soft_epochs

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        loss = self.margin_losses(batch, batch.heads)
        return loss.sum(), {"violated": (loss > 0).sum()}

    def margin_losses(self, batch: Batch, heads: Tensor) -> Tensor:
        """One loss per sentence, [B]; T* is given by the heads."""
        s = self.arc_scores(batch)
        gold = heads.clamp(0).unsqueeze(1)  # [B, 1, N]
        augmented = s + torch.ones_like(s).scatter_(1, gold, 0)  # + 1 for arcs that are not in T*
        if self.softened:
            best = tritree.log_partition(augmented, batch.lengths)  # log Σ_T exp [s(T) + errors(T)]
        else:
            best, _ = tritree.viterbi(augmented, batch.lengths)  # max_T [s(T) + errors(T)]
        right = torch.where(heads >= 0, s.gather(1, gold).squeeze(1), 0).sum(1)  # s(T*)
        return (best - right).clamp_min(0)
