"""The device of a network, its precision there, and the interface to the processes that train it together."""

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from parsers.io.errors import UserError


class Processes(Protocol):
    """The processes that share each batch; a single one has rank 0 of world 1 (training/processes.py)."""

    rank: int
    world: int

    def sum_(self, tensor: Tensor) -> Tensor:
        """Adds up a tensor over the processes, in place."""

    def sum_numbers(self, numbers: list[float]) -> list[float]: ...


def float32_on_cpu(device: torch.device) -> contextlib.AbstractContextManager:
    """Switches autocast off on a CPU. There oneDNN has no half-precision LSTM on most machines, and large products in
    half precision are many times slower than in float32."""
    return contextlib.nullcontext() if device.type == "cuda" else torch.autocast(device.type, enabled=False)


MULTIPLICATIONS = 2**25  # in a step of an LSTM, for which one more thread pays


def training_threads(options: Namespace, with_unlabeled: bool) -> int:
    """Threads of a training, by the sizes of the model and of the larger kind of batch."""
    return num_threads(options, max(options.batch_size, options.unlabeled_batch_size if with_unlabeled else 0))


def num_threads(options: Namespace, batch_size: int) -> int:
    """Torch's threads for batches of so many sentences, at most as many as torch has here. The largest products are
    those of the LSTM, whose steps follow each other: at each of them, a thread waits for the others in a busy loop.
    Beside two busy processes, an epoch of LAP takes 131 s with two threads and 9.8 with one; alone, 5.5 and 6.1.
    """
    inputs = options.word_size if options.layers == 1 else 2 * options.lstm_size
    per_step = batch_size * 4 * options.lstm_size * (inputs + options.lstm_size)
    return min(torch.get_num_threads(), 1 + per_step // MULTIPLICATIONS)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """For what must have the same bits everywhere: torch's sums depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def choose_device(name: str | None, local_rank: int) -> torch.device:
    """The device of this name (io.arguments.device_name); by default the GPU of this process, or the CPU."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count()
        index = device.index if device.index is not None else local_rank
        if index >= count:
            raise UserError(f"--device {name}: torch sees {count} CUDA devices here")
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    return device
