"""Saving and restoring a training: the model, its best weights so far, their average, the optimiser, the loss scaler
and the state."""

from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

from torch import Tensor

from parsers.io.errors import DataError
from parsers.runs import tensors as files
from parsers.training.state import State

if TYPE_CHECKING:
    from parsers.training.loop import Trainer


def save(trainer: "Trainer", seconds: float) -> None:
    """Writes a new checkpoint; ``seconds``: how long the run has taken so far."""
    tensors, optimizer = files.pack_optimizer(trainer.optimizer)
    average, steps = trainer.average, trainer.average.steps if trainer.average else 0
    state = asdict(trainer.state) | {"seconds": seconds, "averaged": steps}
    fields = {"training": state, "optimizer": optimizer, "scaler": trainer.scaler.state_dict()}
    with average.used(in_model=False) if average else nullcontext():
        tensors |= {f"model.{name}": tensor for name, tensor in trainer.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in trainer.best.items()}
        tensors |= {f"average.{name}": tensor for name, tensor in (average.tensors if average else {}).items()}
        trainer.run.checkpoints.save(tensors, fields)


def restore(trainer: "Trainer") -> bool:
    """Goes to the last valid checkpoint; False if there is none."""
    checkpoints = trainer.run.checkpoints
    for number in checkpoints.numbers():
        try:
            _load(trainer, number)
            return True
        except DataError as error:
            trainer.display.warn(f"{error}; using the checkpoint before it")
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            name, kind = checkpoints.tensor_file(number), type(error).__name__
            trainer.display.warn(f"{name}: not a checkpoint of this run ({kind}); using the one before")
    return False


def _load(trainer: "Trainer", number: int) -> None:
    """Checks everything in a checkpoint, then loads it."""
    model, checkpoints = trainer.model, trainer.run.checkpoints
    saved = checkpoints.state(number)
    state = State(**saved["training"])
    stages = range(model.first_stage(trainer.data), trainer.stages + 1)
    state.check(stages, max(trainer.options.epochs, *trainer.continued, 0))
    if not 0 <= state.continued <= len(trainer.continued):
        raise ValueError("it went on more often than config.json says")
    scaler, usual = ({k: type(v) for k, v in d.items()} for d in (saved["scaler"], trainer.scaler.state_dict()))
    if scaler != usual:
        raise ValueError("the state of another loss scaler")
    expected = files.module_shapes(model, model.resizable, "model.")
    if state.best_epoch:
        expected |= files.module_shapes(model, model.resizable, "best.")
    if trainer.average:
        expected |= trainer.average.shapes("average.")
    expected |= files.optimizer_shapes(trainer.optimizer, saved["optimizer"], model.optimizer_state)
    tensors = files.read_tensors(checkpoints.tensor_file(number), expected)
    files.load_module(model, _below("model.", tensors), model.resizable)
    files.load_optimizer(trainer.optimizer, tensors, saved["optimizer"])
    trainer.scaler.load_state_dict(saved["scaler"])
    trainer.best = {name: tensor.to(trainer.group.device) for name, tensor in _below("best.", tensors).items()}
    if trainer.average:
        trainer.average.load(_below("average.", tensors), state.averaged)
    trainer.state = state


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
