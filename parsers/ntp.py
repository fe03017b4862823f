"""NTP: the neural tree-CRF parser. Learns from trees by their likelihood."""

from torch import Tensor

import tritree
from parsers.data.batches import Batch
from parsers.system import Metrics, Parser


class NTP(Parser):
    """P(T | x) = exp Σ_{(h, m) ∈ T} s(h, m) / Z(x), with s from the bi-LSTM encoder."""

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        s, o = self(batch)
        crf = tritree.TreeCRF(s, batch.lengths, validate_args=False)
        loss = -crf.log_prob(batch.heads).sum()  # log Z(x) − Σ_{(h, m) ∈ T} s(h, m)
        return self.with_labels(loss, {}, o, batch)
