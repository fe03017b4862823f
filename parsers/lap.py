"""LAP: the locally autoencoding parser. Every token has a Gaussian latent variable that knows its word and its tree.

    J = E_Q[log P(x | z)] − KL(Q(z | x) ‖ N(0, I)) + ε E_Q[log P(T | z)],  ε = 1 if there is a tree T, else 0

The encoder Q is the bi-LSTM with a Gaussian on top of each state. The decoder P(x | z) gives back words and tags, each
from its own z. The tree-CRF P(T | z) scores arcs between z. Sentences without trees need no tree computation at all.
"""

from argparse import Namespace, _ArgumentGroup
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tritree
from parsers.data.batches import Batch
from parsers.data.noise import Noise, dropout
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import UNKNOWN, Vocabulary
from parsers.io.arguments import COUNT, SHARE, SIZE, number
from parsers.networks.scorer import ArcScorer
from parsers.system import Context, Metrics, Parser

NEGATIVES = "words that each word is told from, drawn for each step; 0 or beyond the vocabulary: all words (1000)"
WEIGHT = number(float, 0, 1e6)
# At the beginning μ is about as large as N(0, I) has it and the noise is small beside it: otherwise it takes tens of
# epochs until anything can be told from z. Word embeddings are small, since they are the decoder's too, and with
# torch's N(0, 1) it would begin by being sure of wrong words. Trees are learnt in half as many epochs this way.
MEAN_GAIN, LOG_VARIANCE, EMBEDDING_SCALE = 3.0, -4.0, 0.1


class LAP(Parser):
    """Q(z | x) = Π_t N(z_t; μ_t, σ_t²), P(x | z) = Π_t P(word_t | z_t) P(tag_t | z_t), and P(T | z), a tree-CRF."""

    uses_unlabeled = True

    @classmethod
    def add_options(cls, group: _ArgumentGroup) -> None:
        add = group.add_argument
        add("--latent-size", type=SIZE, default=100, metavar="N", help="of z (100)")
        add("--samples", type=COUNT, default=1, metavar="N", help="of z per step, in training (1)")
        add("--kl-weight", type=WEIGHT, default=0.0002, metavar="W", help="of the KL term, in the end (0.0002)")
        add("--free-nats", type=WEIGHT, default=0.0, metavar="N", help="KL of a token that costs nothing (0)")
        add("--reconstruction", type=WEIGHT, default=0.1, metavar="W", help="its weight, in the end (0.1)")
        add("--reconstruction-start", type=WEIGHT, default=0.1, metavar="W", help="in the first epoch (0.1)")
        add("--anneal", type=SHARE, default=0.2, metavar="SHARE", help="of the epochs, until weights are final (0.2)")
        add("--mask", type=SHARE, default=0.3, metavar="P", help="hide words and tags of unlabelled sentences (0.3)")
        add("--negatives", type=number(int, 0, 10**9), default=1000, metavar="N", help=NEGATIVES)

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        super().__init__(options, vocab, vectors, num_words=len(vocab.words))
        nn.init.normal_(self.encoder.word.weight, std=EMBEDDING_SCALE)
        size = options.latent_size
        self.mean = nn.Linear(self.encoder.size, size)
        self.log_variance = nn.Linear(self.encoder.size, size)
        nn.init.xavier_uniform_(self.mean.weight, MEAN_GAIN)
        nn.init.constant_(self.log_variance.bias, LOG_VARIANCE)
        self.scorer = ArcScorer(size, options.hidden_size, options.distance)
        self.word_decoder = nn.Linear(size, options.word_size)  # the rest of it is the encoder's word embeddings
        self.word_bias = nn.Parameter(torch.zeros(self.encoder.num_words))
        self.tag_decoder = nn.Linear(size, len(vocab.pos))
        counts = torch.tensor(vocab.all_counts, device="cpu")  # as in encoder.py: no arithmetic on the meta device
        self.register_buffer("proposal", F.normalize((counts + 1.0) ** 0.75, 1, 0), persistent=False)
        self.kl_weight = self.reconstruction_weight = 0.0

    def begin_epoch(self, context: Context) -> None:
        """The KL term comes in by and by, so that z is worth something before it is pressed into N(0, I)."""
        o = self.options
        done = min(1.0, context.progress / o.anneal) if o.anneal else 1.0
        self.kl_weight = done * o.kl_weight
        self.reconstruction_weight = (1 - done) * o.reconstruction_start + done * o.reconstruction

    def posterior(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Q(z | x): μ and log σ², [B, N, size] each."""
        o = dropout(self.encoder(batch), self.options.dropout, batch.noise)
        mean, log_variance = self.mean(o), self.log_variance(o)
        kind = torch.promote_types(mean.dtype, torch.float32)
        return mean.to(kind), log_variance.to(kind)

    def sample(self, mean: Tensor, log_variance: Tensor, batch: Batch) -> Tensor:
        """z = μ + σ ε, ε ~ N(0, I), [B, samples, N, size]; μ itself where nothing is random."""
        if batch.noise is None:
            return mean.unsqueeze(1)
        noise = batch.noise.normal(self.options.samples, *mean.shape[1:]).to(mean.dtype)
        return mean.unsqueeze(1) + (0.5 * log_variance).exp().unsqueeze(1) * noise

    def arc_scores(self, batch: Batch) -> Tensor:
        """At prediction z is μ."""
        return self.scorer(self.posterior(batch)[0])

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """−J with ε = 1"""
        mean, log_variance = self.posterior(batch)
        z = self.sample(mean, log_variance, batch)
        tree = self.tree_term(z, batch)
        loss, metrics = self.autoencoder_loss(z, mean, log_variance, batch)
        return tree + loss, {"tree": tree, **metrics}

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """−J with ε = 0. What is given back is what was hidden from the encoder: it takes the context to know it."""
        seen, hidden = self.mask(batch)
        mean, log_variance = self.posterior(seen)
        return self.autoencoder_loss(self.sample(mean, log_variance, seen), mean, log_variance, hidden)

    def mask(self, batch: Batch) -> tuple[Batch, Batch]:
        """What the encoder sees of the words and tags, and what it does not; in each the rest is unknown."""
        if batch.noise is None:
            return batch, batch
        words, tags = (batch.noise.uniform(2, batch.N) < self.options.mask).unbind(1)
        words[:, 0] = tags[:, 0] = False  # ROOT
        seen = replace(
            batch,
            words=batch.words.masked_fill(words, UNKNOWN),
            pos=batch.pos.masked_fill(tags, UNKNOWN),
            xpos=batch.xpos.masked_fill(tags, UNKNOWN),
            feats=batch.feats.masked_fill(tags.unsqueeze(2), UNKNOWN),
            vectors=None if batch.vectors is None else batch.vectors.masked_fill(words, 0),
        )
        hidden = replace(
            batch, words=batch.words.masked_fill(~words, UNKNOWN), pos=batch.pos.masked_fill(~tags, UNKNOWN)
        )
        return seen, hidden

    def tree_term(self, z: Tensor, batch: Batch) -> Tensor:
        """−E[log P(T | z)], the mean over the samples"""
        scores = self.scorer(z.flatten(0, 1)).unflatten(0, z.shape[:2])  # [B, samples, N, N]
        lengths, heads = (x.unsqueeze(1).expand(scores.shape[:2] + x.shape[1:]) for x in (batch.lengths, batch.heads))
        crf = tritree.TreeCRF(scores, lengths, validate_args=False)
        return -crf.log_prob(heads).mean(1).sum()

    def autoencoder_loss(self, z: Tensor, mean: Tensor, log_variance: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        """−E[log P(x | z)] + KL(Q(z | x) ‖ N(0, I)), each with its weight."""
        is_token = torch.arange(batch.N, device=batch.device) <= batch.lengths.unsqueeze(1)  # ROOT too
        kl = kl_to_standard_normal(mean, log_variance)[is_token]
        words, tags = self.reconstruction(z, batch)
        loss = self.reconstruction_weight * (words + tags)
        loss = loss + self.kl_weight * (kl - self.options.free_nats).clamp_min(0).sum()
        return loss, {"word_reconstruction": words, "tag_reconstruction": tags, "kl": kl.sum()}

    def reconstruction(self, z: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """−Σ_t log P(word_t | z_t) and −Σ_t log P(tag_t | z_t), means over the samples."""
        position = torch.arange(batch.N, device=batch.device)
        is_word = (position > 0) & (position <= batch.lengths.unsqueeze(1))
        sums = []
        # Like the LSTM it stays in float32 on a CPU, where large products in half precision are many times slower.
        with torch.autocast(z.device.type, enabled=z.is_cuda and torch.is_autocast_enabled("cuda")):
            for targets, log_prob in ((batch.words, self.word_log_prob), (batch.pos, self.tag_log_prob)):
                known = is_word & (targets != UNKNOWN)  # what is not in the vocabulary is not given back
                z_known = z.transpose(1, 2)[known]  # [tokens, samples, size]
                targets = targets[known].unsqueeze(1).expand(z_known.shape[:2])
                sums.append(-log_prob(z_known.flatten(0, 1), targets.flatten(), batch.noise).sum() / z.shape[1])
        return sums[0], sums[1]

    def tag_log_prob(self, z: Tensor, tags: Tensor, noise: Noise | None) -> Tensor:
        return -F.cross_entropy(self.tag_decoder(z), tags, reduction="none")

    def word_log_prob(self, z: Tensor, words: Tensor, noise: Noise | None) -> Tensor:
        """log P(w | z) = s(w) − log Σ_v e^{s(v)}, s(v) being the embedding of v times a linear function of z.

        A large vocabulary makes this the most expensive part of all. In training, the sum over v ≠ w is then estimated
        from K words v_k ~ q, without bias: Σ_k e^{s(v_k)} / (K q(v_k)).
        """
        embeddings, bias, K = self.encoder.word.weight, self.word_bias, self.options.negatives
        y = self.word_decoder(z)
        if noise is None or not 0 < K < len(bias):
            return -F.cross_entropy(F.linear(y, embeddings, bias), words, reduction="none")
        drawn = torch.multinomial(self.proposal, K, replacement=True, generator=noise.generator)
        right = (y * embeddings[words]).sum(-1) + bias[words]
        others = F.linear(y, embeddings[drawn], bias[drawn] - (K * self.proposal[drawn]).log())
        others = others.masked_fill(words.unsqueeze(1) == drawn, -torch.inf)
        scores = torch.cat((right.unsqueeze(1), others.to(right.dtype)), 1)
        return right - scores.logsumexp(1)


def kl_to_standard_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, I)) = ½ Σ (μ² + σ² − 1 − log σ²), summed over the last dimension."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)
