"""Sentences as tensors, in batches of similar length.

Position 0 is ROOT. Shapes: [B, N] with N = 1 + the longest sentence of the batch, padded with 0, the unknown symbol.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from parsers.data.characters import EDGE, WIDTH
from parsers.data.examples import Example
from parsers.data.noise import Noise, seed_of
from parsers.data.vocabulary import UNKNOWN

MAX_CELLS = 2**18  # arcs of a batch, padding included, unless one sentence alone has more
EVALUATION_BATCH = 64  # sentences
WINDOW = 4096  # sentences of a stream that are held at a time, to be sorted by length


@dataclass(slots=True)
class Batch:
    """Some sentences. In training, ``noise`` has the random numbers of this step; if it is None, nothing is random."""

    words: Tensor  # [B, N]
    pos: Tensor  # [B, N]
    xpos: Tensor  # [B, N]
    feats: Tensor  # [B, N, F]
    vectors: Tensor | None  # [B, N]: rows of the pretrained vectors
    lengths: Tensor  # [B], ROOT not counted
    heads: Tensor | None  # [B, N], −1 at position 0 and in the padding; None if unlabelled
    gold_heads: Tensor | None  # [B, N], those in the file, which need not be projective; None without labels
    labels: Tensor | None  # [B, N], the labels of these arcs
    examples: list[Example]
    size: int  # sentences of all processes
    num_words: int  # of all processes
    rows: slice = field(default_factory=lambda: slice(None))  # the sentences of this process
    noise: Noise | None = None
    characters: Tensor | None = None  # [F, C] of the F words that differ, 0 being none; None if the run reads none
    forms: Tensor | None = None  # [B, N]: which of them each word is; 0 for ROOT and padding

    @property
    def device(self) -> torch.device:
        return self.words.device

    @property
    def N(self) -> int:
        return self.words.shape[1]

    @property
    def is_token(self) -> Tensor:
        """Words and ROOT, not the padding, [B, N]."""
        return torch.arange(self.N, device=self.device) <= self.lengths.unsqueeze(1)

    @property
    def is_word(self) -> Tensor:
        """Neither ROOT nor padding, [B, N]."""
        return self.is_token & (torch.arange(self.N, device=self.device) > 0)

    def hide(self, words: Tensor, tags: Tensor) -> "Batch":
        """The batch with unknown words, and unknown tags and features, where the masks [B, N] are True."""
        return replace(
            self,
            words=self.words.masked_fill(words, UNKNOWN),
            pos=self.pos.masked_fill(tags, UNKNOWN),
            xpos=self.xpos.masked_fill(tags, UNKNOWN),
            feats=self.feats.masked_fill(tags.unsqueeze(2), UNKNOWN),
            vectors=None if self.vectors is None else self.vectors.masked_fill(words, 0),
            forms=None if self.forms is None else self.forms.masked_fill(words, 0),
        )

    def count_correct(self, heads: Tensor) -> int:
        """How many words have the head that the file gives them; heads [B, N]."""
        rows = zip(heads.tolist(), self.examples, strict=True)
        return sum(h == g for row, example in rows for h, g in zip(row[1:], example.gold, strict=False) if g >= 0)

    def draw(self, *key: int | str) -> "Batch":
        """Sets the random numbers to those of this key."""
        self.noise = Noise(key, self.size, self.rows, self.device)
        return self


def collate(examples: list[Example], rank: int = 0, world: int = 1, device: torch.device | str = "cpu") -> Batch:
    """The batch of these sentences, or of every ``world``-th of them, padded like the whole batch."""
    N = max(map(len, examples)) + 1
    F = max(example.feats.shape[1] for example in examples)
    rows = slice(rank, None, world)
    mine = examples[rows]

    def fill(name: str, *shape: int, value: int = 0) -> Tensor:
        array = np.full((len(mine), N, *shape), value, dtype=np.int64)
        for row, example in zip(array, mine, strict=True):
            values = getattr(example, name)
            row[tuple(map(slice, values.shape))] = values
        return torch.from_numpy(array).to(device, non_blocking=True)

    def spell() -> dict[str, Tensor]:
        """Words that differ, and where they are. Edges are as many as a convolution covers: more change no maximum."""
        number: dict[tuple[int, ...], int] = {(): 0}
        forms = np.zeros((len(mine), N), dtype=np.int64)
        for row, example in zip(forms, mine, strict=True):
            row[1 : len(example) + 1] = [number.setdefault(word, len(number)) for word in example.characters]
        characters = np.full((len(number), max(map(len, number)) + 2 * WIDTH), EDGE, dtype=np.int64)
        for row, word in zip(characters, number, strict=True):
            row[WIDTH : WIDTH + len(word)] = word
        tensors = {"characters": characters, "forms": forms}
        return {name: torch.from_numpy(array).to(device, non_blocking=True) for name, array in tensors.items()}

    is_labeled = all(example.heads is not None for example in examples)
    with_labels = is_labeled and examples[0].labels is not None
    return Batch(
        words=fill("words"),
        pos=fill("pos"),
        xpos=fill("xpos"),
        feats=fill("feats", F),
        vectors=fill("vectors") if examples[0].vectors is not None else None,
        lengths=torch.tensor([len(example) for example in mine], dtype=torch.int64).to(device, non_blocking=True),
        heads=fill("heads", value=-1) if is_labeled else None,
        gold_heads=fill("gold_heads", value=-1) if with_labels else None,
        labels=fill("labels") if with_labels else None,
        examples=mine,
        size=len(examples),
        num_words=sum(map(len, examples)),
        rows=rows,
        **(spell() if examples[0].characters is not None else {}),
    )


def tree_arcs(heads: Tensor) -> Tensor:
    """Which arcs are in a tree, [B, N, N]; heads [B, N] as in a batch."""
    nodes = torch.arange(heads.shape[1], device=heads.device)
    return heads.unsqueeze(1) == nodes.unsqueeze(1)


def bucketed(
    examples: Iterable[Example], size: int, max_cells: int, key: tuple | None = None
) -> Iterator[list[Example]]:
    """Batches of at most ``size`` sentences of similar length, and of at most ``max_cells`` arcs, padding included.

    With a key, the sentences are shuffled first and the batches afterwards; the same key gives the same order. A stream
    is read in windows, which bounds the memory; a list is one window.
    """
    rng = random.Random(seed_of(*key)) if key else None
    for window in [examples] if isinstance(examples, list) else _windows(examples):
        window = list(window)
        if rng:
            rng.shuffle(window)
        window.sort(key=len)
        batches, batch = [], []
        for example in window:
            if batch and (len(batch) == size or (len(batch) + 1) * (len(example) + 1) ** 2 > max_cells):
                batches.append(batch)
                batch = []
            batch.append(example)
        if batch:
            batches.append(batch)
        if rng:
            rng.shuffle(batches)
        yield from batches


def _windows(examples: Iterable[Example]) -> Iterator[list[Example]]:
    stream = iter(examples)
    while window := list(islice(stream, WINDOW)):
        yield window
