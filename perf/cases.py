"""The sizes and operations that are measured."""

from dataclasses import dataclass

import torch
from torch import Tensor

OPERATIONS = {
    "inside": "log partition, no gradient",
    "marginals": "log partition and marginals",
    "gradient": "log partition, then backward",
    "viterbi": "best tree with heads",
    "topk": "8 best trees with heads",
}

K = 8
"""How many trees `topk` finds."""

TREEBANK = (
    1,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    15,
    16,
    17,
    17,
    19,
    20,
    20,
    21,
    23,
    24,
    25,
    27,
    28,
    30,
    33,
    38,
    46,
    59,
)
"""Words per sentence: 32 quantiles of the development set of UD English-GUM 2.3."""


@dataclass(frozen=True)
class Size:
    lengths: tuple[int, ...]
    label: str

    @property
    def N(self) -> int:
        return max(self.lengths) + 1

    def batch(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Scores [B, N, N] and lengths [B], the same at every call."""
        generator = torch.Generator().manual_seed(0)
        scores = 2 * torch.randn(len(self.lengths), self.N, self.N, generator=generator)
        return scores.to(device), torch.tensor(self.lengths, device=device)


def uniform(B: int, l: int) -> Size:
    return Size((l,) * B, f"B={B} l={l}")


MIXED = Size(TREEBANK, "B=32 treebank")
SIZES = (
    uniform(1, 10),
    uniform(32, 20),
    uniform(32, 40),
    uniform(16, 80),
    MIXED,
)


def operations(size: Size) -> list[str]:
    """The operations measured at a size. topk is left out for long sentences, where the peers take minutes."""
    return [operation for operation in OPERATIONS if operation != "topk" or size.N <= 21]
