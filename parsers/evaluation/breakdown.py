"""Attachment scores by sentence length, arc length and part of speech.

Only words whose head is known count. Only counts are kept, so memory does not grow with the file.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from parsers.data.vocabulary import is_punctuation, part_of_speech
from parsers.evaluation.metrics import Scores
from parsers.evaluation.parse import Parse

SENTENCE_LENGTHS = (5, 10, 20, 30, 40, 50)  # up to 5 words, 6–10, …, more than 50
ARC_LENGTHS = (1, 2, 3, 5, 10, 20)
# The counts of Scores that need no labels.
OF_HEADS = ("words", "correct", "plain_words", "plain_correct", "sentences", "complete")


Tally = defaultdict[int | str, list[int]]  # words, and how many of them are right


def _tally() -> Tally:
    return defaultdict(lambda: [0, 0])


@dataclass
class Breakdown:
    """The counts of a file."""

    scores: Scores = field(default_factory=Scores)
    by_sentence_length: Tally = field(default_factory=_tally)  # by the number of the bin
    by_gold_arc: Tally = field(default_factory=_tally)  # by the length of the arc in the file; −1 is an arc from ROOT
    by_predicted_arc: Tally = field(default_factory=_tally)
    by_pos: Tally = field(default_factory=_tally)

    def add(self, parse: Parse) -> None:
        if parse.gold is None:
            return
        sentence = parse.sentence
        marks = list(map(is_punctuation, sentence.upos, sentence.xpos))
        self.scores.add(parse.heads, parse.gold, marks, parse.labels, parse.gold_labels)
        size = bisect_left(SENTENCE_LENGTHS, len(sentence))
        rows = zip(parse.heads, parse.gold, sentence.upos, sentence.xpos, strict=True)
        for word, (head, gold, upos, xpos) in enumerate(rows, 1):
            if gold < 0:
                continue
            right = head == gold
            for tally, key in (
                (self.by_sentence_length, size),
                (self.by_gold_arc, _arc_bin(gold, word)),
                (self.by_predicted_arc, _arc_bin(head, word)),
                (self.by_pos, part_of_speech(upos, xpos)),
            ):
                counts = tally[key]
                counts[0] += 1
                counts[1] += right

    def figures(self) -> dict:
        """All figures, unrounded, shares in percent; empty where no head is known."""
        scores = self.scores
        if not scores.words:
            return {}
        roots, right_roots = self.by_gold_arc.get(-1, (0, 0))
        return {
            **scores.summary(),
            "root_accuracy": percent(right_roots, roots),
            **{name: count for name, count in vars(scores).items() if scores.labelled_words or name in OF_HEADS},
            "roots": roots,
            "correct_roots": right_roots,
            "by_sentence_length": [
                {**_range(SENTENCE_LENGTHS, key), **_shares(counts)}
                for key, counts in sorted(self.by_sentence_length.items())
            ],
            "by_arc_length": [self._arc_figures(key) for key in sorted({*self.by_gold_arc, *self.by_predicted_arc})],
            "by_pos": {
                pos: _shares(counts) for pos, counts in sorted(self.by_pos.items(), key=lambda item: -item[1][0])
            },
        }

    def _arc_figures(self, key: int) -> dict:
        """UAS is the share of the arcs in the file that are predicted, precision of the predicted ones in the file."""
        gold, right = self.by_gold_arc.get(key, (0, 0))
        predicted, _ = self.by_predicted_arc.get(key, (0, 0))
        return {
            **({"from_root": True} if key < 0 else _range(ARC_LENGTHS, key)),
            "words": gold,
            "predicted": predicted,
            "correct": right,
            "uas": percent(right, gold),
            "precision": percent(right, predicted),
        }


def _arc_bin(head: int, word: int) -> int:
    return bisect_left(ARC_LENGTHS, abs(head - word)) if head else -1


def _range(bounds: tuple[int, ...], key: int) -> dict:
    return {"from": bounds[key - 1] + 1 if key else 1, "to": bounds[key] if key < len(bounds) else None}


def _shares(counts: list[int]) -> dict:
    words, right = counts
    return {"words": words, "correct": right, "uas": percent(right, words)}


def percent(part: int, whole: int) -> float | None:
    return 100 * (part / whole) if whole else None
