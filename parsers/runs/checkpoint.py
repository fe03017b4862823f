"""Checkpoints of a training.

A checkpoint is two files: tensors (safetensors) and, written after them, JSON with everything else and the checksums of
both. It is valid only if the checksums are right. The last two are kept, so that there is always a valid one.
"""

import contextlib
import hashlib
import json
from pathlib import Path

from torch import Tensor

from parsers.io.errors import DataError, why
from parsers.io.files import UNFINISHED, check_regular, machine_memory, parse_json, read_json, write
from parsers.runs.tensors import pack

KEPT = 2


class Checkpoints:
    """The checkpoints in a directory."""

    def __init__(self, directory: Path):
        self.directory = directory

    def numbers(self) -> list[int]:
        """Of all checkpoints, valid or not, the last one first."""
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
        """Removes older checkpoints, and what is left of a process that was killed while it wrote or tidied up."""
        kept = {
            f"checkpoint-{number}{suffix}" for number in self.numbers()[:KEPT] for suffix in (".json", ".safetensors")
        }
        for path in [*self.directory.glob("checkpoint-*"), *self.directory.glob(f".*{UNFINISHED}")]:
            if path.name not in kept:
                with contextlib.suppress(OSError):  # it does no harm
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
            check_regular(tensors, machine_memory() // 4)
            with open(tensors, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(str(tensors), None, f"can't be read: {why(error)}") from None
        if sums.get("tensors") != found:
            raise DataError(str(tensors), None, "the checksum is wrong: the file is damaged or cut off")
        return parse_json(text, path)

    def tensor_file(self, number: int) -> Path:
        return self.directory / f"checkpoint-{number}.safetensors"


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
