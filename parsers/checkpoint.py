"""Files that are there as a whole or not at all, and checkpoints made of them. No pickle anywhere.

A checkpoint is two files: tensors (safetensors) and, written after them, JSON with everything else and the checksums of
both. It counts only if the checksums are right. The last two are kept, so that there is always a whole one.
"""

import contextlib
import copy
import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from parsers.errors import DataError, UserError, why
from parsers.output import umask

KEPT = 2
UNFINISHED = ".tmp"  # how names of files end that are being written
MAX_JSON = 2**26  # bytes; as Python objects they may be twenty times as many


def write(path: Path, content: bytes) -> None:
    """Writes a file under another name, waits until it is on the disk, and gives it its name.

    A full disk or a directory that can't be written to is a UserError, and the old file is left as it was.
    """
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~umask())
        os.replace(name, path)
        sync_directory(path.parent)
    except BaseException as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UserError(f"{path} can't be written: {why(error)}") from None
        raise


def sync_directory(directory: Path) -> None:
    if os.name == "posix":  # elsewhere directories can't be opened
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_file(path: Path, most: int) -> None:
    """A pipe or a device never ends, and a file with holes can be larger than the disk: neither is read."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise DataError(str(path), None, "this is not a regular file")
    if info.st_size > most:
        raise DataError(str(path), None, "this file is too large to be part of a run")


def read_json(path: Path) -> dict:
    """A JSON object; whatever is wrong with it is a DataError."""
    try:
        check_file(path, MAX_JSON)
        content = path.read_bytes()
    except OSError as error:
        raise DataError(str(path), None, f"can't be read: {why(error)}") from None
    return parse_json(content, path)


def parse_json(content: str | bytes, path: Path) -> dict:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(str(path), None, "this is not JSON: the file is damaged") from None
    if not isinstance(value, dict):
        raise DataError(str(path), None, "expected a JSON object")
    return value


def machine_memory() -> int:
    """Bytes of this machine, or more than any where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62


def pack(tensors: dict[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


Shapes = dict[str, list[int] | None]  # None: any


def module_shapes(module: nn.Module, resizable: tuple[str, ...] = (), prefix: str = "") -> Shapes:
    state = module.state_dict()
    return {prefix + name: None if name in resizable else list(tensor.shape) for name, tensor in state.items()}


def read_tensors(path: Path, expected: Shapes) -> dict[str, Tensor]:
    """The tensors of a file; nothing is allocated before their names and shapes were found as expected."""
    try:
        check_file(path, machine_memory() // 4)
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


class Checkpoints:
    """The checkpoints in a directory."""

    def __init__(self, directory: Path):
        self.directory = directory

    def numbers(self) -> list[int]:
        """Of all that are there, whole or not, the last one first."""
        names = (path.stem.removeprefix("checkpoint-") for path in self.directory.glob("checkpoint-*.json"))
        return sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)

    def save(self, tensors: dict[str, Tensor], state: dict) -> None:
        old = self.numbers()
        name = f"checkpoint-{old[0] + 1 if old else 1}"
        packed, text = pack(tensors), json.dumps(state)
        sums = {"tensors": _checksum(packed), "state": _checksum(text.encode())}
        write(self.directory / f"{name}.safetensors", packed)
        write(self.directory / f"{name}.json", json.dumps({"sha256": sums, "state": text}).encode())
        self.tidy()

    def tidy(self) -> None:
        """Removes older checkpoints, and what a process left that was killed while it wrote or tidied up."""
        kept = {
            f"checkpoint-{number}{suffix}" for number in self.numbers()[:KEPT] for suffix in (".json", ".safetensors")
        }
        for path in [*self.directory.glob("checkpoint-*"), *self.directory.glob(f".*{UNFINISHED}")]:
            if path.name not in kept:
                with contextlib.suppress(OSError):  # it is in nobody's way
                    path.unlink()

    def state(self, number: int) -> dict:
        """Everything but the tensors; a DataError unless both files are as they were written."""
        path = self.directory / f"checkpoint-{number}.json"
        content = read_json(path)
        text, sums = content.get("state"), content.get("sha256")
        if not isinstance(text, str) or not isinstance(sums, dict) or sums.get("state") != _checksum(text.encode()):
            raise DataError(str(path), None, "the checksum is wrong: the file is damaged")
        tensors = self.tensor_file(number)
        try:
            check_file(tensors, machine_memory() // 4)
            with open(tensors, "rb") as file:
                found = _checksum_file(file)
        except OSError as error:
            raise DataError(str(tensors), None, f"can't be read: {why(error)}") from None
        if sums.get("tensors") != found:
            raise DataError(str(tensors), None, "the checksum is wrong: the file is damaged or cut off")
        return parse_json(text, path)

    def tensor_file(self, number: int) -> Path:
        return self.directory / f"checkpoint-{number}.safetensors"


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checksum_file(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(2**20):
        digest.update(block)
    return digest.hexdigest()
