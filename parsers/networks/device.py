"""The device of a network, its precision there, and the interface to the processes that train it together."""

import contextlib
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
