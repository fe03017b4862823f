"""Models and optimisers as named tensors, in files without pickle. Names and shapes are checked before reading."""

from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from parsers.io.errors import DataError, why
from parsers.io.files import check_regular, machine_memory

Shapes = dict[str, list[int] | None]  # None: any


def pack(tensors: dict[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def module_shapes(module: nn.Module, resizable: tuple[str, ...] = (), prefix: str = "") -> Shapes:
    state = module.state_dict()
    return {prefix + name: None if name in resizable else list(tensor.shape) for name, tensor in state.items()}


def read_tensors(path: Path, expected: Shapes) -> dict[str, Tensor]:
    """The tensors of a file. Nothing is allocated before all names and shapes are found to be as expected."""
    try:
        check_regular(path, machine_memory() // 4)
        with safetensors.safe_open(path, framework="pt") as file:
            for name in sorted(set(file.keys()) ^ expected.keys()):
                fault = "is missing" if name in expected else "does not belong there"
                raise DataError(str(path), None, f"tensor {name[:80]!r} {fault}: the file is of another model")
            for name, right in expected.items():
                shape = file.get_slice(name).get_shape()
                if right is not None and shape != right:
                    raise DataError(str(path), None, f"tensor {name} has shape {shape}: the file is of another model")
            return {name: file.get_tensor(name) for name in expected}
    except (OSError, safetensors.SafetensorError) as error:
        reason = why(error) if isinstance(error, OSError) else "it is damaged"
        raise DataError(str(path), None, f"can't be read: {reason}") from None


def load_module(module: nn.Module, tensors: dict[str, Tensor], resizable: tuple[str, ...] = ()) -> None:
    """Copies tensors into a module's parameters and buffers. ``resizable`` buffers take the shape of the tensor."""
    for name in resizable:
        owner, _, leaf = name.rpartition(".")
        buffers = module.get_submodule(owner)._buffers
        buffers[leaf] = buffers[leaf].new_empty(tensors[name].shape)
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict]:
    """An optimiser's state: tensors under names such as "optimizer.3.exp_avg"; as JSON, names and settings."""
    state = optimizer.state_dict()["state"]
    tensors = {f"optimizer.{i}.{name}": tensor for i, values in state.items() for name, tensor in values.items()}
    names = {str(i): dict.fromkeys(values) for i, values in state.items()}
    return tensors, {"state": names, "groups": _settings(optimizer)}


def optimizer_shapes(optimizer: torch.optim.Optimizer, packed: dict, names: tuple[str, ...]) -> Shapes:
    """The tensors of a packed state: ``names`` for each parameter that has one.

    A ValueError, KeyError or TypeError if the state is not of such an optimiser.
    """
    for settings, saved in zip(_settings(optimizer), packed["groups"], strict=True):
        kinds, found = ({key: _kind(value) for key, value in values.items()} for values in (settings, saved))
        if kinds != found:
            raise ValueError("the settings are of another optimiser")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    by_index = {str(i): parameter for i, parameter in enumerate(parameters)}
    shapes: Shapes = {}
    for i, saved in packed["state"].items():
        if saved != dict.fromkeys(names):
            raise ValueError("the state is of another optimiser")
        shape = list(by_index[i].shape)
        shapes |= {f"optimizer.{i}.{name}": [] if name == "step" else shape for name in names}
    return shapes


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], packed: dict) -> None:
    """``packed`` has passed ``optimizer_shapes``."""
    state = optimizer.state_dict()
    for group, saved in zip(state["param_groups"], packed["groups"], strict=True):
        group |= {key: tuple(value) if isinstance(value, list) else value for key, value in saved.items()}
    state["state"] = {
        int(i): {name: tensors[f"optimizer.{i}.{name}"] for name in names} for i, names in packed["state"].items()
    }
    optimizer.load_state_dict(state)


def _settings(optimizer: torch.optim.Optimizer) -> list[dict]:
    return [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def _kind(value: object) -> object:
    """The type of a setting; of a list or tuple, the types of its items."""
    return [type(item) for item in value] if isinstance(value, list | tuple) else type(value)


class Unfilled(TorchFunctionMode):
    """Skips torch.nn.init. On the meta device it has no effect, but torch would import its compiler for it, which takes
    two seconds."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))
