"""Means over seeds, and the paired bootstrap over sentences and seeds.

**Paired bootstrap** (as in parsers/evaluation/comparison.py). Two rows are compared in runs with the same seeds, and so
with the same trees and test sentences. In each draw, the test sentences of a treebank and the seeds are drawn with
replacement, as many as there are; d* is the mean difference over treebanks on such a draw, d that of all runs.
Without a real difference, d* would vary as much, but around 0: the p-value is the share of draws with |d* − d| ≥ |d|.
All seeds get the same draw of sentences, which they share. With one seed, only sentences are drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import mean, stdev

import numpy as np

from parsers.reproduce.lines import Line

DRAWS = 10_000
SEED = 1

Pairs = Sequence[tuple[Line, Line]]  # runs of two rows with the same seed


@dataclass(frozen=True)
class Mean:
    """Over runs that differ in their seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return mean(self.values)

    def __str__(self) -> str:
        """78.1 ± 0.4; of one value, without a deviation."""
        spread = f" ± {stdev(self.values):.1f}" if len(self.values) > 1 else ""
        return f"{self.mean:.1f}{spread}"


@dataclass(frozen=True)
class Difference:
    """Of UAS in points, second − first."""

    value: float
    p: float
    runs: int  # pairs
    by_treebank: dict[str, float]


def pairs_of(first: Iterable[Line], second: Iterable[Line]) -> list[tuple[Line, Line]]:
    """By seed, of those that both have."""
    others = {line.seed: line for line in second}
    return [(line, others[line.seed]) for line in first if line.seed in others and line.tested]


def paired_bootstrap(pairs: Mapping[str, Pairs], draws: int = DRAWS, seed: int = SEED) -> Difference:
    """The mean difference over treebanks, each of which counts the same."""
    found = np.zeros(draws)
    by_treebank = {}
    for treebank, some in pairs.items():
        words, gains = _counts(some)
        by_treebank[treebank] = float(100 * gains.sum(1).mean() / words.sum())
        sentences, seeds = _drawn(treebank, len(words), draws, seed), _drawn("seeds", len(gains), draws, seed)
        found += 100 * ((sentences @ gains.T) * seeds).mean(1) / (sentences @ words) / len(pairs)
    value = sum(by_treebank.values()) / len(pairs)
    # 1e-5: where both sides are equal, rounding must not decide.
    extreme = int((np.abs(found - value) >= abs(value) - 1e-5).sum())
    return Difference(value, (1 + extreme) / (1 + draws), sum(map(len, pairs.values())), by_treebank)


def _counts(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Words of the sentences [S], and how many heads more the second is right in [seeds, S]."""
    words = [line.words for pair in pairs for line in pair]
    if any(other != words[0] for other in words):
        treebank = pairs[0][0].treebank
        raise ValueError(f"runs on {treebank} were tested on different sentences: the treebank has changed")
    gains = [np.subtract(second.heads, first.heads) for first, second in pairs]
    return np.array(words[0], np.float32), np.array(gains, np.float32)


@lru_cache(maxsize=32)
def _drawn(what: str, count: int, draws: int, seed: int) -> np.ndarray:
    """How often each of so many things is drawn [draws, count]; kept, since all rows of a treebank share its draws."""
    rng = np.random.default_rng([seed, *what.encode()])
    places = rng.integers(count, size=(draws, count)) + count * np.arange(draws)[:, None]
    return np.bincount(places.ravel(), minlength=draws * count).reshape(draws, count).astype(np.float32)
