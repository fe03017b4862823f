"""The sentences of a run as numbers, and batches of them."""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import torch

from parsers.data.batches import EVALUATION_BATCH, MAX_CELLS, Batch, bucketed, collate
from parsers.data.corpus import Corpus, Stream
from parsers.data.examples import Example, Indexer
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from tritree.projective import lift


@dataclass
class Data:
    """Everything that a run trains and is measured on; ``place`` sets the device and this process's share."""

    labeled: list[Example]
    unlabeled: Iterable[Example]  # a list, or a stream that reads a file in each pass
    dev: list[Example]
    test: list[Example]
    options: Namespace
    retagged: list[Example] = field(default_factory=list)  # the test set with predicted tags, if there is a tagger
    report: dict[str, int] = field(default_factory=dict)  # sizes, for the user
    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def of(cls, options: Namespace, corpus: Corpus, vocab: Vocabulary, vectors: Vectors | None = None) -> "Data":
        """A corpus as numbers. Training trees are made projective; dev and test trees stay as they are."""
        index = Indexer(vocab, vectors)
        lifted = [lift(sentence.heads) for sentence in corpus.labeled]
        labeled = [index(sentence, heads) for sentence, (heads, _) in zip(corpus.labeled, lifted, strict=True)]
        unlabeled: Iterable[Example] = Stream(lambda: map(index, corpus.unlabeled))
        if isinstance(corpus.unlabeled, list):
            unlabeled = list(unlabeled)
        dev, test, retagged = (list(map(index, part)) for part in (corpus.dev, corpus.test, corpus.retagged))
        lifts = [count for _, count in lifted]
        report = {"trees": len(labeled), "lifted_trees": sum(count > 0 for count in lifts), "lifts": sum(lifts)}
        report |= {"dev": len(dev), "test": len(test)}
        if unlabeled and isinstance(unlabeled, list):
            report["unlabeled"] = len(unlabeled)
        return cls(labeled, unlabeled, dev, test, options, retagged, report)

    def __post_init__(self):
        self._forever: tuple[int, Iterator[Batch]] | None = None  # number of batches taken, and the stream
        self._counted: int | None = None
        self.num_labeled_batches = sum(1 for _ in bucketed(self.labeled, self.options.batch_size, MAX_CELLS))

    def place(self, rank: int, world: int, device: torch.device) -> None:
        self.rank, self.world, self.device = rank, world, device

    def batches(self, examples: Iterable[Example], size: int, key: tuple | None = None) -> Iterator[Batch]:
        """This process's part of each batch; shuffled if there is a key."""
        for chosen in bucketed(examples, size, MAX_CELLS, key):
            yield collate(chosen, self.rank, self.world, self.device)

    def labeled_batches(self, stage: int = 0, epoch: int = 0) -> Iterator[Batch]:
        """All labelled sentences, in the order of this epoch; in a fixed order for epoch 0."""
        key = ("labeled", self.options.seed, stage, epoch) if epoch else None
        return self.batches(self.labeled, self.options.batch_size, key)

    def unlabeled_batches(self) -> Iterator[Batch]:
        """All unlabelled sentences once, in a fixed order: for counting."""
        return self.batches(self.unlabeled, EVALUATION_BATCH)

    def count_unlabeled(self, most: int) -> int:
        """The number of unlabelled sentences; of a stream no more than so many are read."""
        if self._counted is None:
            self._counted = sum(1 for _ in islice(iter(self.unlabeled), most))
        return min(self._counted, most)

    def unlabeled_forever(self, start: int = 0) -> Iterator[Batch]:
        """Unlabelled batches without end, each pass in another order, from batch number ``start`` on."""
        if self._forever is None or self._forever[0] != start:
            self._forever = 0, self._passes()
        taken, stream = self._forever
        for number, batch in enumerate(stream, taken + 1):
            self._forever = number, stream
            if number > start:
                yield batch

    def _passes(self) -> Iterator[Batch]:
        number = 0
        while True:
            number += 1
            key = ("unlabeled", self.options.seed, number)
            yield from self.batches(self.unlabeled, self.options.unlabeled_batch_size, key)
