"""Sums over the steps of an epoch: losses, other metrics, words and sentences."""

import torch
from torch import Tensor

from parsers.training.processes import Group

COUNTS = ("words", "sentences", "unlabeled_words", "unlabeled_sentences")


class Totals:
    """This process's part of the sums. Names of sums over unlabelled sentences begin with "unlabeled_"."""

    def __init__(self, saved: dict[str, float], group: Group):
        """``saved``: the sums of all processes before an interruption, of which each process takes an equal part."""
        self.group = group
        self.values: dict[str, Tensor] = {}
        for name, value in saved.items():
            self.add(name, value / group.world)

    def add(self, name: str, value: float | Tensor) -> None:
        """Does not synchronise with a GPU."""
        value = torch.as_tensor(value, dtype=torch.float64).detach()
        old = self.values.get(name)
        self.values[name] = value if old is None else old.to(value.device) + value

    def sums(self) -> dict[str, float]:
        """Over all processes, which must call this together; before the first step there are none."""
        return self.group.add_up({name: float(value) for name, value in self.values.items()}) if self.values else {}


def mean_per_word(sums: dict[str, float] | dict[str, Tensor], name: str) -> float:
    """0 if there is no such sum."""
    words = "unlabeled_words" if name.startswith("unlabeled_") else "words"
    return float(sums.get(name, 0.0)) / max(1.0, float(sums.get(words, 0.0)))
