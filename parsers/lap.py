"""LAP: the locally autoencoding parser. Every token has a Gaussian latent variable z, from which its word, its tag and
the tree are predicted.

    J = E_Q[log P(x | z)] − KL(Q(z | x) ‖ N(0, I)) + ε E_Q[log P(T | z)],  ε = 1 if there is a tree T, else 0

    Q(z | x) = Π_t N(z_t; μ_t, σ_t²)                     encoder: the bi-LSTM, with a Gaussian on top of each state
    P(x | z) = Π_t P(word_t | z_t) P(tag_t | z_t)        decoder
    P(T | z)                                             tree-CRF with arc scores from z

Expectations are means over samples of z. Sentences without trees need no tree computation at all.
"""

from argparse import Namespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tritree
from parsers.data.batches import Batch
from parsers.data.noise import Noise, dropout
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import UNKNOWN, Vocabulary
from parsers.networks.device import float32_on_cpu
from parsers.networks.scorer import ArcScorer
from parsers.system import Context, Metrics, Parser

# Initial values. μ is about as large as under N(0, I) and the noise is small beside it: otherwise z carries no
# information for tens of epochs. Word embeddings are small because the decoder uses them, too: with torch's N(0, 1) it
# would start by being certain of wrong words. With these values, trees are learnt in half as many epochs.
MEAN_GAIN, LOG_VARIANCE, EMBEDDING_SCALE = 3.0, -4.0, 0.1


class LAP(Parser):
    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        super().__init__(options, vocab, vectors, num_words=len(vocab.words))
        nn.init.normal_(self.encoder.word.weight, std=EMBEDDING_SCALE)
        size = options.latent_size
        self.mean = nn.Linear(self.encoder.size, size)  # μ
        self.log_variance = nn.Linear(self.encoder.size, size)  # log σ²
        nn.init.xavier_uniform_(self.mean.weight, MEAN_GAIN)
        nn.init.constant_(self.log_variance.bias, LOG_VARIANCE)
        self.scorer = ArcScorer(size, options.hidden_size, options.distance)
        self.labeler = self.make_labeler(size)
        self.word_decoder = nn.Linear(size, options.word_size)  # its output is multiplied by the word embeddings
        self.word_bias = nn.Parameter(torch.zeros(self.encoder.num_words))
        self.tag_decoder = nn.Linear(size, len(vocab.pos))
        counts = torch.tensor(vocab.all_counts, device="cpu")  # as in encoder.py: no arithmetic on the meta device
        self.register_buffer("proposal", F.normalize((counts + 1.0) ** 0.75, 1, 0), persistent=False)
        self.kl_weight = self.reconstruction_weight = 0.0

    def begin_epoch(self, context: Context) -> None:
        """The KL weight is annealed from 0, so that z carries information first."""
        o = self.options
        done = min(1.0, context.progress / o.anneal) if o.anneal else 1.0
        self.kl_weight = done * o.kl_weight
        self.reconstruction_weight = (1 - done) * o.reconstruction_start + done * o.reconstruction

    def posterior(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Q(z | x): μ and log σ², [B, N, size] each."""
        o = dropout(self.encoder(batch), self.options.dropout, batch.noise)
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
        return self.autoencoder_loss(self.sample(mean, log_variance, seen), mean, log_variance, hidden)

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
        kl = kl_to_standard_normal(mean, log_variance)[batch.is_token]
        words, tags = self.reconstruction(z, batch)
        loss = self.reconstruction_weight * (words + tags)
        loss = loss + self.kl_weight * (kl - self.options.free_nats).clamp_min(0).sum()
        return loss, {"word_reconstruction": words, "tag_reconstruction": tags, "kl": kl.sum()}

    def reconstruction(self, z: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """−E_Q[Σ_t log P(word_t | z_t)] and −E_Q[Σ_t log P(tag_t | z_t)]; unknown words and tags are left out."""
        samples = z.shape[1]

        def known(symbols: Tensor) -> tuple[Tensor, Tensor]:
            """All samples of z_t [tokens · samples, size] where the symbol is known, and the symbols."""
            where = batch.is_word & (symbols != UNKNOWN)
            return z.transpose(1, 2)[where].flatten(0, 1), symbols[where].repeat_interleave(samples)

        with float32_on_cpu(z.device):
            words = -self.word_log_prob(*known(batch.words), batch.noise).sum() / samples
            tags = -self.tag_log_prob(*known(batch.pos)).sum() / samples
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
