"""Two parsers on the same sentences: is one better, and where do they differ?

**Paired bootstrap** (Efron & Tibshirani 1993; Berg-Kirkpatrick et al. 2012). Sentences are drawn with replacement, as
many as there are, many times; d* is the difference of the two scores on such a draw, d the one on the file. If there
were no real difference, the draws would vary as much, around 0: the p-value is the share of draws with
|d* − d| ≥ |d|. The interval has 95 % of all d*.

Sentences that agree in their words and in the difference of their correct words are interchangeable, so it is enough
to count each kind and to draw how often each kind occurs: memory and time do not grow with the file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from parsers.data.vocabulary import is_punctuation, part_of_speech
from parsers.evaluation.parse import Parse

DRAWS = 10_000
SEED = 1
CELLS = 2**20  # counts that are held at a time

Kinds = Counter[tuple[int, int]]  # (words, correct words of the second − of the first): sentences


def paired_bootstrap(kinds: Kinds, draws: int = DRAWS, seed: int = SEED) -> dict:
    """The difference in percent, second − first, its 95 % interval and the p-value."""
    words, differences = np.array(list(kinds)).T
    sentences = np.array(list(kinds.values()))
    total = sentences.sum()
    rng = np.random.default_rng(seed)
    found = []
    for begin in range(0, draws, step := max(1, CELLS // len(sentences))):
        drawn = rng.multinomial(total, sentences / total, size=min(step, draws - begin))
        found.append(100 * (drawn @ differences) / (drawn @ words))
    found = np.concatenate(found)
    difference = 100 * (sentences @ differences) / (sentences @ words)
    # A draw is as far away as the file or not: rounding must not decide it.
    extreme = np.abs(found - difference) >= abs(difference) - 1e-9
    low, high = np.quantile(found, [0.025, 0.975])
    return {
        "difference": float(difference),
        "interval": [float(low), float(high)],
        "p_value": float((1 + extreme.sum()) / (1 + draws)),
        "draws": draws,
    }


@dataclass(slots=True)
class Difference:
    """An arc on which two parses differ."""

    parses: tuple[Parse, Parse]
    word: int

    @property
    def gold(self) -> int | None:
        gold = self.parses[0].gold
        return gold[self.word - 1] if gold is not None and gold[self.word - 1] >= 0 else None

    def row(self) -> list[str]:
        """file:line, the word, its part of speech, and its heads: in the file, in the first parse, in the second."""
        sentence = self.parses[0].sentence
        i = self.word - 1
        line = sentence.line + sentence.rows[i] - sentence.rows[0]
        pos = part_of_speech(sentence.upos[i], sentence.xpos[i])
        heads = [self.gold, *(parse.heads[i] for parse in self.parses)]
        names = ["_" if h is None else "0 ROOT" if h == 0 else f"{h} {sentence.forms[h - 1]}" for h in heads]
        probabilities = [f"{parse.probabilities[i]:.4f}" for parse in self.parses]
        return [f"{sentence.file}:{line}", f"{self.word} {sentence.forms[i]}", pos, *names, *probabilities]


HEADER = ("line", "word", "tag", "head in the file", "head 1", "head 2", "probability 1", "probability 2")


@dataclass
class Comparison:
    """The counts of a file."""

    kinds: dict[str, Kinds] = field(default_factory=lambda: defaultdict(Counter))
    arcs: Counter = field(default_factory=Counter)  # "same", or who is right where they differ
    by_pos: dict[str, Counter] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, first: Parse, second: Parse) -> Iterator[Difference]:
        """Counts one sentence; gives the arcs on which the parses differ."""
        sentence, gold = first.sentence, first.gold or [-1] * len(first.heads)
        heads = list(zip(gold, first.heads, second.heads, strict=True))
        known = [(g == a, g == b) for g, a, b in heads if g >= 0]
        marks = map(is_punctuation, sentence.upos, sentence.xpos)
        plain = [(g == a, g == b) for (g, a, b), mark in zip(heads, marks, strict=True) if g >= 0 and not mark]
        for name, pairs in (("uas", known), ("uas_without_punctuation", plain)):
            if pairs:
                self.kinds[name][len(pairs), sum(b - a for a, b in pairs)] += 1
        if known:
            complete = [all(column) for column in zip(*known, strict=True)]
            self.kinds["complete_matches"][1, complete[1] - complete[0]] += 1
        for word, (g, a, b) in enumerate(heads, 1):
            if a == b:
                self.arcs["same"] += 1
                continue
            who = "not known" if g < 0 else "first right" if g == a else "second right" if g == b else "both wrong"
            self.arcs[who] += 1
            self.by_pos[part_of_speech(sentence.upos[word - 1], sentence.xpos[word - 1])][who] += 1
            yield Difference((first, second), word)

    def figures(self) -> dict:
        return {
            "bootstrap": {name: paired_bootstrap(kinds) for name, kinds in self.kinds.items()},
            "arcs": dict(self.arcs),
            "differences_by_pos": {
                pos: dict(counts) for pos, counts in sorted(self.by_pos.items(), key=lambda item: -item[1].total())
            },
        }
