"""How many threads torch, and so tritree, may use."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
