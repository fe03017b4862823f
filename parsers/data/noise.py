"""Random numbers per sentence, so that runs can be repeated, resumed and split over processes.

Every training step has a generator of its own, seeded by (seed, stage, epoch, step). Each process draws the numbers of
the whole batch and takes the rows of its own sentences. So results depend neither on where a run was interrupted nor on
how many processes share the batch.
"""

import hashlib

import torch
from torch import Tensor


def seed_of(*key: int | str) -> int:
    """63 bits from a key such as ("step", seed, epoch, step)."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "little") >> 1


class Noise:
    """The random numbers of one step, for the sentences ``rows`` of a batch of ``size``."""

    def __init__(self, key: tuple[int | str, ...], size: int, rows: slice, device: torch.device):
        self.size, self.rows, self.device = size, rows, device
        self.generator = torch.Generator(device)
        self.generator.manual_seed(seed_of(*key))

    def uniform(self, *shape: int) -> Tensor:
        """In [0, 1), ``[B, *shape]``, where B is the number of this process's sentences."""
        return torch.rand(self.size, *shape, generator=self.generator, device=self.device)[self.rows]

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(self.size, *shape, generator=self.generator, device=self.device)[self.rows]

    def gumbel(self, *shape: int) -> Tensor:
        """−log(−log u) with u in (0, 1)."""
        return -torch.log(-torch.log(self.uniform(*shape).clamp_min(torch.finfo(torch.float32).tiny)))


def dropout(x: Tensor, p: float, noise: Noise | None, per_sentence: bool = False) -> Tensor:
    """x [B, N, …] with a share p of its values set to 0 and the others divided by 1 − p; x itself without noise.

    ``per_sentence``: all tokens of a sentence lose the same values.
    """
    if noise is None or p == 0:
        return x
    shape = (1, *x.shape[2:]) if per_sentence else x.shape[1:]
    return x * (noise.uniform(*shape) >= p).to(x.dtype).div_(1 - p)
