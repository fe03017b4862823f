"""A synthetic treebank: sentences of an invented language, from a seeded lexicalised dependency grammar.

It can be learnt at three levels. Word order and tags: determiners and adjectives before the noun, subjects before the
verb, prepositions at the left edge of a noun phrase. Ambiguity that tags can't resolve: a prepositional phrase after an
object modifies the noun or the verb, an adverb between two verbs either of them, a coordination joins the last phrase
or an earlier one. Words that resolve it: each noun and verb has one of a few hidden meanings. Verbs select subjects and
objects by meaning, prepositions fit some meanings of head and modifier, and conjuncts have the same meaning. Meanings
show in which words occur together, so unlabelled text tells something about them. Frequencies follow Zipf's law: many
words of the test set are rare.

`python -m parsers.data.synthetic DIR` writes the files, for reading or for training with --treebank DIR.
"""

import argparse
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from parsers.data.conllu import Sentence, parse
from parsers.io.errors import why

NAME = "synthetic"
SIZES = {"train": 500, "dev": 250, "test": 250, "unlabeled": 2000}
MEANINGS = 8


@dataclass
class Node:
    """A word with its dependents, from left to right on both sides."""

    form: str
    pos: str
    relation: str = "root"  # to its head
    left: list["Node"] = field(default_factory=list)
    right: list["Node"] = field(default_factory=list)

    def as_(self, relation: str) -> "Node":
        self.relation = relation
        return self

    def words(self) -> Iterator["Node"]:
        for child in self.left:
            yield from child.words()
        yield self
        for child in self.right:
            yield from child.words()


class Choice:
    """Values drawn with fixed weights. It uses random.random() only, which is the same in all Python versions."""

    def __init__(self, values: list, weights: list[float]):
        self.values = values
        self.sums = list(accumulate(weights))

    def draw(self, rng: random.Random):
        point = rng.random() * self.sums[-1]
        return next(value for value, total in zip(self.values, self.sums, strict=True) if point < total)


def zipf(values: list) -> Choice:
    return Choice(values, [1 / (rank + 1.5) for rank in range(len(values))])


class Language:
    """Lexicon and preferences, all from one seed."""

    def __init__(self, seed: int = 0):
        self.rng = random.Random(f"language {seed}")
        self.used: set[str] = set()
        self.closed = {
            "DET": zipf(self._new_words(6, 1)),
            "PRON": zipf(self._new_words(8, 1)),
            "AUX": zipf(self._new_words(6, 1)),
            "CCONJ": zipf(self._new_words(3, 1)),
            "SCONJ": zipf(self._new_words(5, 1)),
            "REL": zipf(self._new_words(2, 1)),
        }
        meanings = range(MEANINGS)
        self.nouns = [zipf(self._new_words(150, 2)) for _ in meanings]
        self.names = [zipf([word.capitalize() for word in self._new_words(60, 2)]) for _ in meanings]
        self.verbs = [zipf(self._new_words(70, 2)) for _ in meanings]
        self.adjectives = [zipf(self._new_words(50, 2)) for _ in meanings]
        self.adverbs = [zipf(self._new_words(25, 2)) for _ in meanings]
        # Selectional preferences: for each meaning of the head, the meanings of the modifier.
        self.meaning = self._peaked(MEANINGS, 3)
        self.verb_meaning = self._peaked(MEANINGS, 4)
        self.subject, self.object = self._preferences(2), self._preferences(2)
        self.with_verb, self.with_noun = self._preferences(1), self._preferences(1)
        prepositions = self._new_words(12, 1)
        self.preposition_of_verb = [zipf(self._shuffled(prepositions)) for _ in meanings]
        self.preposition_of_noun = [zipf(self._shuffled(prepositions)) for _ in meanings]

    def _new_words(self, count: int, syllables: int) -> list[str]:
        words = []
        while len(words) < count:
            parts = syllables + (self.rng.random() < 0.4)
            word = "".join(self._pick("bdfgklmnprstvz") + self._pick("aeiou") for _ in range(parts))
            word += self._pick(["", "", "n", "s", "l", "r"])
            if word not in self.used:
                self.used.add(word)
                words.append(word)
        return words

    def _pick(self, values):
        return values[int(self.rng.random() * len(values))]

    def _shuffled(self, values: list) -> list:
        return sorted(values, key=lambda _: self.rng.random())

    def _peaked(self, count: int, peaks: int) -> Choice:
        """A distribution over meanings in which a few have most of the weight."""
        favourites = self._shuffled(list(range(count)))[:peaks]
        return Choice(list(range(count)), [1.0 if value in favourites else 0.05 for value in range(count)])

    def _preferences(self, peaks: int) -> list[Choice]:
        return [self._peaked(MEANINGS, peaks) for _ in range(MEANINGS)]


class Grammar:
    """Draws sentences of a language."""

    def __init__(self, language: Language, rng: random.Random):
        self.language, self.rng = language, rng

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def closed(self, kind: str, pos: str | None = None) -> Node:
        return Node(self.language.closed[kind].draw(self.rng), pos or kind)

    def sentence(self) -> Node:
        root = self.clause(depth=0)
        root.right.append(Node("?" if self.chance(0.1) else ".", "PUNCT", "punct"))
        return root

    def clause(self, depth: int, subject: Node | None = None) -> Node:
        """subject, auxiliary, adverb, VERB, object, prepositional phrases, adverb, subordinate clause."""
        language, rng = self.language, self.rng
        meaning = language.verb_meaning.draw(rng)
        verb = Node(language.verbs[meaning].draw(rng), "VERB")
        subject = subject or self.argument(language.subject[meaning].draw(rng), depth + 1)
        verb.left.append(subject.as_("nsubj"))
        if self.chance(0.3):
            verb.left.append(self.closed("AUX").as_("aux"))
        if self.chance(0.15):
            verb.left.append(self.adverb(meaning))
        if self.chance(0.65):
            verb.right.append(self.argument(language.object[meaning].draw(rng), depth + 1).as_("obj"))
        while self.chance(0.35 / (1 + depth)):
            preposition = language.preposition_of_verb[meaning].draw(rng)
            phrase = self.phrase(preposition, language.with_verb[meaning].draw(rng), depth + 1)
            verb.right.append(phrase.as_("obl"))
        if self.chance(0.2):
            verb.right.append(self.adverb(meaning))
        if self.chance(0.3 / (1 + depth)):
            other = self.clause(depth + 1).as_("advcl")
            other.left.insert(0, self.closed("SCONJ").as_("mark"))
            if self.chance(0.4):
                other.right.append(Node(",", "PUNCT", "punct"))
                verb.left.insert(0, other)
            else:
                verb.right.append(other)
        elif self.chance(0.15 / (1 + depth)):
            other = self.clause(depth + 1).as_("conj")
            other.left.insert(0, self.closed("CCONJ").as_("cc"))
            verb.right.append(other)
        return verb

    def adverb(self, meaning: int) -> Node:
        return Node(self.language.adverbs[meaning].draw(self.rng), "ADV", "advmod")

    def argument(self, meaning: int, depth: int) -> Node:
        """A pronoun, a name, or a noun phrase."""
        if self.chance(0.2):
            return self.closed("PRON")
        if self.chance(0.2):
            return Node(self.language.names[meaning].draw(self.rng), "PROPN")
        return self.noun(meaning, depth)

    def noun(self, meaning: int, depth: int) -> Node:
        """determiner, adjectives, noun modifier, NOUN, prepositional phrase, relative clause, coordination."""
        language, rng = self.language, self.rng
        noun = Node(language.nouns[meaning].draw(rng), "NOUN")
        if self.chance(0.6):
            noun.left.append(self.closed("DET").as_("det"))
        while self.chance(0.3):
            noun.left.append(Node(language.adjectives[meaning].draw(rng), "ADJ", "amod"))
        if self.chance(0.1):
            other = language.nouns[language.with_noun[meaning].draw(rng)].draw(rng)
            noun.left.append(Node(other, "NOUN", "compound"))
        if self.chance(0.5 / (1 + depth)):
            preposition = language.preposition_of_noun[meaning].draw(rng)
            phrase = self.phrase(preposition, language.with_noun[meaning].draw(rng), depth + 1)
            noun.right.append(phrase.as_("nmod"))
        if self.chance(0.2 / (1 + depth)):
            noun.right.append(self.clause(depth + 1, subject=self.closed("REL", "PRON")).as_("acl:relcl"))
        if self.chance(0.25 / (1 + depth)):
            other = self.noun(meaning, depth + 1).as_("conj")
            other.left.insert(0, self.closed("CCONJ").as_("cc"))
            noun.right.append(other)
        return noun

    def phrase(self, preposition: str, meaning: int, depth: int) -> Node:
        noun = self.noun(meaning, depth)
        noun.left.insert(0, Node(preposition, "ADP", "case"))
        return noun


def conllu(split: str, seed: int = 0, count: int | None = None) -> Iterator[str]:
    """The sentences of a split, as CoNLL-U text. All splits of a seed are in the same language."""
    grammar = Grammar(Language(seed), random.Random(f"{split} {seed}"))
    for number in range(1, (SIZES[split] if count is None else count) + 1):
        words = list((root := grammar.sentence()).words())
        position = {id(word): place for place, word in enumerate(words, 1)}
        head = {id(root): 0}
        for word in words:
            head.update((id(child), position[id(word)]) for child in word.left + word.right)
        lines = [f"# sent_id = {split}-{number}", "# text = " + " ".join(word.form for word in words)]
        for place, word in enumerate(words, 1):
            h = "_" if split == "unlabeled" else head[id(word)]
            deprel = "_" if split == "unlabeled" else word.relation
            lines.append(f"{place}\t{word.form}\t_\t{word.pos}\t_\t_\t{h}\t{deprel}\t_\t_")
        yield "\n".join(lines) + "\n\n"


def sentences(split: str, seed: int = 0, count: int | None = None) -> list[Sentence]:
    """The sentences of a split: "train", "dev", "test" or "unlabeled"."""
    text = "".join(conllu(split, seed, count)).encode()
    return list(parse(io.BytesIO(text), f"<{NAME} {split}>"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the synthetic treebank as CoNLL-U files.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="another seed is another language")
    args = parser.parse_args()
    try:
        args.directory.mkdir(parents=True, exist_ok=True)
        for split in SIZES:
            path = args.directory / f"{NAME}-ud-{split}.conllu"
            path.write_text("".join(conllu(split, args.seed)), encoding="utf-8", newline="\n")
            print(path)
    except OSError as error:
        parser.error(f"{args.directory} can't be written: {why(error)}")


if __name__ == "__main__":
    main()
