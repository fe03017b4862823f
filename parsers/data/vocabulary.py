"""Symbols and their numbers: words, tags and features.

Words are compared in a normal form (`fold`), and all tokens that begin with a digit are one symbol (as in Kiperwasser &
Goldberg's parser).
The words of the trees come first, then those seen only in unlabelled text, from number ``num_labeled`` on. An encoder
that learns from trees alone knows only the first kind.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable

from parsers.data.characters import RARE, spelling
from parsers.data.conllu import Sentence
from parsers.io.errors import DataError

UNKNOWN, ROOT = 0, 1
SPECIAL = ("<UNKNOWN>", "<ROOT>")  # in capitals, so that no lower-cased word equals them
NUMBER = "<NUMBER>"
TABLES = ("words", "pos", "xpos", "feats", "labels", "characters")
ROOT_LABEL = "root"  # of arcs from ROOT, and of no others
OPTIONAL = TABLES[4:]  # symbols that a run may lack


def fold(form: str) -> str:
    """The normal form of a word: Unicode NFC, lower case, and İ like i (in lower case, it is i with a dot above)."""
    if form.isascii():
        return form.lower()
    lower = unicodedata.normalize("NFC", form).lower()
    return unicodedata.normalize("NFC", re.sub("i\u0307+", "i", lower))


# vocab.json has the number of the run's normal form. Runs that are older than the field have the first one.
NORMAL_FORMS: dict[int, Callable[[str], str]] = {1: str.lower, 2: fold}
NORMAL_FORM = 2  # of new runs


def normalize(form: str, fold: Callable[[str], str] = fold) -> str:
    return NUMBER if "0" <= form[0] <= "9" else fold(form)


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
    def of(cls, counts: Counter, before: "Symbols | None" = None) -> "Symbols":
        """By frequency, then in alphabetical order, so that the order of the data has no effect. Symbols that were
        there ``before`` keep their numbers."""
        first = before.symbols if before else [*SPECIAL]
        known = set(first)
        ranked = sorted((item for item in counts.items() if item[0] not in known), key=lambda item: (-item[1], item[0]))
        symbols = [*first, *(symbol for symbol, _ in ranked)]
        return cls(symbols, [counts[symbol] for symbol in symbols])

    def add(self, symbol: str) -> None:
        """A symbol that is not counted."""
        self.number[symbol] = len(self)
        self.symbols.append(symbol)
        self.counts.append(0)

    def __len__(self) -> int:
        return len(self.symbols)

    def numbers(self, symbols: Iterable[str]) -> list[int]:
        get = self.number.get
        return [get(symbol, UNKNOWN) for symbol in symbols]


class Vocabulary:
    """The symbols of a run. ``words.counts`` counts trees only, ``unlabeled_counts`` the other sentences.

    ``labels`` are those of arcs between words. Without them, the run predicts none. ``characters`` are those of the
    trees, if the run reads any. ``fold`` gives words the normal form of the run.
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
        normal_form: int = NORMAL_FORM,
        characters: Symbols | None = None,
    ):
        self.words, self.pos, self.xpos, self.feats = words, pos, xpos, feats
        self.labels, self.characters = labels, characters
        self.unlabeled_counts = unlabeled_counts
        self.num_labeled = num_labeled
        self.normal_form = normal_form
        self.fold = NORMAL_FORMS[normal_form]

    def normalize(self, form: str) -> str:
        """The symbol of a word in ``words``, if it has one."""
        return normalize(form, self.fold)

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
        with_tagger: bool = False,
        with_characters: bool = False,
        start: "Vocabulary | None" = None,
    ) -> "Vocabulary":
        """All words of the trees, and the most frequent others that occur ``min_count`` times, up to ``max_words``
        in all; all tags and features, and all labels of the trees. A tagger gives unlabelled words without a tag one of
        those in the trees: with one, they have no symbol of their own.

        ``start``: another vocabulary, whose symbols and normal form of words this one has, too."""
        normal_form = start.normal_form if start else NORMAL_FORM
        fold = NORMAL_FORMS[normal_form]
        words, others, pos, xpos, feats, labels, characters = (Counter() for _ in range(7))
        untagged = 0
        for sentences, word_counts in ((labeled, words), (unlabeled, others)):
            for sentence in sentences:
                word_counts.update(normalize(form, fold) for form in sentence.forms)
                tags = list(map(part_of_speech, sentence.upos, sentence.xpos))
                pos.update(tags)
                xpos.update(sentence.xpos)
                for text in sentence.feats:
                    feats.update(features(text))
                if with_tagger and word_counts is others:
                    untagged += tags.count("_")
        pos, xpos = (counts - Counter({"_": untagged}) for counts in (pos, xpos))
        for sentence in labeled if with_labels else ():
            arcs = zip(sentence.heads, sentence.deprels, strict=True)
            labels.update(label for head, label in arcs if head > 0 and label not in ("_", ROOT_LABEL))
        for sentence in labeled if with_characters else ():
            for form in sentence.forms:
                characters.update(spelling(form))
        frequent = Counter({character: count for character, count in characters.items() if count > RARE})
        symbols = Symbols.of(words)
        earlier = start.words.symbols if start else []
        for word in earlier[: start.num_labeled] if start else []:
            if word not in symbols.number:
                symbols.add(word)
        num_labeled = len(symbols)
        new = {word: count for word, count in others.items() if count >= min_count and word not in symbols.number}
        ranked = Symbols.of(Counter(new)).symbols[len(SPECIAL) :]
        for word in [*ranked[: max(0, max_words - num_labeled)], *earlier]:
            if word not in symbols.number:
                symbols.add(word)
        unlabeled_counts = [others.get(symbol, 0) for symbol in symbols.symbols]
        counted = {"pos": pos, "xpos": xpos, "feats": feats}
        tags = (Symbols.of(counts, start and getattr(start, name)) for name, counts in counted.items())
        with_labels = with_labels and bool(labels or (start and start.labels))
        return cls(
            symbols,
            unlabeled_counts,
            num_labeled,
            *tags,
            labels=Symbols.of(labels, start and start.labels) if with_labels else None,
            normal_form=normal_form,
            characters=Symbols.of(frequent, start and start.characters) if with_characters else None,
        )

    def with_one_more(self, table: str) -> "Vocabulary":
        """With another symbol at the end of a table; a word is one of the trees'."""
        tables = {name: getattr(self, name) for name in TABLES}
        symbols = tables[table]
        tables[table] = Symbols([*symbols.symbols, ""], [*symbols.counts, 0])
        more = int(table == "words")
        counts = [*self.unlabeled_counts, *[0] * more]
        return Vocabulary(
            unlabeled_counts=counts, num_labeled=self.num_labeled + more, normal_form=self.normal_form, **tables
        )

    def label(self, number: int) -> str:
        """The label as it is written."""
        return ROOT_LABEL if number == ROOT else self.labels.symbols[number]

    def to_json(self) -> str:
        names = (name for name in TABLES if getattr(self, name))
        tables = {name: getattr(self, name) for name in names}
        fields = {name: {"symbols": table.symbols, "counts": table.counts} for name, table in tables.items()}
        fields |= {"unlabeled_counts": self.unlabeled_counts, "num_labeled": self.num_labeled}
        fields["normal_form"] = self.normal_form
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, fields: dict, file: str) -> "Vocabulary":
        """Reads back what ``to_json`` wrote; ``file`` is for messages."""
        try:
            tables = {name: _symbols(fields[name]) for name in TABLES[:4]}
            optional = {name: _symbols(fields[name]) for name in OPTIONAL if name in fields}
            counts, num_labeled = fields["unlabeled_counts"], fields["num_labeled"]
            normal_form = fields.get("normal_form", 1)
            if type(normal_form) is not int or normal_form not in NORMAL_FORMS:
                raise ValueError
            if not _are_counts(counts) or len(counts) != len(tables["words"]) or type(num_labeled) is not int:
                raise ValueError
            if not len(SPECIAL) <= num_labeled <= len(counts):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise DataError(file, None, "this is not the vocabulary of a run") from None
        words, *tags = tables.values()
        return cls(words, counts, num_labeled, *tags, normal_form=normal_form, **optional)


def _symbols(table: dict) -> Symbols:
    symbols, counts = table["symbols"], table["counts"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise ValueError
    if not _are_counts(counts) or len(counts) != len(symbols) or tuple(symbols[:2]) != SPECIAL:
        raise ValueError
    return Symbols(symbols, counts)


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**62 for value in values)
