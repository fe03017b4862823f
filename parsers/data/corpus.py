"""The sentences of a run: which of them keep their trees, which are unlabelled, the dev and the test set.

Trees, dev and test set are held in memory. A file of unlabelled sentences is read again in each pass and may be larger
than the memory.
"""

import random
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from parsers.data.conllu import Sentence
from parsers.data.noise import seed_of
from parsers.data.sources import Sources
from parsers.data.vocabulary import Vocabulary
from parsers.io.errors import DataError, UserError


class Corpus:
    """Labelled sentences, unlabelled ones if the system uses them, dev and test set."""

    def __init__(self, options: Namespace, sources: Sources, with_unlabeled: bool):
        trees = [checked_tree(sentence, "training") for sentence in sources.sentences("train")]
        self.labeled, others = split_labeled(trees, options.labeled, options.seed)
        self.unlabeled: Iterable[Sentence] = []
        if with_unlabeled and getattr(options, "taught_on", "text") == "trees":
            self.unlabeled = self.labeled
        elif with_unlabeled and sources.unlabeled:
            self.unlabeled = Stream(lambda: chain(others, sources.sentences("unlabeled")))
        elif with_unlabeled:
            self.unlabeled = others + list(sources.sentences("unlabeled"))
        self.dev = [checked_tree(sentence, "the dev set") for sentence in sources.sentences("dev")]
        self.test = [checked_tree(sentence, "the test set") for sentence in sources.sentences("test")]
        self.retagged: list[Sentence] = []  # the test set with predicted tags, if there is a tagger

    def vocabulary(self, options: Namespace, with_tagger: bool = False, start: Vocabulary | None = None) -> Vocabulary:
        """``start``: the vocabulary of the run with whose weights this one begins."""
        sizes, with_labels = (options.min_count, options.max_words), options.label_weight > 0
        kinds = (with_labels, with_tagger, options.char_filters > 0)
        vocab = Vocabulary.build(self.labeled, self.unlabeled, *sizes, *kinds, start)
        if options.stop_on == "las" and self.dev:
            dev_labels = (label for sentence in self.dev for label in sentence.deprels)
            for what, labels in (("the trees", vocab.labels), ("the dev set", set(dev_labels) - {"_"})):
                if not labels:
                    raise UserError(f"--stop-on las compares labels, and DEPREL is empty in {what}: leave it out")
        return vocab


class Stream:
    """Calls a function for each pass, so that a file can be read many times and is never in memory."""

    def __init__(self, start: Callable[[], Iterable]):
        self.start = start

    def __iter__(self) -> Iterator:
        return iter(self.start())


def split_labeled(trees: list[Sentence], share: float, seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """A random share of the trees, at least one, and the others; both in the order of the file."""
    count = max(1, round(share * len(trees)))
    chosen = set(random.Random(seed_of("split", seed)).sample(range(len(trees)), count))
    return [s for i, s in enumerate(trees) if i in chosen], [s for i, s in enumerate(trees) if i not in chosen]


def checked_tree(sentence: Sentence, what: str) -> Sentence:
    if -1 in sentence.heads:
        word = sentence.heads.index(-1) + 1
        hint = ": sentences without trees belong into --unlabeled" if what == "training" else ""
        raise DataError(sentence.file, sentence.line, f"word {word} has no head, but {what} needs whole trees{hint}")
    return sentence
