"""Parsed sentences of words that do not exist."""

import random
from collections.abc import Iterator

from parsers.data.conllu import Sentence
from parsers.evaluation.parse import Parse


def parse_of(
    forms: list[str],
    heads: list[int],
    gold: list[int] | None = None,
    probabilities: list[float] | None = None,
    top_heads: list[list[tuple[int, float]]] | None = None,
    upos: list[str] | None = None,
    file: str = "made-up.conllu",
    line: int = 7,
) -> Parse:
    blank = ["_"] * len(forms)
    sentence = Sentence(file, line, forms, upos or blank, blank, blank, gold or [-1] * len(forms), [], [])
    probabilities = probabilities or [0.97] * len(forms)
    top_heads = top_heads or [[pair] for pair in zip(heads, probabilities, strict=True)]
    return Parse(sentence, heads, gold, probabilities, top_heads, log_prob=-0.8, entropy=1.234)


def projective_tree(words: int, rng: random.Random) -> list[int]:
    heads = [0] * words

    def hang(first: int, last: int, head: int) -> None:
        word = rng.randint(first, last)
        heads[word - 1] = head
        for start, end in ((first, word - 1), (word + 1, last)):
            while start <= end:
                cut = rng.randint(start, end)
                hang(start, cut, word)
                start = cut + 1

    hang(1, words, 0)
    return heads


def made_up_parses(count: int, seed: int = 1, longest: int = 30) -> Iterator[Parse]:
    """Sentences with most heads right, and with distributions that fit."""
    rng = random.Random(seed)
    syllables = [
        a + b
        for a in ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "br", "st"]
        for b in ["a", "e", "i", "o", "u", "ai"]
    ]
    line = 1
    for _ in range(count):
        words = rng.randint(1, longest)
        forms = ["".join(rng.choices(syllables, k=rng.choice([1, 2, 2, 3, 4]))) for _ in range(words)]
        heads, probabilities, top_heads = projective_tree(words, rng), [], []
        gold = heads.copy()
        for word, head in enumerate(heads, 1):
            others = [other for other in range(words + 1) if other not in (word, head)]
            sure = min(0.9999, rng.betavariate(9, 0.7))
            if others and rng.random() < 0.7 * (1 - sure):
                gold[word - 1] = rng.choice(others)
            left, top = 1 - sure, [(head, sure)]
            for other in rng.sample(others, min(3, len(others))):
                top.append((other, left * rng.random()))
                left -= top[-1][1]
            probabilities.append(sure)
            top_heads.append(sorted(top, key=lambda pair: -pair[1]))
        upos = rng.choices(["NOUN", "VERB", "ADJ", "ADP", "DET", "PUNCT", "PROPN", "ADV"], k=words)
        yield parse_of(forms, heads, gold, probabilities, top_heads, upos, line=line)
        line += words + 2
