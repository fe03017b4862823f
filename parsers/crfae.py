"""CRFAE: the CRF autoencoder of Cai, Jiang & Tu (2017), learning from trees and from sentences without trees.

A linear encoder, whose only input is tags, scores trees. A decoder reconstructs each tag from the tag of its head:

    W(h, m) = w · f(h, m)                                         P_w(y | x) = exp Σ_{(h, m) ∈ y} W(h, m) / Z_w(x)
    J(h, m) = W(h, m) + log Θ[tag_m | tag_h]                      the joint score of sentence and tree

    max over w, Θ:    Σ_{(x, y) ∈ L} [J(y) − log Z_w(x)] + γ Σ_{x ∈ U} [max_y J(y) − log Z_w(x)] − λ ‖w‖₁

Stage 1 takes Θ from the counts in L and learns w from L. Stage 2 alternates over L and U: an epoch of steps for w with
Θ fixed, then Θ in closed form from the trees of L and the best trees y* of U. With --soft, log Σ_y exp J(y) replaces
max_y J(y), and expected counts those of y*. Trees are predicted by argmax_y J(y).

The loss of a step is the mean over the words of its batch: the ratio of the two batch sizes multiplies γ, and λ is
relative to the loss per word. In training, ROOT may have several modifiers, as in the other systems.
"""

from argparse import Namespace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

import tritree
from parsers.data.batches import Batch, tree_arcs
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.networks.labeler import FIRST
from parsers.system import Context, Metrics, Parser

BINS = (1, 2, 3, 4, 5, 10)  # lengths of arcs: 1, …, 5, 6–10, more
# Primes; if hundreds of tags have more features, these share weights at random.
MAX_ROWS = 1_048_573
MAX_LABEL_ROWS = 65_521


class Features(nn.Module):
    """f(h, m), and w · f(h, m) for all arcs of a batch.

    Let i < j be the two ends of the arc, whichever is the head, and t the tags. There are seven features:

        t_i, t_j                                                              one template
        t_i t_j t_{i−1}, t_i t_j t_{i+1}, t_i t_j t_{j−1}, t_i t_j t_{j+1}    one template
        t_i t_j

    each combined with the length of the arc (in bins) and its direction. Arcs i → j and j → i differ in the direction
    alone: a row of the table has the weights of both.
    """

    def __init__(self, num_tags: int):
        super().__init__()
        self.outside, T = num_tags, num_tags + 1  # one more tag, for positions outside of the sentence
        self.base = T
        num_rows = (T + T**2 + T**3) * (len(BINS) + 1)
        self.weight = nn.Parameter(torch.zeros(min(num_rows, MAX_ROWS), 2))  # w; columns: i is the head, j is the head

    def forward(self, pos: Tensor, is_token: Tensor) -> Tensor:
        """Tags [B, N], and which of them are no padding [B, N] → W [B, N, N]."""
        B, N = pos.shape
        i, j = torch.triu_indices(N, N, 1, device=pos.device)
        rows = self.rows(pos, is_token, i, j)
        both = self.weight.index_select(0, rows.view(-1)).view(*rows.shape, 2).sum(2)  # w · f, [B, pairs, 2]
        W = both.new_zeros(B, N, N)
        W[:, i, j], W[:, j, i] = both.unbind(-1)
        return W

    def rows(self, pos: Tensor, is_token: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The rows of the features of arcs between positions i < j, [B, pairs, 7]."""
        T = self.base
        t = padded(pos, is_token, self.outside)
        t_i, t_j = t[:, i + 1], t[:, j + 1]
        pair = t_i * T + t_j
        around = torch.stack([t[:, i], t[:, i + 2], t[:, j], t[:, j + 2]], -1)
        one, two, three = torch.stack([t_i, t_j], -1), pair.unsqueeze(-1), pair.unsqueeze(-1) * T + around
        feature = torch.cat([one, two + T, three + T + T**2], -1)
        length = length_bin(j - i).unsqueeze(-1)
        return (feature * (len(BINS) + 1) + length) % len(self.weight)


class TagLabeler(nn.Module):
    """A linear classifier of the tags at both ends and beside them, each with the arc's direction and its length."""

    def __init__(self, num_tags: int, num_labels: int):
        super().__init__()
        self.num_tags = num_tags + 1  # one more tag, for positions outside of the sentence
        num_rows = (5 * self.num_tags**2 + (len(BINS) + 1) * self.num_tags) * 2
        self.weight = nn.Parameter(torch.zeros(min(num_rows, MAX_LABEL_ROWS), num_labels - FIRST))

    def forward(self, batch: Batch, heads: Tensor) -> Tensor:
        """Heads [B, N] → log P of each label of each word's arc, [B, N, labels]."""
        T = self.num_tags
        t = padded(batch.pos, batch.is_token, T - 1)
        m = torch.arange(batch.N, device=batch.device).expand(heads.shape)
        h = heads.clamp(0)
        before_m, t_m, after_m = (t.gather(1, m + k) for k in range(3))
        before_h, t_h, after_h = (t.gather(1, h + k) for k in range(3))
        pairs = (t_h, t_m), (t_m, before_m), (t_m, after_m), (t_h, before_h), (t_h, after_h)
        features = [(k * T + a) * T + b for k, (a, b) in enumerate(pairs)]
        length = length_bin((m - h).abs())
        features.append(len(pairs) * T**2 + length * T + t_m)
        rows = torch.stack(features, -1) * 2 + (m > h).long().unsqueeze(-1)
        return self.weight[rows % len(self.weight)].sum(2).log_softmax(-1)


def padded(pos: Tensor, is_token: Tensor, outside: int) -> Tensor:
    """t [B, N + 2], where t[k + 1] is the tag at k; ``outside`` before and after the sentence."""
    return pad(torch.where(is_token, pos, outside), (1, 1), value=outside)


def length_bin(length: Tensor) -> Tensor:
    return sum((length > edge).long() for edge in BINS)  # a tensor of the edges would have to be sent to a GPU


class CRFAE(Parser):
    """Features and a table of tags, without the bi-LSTM of the other systems."""

    stages = 2
    trees_first = True
    optimizer_state = ("G",)

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        nn.Module.__init__(self)
        self.options, self.vocab = options, vocab
        num_tags = len(vocab.pos)
        self.features = Features(num_tags)
        self.register_buffer("theta", torch.full((num_tags, num_tags), 1 / num_tags))  # Θ[c | p] at [p, c]
        self.labeler = TagLabeler(num_tags, len(vocab.labels)) if vocab.labels else None

    def make_optimizer(self) -> torch.optim.Optimizer:
        return AdaGradL1(self.parameters(), self.options.adagrad_rate, self.options.l1)

    def encode(self, batch: Batch) -> Tensor:
        """W"""
        return self.features(batch.pos, batch.is_token)

    def decode(self, batch: Batch) -> Tensor:
        """log Θ[tag_m | tag_h], [B, N, N]"""
        return self.theta.log()[batch.pos.unsqueeze(2), batch.pos.unsqueeze(1)]

    def forward(self, batch: Batch) -> tuple[Tensor, None]:
        """J; there are no states."""
        return self.encode(batch) + self.decode(batch), None

    def label_log_probs(self, o: None, batch: Batch, heads: Tensor) -> Tensor:
        return self.labeler(batch, heads)

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        W = self.encode(batch)
        J = W + self.decode(batch)
        given = torch.where(tree_arcs(batch.heads), J, 0).sum()  # Σ J(y)
        return self.with_labels(tritree.log_partition(W, batch.lengths).sum() - given, {}, None, batch)

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        W = self.encode(batch)
        J = W + self.decode(batch)
        if self.options.soft:
            value = tritree.log_partition(J, batch.lengths)  # log Σ_y exp J(y)
        else:
            value, _ = tritree.viterbi(J, batch.lengths)  # max_y J(y), whose gradient is 1[(h, m) ∈ y*]
        loss = tritree.log_partition(W, batch.lengths) - value  # ∂/∂w: Σ_{(h, m)} (μ_w(h, m) − 1[(h, m) ∈ y*]) f(h, m)
        return self.options.gamma * loss.sum(), {}

    def begin_stage(self, context: Context) -> bool:
        if context.stage == 1:
            self.set_theta(self.count_given(context), context)
        return False

    def end_epoch(self, context: Context) -> Metrics:
        if self.learns_from_text(context):
            self.set_theta(self.count_given(context) + self.options.gamma * self.count_best(context), context)
        return {"features": (self.features.weight != 0).sum()}

    def count_given(self, context: Context) -> Tensor:
        """Arcs from each tag to each tag in L."""
        return sum(self.count(batch, tree_arcs(batch.heads)) for batch in context.data.labeled_batches())

    def count_best(self, context: Context) -> Tensor:
        """Arcs from each tag to each tag in the best trees of U, or their expectation."""
        counts = torch.zeros_like(self.theta, dtype=torch.float64)
        for batch in context.data.unlabeled_batches():
            J = self.arc_scores(batch)
            soft = self.options.soft
            arcs = tritree.marginals(J, batch.lengths) if soft else tree_arcs(tritree.viterbi(J, batch.lengths)[1])
            counts += self.count(batch, arcs)
        return counts

    def count(self, batch: Batch, arcs: Tensor) -> Tensor:
        """Arcs [B, N, N] by the tags of their ends, [tags, tags]."""
        pair = batch.pos.unsqueeze(2) * len(self.theta) + batch.pos.unsqueeze(1)
        return torch.bincount(pair.view(-1), arcs.double().view(-1), self.theta.numel()).view_as(self.theta)

    def set_theta(self, counts: Tensor, context: Context) -> None:
        """Θ[c | p] ∝ the number of arcs p → c; uniform for tags without modifiers."""
        counts = context.group.sum_(counts) + self.options.smoothing
        self.theta.copy_(counts / counts.sum(1, keepdim=True))


class AdaGradL1(torch.optim.Optimizer):
    """AdaGrad with an L1 penalty by FOBOS: after each step, a weight moves towards 0 by the gradient of the penalty,
    and stops there.

        G ← G + g²        η = rate / √G        w ← w − η g        w ← sign(w) · max(0, |w| − η λ)
    """

    def __init__(self, parameters, rate: float, l1: float):
        super().__init__(parameters, {"rate": rate, "l1": l1})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is None:
                    continue
                state = self.state[w]
                if not state:
                    state["G"] = torch.zeros_like(w)
                G = state["G"].addcmul_(w.grad, w.grad)
                eta = group["rate"] * G.add(1e-16).rsqrt_()
                w.addcmul_(eta, w.grad, value=-1)
                w.copy_(w.sign() * (w.abs() - eta * group["l1"]).clamp_min_(0))
