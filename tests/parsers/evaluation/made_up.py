"""Parsed sentences of words that do not exist."""

import random
from collections.abc import Iterator

from parsers.data.conllu import Sentence
from parsers.evaluation.parse import Parse

# Of content words and of others, universal ones and not, with subtypes.
RELATIONS = [
    "acl:relcl", "advmod", "amod", "aux:pass", "case", "cc", "compound", "compound:prt", "conj", "cop", "det",
    "mark", "nmod", "nmod:poss", "nsubj", "nsubj:pass", "obj", "obl", "obl:tmod", "own:made", "punct", "xcomp",
]  # fmt: skip


def parse_of(
    forms: list[str],
    heads: list[int],
    gold: list[int] | None = None,
    probabilities: list[float] | None = None,
    top_heads: list[list[tuple[int, float]]] | None = None,
    upos: list[str] | None = None,
    file: str = "made-up.conllu",
    line: int = 7,
    labels: list[str] | None = None,
    gold_labels: list[str] | None = None,
    label_probabilities: list[float] | None = None,
) -> Parse:
    """The sentence has the lines of a CoNLL-U file, unless its words can't stand in one."""
    blank = ["_"] * len(forms)
    upos, known, deprels = upos or blank, gold or [-1] * len(forms), gold_labels or blank
    rows = zip(forms, upos, known, deprels, strict=True)
    lines = [
        f"{word}\t{form}\t_\t{tag}\t_\t_\t{'_' if head < 0 else head}\t{label}\t_\t_\n"
        for word, (form, tag, head, label) in enumerate(rows, 1)
    ]
    sentence = Sentence(file, line, forms, upos, blank, blank, known, deprels, [*lines, "\n"], list(range(len(forms))))
    probabilities = probabilities or [0.97] * len(forms)
    top_heads = top_heads or [[pair] for pair in zip(heads, probabilities, strict=True)]
    if labels is not None and label_probabilities is None:
        label_probabilities = [0.98] * len(forms)
    of_labels = {"labels": labels, "gold_labels": gold_labels, "label_probabilities": label_probabilities}
    return Parse(sentence, heads, gold, probabilities, top_heads, log_prob=-0.8, entropy=1.234, **of_labels)


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


def made_up_labels(heads: list[int], gold: list[int], rng: random.Random) -> tuple[list[str], list[str], list[float]]:
    """Predicted and gold labels, most of them equal, and probabilities of the predicted ones."""
    found, expected, shares = [], [], []
    for head, gold_head in zip(heads, gold, strict=True):
        shares.append(min(0.9999, rng.betavariate(9, 0.7)))
        label, wrong = rng.choice(RELATIONS), rng.random() < 0.5 * (1 - shares[-1])
        found.append("root" if head == 0 else label)
        expected.append("root" if gold_head == 0 else rng.choice(RELATIONS) if wrong else label)
    return found, expected, shares


def made_up_parses(count: int, seed: int = 1, longest: int = 30, labels: bool = False) -> Iterator[Parse]:
    """Sentences with most heads (and labels) right, and with distributions that fit."""
    rng, label_rng = random.Random(seed), random.Random(f"labels {seed}")
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
        of_labels = made_up_labels(heads, gold, label_rng) if labels else ()
        yield parse_of(forms, heads, gold, probabilities, top_heads, upos, "made-up.conllu", line, *of_labels)
        line += words + 2


def treebank_parses(count: int, run: int = 1, labels: bool = True) -> Iterator[Parse]:
    """A treebank that is always the same, with whole trees and labels, as different runs parse it."""
    treebank, rng = random.Random("treebank"), random.Random(f"run {run}")
    line = 1
    for number in range(1, count + 1):
        words = treebank.randint(1, 25)
        forms = [f"w{number}.{word}" for word in range(1, words + 1)]
        upos = treebank.choices(["NOUN", "VERB", "ADP", "DET", "PUNCT"], k=words)
        gold = projective_tree(words, treebank)
        expected = ["root" if head == 0 else treebank.choice(RELATIONS) for head in gold]
        heads = gold if rng.random() < 0.6 else projective_tree(words, rng)
        found = [label if rng.random() < 0.8 else rng.choice(["_", *RELATIONS]) for label in expected]
        shares, label_shares = ([round(rng.random(), 6) for _ in forms] for _ in range(2))
        of_labels = (found, expected, label_shares) if labels else (None, expected, None)
        yield parse_of(forms, list(heads), gold, shares, None, upos, "treebank.conllu", line, *of_labels)
        line += words + 1
