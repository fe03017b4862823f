"""The exponential average of a model's weights over the steps: parses better than the weights of any one step."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from parsers.runs.tensors import Shapes


class Average:
    """a ← d · a + (1 − d) · w after each step t, with d = min(decay, (1 + t) / (10 + t)): the first weights, which are
    random, are soon forgotten.

    The weights are those that the optimiser changes. Buffers belong to both.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.tensors: dict[str, Tensor] = {}  # the average; while that is in the model, the weights of the last step
        self.steps = 0
        self.in_model = False
        self.restart()

    def restart(self) -> None:
        """From the weights that the model has now."""
        self.tensors = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.steps = 0

    @torch.no_grad()
    def add(self) -> None:
        """Counts the weights of a step."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(list(self.tensors.values()), list(self.weights.values()), 1 - decay)

    @contextlib.contextmanager
    def used(self, in_model: bool = True) -> Iterator[None]:
        """Within the block, the model has the average, or else the weights of the last step."""
        change = self.in_model != in_model
        if change:
            self._swap()
        try:
            yield
        finally:
            if change:
                self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, weight in self.weights.items():
            kept = weight.detach().clone()
            weight.copy_(self.tensors[name])
            self.tensors[name].copy_(kept)
        self.in_model = not self.in_model

    def shapes(self, prefix: str) -> Shapes:
        return {prefix + name: list(tensor.shape) for name, tensor in self.tensors.items()}

    def load(self, tensors: dict[str, Tensor], steps: int) -> None:
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])
        self.steps = steps
