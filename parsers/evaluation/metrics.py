"""Attachment scores: the share of words with the right head (UAS), and with the right head and label (LAS, CLAS).

They are those of the official evaluation of the CoNLL 2018 shared task: labels count up to the first `:`, and CLAS is
the F1 over arcs whose label is one of CONTENT, in the file for recall, in the parse for precision.
"""

from dataclasses import astuple, dataclass

# The relations of content words. All others are functional (case, det, …), punctuation, or not universal.
CONTENT = {
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse",
    "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj", "obl",
    "orphan", "parataxis", "reparandum", "root", "vocative", "xcomp",
}  # fmt: skip


@dataclass
class Scores:
    """Counts, which can be added up over sentences and processes. Shares of nothing are 0."""

    words: int = 0
    correct: int = 0
    plain_words: int = 0  # without punctuation
    plain_correct: int = 0
    sentences: int = 0
    complete: int = 0
    labelled_words: int = 0  # whose label in the file is known; all below are of these
    labelled_correct: int = 0
    plain_labelled_words: int = 0
    plain_labelled_correct: int = 0
    content_words: int = 0
    content_predicted: int = 0
    content_correct: int = 0

    def add(
        self,
        predicted: list[int],
        gold: list[int],
        punctuation: list[bool],
        labels: list[str] | None = None,
        gold_labels: list[str] | None = None,
    ) -> None:
        """One sentence: the heads of its words, and the labels if both are there.

        Words whose gold head is not known (−1) do not count; for LAS and CLAS, nor do those whose gold label is `_`.
        """
        known = [(p == g, mark) for p, g, mark in zip(predicted, gold, punctuation, strict=True) if g >= 0]
        right = sum(hit for hit, _ in known)
        self.words += len(known)
        self.correct += right
        self.plain_words += sum(not mark for _, mark in known)
        self.plain_correct += sum(hit and not mark for hit, mark in known)
        if known:
            self.sentences += 1
            self.complete += right == len(known)
        if labels is None or gold_labels is None:
            return
        for p, g, label, gold_label, mark in zip(predicted, gold, labels, gold_labels, punctuation, strict=True):
            if g >= 0 and gold_label != "_":
                found, expected = universal(label), universal(gold_label)
                hit = p == g and found == expected
                self.labelled_words += 1
                self.labelled_correct += hit
                self.plain_labelled_words += not mark
                self.plain_labelled_correct += hit and not mark
                self.content_words += expected in CONTENT
                self.content_predicted += found in CONTENT
                self.content_correct += hit and expected in CONTENT

    def counts(self) -> list[int]:
        return list(astuple(self))

    @property
    def uas(self) -> float:
        """Unlabelled attachment score over all words, in percent."""
        return _percent(self.correct, self.words)

    @property
    def uas_without_punctuation(self) -> float:
        return _percent(self.plain_correct, self.plain_words)

    @property
    def complete_matches(self) -> float:
        return _percent(self.complete, self.sentences)

    @property
    def las(self) -> float:
        """Labelled attachment score over all words, in percent."""
        return _percent(self.labelled_correct, self.labelled_words)

    @property
    def las_without_punctuation(self) -> float:
        return _percent(self.plain_labelled_correct, self.plain_labelled_words)

    @property
    def clas(self) -> float:
        """Content-word labelled attachment score, in percent."""
        return _percent(2 * self.content_correct, self.content_words + self.content_predicted)

    def summary(self, prefix: str = "") -> dict[str, float]:
        names = ["uas", "uas_without_punctuation", "complete_matches"]
        if self.labelled_words:
            names += ["las", "las_without_punctuation", "clas"]
        return {f"{prefix}{name}": getattr(self, name) for name in names}


def universal(label: str) -> str:
    """A label without its subtype: nsubj of nsubj:pass."""
    return label.partition(":")[0]


def _percent(part: int, whole: int) -> float:
    return 100 * (part / whole) if whole else 0.0  # in this order, equal to the official evaluation in the last bit
