"""Whose tags a parser reads: those in the file, predicted ones where it has none, or predicted ones for all words."""

from collections import Counter
from collections.abc import Iterable, Iterator

from parsers.data.conllu import Sentence
from parsers.evaluation.breakdown import percent
from parsers.runs.tagger import Tagger, Tags, filled, replaced, untagged


class TagScores:
    """How many of the tags in a file are predicted, by column. Only counts are kept."""

    def __init__(self):
        self.words: Counter[str] = Counter()
        self.correct: Counter[str] = Counter()
        self.given: set[str] = set()  # columns that are not empty

    def add(self, sentence: Sentence, tags: Tags) -> None:
        """Words without a tag do not count. A word without features does: `_` is an answer there."""
        for column, found in tags.items():
            for expected, tag in zip(getattr(sentence, column), found, strict=True):
                if expected != "_":
                    self.given.add(column)
                elif column != "feats":
                    continue
                self.words[column] += 1
                self.correct[column] += expected == tag

    def figures(self) -> dict[str, float]:
        """`upos_accuracy` in percent, of `upos_words`; so for the other columns that are not empty."""
        figures: dict[str, float] = {}
        for column in sorted(self.given, reverse=True):  # UPOS before FEATS
            figures[f"{column}_accuracy"] = percent(self.correct[column], self.words[column])
            figures[f"{column}_words"] = self.words[column]
        return figures


class TagReader:
    """Gives the sentences of a file the tags that the parser reads, and counts how many of those in the file the tagger
    predicts.

    Args:
        tagger: None if the run has none: then the tags in the file are all there are.
        predict: predict all tags, also where the file has some.
    """

    def __init__(self, tagger: Tagger | None, predict: bool):
        self.tagger, self.predict = tagger, predict
        self.scores = TagScores()
        self.words = self.tagged = self.predicted = 0  # words; with a tag in the file; with a predicted one

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[tuple[Sentence, Sentence, Tags | None]]:
        """Each sentence as the parser reads it; as it is shown and scored, with the tags in the file where it has any;
        and the columns of tags for the output, None if none of them was predicted."""
        pairs = self.tagger.pairs(sentences) if self.tagger else ((sentence, None) for sentence in sentences)
        for sentence, tags in pairs:
            lacking = sum(untagged(sentence))
            self.words += len(sentence)
            self.tagged += len(sentence) - lacking
            if tags is not None:
                self.scores.add(sentence, tags)
            if tags is None or not (lacking or self.predict):
                yield sentence, sentence, None
                continue
            shown = filled(sentence, tags)
            if self.predict:
                self.predicted += len(sentence)
                yield replaced(sentence, tags), shown, tags
            else:
                self.predicted += lacking
                yield shown, shown, {column: getattr(shown, column) for column in tags}

    def whose(self) -> str:
        """Whose tags were used, for the report."""
        if self.predicted and self.predicted == self.words:
            return "predicted"
        if self.predicted:
            return f"predicted where the file has none ({self.predicted:,} word{'s' * (self.predicted != 1)})"
        return "those in the file" if self.tagged else "none"

    def figures(self) -> dict:
        return {"tags": self.whose(), "predicted_tags": self.predicted, **self.scores.figures()}
