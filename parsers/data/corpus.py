"""The data of a run: where they come from, which sentences keep their trees, and batches of them.

Trees, dev and test sets are held in memory. A file of unlabelled sentences is read anew in each pass and may be larger
than the memory.
"""

import os
import random
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import torch

from parsers.data import synthetic
from parsers.data.batches import Batch, bucketed, collate
from parsers.data.conllu import Sentence, read
from parsers.data.examples import Example, Indexer
from parsers.data.noise import seed_of
from parsers.data.projective import projectivize
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.io.errors import DataError, UserError

MAX_WORDS = 2000  # of a sentence: time grows with the cube, memory with the square
MAX_CELLS = 2**18  # arcs of a batch, padding included, unless one sentence alone has more
EVALUATION_BATCH = 64
SPLITS = ("train", "dev", "test")


@dataclass
class Sources:
    """The files of a run; None where there is none. The synthetic treebank needs none."""

    name: str
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    unlabeled: str | None = None

    @property
    def synthetic(self) -> bool:
        return self.train is None

    def files(self) -> list[str]:
        return [path for path in (self.train, self.dev, self.test, self.unlabeled) if path]

    def sentences(self, split: str, keep_lines: bool = False) -> Iterable[Sentence]:
        """The sentences of "train", "dev", "test" or "unlabeled", each checked to be parseable; none if not given."""
        if self.synthetic:
            return synthetic.sentences(split)
        path = getattr(self, split)
        return sentences(path, keep_lines) if path else []


def find_sources(options: Namespace) -> Sources:
    """The files that the options name: --treebank, or --train with --dev and --test, or nothing at all."""
    unlabeled = _absolute(options.unlabeled)
    if options.treebank:
        directory = find_treebank(options.treebank)
        files = {split: find_split(directory, split, required=split == "train") for split in SPLITS}
        files |= {split: _absolute(getattr(options, split)) for split in SPLITS if getattr(options, split)}
        return Sources(directory.name, unlabeled=unlabeled, **files)
    if options.train:
        files = {split: _absolute(getattr(options, split)) for split in SPLITS}
        return Sources(Path(options.train).name.partition(".")[0], unlabeled=unlabeled, **files)
    for name in ("dev", "test", "unlabeled"):
        if getattr(options, name):
            raise UserError(
                f"--{name} needs --train or --treebank too; with no data at all a synthetic treebank is used"
            )
    return Sources(synthetic.NAME)


def find_treebank(name: str) -> Path:
    """A directory, or the name of one under TRITREE_DATA."""
    root = os.environ.get("TRITREE_DATA")
    for directory in [Path(name)] + ([Path(root, name)] if root else []):
        if directory.is_dir():
            return directory.absolute()
    where = f"nor a name under TRITREE_DATA ({root})" if root else "and TRITREE_DATA is not set"
    raise UserError(f"--treebank {name} is not a directory, {where}")


def find_split(directory: Path, split: str, required: bool = True) -> str | None:
    """The file of this part: *-ud-train.conllu, or else *train.conllu; also with .gz."""
    for pattern in (f"*-ud-{split}.conllu", f"*-ud-{split}.conllu.gz", f"*{split}.conllu", f"*{split}.conllu.gz"):
        found = sorted(directory.glob(pattern))
        if len(found) > 1:
            raise UserError(f"{directory} has more than one {pattern}: name the file that is meant")
        if found:
            return str(found[0])
    if required:
        raise UserError(f"{directory} has no *-ud-{split}.conllu")
    return None


def _absolute(path: str | None) -> str | None:
    return os.path.abspath(path) if path else None


def sentences(path: str, keep_lines: bool = False) -> Iterator[Sentence]:
    for sentence in read(path, keep_lines):
        check_length(sentence)
        yield sentence


def check_length(sentence: Sentence) -> None:
    if len(sentence) > MAX_WORDS:
        message = f"a sentence of {len(sentence)} words; at most {MAX_WORDS} can be parsed: divide it"
        raise DataError(sentence.file, sentence.line, message)


class Unlabeled:
    """Sentences without trees: some in memory, others read from a file in each pass."""

    def __init__(self, kept: list[Sentence], sources: Sources):
        self.kept, self.sources = kept, sources
        if sources.synthetic:
            self.kept = kept + list(sources.sentences("unlabeled"))
        self.in_memory = sources.unlabeled is None

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.kept) if self.in_memory else chain(self.kept, self.sources.sentences("unlabeled"))

    def __bool__(self) -> bool:
        return bool(self.kept) or not self.in_memory


class Corpus:
    """The sentences of a run: trees, others if the system uses them, dev and test set."""

    def __init__(self, options: Namespace, sources: Sources, with_unlabeled: bool):
        trees = [checked_tree(sentence, "training") for sentence in sources.sentences("train")]
        self.labeled, others = split_labeled(trees, options.labeled, options.seed)
        self.unlabeled = Unlabeled(others, sources) if with_unlabeled else ()
        self.dev = [checked_tree(sentence, "the dev set") for sentence in sources.sentences("dev")]
        self.test = [checked_tree(sentence, "the test set") for sentence in sources.sentences("test")]

    def vocabulary(self, options: Namespace) -> Vocabulary:
        return Vocabulary.build(self.labeled, self.unlabeled, options.min_count, options.max_words)


def split_labeled(trees: list[Sentence], share: float, seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """A seeded part of the trees, at least one, and the others; both in the order of the file."""
    count = max(1, round(share * len(trees)))
    chosen = set(random.Random(seed_of("split", seed)).sample(range(len(trees)), count))
    return [s for i, s in enumerate(trees) if i in chosen], [s for i, s in enumerate(trees) if i not in chosen]


def checked_tree(sentence: Sentence, what: str) -> Sentence:
    if -1 in sentence.heads:
        word = sentence.heads.index(-1) + 1
        hint = ": sentences without trees belong into --unlabeled" if what == "training" else ""
        raise DataError(sentence.file, sentence.line, f"word {word} has no head, but {what} needs whole trees{hint}")
    return sentence


@dataclass
class Data:
    """Everything a run trains and is measured on; ``place`` says on which device and for which process."""

    labeled: list[Example]
    unlabeled: Iterable[Example]  # empty, a list, or something that reads a file each time
    dev: list[Example]
    test: list[Example]
    options: Namespace
    report: dict[str, int] = field(default_factory=dict)
    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __post_init__(self):
        self._forever: tuple[int, Iterator[Batch]] | None = None  # how many batches were taken, and the others
        self.num_labeled_batches = sum(1 for _ in bucketed(self.labeled, self.options.batch_size, MAX_CELLS))

    def place(self, rank: int, world: int, device: torch.device) -> None:
        self.rank, self.world, self.device = rank, world, device

    def batches(
        self, examples: Iterable[Example], size: int, key: tuple[int | str, ...] | None = None
    ) -> Iterator[Batch]:
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


class _Encoded:
    """Sentences that are encoded while they are read."""

    def __init__(self, sentences: Iterable[Sentence], encoding: Indexer):
        self.sentences, self.encoding = sentences, encoding

    def __iter__(self) -> Iterator[Example]:
        return map(self.encoding, self.sentences)


def encode(options: Namespace, corpus: Corpus, vocab: Vocabulary, vectors: Vectors | None = None) -> Data:
    """All of it as numbers. Non-projective trees are lifted where they are learnt from, and only there."""
    encoding = Indexer(vocab, vectors)
    labeled, lifted, lifts = [], 0, 0
    for sentence in corpus.labeled:
        heads, count = projectivize(sentence.heads)
        lifted, lifts = lifted + (count > 0), lifts + count
        labeled.append(encoding(sentence, heads))
    unlabeled: Iterable[Example] = ()
    if corpus.unlabeled:
        streamed = _Encoded(corpus.unlabeled, encoding)
        unlabeled = list(streamed) if corpus.unlabeled.in_memory else streamed
    dev, test = ([encoding(sentence) for sentence in part] for part in (corpus.dev, corpus.test))
    report = {"trees": len(labeled), "lifted_trees": lifted, "lifts": lifts, "dev": len(dev), "test": len(test)}
    if isinstance(unlabeled, list):
        report["unlabeled"] = len(unlabeled)
    return Data(labeled, unlabeled, dev, test, options, report)
