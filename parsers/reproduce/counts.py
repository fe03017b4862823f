"""What a line says of the sentences of a test set: how many words, right heads, right labels each of them has."""

from dataclasses import astuple

from parsers.evaluation.metrics import Scores


class Counts:
    """The sentences of a file, in order."""

    def __init__(self) -> None:
        self.total = Scores()
        self.words: list[int] = []
        self.heads: list[int] = []
        self.labels: list[int] = []

    def add(
        self, heads: list[int], gold: list[int], labels: list[str] | None = None, gold_labels: list[str] | None = None
    ) -> None:
        one = Scores()
        one.add(heads, gold, [False] * len(heads), labels, gold_labels)
        self.total = Scores(*(a + b for a, b in zip(astuple(self.total), astuple(one), strict=True)))
        self.words.append(one.words)
        self.heads.append(one.correct)
        self.labels.append(one.labelled_correct)

    @property
    def labelled(self) -> bool:
        """Whether all words have a label: LAS is then a share of the same words as UAS."""
        return 0 < self.total.words == self.total.labelled_words

    def scores(self, split: str) -> dict[str, float]:
        """The figures of a line: test_uas, and test_las and test_clas if there are labels."""
        names = ("uas", "las", "clas") if self.labelled else ("uas",)
        return {f"{split}_{name}": getattr(self.total, name) for name in names}

    def lists(self) -> dict[str, list[int] | None]:
        """The lists of a line."""
        return {"words": self.words, "heads": self.heads, "labels": self.labels if self.labelled else None}
