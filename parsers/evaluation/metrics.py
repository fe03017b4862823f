"""Attachment scores: the share of words with the right head."""

from dataclasses import astuple, dataclass


@dataclass
class Scores:
    """Counts, which can be added up over sentences and processes. Shares of nothing are 0."""

    words: int = 0
    correct: int = 0
    plain_words: int = 0  # without punctuation
    plain_correct: int = 0
    sentences: int = 0
    complete: int = 0

    def add(self, predicted: list[int], gold: list[int], punctuation: list[bool]) -> None:
        """One sentence: the heads of its words. Words whose gold head is not known (−1) do not count."""
        known = [(p == g, mark) for p, g, mark in zip(predicted, gold, punctuation, strict=True) if g >= 0]
        right = sum(hit for hit, _ in known)
        self.words += len(known)
        self.correct += right
        self.plain_words += sum(not mark for _, mark in known)
        self.plain_correct += sum(hit and not mark for hit, mark in known)
        if known:
            self.sentences += 1
            self.complete += right == len(known)

    def counts(self) -> list[int]:
        return list(astuple(self))

    @property
    def uas(self) -> float:
        """Unlabelled attachment score over all words, in percent: the official one of the CoNLL shared tasks."""
        return _percent(self.correct, self.words)

    @property
    def uas_without_punctuation(self) -> float:
        return _percent(self.plain_correct, self.plain_words)

    @property
    def complete_matches(self) -> float:
        return _percent(self.complete, self.sentences)

    def summary(self, prefix: str = "") -> dict[str, float]:
        return {
            f"{prefix}uas": self.uas,
            f"{prefix}uas_without_punctuation": self.uas_without_punctuation,
            f"{prefix}complete_matches": self.complete_matches,
        }


def _percent(part: int, whole: int) -> float:
    return 100 * (part / whole) if whole else 0.0  # in this order, equal to the official evaluation in the last bit
