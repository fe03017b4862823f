"""Sentences as tensors, in batches of similar length.

Position 0 is ROOT. Shapes: [B, N] with N = 1 + the longest sentence of the batch; 0 (the unknown symbol) fills up.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from parsers.data.examples import Example
from parsers.data.noise import Noise, seed_of

WINDOW = 4096  # sentences of a stream that are held at a time, to be sorted by length


@dataclass(slots=True)
class Batch:
    """Some sentences. In training, ``noise`` has the random numbers of this step; without it, nothing is random."""

    words: Tensor  # [B, N]
    pos: Tensor  # [B, N]
    xpos: Tensor  # [B, N]
    feats: Tensor  # [B, N, F]
    vectors: Tensor | None  # [B, N]
    lengths: Tensor  # [B], ROOT not counted
    heads: Tensor | None  # [B, N], −1 at position 0 and in the padding; None if unlabelled
    examples: list[Example]
    size: int  # of the batch that the processes share
    num_words: int  # of the batch that the processes share
    rows: slice = field(default_factory=lambda: slice(None))  # those of this process
    noise: Noise | None = None

    @property
    def device(self) -> torch.device:
        return self.words.device

    @property
    def N(self) -> int:
        return self.words.shape[1]

    def count_correct(self, heads: Tensor) -> int:
        """How many words have the head that the file gives them; heads [B, N]."""
        rows = zip(heads.tolist(), self.examples, strict=True)
        return sum(h == g for row, example in rows for h, g in zip(row[1:], example.gold, strict=False) if g >= 0)

    def draw(self, *key: int | str) -> "Batch":
        """Sets the random numbers to those of this key."""
        self.noise = Noise(key, self.size, self.rows, self.device)
        return self


def collate(examples: list[Example], rank: int = 0, world: int = 1, device: torch.device | str = "cpu") -> Batch:
    """The batch of these sentences, or every ``world``-th of them, in the shapes of the whole batch."""
    N = max(map(len, examples)) + 1
    F = max(example.feats.shape[1] for example in examples)
    rows = slice(rank, None, world)
    mine = examples[rows]

    def fill(name: str, value: int = 0) -> Tensor:
        array = np.full((len(mine), N), value, dtype=np.int64)
        for row, example in zip(array, mine, strict=True):
            row[: len(example) + 1] = getattr(example, name)
        return torch.from_numpy(array).to(device, non_blocking=True)

    feats = np.zeros((len(mine), N, F), dtype=np.int64)
    for block, example in zip(feats, mine, strict=True):
        block[: len(example) + 1, : example.feats.shape[1]] = example.feats
    return Batch(
        words=fill("words"),
        pos=fill("pos"),
        xpos=fill("xpos"),
        feats=torch.from_numpy(feats).to(device, non_blocking=True),
        vectors=fill("vectors") if examples[0].vectors is not None else None,
        lengths=torch.tensor([len(example) for example in mine], dtype=torch.int64).to(device, non_blocking=True),
        heads=fill("heads", -1) if all(example.heads is not None for example in examples) else None,
        examples=mine,
        size=len(examples),
        num_words=sum(map(len, examples)),
        rows=rows,
    )


def tree_arcs(heads: Tensor) -> Tensor:
    """Which arcs are in a tree, [B, N, N]; heads [B, N] as in a batch."""
    nodes = torch.arange(heads.shape[1], device=heads.device)
    return heads.unsqueeze(1) == nodes.unsqueeze(1)


def bucketed(
    examples: Iterable[Example], size: int, max_cells: int, key: tuple[int | str, ...] | None = None
) -> Iterator[list[Example]]:
    """Batches of at most ``size`` sentences of similar length, and of at most ``max_cells`` arcs, padding included.

    With a key, the sentences are shuffled first and the batches afterwards, in the same way for the same key. A stream
    is taken in windows, which bounds the memory; a list is one window.
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
    window = []
    for example in examples:
        window.append(example)
        if len(window) == WINDOW:
            yield window
            window = []
    if window:
        yield window
