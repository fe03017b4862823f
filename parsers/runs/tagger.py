"""A trained tagger: tags sentences in a stream, and lies in a run directory as tagger.json and tagger.safetensors."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields, replace
from itertools import islice
from pathlib import Path

import torch

from parsers.data.conllu import MAX_FEATURES, Sentence
from parsers.data.vocabulary import normalize, part_of_speech
from parsers.io.errors import DataError
from parsers.io.files import read_json, write
from parsers.networks.tagger import COLUMNS, Sizes, TaggerBatch, TaggerNetwork, TaggerSymbols
from parsers.runs.tensors import Unfilled, load_module, module_shapes, pack, read_tensors

FORMAT = 1
JSON, TENSORS = "tagger.json", "tagger.safetensors"
WINDOW = 1024  # sentences of a stream that are held at a time, to be sorted by length
MAX_CELLS = 4096  # words of a batch, padding included, unless one sentence alone has more
MAX_SIZE = 2**12  # of a vector

Tags = dict[str, list[str]]  # column → the tag of each word


class Tagger:
    """``figures`` are those of its training, for metrics.jsonl."""

    def __init__(self, symbols: TaggerSymbols, sizes: Sizes, network: TaggerNetwork, figures: dict[str, float]):
        self.symbols, self.sizes, self.network, self.figures = symbols, sizes, network, figures

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.symbols.tags)

    def tag(self, sentences: Iterable[Sentence]) -> Iterator[Tags]:
        """The tags of each sentence, in order."""
        return (tags for _, tags in self.pairs(sentences))

    def tagged(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """The sentences, in order, with tags for the words that have none."""
        for sentence, tags in self.pairs(sentences, lacks_tags):
            yield filled(sentence, tags) if tags else sentence

    def pairs(
        self, sentences: Iterable[Sentence], needed: Callable[[Sentence], bool] = lambda sentence: True
    ) -> Iterator[tuple[Sentence, Tags | None]]:
        """Each sentence with its tags; None for those that need none."""
        stream = iter(sentences)
        while window := list(islice(stream, WINDOW)):
            found: list[Tags | None] = [None] * len(window)
            chosen = [row for row, sentence in enumerate(window) if needed(sentence)]
            for rows in _batches({row: len(window[row]) for row in chosen}):
                for row, tags in zip(rows, self._tag_batch([window[row].forms for row in rows]), strict=True):
                    found[row] = tags
            yield from zip(window, found, strict=True)

    @torch.inference_mode()
    def _tag_batch(self, sentences: list[list[str]]) -> list[Tags]:
        scores = self.network(TaggerBatch.of(sentences, self.symbols))
        best = {column: score.argmax(-1).tolist() for column, score in scores.items()}
        return [
            {
                column: [self.symbols.tags[column][number] for number in best[column][row][: len(forms)]]
                for column in self.columns
            }
            for row, forms in enumerate(sentences)
        ]

    def save(self, directory: Path) -> None:
        """Where tagger.json is there, all is there: it is written last."""
        symbols = self.symbols
        content = {
            "format": FORMAT,
            "sizes": asdict(self.sizes),
            "figures": self.figures,
            "tags": symbols.tags,
            "characters": symbols.characters,
            "affixes": symbols.affixes,
            "words": symbols.words,
        }
        write(directory / TENSORS, pack(self.network.state_dict()))
        write(directory / JSON, json.dumps(content, ensure_ascii=False).encode())


def untagged(sentence: Sentence) -> list[bool]:
    """Which words have neither UPOS nor XPOS."""
    return [part_of_speech(*pair) == "_" for pair in zip(sentence.upos, sentence.xpos, strict=True)]


def lacks_tags(sentence: Sentence) -> bool:
    return any(untagged(sentence))


def filled(sentence: Sentence, tags: Tags) -> Sentence:
    """The sentence with these tags in the empty columns of words that have none; ``lines`` stay as they are."""
    lacking = untagged(sentence)
    columns = {
        column: [
            new if lacks and old == "_" else old
            for new, old, lacks in zip(tags[column], getattr(sentence, column), lacking, strict=True)
        ]
        for column in tags
    }
    return replace(sentence, **columns)


def replaced(sentence: Sentence, tags: Tags) -> Sentence:
    """The sentence with these tags and no others: UPOS, which would be read before XPOS, is empty if not predicted."""
    return replace(sentence, **{"upos": ["_"] * len(sentence), **tags})


def _batches(lengths: dict[int, int]) -> Iterator[list[int]]:
    """Sentences of similar length together, by their numbers; number → length."""
    batch: list[int] = []
    for row in sorted(lengths, key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > MAX_CELLS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def has_tagger(directory: Path) -> bool:
    return (directory / JSON).exists()


def load_tagger(directory: Path, normalize: Callable[[str], str] = normalize) -> Tagger:
    """What ``save`` wrote, checked: it may come from somebody else."""
    path = directory / JSON
    content = read_json(path)
    try:
        if content["format"] != FORMAT:
            raise ValueError
        sizes = _sizes(content["sizes"])
        figures = _figures(content["figures"])
        words, affixes, characters = (_strings(content[name]) for name in ("words", "affixes", "characters"))
        symbols = TaggerSymbols(words, affixes, characters, _tags(content["tags"]), normalize)
    except (ValueError, KeyError, TypeError):
        raise DataError(str(path), None, "this is not the tagger of a run") from None
    with torch.device("meta"), Unfilled():
        outline = TaggerNetwork(symbols, sizes)
    tensors = read_tensors(directory / TENSORS, module_shapes(outline))
    with Unfilled():  # no random numbers are drawn
        network = TaggerNetwork(symbols, sizes)
    load_module(network, tensors)
    return Tagger(symbols, sizes, network.requires_grad_(False), figures)


def _sizes(values: dict) -> Sizes:
    if not isinstance(values, dict) or values.keys() != {field.name for field in fields(Sizes)}:
        raise ValueError
    if not all(type(value) is int and 0 < value <= MAX_SIZE for value in values.values()):
        raise ValueError
    return Sizes(**values)


def _figures(values: dict) -> dict[str, float]:
    """They are written into metrics.jsonl."""
    if not isinstance(values, dict) or not all(name.startswith("tagger_") for name in values):
        raise ValueError
    if not all(type(value) is float and math.isfinite(value) for value in values.values()):
        raise ValueError
    return values


def _strings(values: list) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError
    if len(set(values)) != len(values):
        raise ValueError
    return values


def _tags(table: dict) -> dict[str, list[str]]:
    """They are written into CoNLL-U."""
    if not isinstance(table, dict) or not table or not table.keys() <= set(COLUMNS):
        raise ValueError
    for tags in table.values():
        text = "".join(_strings(tags))
        text.encode()  # a ValueError if it can't be written
        if not tags or "\t" in text or "\n" in text:
            raise ValueError
        if any(tag.count("|") >= MAX_FEATURES for tag in tags):
            raise ValueError
    return table
