"""Two parsers on the same sentences: is one better, and where do they differ?

**Paired bootstrap** (Efron & Tibshirani 1993; Berg-Kirkpatrick et al. 2012). Sentences are drawn with replacement, as
many as the file has, many times; d* is the difference of the two scores on such a draw, d that on the file. Without a
real difference, d* would vary as much, but around 0: the p-value is the share of draws with |d* − d| ≥ |d|. The
interval has 95 % of all d*.

Only two numbers of a sentence matter: its words, and by how many of them more the second parser is right. Sentences
that agree in both are of one kind. Each kind is counted, and draws are of counts of kinds (multinomial): memory and
time do not grow with the file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from parsers.data.vocabulary import is_punctuation, part_of_speech
from parsers.evaluation.metrics import Scores, universal
from parsers.evaluation.parse import Parse

DRAWS = 10_000
SEED = 1
CELLS = 2**20  # drawn counts that are held at a time

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
    # 1e-9: where both sides are equal, rounding must not decide.
    extreme = np.abs(found - difference) >= abs(difference) - 1e-9
    low, high = np.quantile(found, [0.025, 0.975])
    return {
        "difference": float(difference),
        "interval": [float(low), float(high)],
        "p_value": float((1 + extreme.sum()) / (1 + draws)),
        "draws": draws,
    }


HEADS, LABELS = (tuple(f"{what} {where}" for where in ("in the file", "1", "2")) for what in ("head", "label"))
HEADER = ("line", "word", "tag", *HEADS, "probability 1", "probability 2", *LABELS, "differ in")


@dataclass
class Comparison:
    """The counts of a file."""

    kinds: dict[str, Kinds] = field(default_factory=lambda: defaultdict(Counter))
    arcs: Counter = field(default_factory=Counter)  # "same", or which parse is right where the heads differ
    labels: Counter = field(default_factory=Counter)  # the same for labels, of words whose heads do not differ
    by_pos: dict[str, Counter] = field(default_factory=lambda: defaultdict(Counter))
    scores: tuple[Scores, Scores] = field(default_factory=lambda: (Scores(), Scores()))
    sentences: int = 0

    def add(self, first: Parse, second: Parse) -> Iterator[list[str]]:
        """Counts one sentence; yields a row under HEADER for each word whose heads or labels differ."""
        sentence, gold = first.sentence, first.gold or [-1] * len(first.heads)
        heads = list(zip(gold, first.heads, second.heads, strict=True))
        columns = (first.gold_labels, first.labels, second.labels)
        labels = list(zip(*(column or ["_"] * len(heads) for column in columns), strict=True))
        labelled = first.labels is not None and second.labels is not None
        marks = list(map(is_punctuation, sentence.upos, sentence.xpos))
        self.sentences += 1
        for scores, parse in zip(self.scores, (first, second), strict=True):
            scores.add(parse.heads, gold, marks, parse.labels, parse.gold_labels)
        self._add_kinds(heads, marks, labels if labelled else [])
        for word, ((g, a, b), (gold_label, *found)) in enumerate(zip(heads, labels, strict=True), 1):
            other_label = labelled and found[0] != found[1]
            pos = part_of_speech(sentence.upos[word - 1], sentence.xpos[word - 1])
            if a != b:
                which = _which(g >= 0, g == a, g == b)
                self.arcs[which] += 1
                self.by_pos[pos][which] += 1
            else:
                self.arcs["same"] += 1
                if labelled:
                    right = [g == a and gold_label == label for label in found]
                    self.labels[_which(gold_label != "_", *right) if other_label else "same"] += 1
            if a == b and not other_label:
                continue
            names = ["_" if h < 0 else "0 ROOT" if h == 0 else f"{h} {sentence.forms[h - 1]}" for h in (g, a, b)]
            probabilities = [f"{parse.probabilities[word - 1]:.4f}" for parse in (first, second)]
            place, form = f"{sentence.file}:{sentence.line_of(word)}", f"{word} {sentence.forms[word - 1]}"
            differ = "head, label" if a != b and other_label else "head" if a != b else "label"
            yield [place, form, pos, *names, *probabilities, gold_label, *found, differ]

    def _add_kinds(self, heads: list[tuple], marks: list[bool], labels: list[tuple]) -> None:
        """The sentence's kind for each score; ``labels`` is empty where not both parses have them."""
        known = [(g == a, g == b) for g, a, b in heads if g >= 0]
        plain = [(g == a, g == b) for (g, a, b), mark in zip(heads, marks, strict=True) if g >= 0 and not mark]
        labelled = [
            tuple(g == h and universal(gold) == universal(label) for h, label in zip(hs, found, strict=True))
            for (g, *hs), (gold, *found) in zip(heads, labels, strict=bool(labels))
            if gold != "_"
        ]
        for name, pairs in (("uas", known), ("uas_without_punctuation", plain), ("las", labelled)):
            if pairs:
                self.kinds[name][len(pairs), sum(b - a for a, b in pairs)] += 1
        if known:
            complete = [all(column) for column in zip(*known, strict=True)]
            self.kinds["complete_matches"][1, complete[1] - complete[0]] += 1

    def figures(self) -> dict:
        return {
            "bootstrap": {name: paired_bootstrap(kinds) for name, kinds in self.kinds.items()},
            "arcs": dict(self.arcs),
            **({"labels": dict(self.labels)} if self.labels else {}),
            "differences_by_pos": {
                pos: dict(counts) for pos, counts in sorted(self.by_pos.items(), key=lambda item: -item[1].total())
            },
            "scores": [scores.summary() for scores in self.scores],
            "sentences": self.sentences,
        }


def _which(known: bool, first: bool, second: bool) -> str:
    return "not known" if not known else "first right" if first else "second right" if second else "both wrong"
