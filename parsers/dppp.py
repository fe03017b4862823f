"""DPPP: differentiable perturb-and-parse (Corro & Titov 2019), without their sentence vector z.

A variational autoencoder whose latent variable is the tree. The encoder is the parser: it draws a relaxed tree A from
perturbed scores. The decoder is a language model: to emit a word, it sees the earlier words that A connects it with.

    encoder    G(h, m) ~ Gumbel(0, 1)        A = relaxed best tree of W + G        (tritree.relaxed_tree)
    decoder    e_j   = LSTM state after word j (0 is ROOT)
               g_i   = tanh(W_self e_{i−1} + Σ_{j<i} A[j, i] W_head e_j + Σ_{j<i} A[i, j] W_mod e_j + b)
               p(s_i | s_<i, A) = softmax(W_out g_i)

    L:    max   log p(s | T*) + λ log P(T* | s)        with the given tree, and the tree-CRF of W as in NTP
    U:    max   ω E_G[log p(s | A)]                    one sample; the gradient reaches W through A

As in the original, the ELBO's KL term, which would keep the trees close to a prior, is left out. Stage 1 learns from L,
stage 2 alternates between L and U. Only training perturbs; trees are predicted by argmax_T Σ W(h, m).
"""

from argparse import Namespace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import tritree
from parsers.data.batches import Batch, tree_arcs
from parsers.data.noise import Noise, dropout
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import UNKNOWN, Vocabulary
from parsers.networks.device import float32_on_cpu
from parsers.system import Metrics, Parser


class DPPP(Parser):
    stages = 2
    trees_first = True

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        super().__init__(options, vocab, vectors)
        self.decoder = Decoder(self.encoder.num_words, options.decoder_size)

    def labeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        W, o = self(batch)
        supervised = tritree.TreeCRF(W, batch.lengths, validate_args=False).log_prob(batch.heads).sum()
        reconstruction = self.log_likelihood(batch, tree_arcs(batch.heads).to(W.dtype)).sum()
        loss = -reconstruction - self.options.tree_weight * supervised
        return self.with_labels(loss, {"reconstruction_loss": -reconstruction, "tree_loss": -supervised}, o, batch)

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        reconstruction = self.log_likelihood(batch, self.sample(batch)).sum()
        return -self.options.unlabeled_weight * reconstruction, {"reconstruction_loss": -reconstruction}

    def sample(self, batch: Batch) -> Tensor:
        """A relaxed tree, A [B, N, N]."""
        W = self.arc_scores(batch)
        if batch.noise is not None:
            W = W + batch.noise.gumbel(batch.N, batch.N)
        return tritree.relaxed_tree(W, batch.lengths, temperature=self.options.temperature)

    def log_likelihood(self, batch: Batch, A: Tensor) -> Tensor:
        """log p(s_i | s_<i, A), [B, N]; 0 for ROOT and in the padding. Words unknown to the encoder are unknown here,
        too."""
        words = torch.where(batch.words < self.encoder.num_words, batch.words, UNKNOWN)
        log_p = self.decoder(words, A, self.options.dropout, batch.noise)
        return torch.where(batch.is_word, log_p, 0)


class Decoder(nn.Module):
    """p(s | A): a language model over words, with one step of graph convolution over the words so far."""

    def __init__(self, num_words: int, size: int):
        super().__init__()
        self.word = nn.Embedding(num_words, size)
        self.lstm = nn.LSTM(size, size, batch_first=True)
        self.self = nn.Linear(size, size)  # W_self, b
        self.head = nn.Linear(size, size, bias=False)  # W_head
        self.modifier = nn.Linear(size, size, bias=False)  # W_mod
        self.out = nn.Linear(size, num_words)  # W_out

    def forward(self, words: Tensor, A: Tensor, p: float = 0.0, noise: Noise | None = None) -> Tensor:
        """Words [B, N], A [B, N, N] → log p(s_i | s_<i, A) [B, N]; 0 for ROOT."""
        with float32_on_cpu(words.device):
            e, _ = self.lstm(dropout(self.word(words), p, noise))
        from_heads = A.mT.tril(-1) @ self.head(e)  # Σ_{j<i} A[j, i] W_head e_j
        from_modifiers = A.tril(-1) @ self.modifier(e)  # Σ_{j<i} A[i, j] W_mod e_j
        g = torch.tanh(self.self(e[:, :-1]) + from_heads[:, 1:] + from_modifiers[:, 1:])  # of words 1, 2, …
        scores = self.out(dropout(g, p, noise))
        log_p = -cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten(), reduction="none")
        return nn.functional.pad(log_p.view_as(words[:, 1:]), (1, 0))
