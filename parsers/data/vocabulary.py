"""Symbols and their numbers: words, tags and features.

Words are lower-cased, and all tokens that begin with a digit are one symbol (as in Kiperwasser & Goldberg's parser).
The words of the trees come first, then those seen only in unlabelled text, from number ``num_labeled`` on. An encoder
that learns from trees alone knows only the first kind.
"""

import json
from collections import Counter
from collections.abc import Iterable

from parsers.data.conllu import Sentence
from parsers.io.errors import DataError

UNKNOWN, ROOT = 0, 1
SPECIAL = ("<UNKNOWN>", "<ROOT>")  # in capitals, so that no lower-cased word equals them
NUMBER = "<NUMBER>"
ROOT_LABEL = "root"  # of arcs from ROOT, and of no others


def normalize(form: str) -> str:
    return NUMBER if "0" <= form[0] <= "9" else form.lower()


def part_of_speech(upos: str, xpos: str) -> str:
    """UPOS, or XPOS where UPOS is empty."""
    return upos if upos != "_" else xpos


# Where UPOS is empty: the punctuation tags of the Penn Treebank.
_PUNCTUATION = {"``", "''", ",", ".", ":", "PUNCT"}


def is_punctuation(upos: str, xpos: str) -> bool:
    return upos == "PUNCT" if upos != "_" else xpos in _PUNCTUATION


def features(feats: str) -> list[str]:
    """`Case=Nom|Number=Sing` as two symbols."""
    return [] if feats == "_" else feats.split("|")


class Symbols:
    """A list of symbols with their counts. Number 0 stands for all other symbols, number 1 for ROOT."""

    def __init__(self, symbols: list[str], counts: list[int]):
        self.symbols, self.counts = symbols, counts
        self.number = {symbol: number for number, symbol in enumerate(symbols)}

    @classmethod
    def of(cls, counts: Counter) -> "Symbols":
        """By frequency, then in alphabetical order, so that the order of the data has no effect."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([*SPECIAL, *(symbol for symbol, _ in ranked)], [0, 0, *(count for _, count in ranked)])

    def __len__(self) -> int:
        return len(self.symbols)

    def numbers(self, symbols: Iterable[str]) -> list[int]:
        get = self.number.get
        return [get(symbol, UNKNOWN) for symbol in symbols]


class Vocabulary:
    """The symbols of a run. ``words.counts`` counts trees only, ``unlabeled_counts`` the other sentences.

    ``labels`` are those of arcs between words. Without them, the run predicts none.
    """

    def __init__(
        self,
        words: Symbols,
        unlabeled_counts: list[int],
        num_labeled: int,
        pos: Symbols,
        xpos: Symbols,
        feats: Symbols,
        labels: Symbols | None = None,
    ):
        self.words, self.pos, self.xpos, self.feats = words, pos, xpos, feats
        self.labels = labels
        self.unlabeled_counts = unlabeled_counts
        self.num_labeled = num_labeled

    @property
    def all_counts(self) -> list[int]:
        """How often each word occurs, with and without trees."""
        return [sum(counts) for counts in zip(self.words.counts, self.unlabeled_counts, strict=True)]

    @classmethod
    def build(
        cls,
        labeled: Iterable[Sentence],
        unlabeled: Iterable[Sentence] = (),
        min_count: int = 2,
        max_words: int = 50_000,
        with_labels: bool = True,
    ) -> "Vocabulary":
        """All words of the trees, and the most frequent others that occur ``min_count`` times, up to ``max_words``
        in all; all tags and features, and all labels of the trees."""
        words, others, pos, xpos, feats, labels = (Counter() for _ in range(6))
        for sentences, word_counts in ((labeled, words), (unlabeled, others)):
            for sentence in sentences:
                word_counts.update(map(normalize, sentence.forms))
                pos.update(map(part_of_speech, sentence.upos, sentence.xpos))
                xpos.update(sentence.xpos)
                for text in sentence.feats:
                    feats.update(features(text))
        for sentence in labeled if with_labels else ():
            arcs = zip(sentence.heads, sentence.deprels, strict=True)
            labels.update(label for head, label in arcs if head > 0 and label not in ("_", ROOT_LABEL))
        symbols = Symbols.of(words)
        num_labeled = len(symbols)
        new = Counter({word: count for word, count in others.items() if count >= min_count and word not in words})
        for word in Symbols.of(new).symbols[len(SPECIAL) :][: max(0, max_words - num_labeled)]:
            symbols.number[word] = len(symbols)
            symbols.symbols.append(word)
            symbols.counts.append(0)
        unlabeled_counts = [others.get(symbol, 0) for symbol in symbols.symbols]
        tags = Symbols.of(pos), Symbols.of(xpos), Symbols.of(feats)
        return cls(symbols, unlabeled_counts, num_labeled, *tags, Symbols.of(labels) if labels else None)

    def label(self, number: int) -> str:
        """The label as it is written."""
        return ROOT_LABEL if number == ROOT else self.labels.symbols[number]

    def to_json(self) -> str:
        names = ("words", "pos", "xpos", "feats", *(("labels",) if self.labels else ()))
        tables = {name: getattr(self, name) for name in names}
        fields = {name: {"symbols": table.symbols, "counts": table.counts} for name, table in tables.items()}
        fields |= {"unlabeled_counts": self.unlabeled_counts, "num_labeled": self.num_labeled}
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, fields: dict, file: str) -> "Vocabulary":
        """Reads back what ``to_json`` wrote; ``file`` is for messages."""
        try:
            tables = {name: _symbols(fields[name]) for name in ("words", "pos", "xpos", "feats")}
            labels = _symbols(fields["labels"]) if "labels" in fields else None
            counts, num_labeled = fields["unlabeled_counts"], fields["num_labeled"]
            if not _are_counts(counts) or len(counts) != len(tables["words"]) or type(num_labeled) is not int:
                raise ValueError
            if not len(SPECIAL) <= num_labeled <= len(counts):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise DataError(file, None, "this is not the vocabulary of a run") from None
        return cls(tables["words"], counts, num_labeled, tables["pos"], tables["xpos"], tables["feats"], labels)


def _symbols(table: dict) -> Symbols:
    symbols, counts = table["symbols"], table["counts"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise ValueError
    if not _are_counts(counts) or len(counts) != len(symbols) or tuple(symbols[:2]) != SPECIAL:
        raise ValueError
    return Symbols(symbols, counts)


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**62 for value in values)
