"""EDP: the ensemble-distilled parser. Several tree-CRFs learn from the same trees, each from other random numbers. What
they make of a sentence without a tree, exactly and on average, is what one new parser learns from it.

    teachers   P_k(T | x) = exp Σ_{(h, m) ∈ T} s_k(h, m) / Z_k(x)                 k tree-CRFs, as NTP trains them on L
    posterior  Q̄ = 1/K Σ_k Q_k,  Q_k(T) ∝ P_k(T)^{1/(1−σ)}                        σ: as in GAP's posterior
               μ̄(h, m) = 1/K Σ_k μ_k(h, m)                                        the probabilities of its arcs
    student    P(T | x) = exp Σ_{(h, m) ∈ T} s(h, m) / Z(x)

    L:    max   log P(T* | x)
    U:    max   W Σ_T Q̄(T) log P(T | x) = W [Σ_{h, m} μ̄(h, m) s(h, m) − log Z(x)] = −W KL(Q̄ ‖ P) + const

Q̄ is a mixture of distributions, and no tree-CRF itself. The objective needs nothing but the probabilities of its arcs,
which are exact. With `--combine product`, Q̄(T) ∝ Π_k Q_k(T)^{1/K}: the tree-CRF of the averaged scores.

Unlike self-training, which learns one tree of one teacher as if it were given, this tells the student how uncertain the
teachers are. They differ in their random numbers alone; where they disagree, their average is better than each of them.

**Before all that**, an encoder learns to reconstruct what is hidden of the text (`--pretrain-epochs`). All teachers and
the student begin with its weights; the rest of each is random.

The labels of a sentence without a tree are learnt from the teachers' distributions over labels, averaged, at the arcs
with the largest sum of μ̄. All networks see characters, score arcs by a biaffine form and their length, and are averaged
over the steps of their training; trees are predicted by the largest sum of arc probabilities. All systems have options
for each of these. Without text there are no teachers: the parser then learns from L alone. With `--taught-on trees` the
sentences of L are the text, too: what distillation gives without any other sentence.
"""

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

import tritree
from parsers.data.batches import Batch
from parsers.data.dataset import Data
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import UNKNOWN, Vocabulary
from parsers.networks.device import float32_on_cpu
from parsers.networks.encoder import Encoder
from parsers.ntp import NTP
from parsers.system import Context, Loss, Metrics, Parser

MOST_KEPT = 2**27  # numbers that the teachers' posteriors of all sentences may take in memory: 512 MiB
HIDDEN = 0.3  # of the words and of the tags, each by itself, to be reconstructed
MOST_READ = 16_000  # sentences in an epoch of reconstruction
MOST_WORDS = 10_000  # that are reconstructed: those of the trees, then the most frequent ones


class Reconstructor(Parser):
    """What comes before the trees: an encoder learns to predict hidden words and tags from those around them."""

    stages = 0

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        nn.Module.__init__(self)  # neither scorer nor labeler
        self.options, self.vocab = options, vocab
        self.encoder = Encoder(options, vocab, vectors)
        self.num_words = min(self.encoder.num_words, MOST_WORDS)
        self.word = nn.Linear(self.encoder.size, options.word_size)  # its output is multiplied by the word embeddings
        self.word_bias = nn.Parameter(torch.zeros(self.num_words))
        self.tag = nn.Linear(self.encoder.size, len(vocab.pos))

    def first_stage(self, data: Data) -> int:
        return 0

    def num_steps(self, context: Context) -> int:
        return -(-context.data.count_unlabeled(MOST_READ) // self.options.unlabeled_batch_size)

    def steps(self, context: Context) -> Iterator[tuple[Loss, Batch]]:
        """The text once; of a long text, the next part."""
        count = self.num_steps(context)
        for batch in islice(context.data.unlabeled_forever((context.epoch - 1) * count), count):
            yield self.unlabeled_loss, batch

    def word_scores(self, o: Tensor) -> Tensor:
        return linear(self.word(o), self.encoder.word.weight[: self.num_words], self.word_bias)

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """−log P of the hidden words and tags. Their number follows from N alone, so a GPU need not tell it."""
        count = math.ceil(HIDDEN * batch.N)
        chosen = batch.noise.uniform(2, batch.N).argsort(2)[:, :, :count]  # positions; a word and its tag are two
        hidden = torch.zeros(len(chosen), 2, batch.N, dtype=torch.bool, device=batch.device)
        hidden = hidden.scatter(2, chosen, True) & batch.is_word.unsqueeze(1)
        words_hidden, tags_hidden = hidden.unbind(1)
        o = self.encoder(batch.hide(words_hidden, tags_hidden))

        def loss(part: int, symbols: Tensor, size: int, scores: Callable[[Tensor], Tensor]) -> Tensor:
            where = chosen[:, part]
            right = torch.where(batch.is_word & (symbols < size), symbols, UNKNOWN).gather(1, where)
            found = scores(o.gather(1, where.unsqueeze(2).expand(-1, -1, o.shape[2])))
            return cross_entropy(found.flatten(0, 1), right.flatten(), ignore_index=UNKNOWN, reduction="sum")

        with float32_on_cpu(o.device):
            words = loss(0, batch.words, self.num_words, self.word_scores)
            tags = loss(1, batch.pos, len(self.vocab.pos), self.tag)
        return words + tags, {"word_reconstruction": words, "tag_reconstruction": tags}


class Ensemble(Parser):
    """The teachers. As a parser, it finds the trees with the largest sum of μ̄."""

    def __init__(self, options: Namespace, vocab: Vocabulary, members: list[NTP]):
        nn.Module.__init__(self)  # no networks but those of its members
        self.options, self.vocab = options, vocab
        self.members = nn.ModuleList(members).requires_grad_(False).eval()

    def forward(self, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """μ̄ [B, N, N], and the states of each member."""
        scores, states = zip(*(member(batch) for member in self.members), strict=True)
        powers = [s / (1 - self.options.sigma) for s in scores]  # Q_k
        if self.options.combine == "product":
            return tritree.marginals(sum(powers) / len(powers), batch.lengths), states
        return sum(tritree.marginals(s, batch.lengths) for s in powers) / len(powers), states

    def best_heads(self, s: Tensor, lengths: Tensor, single_root: bool = True) -> Tensor:
        return tritree.viterbi(s, lengths, single_root=single_root)[1]

    def label_log_probs(self, o: list[Tensor], batch: Batch, heads: Tensor) -> Tensor:
        each = [member.label_log_probs(own, batch, heads) for member, own in zip(self.members, o, strict=True)]
        return torch.stack(each).logsumexp(0) - math.log(len(each))


class EDP(NTP):
    """The student. Its teachers are no part of its weights: training/teachers.py trains them first."""

    def __init__(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None = None):
        super().__init__(options, vocab, vectors)
        self.ensembles: list[Ensemble] = []  # one or none; in a list, torch does not take it for a part of this module
        self.kept: dict[int, Taught] = {}  # of the unlabelled sentences, by the id of the example

    def learn_from(self, teachers: list[NTP]) -> Ensemble:
        self.ensembles = [Ensemble(self.options, self.vocab, teachers)]
        return self.ensembles[0]

    def begin_stage(self, context: Context) -> bool:
        """Untrained teachers stand for those that nobody has trained."""
        if self.learns_from_text(context) and not self.ensembles:
            count = range(self.options.teachers)
            self.learn_from([NTP(self.options, self.vocab, self.vectors).to(context.data.device) for _ in count])
        return False

    def begin_epoch(self, context: Context) -> None:
        """Teachers do not change: what they say of each sentence is computed once, if it fits into the memory. Several
        processes have other sentences in each pass, and a stream has new examples; then it is computed when needed."""
        data = context.data
        if self.kept or not isinstance(data.unlabeled, list) or context.group.world > 1:
            return
        labels = len(self.vocab.labels) if self.vocab.labels else 0
        if sum((len(e) + 1) * (len(e) + 2 + labels) for e in data.unlabeled) > MOST_KEPT:
            return
        for batch in data.unlabeled_batches():  # always the same batches: so the bits are the same in a resumed run
            for example, *taught in zip(batch.examples, *self.ask(batch), strict=True):
                own = slice(0, len(example) + 1)
                arcs, best, labels = taught
                self.kept[id(example)] = Taught(arcs[own, own].cpu(), best[own].cpu(), labels[own].cpu())

    @torch.no_grad()
    def ask(self, batch: Batch) -> "Taught":
        """What the teachers say of a batch."""
        (ensemble,), clean = self.ensembles, replace(batch, noise=None)
        arcs, states = ensemble(clean)
        best = ensemble.best_heads(arcs, batch.lengths, single_root=False)
        labels = ensemble.label_log_probs(states, clean, best).exp() if self.labeler else arcs.new_zeros(*best.shape, 0)
        return Taught(arcs, best, labels)

    def taught(self, batch: Batch) -> "Taught":
        """The same, from memory if it is there."""
        rows = [self.kept.get(id(example)) for example in batch.examples]
        if None in rows:
            return self.ask(batch)
        arcs = torch.zeros(len(rows), batch.N, batch.N)
        best = torch.full((len(rows), batch.N), -1)
        labels = torch.zeros(len(rows), batch.N, rows[0].labels.shape[1])
        for i, row in enumerate(rows):
            n = len(row.best)
            arcs[i, :n, :n], best[i, :n], labels[i, :n] = row
        return Taught(*(tensor.to(batch.device, non_blocking=True) for tensor in (arcs, best, labels)))

    def unlabeled_loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """W [log Z(x) − Σ μ̄(h, m) s(h, m)], the cross-entropy of Q̄ and P, and that of the labels."""
        arcs, best, taught = self.taught(batch)
        s, o = self(batch)
        W = self.options.unlabeled_weight
        loss = W * (tritree.log_partition(s, batch.lengths).sum() - (arcs.to(s.dtype) * s).sum())
        if self.labeler is None:
            return loss, {}
        log_p = self.label_log_probs(o, batch, best)
        labels = -torch.where(best > 0, (taught.to(log_p.dtype) * log_p).sum(-1), 0).sum()
        return loss + W * self.options.label_weight * labels, {"label_loss": labels}


class Taught(NamedTuple):
    """What the teachers say of sentences [B, …], or of one."""

    arcs: Tensor  # μ̄ [B, N, N]
    best: Tensor  # [B, N], the heads of the trees with the largest sum of μ̄
    labels: Tensor  # [B, N, labels], the probabilities of the labels of these arcs; no labels without a labeler
