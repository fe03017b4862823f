"""Several processes that share each batch: `torchrun --nproc-per-node 2 train.py …` (gloo on CPUs, NCCL on GPUs).

Each process takes every world-th sentence of the same batch, with the random numbers that these sentences have in a
single process (data/noise.py). Losses are divided by the words of the whole batch, so gradients are summed, not
averaged, and the result is that of a single process, up to rounding. Only process 0 writes.
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parsers.networks.device import choose_device


class Group:
    """The processes of a run; one without torchrun. Use as a context manager."""

    def __init__(self, device: str | None = None):
        self.rank = int(os.environ.get("RANK", 0))
        self.world = int(os.environ.get("WORLD_SIZE", 1))
        self.device = choose_device(device, int(os.environ.get("LOCAL_RANK", 0)))

    def __enter__(self) -> "Group":
        if self.world > 1:
            # This module binds the current process group as default argument when it is imported, which torch does at
            # some time. If that were later, the group would outlive __exit__, and its threads abort Python at exit.
            import torch.distributed.nn  # noqa: F401

            backend = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=timedelta(minutes=30))
        return self

    def __exit__(self, *error) -> None:
        if self.world > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def writes(self) -> bool:
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sums a tensor over the processes, in place. It may be on any device."""
        if self.world > 1:
            shared = tensor.to(self.device) if tensor.device.type != self.device.type else tensor
            dist.all_reduce(shared)
            if shared is not tensor:
                tensor.copy_(shared)
        return tensor

    def sum_numbers(self, numbers: list[float]) -> list[float]:
        return self.sum_(torch.tensor(numbers, dtype=torch.float64)).tolist() if self.world > 1 else numbers

    def add_up(self, figures: dict[str, float]) -> dict[str, float]:
        """Sums figures by name. A process without sentences may lack some."""
        if self.world == 1:
            return figures
        parts: list = [None] * self.world
        dist.all_gather_object(parts, figures)
        names = sorted(set().union(*parts))
        return {name: sum(part.get(name, 0.0) for part in parts) for name in names}

    def sum_gradients(self, module: nn.Module, flags: tuple[bool, ...]) -> tuple[bool, ...]:
        """Sums the gradients. A parameter without a gradient on any process keeps none.

        Flags are all-reduced with them: returns which flags are set on any process.
        """
        if self.world == 1:
            return flags
        parameters = [p for p in module.parameters() if p.requires_grad]
        bits = torch.tensor([float(b) for b in (*flags, *(p.grad is not None for p in parameters))]).to(self.device)
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch.cat([bits, *(grad.reshape(-1) for grad in grads)])
        dist.all_reduce(flat)
        bits, *grads = flat.split([len(bits), *(p.numel() for p in parameters)])
        is_set = [bit > 0 for bit in bits.tolist()]
        for parameter, grad, present in zip(parameters, grads, is_set[len(flags) :], strict=True):
            parameter.grad = grad.view_as(parameter) if present else None
        return tuple(is_set[: len(flags)])

    def share(self, value: str = "") -> str:
        """Broadcasts the string of process 0."""
        if self.world > 1:
            values = [value]
            dist.broadcast_object_list(values, device=self.device)
            value = values[0]
        return value
