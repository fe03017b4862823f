"""Models and optimisers as named tensors, in files without pickle; what is read must be as expected."""

import copy
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from parsers.io.errors import DataError, why
from parsers.io.files import check_regular, machine_memory

Shapes = dict[str, list[int] | None]  # None: any


def pack(tensors: dict[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def module_shapes(module: nn.Module, resizable: tuple[str, ...] = (), prefix: str = "") -> Shapes:
    state = module.state_dict()
    return {prefix + name: None if name in resizable else list(tensor.shape) for name, tensor in state.items()}


def read_tensors(path: Path, expected: Shapes) -> dict[str, Tensor]:
    """The tensors of a file; nothing is allocated before their names and shapes were found as expected."""
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
    """Copies tensors into a module's parameters and buffers; those of ``resizable`` get the shape of the tensor."""
    for name in resizable:
        owner, _, leaf = name.rpartition(".")
        buffers = module.get_submodule(owner)._buffers
        buffers[leaf] = buffers[leaf].new_empty(tensors[name].shape)
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict]:
    """An optimiser's state: tensors under names such as "optimizer.3.exp_avg", and the rest for JSON."""
    state = optimizer.state_dict()
    tensors, numbers = {}, {}
    for index, values in state["state"].items():
        tensors |= {f"optimizer.{index}.{key}": value for key, value in values.items() if isinstance(value, Tensor)}
        numbers[str(index)] = {key: None if isinstance(value, Tensor) else value for key, value in values.items()}
    groups = [{key: value for key, value in group.items() if key != "params"} for group in state["param_groups"]]
    return tensors, {"state": numbers, "groups": groups}


def optimizer_shapes(optimizer: torch.optim.Optimizer, packed: dict) -> Shapes:
    """The tensors of a packed state. A ValueError, KeyError or TypeError unless it is of such an optimiser."""
    twin = copy.deepcopy(optimizer)  # after a step it has all that belongs to a state
    for group in twin.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    twin.step()
    fresh, rest = pack_optimizer(twin)
    for group, saved in zip(rest["groups"], packed["groups"], strict=True):
        kinds, found = ({key: _kind(value) for key, value in values.items()} for values in (group, saved))
        if kinds != found:
            raise ValueError("the settings are of another optimiser")
    shapes = {}
    for index, saved in packed["state"].items():
        values = rest["state"][index]
        if {key: _kind(value) for key, value in values.items()} != {key: _kind(value) for key, value in saved.items()}:
            raise ValueError("the state is of another optimiser")
        names = [f"optimizer.{index}.{key}" for key, value in values.items() if value is None]
        shapes |= {name: list(fresh[name].shape) for name in names}
    return shapes


def _kind(value: object) -> object:
    """The type of a number; of a list or tuple of them, all types."""
    return [type(item) for item in value] if isinstance(value, list | tuple) else type(value)


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], packed: dict) -> None:
    """``packed`` was found right by ``optimizer_shapes``."""
    state = optimizer.state_dict()
    for group, saved in zip(state["param_groups"], packed["groups"], strict=True):
        group |= {key: tuple(value) if isinstance(value, list) else value for key, value in saved.items()}
    state["state"] = {
        int(index): {
            key: tensors[f"optimizer.{index}.{key}"] if value is None else value for key, value in values.items()
        }
        for index, values in packed["state"].items()
    }
    optimizer.load_state_dict(state)
