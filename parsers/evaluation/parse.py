"""The result of parsing a sentence."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parsers.data.conllu import Sentence


@dataclass(slots=True)
class Trees:
    """The most probable trees of a sentence, the best first."""

    log_probs: np.ndarray  # [trees]
    heads: np.ndarray  # [trees, words]

    def __iter__(self) -> Iterator[tuple[float, list[int]]]:
        return zip(self.log_probs.tolist(), self.heads.tolist(), strict=True)


@dataclass(slots=True)
class Parse:
    """One parsed sentence. Lists belong to the words: entry i to word i + 1; heads are 0 for ROOT, else 1 … n."""

    sentence: Sentence  # with the tags in the file, and predicted ones where it has none
    heads: list[int]
    gold: list[int] | None  # the heads in the file; None where it has none, or where the parser was given them
    probabilities: list[float]  # of each word's predicted head: the arc's marginal
    top_heads: list[list[tuple[int, float]]]  # the most probable heads of each word, with their marginals, best first
    log_prob: float  # of the tree
    entropy: float  # of the distribution over trees, in nats
    kbest: Trees | None = None  # with --kbest
    labels: list[str] | None = None  # of the predicted arcs; None where the model predicts none
    gold_labels: list[str] | None = None  # those in the file, `_` where not known; None where it has none, or no gold
    label_probabilities: list[float] | None = None  # of each predicted label, given its arc
    predicted_tags: dict[str, list[str]] | None = None  # upos, xpos, feats as the output has them; None: as in the file

    @property
    def is_impossible(self) -> bool:
        """Whether no tree has the heads that the parser was given."""
        return self.log_prob == -math.inf

    @property
    def deprels(self) -> list[str]:
        """The column DEPREL: the predicted labels. Where there are none, `_`, and the file's own label where the parser
        was given the head."""
        if self.labels is not None:
            return self.labels
        given = self.sentence.heads if self.gold is None else [-1] * len(self.heads)
        return [label if head >= 0 else "_" for head, label in zip(given, self.sentence.deprels, strict=True)]

    def wrong_heads(self) -> list[bool]:
        """Whether the head in the file is known, and another one."""
        gold = self.gold or [-1] * len(self.heads)
        return [0 <= expected != head for expected, head in zip(gold, self.heads, strict=True)]

    def wrong_labels(self) -> list[bool]:
        """Whether the head is right and the label in the file is known, and another one; subtypes matter."""
        if self.labels is None or self.gold_labels is None:
            return [False] * len(self.heads)
        rows = zip(self.wrong_heads(), self.labels, self.gold_labels, strict=True)
        return [not wrong and expected not in ("_", label) for wrong, label, expected in rows]
