"""NMP: the neural margin parser (Kiperwasser & Goldberg 2016). The right tree must win against each other tree by a
margin: the number of that tree's errors."""

import torch
from torch import Tensor

import tritree
from parsers.data.batches import Batch
from parsers.system import Context, Metrics, Parser


class NMP(Parser):
    """loss = max(0, max_T [Σ_{(h, m) ∈ T} s(h, m) + errors(T)] − Σ_{(h, m) ∈ T*} s(h, m)), T* being the right tree.

    While most scores are wrong, the loss falls fastest if all scores go to 0, and it takes long to leave that point:
    with 300 trees, next to nothing is learnt in 25 epochs. So log Σ_T exp replaces max_T in the first few epochs: its
    gradient reaches all arcs at once.
    """

    softened = False

    def begin_epoch(self, context: Context) -> None:
        self.softened = context.epoch <= self.options.soft_epochs

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        s, o = self(batch)
        loss = self.margin_losses(s, batch, batch.heads)
        return self.with_labels(loss.sum(), {"violated": (loss > 0).sum()}, o, batch)

    def margin_losses(self, s: Tensor, batch: Batch, heads: Tensor) -> Tensor:
        """One loss per sentence, [B], from arc scores; ``heads`` [B, N] are those of T*."""
        gold = heads.clamp(0).unsqueeze(1)  # [B, 1, N]
        augmented = s + torch.ones_like(s).scatter_(1, gold, 0)  # + 1 for arcs that are not in T*
        if self.softened:
            best = tritree.log_partition(augmented, batch.lengths)  # log Σ_T exp [s(T) + errors(T)]
        else:
            best, _ = tritree.viterbi(augmented, batch.lengths)  # max_T [s(T) + errors(T)]
        right = torch.where(heads >= 0, s.gather(1, gold).squeeze(1), 0).sum(1)  # s(T*)
        return (best - right).clamp_min(0)
