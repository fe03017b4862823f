"""Precision, recall and F1 of each label, subtypes and all, and which labels are taken for which.

Only words whose label in the file is known count. Only counts are kept, so memory does not grow with the file.
"""

from collections import Counter

from parsers.evaluation.breakdown import percent
from parsers.evaluation.parse import Parse

MOST_CONFUSIONS = 20


class Labels:
    """The counts of a file. A label is right if the head is, too."""

    def __init__(self):
        self.words: Counter[str] = Counter()
        self.predicted: Counter[str] = Counter()
        self.correct: Counter[str] = Counter()
        self.confusions: Counter[tuple[str, str]] = Counter()  # (in the file, predicted), where the head is right

    def add(self, parse: Parse) -> None:
        if parse.labels is None or parse.gold_labels is None:
            return
        for wrong_head, label, gold in zip(parse.wrong_heads(), parse.labels, parse.gold_labels, strict=True):
            if gold == "_":
                continue
            self.words[gold] += 1
            self.predicted[label] += 1
            if not wrong_head and label == gold:
                self.correct[gold] += 1
            elif not wrong_head:
                self.confusions[gold, label] += 1

    def figures(self) -> dict:
        """Shares are in percent, unrounded; empty where no label is known or predicted."""
        if not self.words:
            return {}
        labels = sorted(self.words | self.predicted, key=lambda label: -self.words[label])
        return {
            "by_label": {
                label: shares(self.words[label], self.predicted[label], self.correct[label]) for label in labels
            },
            "label_confusions": [
                {"gold": gold, "predicted": label, "words": count}
                for (gold, label), count in self.confusions.most_common(MOST_CONFUSIONS)
            ],
        }


def shares(words: int, predicted: int, correct: int) -> dict:
    """None is a share of nothing."""
    return {
        "words": words,
        "predicted": predicted,
        "correct": correct,
        "precision": percent(correct, predicted),
        "recall": percent(correct, words),
        "f1": percent(2 * correct, words + predicted),
    }
