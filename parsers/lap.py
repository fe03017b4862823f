"""LAP: the locally autoencoding parser. Every token has a Gaussian latent variable z, from which its word, its tag and
the tree are predicted.

    J = E_Q[log P(x | z)] − KL(Q(z | x) ‖ N(0, I)) + ε E_Q[log P(T | z)],  ε = 1 if there is a tree T, else 0

    Q(z | x) = Π_t N(z_t; μ_t, σ_t²)                     encoder: the bi-LSTM, with a Gaussian on top of each state
    P(x | z) = Π_t P(word_t | z_t) P(tag_t | z_t)        decoder
    P(T | z)                                             tree-CRF with arc scores from z

Expectations are means over samples of z. Sentences without trees need no tree computation at all.

**Before that**, where there is text, the autoencoder learns to reconstruct what is hidden of it (`--pretrain-epochs`,
stage 0, weight 1): beside the trees, the same terms gain next to nothing.

**After that**, with `--second-stage`, a new parser starts from random weights. Beside J, it learns what the best one of
the first stage, the teacher, makes of the text: max E_Q̃[log P(T | z)], where Q̃(T) is the teacher's tree-CRF. That is
posterior regularisation and no part of the ELBO, in which a sentence without a tree has no tree.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tritree
from parsers.data.batches import Batch
from parsers.data.dataset import Data
from parsers.data.noise import Noise, dropout
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import UNKNOWN, Vocabulary
from parsers.networks.device import float32_on_cpu
from parsers.networks.scorer import make_scorer
from parsers.system import Context, Loss, Metrics, Parser

# Initial values. μ is about as large as under N(0, I) and the noise is small beside it: otherwise z carries no
# information for tens of epochs. Word embeddings are small because the decoder uses them, too: with torch's N(0, 1) it
# would start by being certain of wrong words. With these values, trees are learnt in half as many epochs.
MEAN_GAIN, LOG_VARIANCE, EMBEDDING_SCALE = 3.0, -4.0, 0.1


class LAP(Parser):
    shown_unlabeled = "unlabeled_reconstruction"  # the weights in the loss change with stage and epoch

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        super().__init__(options, vocab, vectors, num_words=len(vocab.words))
        nn.init.normal_(self.encoder.word.weight, std=EMBEDDING_SCALE)
        size = options.latent_size
        self.mean = nn.Linear(self.encoder.size, size)  # μ
        self.log_variance = nn.Linear(self.encoder.size, size)  # log σ²
        nn.init.xavier_uniform_(self.mean.weight, MEAN_GAIN)
        nn.init.constant_(self.log_variance.bias, LOG_VARIANCE)
        self.scorer = make_scorer(options, size)
        self.labeler = self.make_labeler(size)
        self.word_decoder = nn.Linear(size, options.word_size)  # its output is multiplied by the word embeddings
        self.word_bias = nn.Parameter(torch.zeros(self.encoder.num_words))
        self.tag_decoder = nn.Linear(size, len(vocab.pos))
        counts = torch.tensor(vocab.all_counts, device="cpu")  # as in encoder.py: no arithmetic on the meta device
        self.register_buffer("proposal", F.normalize((counts + 1.0) ** 0.75, 1, 0), persistent=False)
        self.kl_weight = self.reconstruction_weight = 0.0
        self.distills = False  # whether this is the second stage
        if options.second_stage:
            self.stages = 2
            self.teacher = self._another().requires_grad_(False)

    def _another(self) -> "LAP":
        """A parser of the same kind, with new weights and without a teacher."""
        return LAP(Namespace(**{**vars(self.options), "second_stage": False}), self.vocab, self.vectors)

    def first_stage(self, data: Data) -> int:
        return 0 if data.unlabeled and self.options.pretrain_epochs else 1

    def begin_stage(self, context: Context) -> bool:
        if context.stage < 2:
            return False
        own = {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("teacher.")}
        self.teacher.load_state_dict(own)
        self.load_state_dict(self._another().to(context.data.device).state_dict(), strict=False)
        return True

    def begin_epoch(self, context: Context) -> None:
        """The KL weight is annealed from 0, so that z carries information first."""
        o = self.options
        done = min(1.0, context.progress / o.anneal) if o.anneal else 1.0
        self.kl_weight = done * o.kl_weight
        self.reconstruction_weight = (1 - done) * o.reconstruction_start + done * o.reconstruction
        if context.stage == 0:
            self.kl_weight, self.reconstruction_weight = o.kl_weight, 1.0
        self.distills = context.stage == 2

    def steps(self, context: Context) -> Iterator[tuple[Loss, Batch]]:
        """In stage 0, the text once; of a long text, as many batches as there are labelled ones."""
        if context.stage:
            yield from super().steps(context)
            return
        count = self.num_steps(context)
        for batch in islice(context.data.unlabeled_forever((context.epoch - 1) * count), count):
            yield self.unlabeled_loss, batch

    def num_steps(self, context: Context) -> int:
        if context.stage:
            return super().num_steps(context)
        text, most = context.data.unlabeled, context.data.num_labeled_batches
        return min(most, -(-len(text) // self.options.unlabeled_batch_size)) if isinstance(text, list) else most

    def posterior(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Q(z | x): μ and log σ², [B, N, size] each."""
        o = dropout(self.encoder(batch), self.options.dropout, batch.noise, self.encoder.per_sentence)
        with float32_on_cpu(o.device):
            mean, log_variance = self.mean(o), self.log_variance(o)
        dtype = torch.promote_types(mean.dtype, torch.float32)
        return mean.to(dtype), log_variance.to(dtype)

    def sample(self, mean: Tensor, log_variance: Tensor, batch: Batch) -> Tensor:
        """z = μ + σ ξ, ξ ~ N(0, I), [B, samples, N, size]; outside of training z = μ."""
        if batch.noise is None:
            return mean.unsqueeze(1)
        noise = batch.noise.normal(self.options.samples, *mean.shape[1:]).to(mean.dtype)
        return mean.unsqueeze(1) + (0.5 * log_variance).exp().unsqueeze(1) * noise

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scores from z = μ, and z."""
        z, _ = self.posterior(batch)
        return self.scorer(z), z

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """−J with ε = 1"""
        mean, log_variance = self.posterior(batch)
        z = self.sample(mean, log_variance, batch)
        tree = self.tree_term(z, batch)
        loss, metrics = self.autoencoder_loss(z, mean, log_variance, batch)
        return self.with_labels(tree + loss, {"tree": tree, **metrics}, z[:, 0], batch)

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """−J with ε = 0. Only what was hidden from the encoder is reconstructed, which takes the context."""
        seen, hidden = self.mask(batch)
        mean, log_variance = self.posterior(seen)
        z = self.sample(mean, log_variance, seen)
        loss, metrics = self.autoencoder_loss(z, mean, log_variance, hidden)
        if not self.distills:
            return loss, metrics
        taught, of_labels = self.taught_loss(z, batch)
        return loss + taught, metrics | of_labels

    def taught_loss(self, z: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        """−E_Q̃[log P(T | z)], and the loss of the labels that the teacher gives its best trees."""
        clean = replace(batch, noise=None)
        s, o = self.teacher(clean)
        taught = tritree.TreeCRF(s, batch.lengths, validate_args=False)
        scores = self.scorer(z.flatten(0, 1)).unflatten(0, z.shape[:2])  # [B, samples, N, N]
        lengths = batch.lengths.unsqueeze(1).expand(scores.shape[:2])
        arcs = (taught.marginals.unsqueeze(1) * scores).sum((2, 3))
        loss = (tritree.log_partition(scores, lengths) - arcs).mean(1).sum()
        if self.labeler is None:
            return loss, {}
        best = taught.mode
        of_teacher = self.teacher.label_log_probs(o, clean, best).exp()
        log_p = self.label_log_probs(z[:, 0], batch, best)
        labels = -torch.where(best > 0, (of_teacher * log_p).sum(-1), 0).sum()
        return loss + self.options.label_weight * labels, {"label_loss": labels}

    def mask(self, batch: Batch) -> tuple[Batch, Batch]:
        """The words and tags that the encoder sees, and those that it does not; the others are unknown in each."""
        if batch.noise is None:
            return batch, batch
        words, tags = (batch.noise.uniform(2, batch.N) < self.options.mask).unbind(1)
        words[:, 0] = tags[:, 0] = False  # ROOT
        return batch.hide(words, tags), batch.hide(~words, ~tags)

    def tree_term(self, z: Tensor, batch: Batch) -> Tensor:
        """−E_Q[log P(T | z)]"""
        scores = self.scorer(z.flatten(0, 1)).unflatten(0, z.shape[:2])  # [B, samples, N, N]
        lengths, heads = (x.unsqueeze(1).expand(scores.shape[:2] + x.shape[1:]) for x in (batch.lengths, batch.heads))
        crf = tritree.TreeCRF(scores, lengths, validate_args=False)
        return -crf.log_prob(heads).mean(1).sum()

    def autoencoder_loss(self, z: Tensor, mean: Tensor, log_variance: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        """−E_Q[log P(x | z)] + KL(Q(z | x) ‖ N(0, I)), each with its weight."""
        # Masks in place of indices: on a GPU, the host would wait for the number of tokens that are left.
        kl = torch.where(batch.is_token, kl_to_standard_normal(mean, log_variance), 0)
        words, tags = self.reconstruction(z, batch)
        loss = self.reconstruction_weight * (words + tags)
        loss = loss + self.kl_weight * (kl - self.options.free_nats).clamp_min(0).sum()
        metrics = {"word_reconstruction": words, "tag_reconstruction": tags, "reconstruction": words + tags}
        return loss, metrics | {"kl": kl.sum()}

    def reconstruction(self, z: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """−E_Q[Σ_t log P(word_t | z_t)] and −E_Q[Σ_t log P(tag_t | z_t)]; unknown words and tags are left out."""
        samples = z.shape[1]
        z = z.transpose(1, 2).flatten(0, 2)  # [tokens · samples, size]

        def each(symbols: Tensor) -> Tensor:
            return symbols.flatten().repeat_interleave(samples)

        def total(log_prob: Tensor, symbols: Tensor) -> Tensor:
            known = batch.is_word & (symbols != UNKNOWN)
            return -torch.where(each(known), log_prob, 0).sum() / samples

        with float32_on_cpu(z.device):
            words = total(self.word_log_prob(z, each(batch.words), batch.noise), batch.words)
            tags = total(self.tag_log_prob(z, each(batch.pos)), batch.pos)
        return words, tags

    def tag_log_prob(self, z: Tensor, tags: Tensor) -> Tensor:
        return -F.cross_entropy(self.tag_decoder(z), tags, reduction="none")

    def word_log_prob(self, z: Tensor, words: Tensor, noise: Noise | None) -> Tensor:
        """log P(w | z) = s(w) − log Σ_v e^{s(v)}, s(v) being the embedding of v times a linear function of z.

        With a large vocabulary this is the most expensive part of all. So in training, the sum over v ≠ w is estimated
        from K negative samples v_k ~ q, without bias: Σ_k e^{s(v_k)} / (K q(v_k)).
        """
        embeddings, bias, K = self.encoder.word.weight, self.word_bias, self.options.negatives
        y = self.word_decoder(z)
        if noise is None or not 0 < K < len(bias):
            return -F.cross_entropy(F.linear(y, embeddings, bias), words, reduction="none")
        negatives = torch.multinomial(self.proposal, K, replacement=True, generator=noise.generator)
        right = (y * embeddings[words]).sum(-1) + bias[words]
        others = F.linear(y, embeddings[negatives], bias[negatives] - (K * self.proposal[negatives]).log())
        others = others.masked_fill(words.unsqueeze(1) == negatives, -torch.inf)
        scores = torch.cat((right.unsqueeze(1), others.to(right.dtype)), 1)
        return right - scores.logsumexp(1)


def kl_to_standard_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, I)) = ½ Σ (μ² + σ² − 1 − log σ²), summed over the last dimension."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)
