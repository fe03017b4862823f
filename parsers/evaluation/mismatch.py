"""What makes sentences unlike those that a parser has learnt from, and costs accuracy: said in one line."""

from argparse import Namespace

from parsers.data.conllu import Sentence
from parsers.data.examples import Example, Indexer
from parsers.data.vocabulary import SPECIAL, UNKNOWN, part_of_speech
from parsers.networks.encoder import Encoder
from parsers.system import Parser

MOST_NAMES = 3
MOST = 0.5  # a larger share of the words is too much
FEW = 10  # fewer words than this may well have no features, in the file or by the tagger


class Mismatch:
    """An Indexer that counts, while it turns sentences into numbers, what the parser does not know. Memory does not
    grow with the file.

    Args:
        options: those of the run: XPOS and FEATS may be inputs.
        num_words: how many words of the vocabulary the parser knows; None if it reads tags only.
    """

    def __init__(self, indexer: Indexer, options: Namespace, num_words: int | None):
        self.indexer, self.num_words = indexer, num_words
        self.words = self.unknown_words = self.untagged = self.unknown_tags = 0
        self.names: list[str] = []  # of the first unknown tags
        # Inputs besides words and tags, unless they were empty in training too → words that have something there.
        tables = {name: getattr(indexer.vocab, name).symbols for name in ("xpos", "feats") if getattr(options, name)}
        self.filled = {name: 0 for name, symbols in tables.items() if {*symbols} - {*SPECIAL, "_"}}

    @classmethod
    def of(cls, model: Parser, indexer: Indexer) -> "Mismatch":
        """For a trained parser."""
        encoders = (part for part in model.modules() if isinstance(part, Encoder))
        return cls(indexer, model.options, next((encoder.num_words for encoder in encoders), None))

    def __call__(self, sentence: Sentence, heads: list[int] | None = None, keep: bool = False) -> Example:
        example = self.indexer(sentence, heads, keep)
        self.words += len(sentence)
        if self.num_words is not None:
            unknown = (example.words[1:] == UNKNOWN) | (example.words[1:] >= self.num_words)
            if example.vectors is not None:
                unknown &= example.vectors[1:] == 0
            self.unknown_words += int(unknown.sum())
        for number, upos, xpos in zip(example.pos[1:].tolist(), sentence.upos, sentence.xpos, strict=True):
            tag = part_of_speech(upos, xpos)
            if tag == "_":
                self.untagged += 1
            elif number == UNKNOWN:
                self.unknown_tags += 1
                if tag not in self.names and len(self.names) <= MOST_NAMES:
                    self.names.append(tag)
        for name in self.filled:
            self.filled[name] += sum(text != "_" for text in getattr(sentence, name))
        return example

    def reasons(self) -> list[str]:
        found = []
        if self.untagged > self.words * self._usually_untagged():
            found.append(f"{self._of(self.untagged)} have no tag, and there is no tagger")
        if self.unknown_tags:
            names = ", ".join(_shown(name) for name in self.names[:MOST_NAMES])
            names += ", …" if len(self.names) > MOST_NAMES else ""
            found.append(f"{self._of(self.unknown_tags)} have tags that are not known ({names})")
        if self.unknown_words > MOST * self.words:
            found.append(f"{self._of(self.unknown_words)} are not known")
        if empty := self.lacks_inputs():
            found.append(f"{' and '.join(empty)}, which the parser reads, {'are' if len(empty) > 1 else 'is'} empty")
        return found

    def lacks_inputs(self) -> list[str]:
        """Columns that are read and empty."""
        enough = {"xpos": 1, "feats": FEW}
        return [name.upper() for name, count in self.filled.items() if self.words >= enough[name] and not count]

    def line(self, what: str) -> str | None:
        """All reasons; None if there are none. ``what`` the sentences are: a file, the dev set."""
        found = self.reasons()
        return f"{what}: unlike the training data, which costs accuracy: {'; '.join(found)}" if found else None

    def _usually_untagged(self) -> float:
        """The share of words without a tag that is not worth a word: none if all had tags in the trees. Text without
        tags does not count, which has taught nothing about trees."""
        vocab = self.indexer.vocab
        number, trees = vocab.pos.number.get("_"), sum(vocab.words.counts)
        if number is None or not trees:
            return 0.0
        text = sum(vocab.pos.counts) - trees  # words; at most so many of those without a tag are not in the trees
        untagged = vocab.pos.counts[number] - text
        return MOST + untagged / trees if untagged > 0 else 0.0

    def _of(self, count: int) -> str:
        return f"{count:,} of {self.words:,} words"


def _shown(tag: str) -> str:
    """Control characters in a file must not reach the terminal."""
    return "".join(c if c.isprintable() else "�" for c in tag[:20])
