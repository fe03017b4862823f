"""The result of parsing a sentence."""

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

    sentence: Sentence
    heads: list[int]
    gold: list[int] | None  # the heads in the file; None where it has none, or where the parser was given them
    probabilities: list[float]  # of each word's predicted head: the arc's marginal
    top_heads: list[list[tuple[int, float]]]  # the most probable heads of each word, with their marginals, best first
    log_prob: float  # of the tree
    entropy: float  # of the distribution over trees, in nats
    kbest: Trees | None = None  # with --kbest
