"""GAP: the globally autoencoding parser. The tree is the latent variable between a tree-CRF and a generative decoder.

**Encoder**   P_Φ(T | x) = exp Σ_{(h, m) ∈ T} s(h, m) / Z(x): NTP's tree-CRF.
**Decoder**   P_Θ(x | T) = Π_{(h, m) ∈ T} θ(m | h): each head generates its modifiers (theta.py).
**Together**  P(x, T) = exp Σ_{(h, m) ∈ T} s′(h, m) / Z(x), where s′(h, m) = s(h, m) + log θ(m | h). That is a tree-CRF
once more, so the posterior Q(T) = P(T | x, Θ) is exact: its sum U(x) = Σ_T exp s′(T), its arcs, its best tree.

    J_l = log P(x, T) = s′(T) − log Z(x)             for a sentence with a tree
    J_u = log Σ_T P(x, T) = log U(x) − log Z(x)      for a sentence without one
        ≥ E_Q[log P_Θ(x | T)] − KL(Q ‖ P_Φ)          the ELBO for any Q; for the posterior they are equal

**Learning** (Algorithm 1). Θ is initialised with the counts of the trees. Then, in each epoch, Adam updates the encoder
on the trees; a buffer B collects the arcs of the trees and the expected arcs of the unlabelled sentences under Q; and Θ
is renewed from B in closed form.

What to know about it:
 - With Θ fixed, log θ is a constant in J_l, so the encoder's gradient is NTP's. In Algorithm 1 alone, Θ and the
   unlabelled sentences have an effect on s′ at prediction only.
 - So there is a second stage, in which the encoder learns from unlabelled sentences too, by W times the ELBO
   (`--unlabeled-weight W`; with 0 there is no such stage, and GAP is Algorithm 1): it is drawn towards Q. With
   `--posterior fixed`, Q is that of the best parser of the first stage, without dropout, and a new encoder starts from
   random weights, which gave a better one than continuing. With `moving`, Q is that of the parser in training, and the
   gradient is that of J_u itself; training continues from the first stage.
 - Trees are predicted with s′ = s + λ log θ, and Q is made from the same. λ = 1 is the model of the paper; a smaller λ
   trusts the coarse decoder less, and parses better. By default λ is chosen on the dev set after each epoch.
 - `--theta words` is the paper's decoder, words from words. `--theta tags` generates the modifier's tag and position:
   on which side of the head, and how far. It is coarse enough to be estimated from a few hundred trees.
 - With `--encoder-words all`, the second stage's encoder knows the words of the text. In the first one they are like
   unknown words.
 - The paper counts unlabelled sentences only, so the trees are forgotten after one epoch. Here they stay in B, unless
   `--tree-counts first`. (Without text they always do.)
 - For σ see `posterior` and `expectations`.
"""

from argparse import Namespace
from dataclasses import replace

import torch
from torch import Tensor
from torch.distributions import kl_divergence

import tritree
from parsers.data.batches import EVALUATION_BATCH, Batch, tree_arcs
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import ROOT, UNKNOWN, Vocabulary
from parsers.networks.theta import Counts, Theta
from parsers.system import Context, Metrics, Parser
from tritree import TreeCRF

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # λ that are tried on the dev set
DEFAULT_WEIGHT = 0.3
DISTANCES = (1, 2, 3, 4, 6, 11)  # bins of arc lengths for Θ: 1, 2, 3, 4–5, 6–10, more


class GAP(Parser):
    trees_first = True
    shown_loss = "parse_loss"  # the loss has log θ, too, and Θ changes with σ and λ
    resizable = tuple(f"theta.{name}" for name in Theta.resizable)

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        super().__init__(options, vocab, vectors)
        if options.theta == "words":
            num_heads = num_modifiers = len(vocab.words)
        else:
            num_heads, num_modifiers = len(vocab.pos), len(vocab.pos) * 2 * len(DISTANCES)
        self.theta = Theta(num_heads, num_modifiers, options.smoothing)
        weight = DEFAULT_WEIGHT if options.theta_weight is None else options.theta_weight
        self.register_buffer("theta_weight", torch.tensor(weight, dtype=torch.float64))  # λ
        counts = torch.tensor(vocab.all_counts, device="cpu")  # as in encoder.py: no arithmetic on the meta device
        classes = torch.where(counts > options.rare, torch.arange(len(counts), device="cpu"), UNKNOWN)
        classes[ROOT] = ROOT
        self.register_buffer("word_class", classes, persistent=False)
        self.sigma = 1.0
        self.stages = 2 if options.unlabeled_weight else 1
        if self.stages == 2 and options.posterior == "fixed":
            self.teacher = Parser(options, vocab, vectors).requires_grad_(False)  # s of the first stage
            self.register_buffer("teacher_weight", torch.tensor(weight, dtype=torch.float64))  # and its λ

    def decoder_events(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The numbers that head and modifier of each arc (h, m) have in Θ, both [B, N, N]."""
        shape = (len(batch.words), batch.N, batch.N)
        if self.options.theta == "words":
            word = self.word_class[batch.words]
            return word.unsqueeze(2).expand(shape), word.unsqueeze(1).expand(shape)
        position = torch.arange(batch.N, device=batch.device)
        distance = position - position.unsqueeze(1)  # m − h
        # A tensor of the edges would have to be sent to a GPU, in each step.
        steps = sum((distance.abs() >= edge).long() for edge in DISTANCES[1:])
        place = torch.where(distance > 0, steps, steps + len(DISTANCES))
        modifier = batch.pos.unsqueeze(1) * 2 * len(DISTANCES) + place
        return batch.pos.unsqueeze(2).expand(shape), modifier

    def log_theta(self, batch: Batch) -> Tensor:
        """log θ(m | h), [B, N, N]."""
        return self.theta.log_prob(*self.decoder_events(batch))

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """s(h, m), [B, N, N], and the states."""
        return super().forward(batch)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """s′(h, m), [B, N, N], and the states."""
        s, o = self.encode(batch)
        return combine(s, self.log_theta(batch), self.theta_weight), o

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """−J_l = log Z(x) − s(T) − Σ_{(h, m) ∈ T} log θ(m | h); the last term has no gradient while Θ is fixed."""
        s, o = self.encode(batch)
        P = TreeCRF(s, batch.lengths, validate_args=False)
        tree_loss = -P.log_prob(batch.heads).sum()
        reconstruction = torch.where(tree_arcs(batch.heads), self.log_theta(batch), 0).sum()
        parse_loss, metrics = self.with_labels(tree_loss, {"tree_loss": tree_loss}, o, batch)
        return parse_loss - reconstruction, {**metrics, "parse_loss": parse_loss}

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """−W times the terms of the ELBO that depend on the encoder. Gradient: the arcs of P_Φ less those of Q."""
        (s, o), log_theta = self.encode(batch), self.log_theta(batch)
        lengths, W = batch.lengths, self.options.unlabeled_weight
        if self.options.posterior == "moving":
            return -W * self.J_u(s, combine(s, log_theta, self.theta_weight), lengths).sum(), {}
        clean = replace(batch, noise=None)
        teacher_s, teacher_o = self.teacher(clean)  # its weights have no gradients
        Q = self.posterior(combine(teacher_s, log_theta, self.teacher_weight), lengths)
        loss = W * kl_divergence(Q, TreeCRF(s, lengths, validate_args=False)).sum()  # KL(Q ‖ P_Φ)
        if self.labeler is None:
            return loss, {}
        best = Q.mode  # the labels of its arcs are learnt from the teacher's distribution over labels
        taught = self.teacher.label_log_probs(teacher_o, clean, best).exp()
        labels = -torch.where(best > 0, (taught * self.label_log_probs(o, batch, best)).sum(-1), 0).sum()
        return loss + W * self.options.label_weight * labels, {"label_loss": labels}

    def J_u(self, s: Tensor, s1: Tensor, lengths: Tensor) -> Tensor:
        """log U − log Z, [B], with a penalty of σ on the entropy of Q. The best Q has a closed form (`posterior`), and
        so has the maximum:

            max_Q E_Q[λ log P_Θ(x | T)] − KL(Q ‖ P_Φ) − σ H(Q) = (1 − σ) log Σ_T exp(s′(T) / (1 − σ)) − log Z(x)

        At σ = 0 it is log U − log Z, at σ = 1 max_T s′(T) − log Z. Its gradient is the arcs of Q less those of P_Φ.
        """
        sigma = self.sigma if self.options.power == "tree" else 0.0
        if sigma == 1:
            log_u = tritree.viterbi(s1, lengths)[0]
        else:
            log_u = (1 - sigma) * tritree.log_partition(s1 / (1 - sigma), lengths)
        return log_u - tritree.log_partition(s, lengths)

    def posterior(self, s1: Tensor, lengths: Tensor) -> TreeCRF:
        """Q(T) ∝ exp s′(T); with --power tree Q(T) ∝ (exp s′(T))^{1/(1−σ)}, that is, with scores s′ / (1 − σ). For
        σ → 1 its limit is the best tree."""
        if self.sigma == 1:
            s1 = tritree.constrain(s1, tritree.viterbi(s1, lengths)[1])
        elif self.options.power == "tree":
            s1 = s1 / (1 - self.sigma)
        return TreeCRF(s1, lengths, validate_args=False)

    def expectations(self, Q: TreeCRF) -> Tensor:
        """E_Q[(h, m) ∈ T], [B, N, N]; with --power arc raised to 1/(1−σ), literally as in Algorithm 1. These counts are
        not the expectations of any distribution, and uncertain arcs count little while σ is near 1. At σ = 1 only
        certain arcs would be left: then the best tree is counted with both settings."""
        if self.options.power == "arc" and self.sigma < 1:
            return Q.marginals ** (1 / (1 - self.sigma))
        return Q.marginals

    def begin_stage(self, context: Context) -> bool:
        """Line 1: Θ is initialised with the trees. With a fixed posterior, the best parser of the first stage becomes
        the teacher in the second one, and a new encoder starts; Θ stays."""
        if context.stage == 1:
            self.renew_theta(context, self.count_trees(context))
            return False
        if self.options.posterior == "moving":
            return False
        self.teacher.take_weights(self)
        self.teacher_weight.copy_(self.theta_weight)
        self.take_weights(Parser(self.options, self.vocab, self.vectors))
        return True

    def begin_epoch(self, context: Context) -> None:
        """σ falls from 1 to --sigma in the first half of the first stage's epochs: most runs stop before the last."""
        progress = min(1.0, 2 * context.progress) if context.stage == 1 else 1.0
        self.sigma = (1 - progress) + progress * self.options.sigma

    def end_epoch(self, context: Context) -> Metrics:
        """Lines 7–13, and the choice of λ."""
        forget = self.options.tree_counts == "first" and context.epoch > 1 and context.data.unlabeled
        buffer = Counts(self.theta.num_modifiers) if forget else self.count_trees(context)  # B
        if context.stage == 1:
            table = self.encoder.word.weight  # words of the text, if it has any, have learnt nothing
            table[self.vocab.num_labeled :] = table[UNKNOWN]
        figures = self.count_unlabeled(context, buffer)
        self.renew_theta(context, buffer)
        if self.options.theta_weight is None and context.data.dev:
            self.choose_weight(context)
        return figures | {"sigma": self.sigma, "theta_weight": self.theta_weight.item()}

    def count_trees(self, context: Context) -> Counts:
        """A new buffer with the arcs of the trees."""
        buffer = Counts(self.theta.num_modifiers)
        for batch in context.data.labeled_batches():
            buffer.add(*self.decoder_events(batch), tree_arcs(batch.heads))
        return buffer

    def count_unlabeled(self, context: Context, buffer: Counts) -> Metrics:
        """Lines 8–12: adds the expected arcs of the unlabelled sentences. Returns the ELBO of this Q, its two terms
        and J_u, its upper bound; per word, and with λ = 1, so that epochs can be compared."""
        sums = torch.zeros(4, dtype=torch.float64)
        for batch in context.data.unlabeled_batches():
            if not batch.examples:
                continue
            (s, _), log_theta, lengths = self.encode(batch), self.log_theta(batch), batch.lengths
            P = TreeCRF(s, lengths, validate_args=False)
            Q = self.posterior(combine(s, log_theta, self.theta_weight), lengths)
            buffer.add(*self.decoder_events(batch), self.expectations(Q))
            reconstruction, kl = elbo(Q, P, log_theta)
            J_u = tritree.log_partition(s + log_theta, lengths) - P.log_partition  # log U(x) − log Z(x)
            sums += torch.stack([reconstruction.sum(), kl.sum(), J_u.sum(), lengths.sum()]).cpu()
        reconstruction, kl, J_u, words = context.group.sum_(sums).tolist()
        if not words:
            return {}
        figures = {"reconstruction": reconstruction, "kl": kl, "elbo": reconstruction - kl, "log_likelihood": J_u}
        return {name: value / words for name, value in figures.items()}

    def renew_theta(self, context: Context, buffer: Counts) -> None:
        """Line 13: Θ in closed form, from the buffers of all processes."""
        buffer.sum_over(context.group)
        self.theta.renew(buffer)

    def choose_weight(self, context: Context) -> None:
        """Sets λ to the value with the most correct heads on the dev set; the smallest of several."""
        correct = [0] * len(WEIGHTS)
        for batch in context.data.batches(context.data.dev, EVALUATION_BATCH):
            if not batch.examples:
                continue
            (s, _), log_theta = self.encode(batch), self.log_theta(batch)
            for i, weight in enumerate(WEIGHTS):
                correct[i] += batch.count_correct(self.best_heads(combine(s, log_theta, weight), batch.lengths))
        correct = context.group.sum_numbers(correct)
        self.theta_weight.fill_(WEIGHTS[correct.index(max(correct))])


def combine(s: Tensor, log_theta: Tensor, weight: Tensor | float) -> Tensor:
    """s′ = s + λ log θ"""
    return s + (weight * log_theta).to(s.dtype)


def elbo(Q: TreeCRF, P: TreeCRF, log_theta: Tensor) -> tuple[Tensor, Tensor]:
    """E_Q[log P_Θ(x | T)] and KL(Q ‖ P_Φ), [B] each: the ELBO is their difference."""
    return (Q.marginals * log_theta).sum((1, 2)), kl_divergence(Q, P)
