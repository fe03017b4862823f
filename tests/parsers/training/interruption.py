"""The figures of runs, and runs that are interrupted and resumed: compared with those of one that is not."""

import json
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from parsers.training.loop import Interrupted, Trainer
from tests.parsers.helpers import small_trainer


def figures(history: Iterable[dict]) -> list[dict]:
    """Without the times."""
    return [{k: v for k, v in record.items() if not k.endswith(("_seconds", "_per_second"))} for record in history]


def figures_of(run: Path) -> list[dict]:
    """The figures in a run directory."""
    return figures(map(json.loads, (run / "metrics.jsonl").read_text().splitlines()))


def check_alike(history: list[dict], other: list[dict]) -> None:
    """The same figures up to rounding, which may change a few trees."""
    for one, two in zip(history, other, strict=True):
        assert one.keys() == two.keys()
        for key, value in one.items():
            assert two[key] == pytest.approx(value, rel=1e-4, abs=1.0 if "uas" in key or "matches" in key else 1e-6)


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def interrupt_after(trainer: Trainer, steps: int) -> None:
    """As if Ctrl-C came during this step, counted over all epochs."""
    original, count = trainer._step, 0

    def step(*args):
        nonlocal count
        original(*args)
        count += 1
        if count == steps:
            signal.raise_signal(signal.SIGINT)

    trainer._step = step
    with pytest.raises(Interrupted):
        trainer.train()


def check_resumed(whole: Trainer, after: Iterable[int], epoch_steps: int | None = None, **sizes: int) -> None:
    """Runs like this finished one, interrupted after so many steps and resumed there, end with the same bits.

    ``epoch_steps``: the steps of an epoch, where they are the same for all.
    """
    expected, directory = figures(whole.state.history), whole.run.directory
    for steps in after:
        path = directory.with_name(f"after-{steps}")
        interrupt_after(small_trainer(whole.options, path, **sizes), steps)
        resumed = small_trainer(whole.options, path, **sizes)
        assert resumed.restore()
        if epoch_steps:
            assert epoch_steps * len(resumed.state.history) + resumed.state.step == steps
        assert figures(resumed.train().history) == expected
        for (name, a), b in zip(weights(whole).items(), weights(resumed).values(), strict=True):
            assert torch.equal(a, b), name
        assert (path / "model.safetensors").read_bytes() == (directory / "model.safetensors").read_bytes()
        assert figures_of(path) == expected
