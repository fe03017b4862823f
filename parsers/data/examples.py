"""Sentences as numbers: the input of the networks, and the heads that predictions are compared with."""

from dataclasses import dataclass

import numpy as np

from parsers.data.characters import spelling
from parsers.data.conllu import Sentence
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import ROOT, Vocabulary, features, is_punctuation, part_of_speech

MOST_SPELT = 100_000  # words whose characters are kept


@dataclass(slots=True)
class Example:
    """A sentence as numbers. Position 0 of the arrays is ROOT."""

    words: np.ndarray  # [n + 1]
    pos: np.ndarray  # [n + 1]
    xpos: np.ndarray  # [n + 1]
    feats: np.ndarray  # [n + 1, the most features of a word], padded with 0
    vectors: np.ndarray | None  # [n + 1]: rows of the pretrained vectors
    heads: np.ndarray | None  # [n + 1], −1 at 0: the projective tree to learn from; None in unlabelled sentences
    gold: list[int]  # the heads of the words in the file: what predictions are compared with
    labels: np.ndarray | None  # [n + 1]: of the arcs in the file; None if there are no labels to learn
    gold_labels: list[str]  # as in the file
    punctuation: list[bool]
    sentence: Sentence | None = None
    characters: list[tuple[int, ...]] | None = None  # of each word; None if the run reads none

    def __len__(self) -> int:
        return len(self.words) - 1

    @property
    def gold_heads(self) -> np.ndarray:
        """``gold`` as an array, −1 at position 0."""
        return np.array([-1, *self.gold])


class Indexer:
    """Turns sentences into examples: looks up the numbers of their symbols."""

    def __init__(self, vocab: Vocabulary, vectors: Vectors | None = None):
        self.vocab, self.vectors = vocab, vectors
        self._spelt: dict[str, tuple[int, ...]] = {}  # words whose characters were looked up

    def __call__(self, sentence: Sentence, heads: list[int] | None = None, keep: bool = False) -> Example:
        """
        Args:
            heads: a projective tree to learn from; None for an unlabelled sentence.
            keep: keep the sentence itself, too, so that it can be written later.
        """
        vocab, n = self.vocab, len(sentence)
        bags = [vocab.feats.numbers(features(text)) for text in sentence.feats]
        feats = np.zeros((n + 1, max(map(len, bags), default=0)), dtype=np.int64)
        for position, bag in enumerate(bags, 1):
            feats[position, : len(bag)] = bag
        tags = map(part_of_speech, sentence.upos, sentence.xpos)
        return Example(
            words=np.array([ROOT, *vocab.words.numbers(map(vocab.normalize, sentence.forms))]),
            pos=np.array([ROOT, *vocab.pos.numbers(tags)]),
            xpos=np.array([ROOT, *vocab.xpos.numbers(sentence.xpos)]),
            feats=feats,
            vectors=np.array([0, *self.vectors.rows(sentence.forms, vocab.fold)]) if self.vectors else None,
            heads=None if heads is None else np.array([-1, *heads]),
            gold=sentence.heads,
            labels=np.array([0, *vocab.labels.numbers(sentence.deprels)]) if vocab.labels else None,
            gold_labels=sentence.deprels,
            punctuation=list(map(is_punctuation, sentence.upos, sentence.xpos)),
            sentence=sentence if keep else None,
            characters=list(map(self._characters, sentence.forms)) if vocab.characters else None,
        )

    def _characters(self, form: str) -> tuple[int, ...]:
        found = self._spelt.get(form)
        if found is None:
            found = tuple(self.vocab.characters.numbers(spelling(form)))
            if len(self._spelt) < MOST_SPELT:
                self._spelt[form] = found
        return found
