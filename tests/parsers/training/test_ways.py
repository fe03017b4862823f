"""Every system in every way a training can be run."""

import json
import math
import os

import numpy as np
import pytest

from parsers import MODELS
from parsers.data.batches import collate
from parsers.data.examples import Example
from parsers.training.processes import Group
from tests.parsers.helpers import small_trainer, tiny_options
from tests.parsers.processes import TWICE, run
from tests.parsers.training.interruption import check_alike
from tests.parsers.training.shared import train_all


def test_two_processes_share_the_work_of_one(tmp_path):
    """The same figures up to rounding, and only process 0 writes."""
    done = run(*TWICE, "-m", "tests.parsers.training.shared", tmp_path / "two")
    together = json.loads(done.stdout.splitlines()[-1])  # some versions of gloo print lines of their own
    for model, alone in train_all(tmp_path / "one", Group("cpu")).items():
        check_alike(alone, together[model])


@pytest.mark.parametrize("precision", ["--bf16", "--fp16"])
@pytest.mark.parametrize("model", MODELS)
def test_half_precision(model, precision, tmp_path):
    trainer = small_trainer(tiny_options(model, "--epochs=1", precision), tmp_path / "run", unlabeled=9)
    history = trainer.train().history
    first = trainer.model.first_stage(trainer.data)
    assert [record.get("stage") for record in history] == [*range(first, trainer.stages + 1), None]
    assert all(math.isfinite(value) for record in history for value in record.values())
    assert os.path.getsize(tmp_path / "run" / "model.safetensors")


def chain(example: Example, words: int) -> Example:
    """A sentence of so many words: each hangs from the one before."""

    def repeated(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array[:1], np.resize(array[1:], (words, *array.shape[1:]))])

    heads = np.arange(-1, words)
    return Example(
        *map(repeated, (example.words, example.pos, example.xpos, example.feats)),
        None,
        heads,
        [],
        None,
        [],
        [False] * words,
    )


def test_a_word_and_a_thousand_in_one_step(tmp_path):
    """1, 500 and 1,000 words in one batch, most of which is padding."""
    trainer = small_trainer(tiny_options("gap", "--layers=1"), tmp_path / "run")
    batch = collate([chain(trainer.data.labeled[0], words) for words in (1, 500, 1000)])
    trainer.model.begin_stage(trainer._context())
    trainer.model.begin_epoch(trainer._context())
    trainer._step(trainer.model.labeled_loss, batch)
    assert 0 < trainer.totals.sums()["loss"] < math.inf
    gradients = [parameter.grad for parameter in trainer.model.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)
