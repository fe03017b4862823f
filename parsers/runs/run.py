"""A run directory: config.json, vocab.json, metrics.jsonl, model.safetensors, curves.png and checkpoints.

It appears at once, complete with configuration and vocabulary. What is read from it is checked before it is used: it
may come from an untrusted source.
"""

import hashlib
import json
import math
import os
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from parsers import load_parser
from parsers.data.sources import Sources
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.io.errors import DataError, UserError, why
from parsers.io.files import MAX_JSON, check_is_run, machine_memory, read_json, umask, write
from parsers.options import options_from, options_to_json
from parsers.runs.checkpoint import Checkpoints
from parsers.runs.tensors import load_module, module_shapes, pack, read_tensors
from parsers.system import Parser

FORMAT = 1
HASHED = 2**26  # bytes; larger files are compared by size only, others by checksum, too


class Run:
    """An existing run directory."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.checkpoints = Checkpoints(directory)

    @classmethod
    def create(
        cls, path: str, options: Namespace, sources: Sources, vocab: Vocabulary, vectors: Vectors | None
    ) -> "Run":
        """Makes the directory under a temporary name and renames it, so that it is never seen incomplete."""
        target = Path(path).absolute()
        if target.exists():
            raise UserError(f"{path} exists already: continue it with --resume {path}, or choose another --output")
        config = {
            "format": FORMAT,
            "torch": torch.__version__,
            "options": options_to_json(options),
            "sources": vars(sources),
            "files": {file: fingerprint(file) for file in sources.files()},
        }
        words = json.dumps({"words": vectors.words if vectors else []}, ensure_ascii=False).encode()
        if len(words) > MAX_JSON:
            raise UserError(f"--embeddings {options.embeddings} has too many words: keep the most frequent ones")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            hidden = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
            try:
                write(hidden / "config.json", json.dumps(config, indent=1, ensure_ascii=False).encode())
                write(hidden / "vocab.json", vocab.to_json().encode())
                if vectors is not None:
                    write(hidden / "vectors.json", words)
                    write(hidden / "vectors.safetensors", pack({"vectors": torch.from_numpy(vectors.table)}))
                hidden.chmod(0o777 & ~umask())
                hidden.rename(target)
            except BaseException:
                shutil.rmtree(hidden, ignore_errors=True)
                raise
        except OSError as error:
            raise UserError(f"{path} can't be made: {why(error)}") from None
        return cls(target)

    @classmethod
    def open(cls, path: str) -> "Run":
        check_is_run(path)
        return cls(Path(path).absolute())

    def __str__(self) -> str:
        return os.path.relpath(self.directory)

    def config(self) -> tuple[Namespace, Sources]:
        """Options and data, checked as if they came from the command line."""
        path = self.directory / "config.json"
        config = read_json(path)
        if config.get("format") != FORMAT:
            raise DataError(str(path), None, f"`format` is not {FORMAT}: made by another version?")
        options = options_from(config.get("options"), str(path))
        sources = config.get("sources")
        valid = isinstance(sources, dict) and sources.keys() == Sources.__dataclass_fields__.keys()
        if not valid or sources["name"] is None or not all(v is None or _can_be_shown(v) for v in sources.values()):
            raise DataError(str(path), None, "`sources` is not as train.py writes it")
        return options, Sources(**sources)

    def check_files(self, sources: Sources) -> None:
        """The data must not have changed since the run began: it would end differently."""
        saved = read_json(self.directory / "config.json").get("files")
        for file in sources.files():
            if not isinstance(saved, dict) or saved.get(file) != fingerprint(file):
                raise DataError(file, None, f"this file has changed since {self} began: start a new run")

    def finished(self) -> bool:
        for number in self.checkpoints.numbers():
            try:
                training = self.checkpoints.state(number).get("training")
            except DataError:
                continue
            return isinstance(training, dict) and training.get("finished") is True
        return False

    def vocab(self) -> Vocabulary:
        path = self.directory / "vocab.json"
        return Vocabulary.from_json(read_json(path), str(path))

    def vectors(self) -> Vectors | None:
        path = self.directory / "vectors.json"
        if not path.exists():
            return None
        words = read_json(path).get("words")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError(str(path), None, "expected a list of words")
        tensor_file = self.directory / "vectors.safetensors"
        table = read_tensors(tensor_file, {"vectors": None})["vectors"]
        if table.dim() != 2 or len(table) != len(words) + 1 or table.dtype != torch.float32:
            raise DataError(str(tensor_file), None, "the vectors do not belong to the words in vectors.json")
        return Vectors(words, np.ascontiguousarray(table.numpy()))

    def save_model(self, tensors: dict[str, torch.Tensor]) -> None:
        write(self.directory / "model.safetensors", pack(tensors))

    def load_model(self, options: Namespace, device: torch.device) -> tuple[Parser, Vocabulary, Vectors | None]:
        """The best model of the run, in evaluation mode."""
        path = self.directory / "model.safetensors"
        if not path.exists():
            raise UserError(f"{self} has no model yet: no epoch has ended")
        vocab, vectors = self.vocab(), self.vectors()
        build = load_parser(options.model)
        tensors = read_tensors(path, module_shapes(outline(options, vocab, vectors), build.resizable))
        model = build(options, vocab, vectors)
        try:
            load_module(model, tensors, build.resizable)
        except ValueError:
            raise DataError(str(path), None, "this is not the model of a run") from None
        return model.to(device).eval(), vocab, vectors

    def write_metrics(self, history: list[dict]) -> None:
        """JSON has neither NaN nor infinity: null replaces them."""
        finite = ({k: v if abs(v) < math.inf else None for k, v in record.items()} for record in history)
        write(self.directory / "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in finite).encode())


def outline(options: Namespace, vocab: Vocabulary, vectors: Vectors | None) -> Parser:
    """The model on the meta device: it takes no memory, whatever its size."""
    with torch.device("meta"), Unfilled():
        return load_parser(options.model)(options, vocab, vectors)


class Unfilled(TorchFunctionMode):
    """Skips torch.nn.init. On the meta device it has no effect, but torch would import its compiler for it, which takes
    two seconds."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def _can_be_shown(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def check_model_fits(options: Namespace, vocab: Vocabulary, vectors: Vectors | None) -> None:
    """Training holds the model, its best weights so far, a gradient and two averages of it, and a copy of all of them
    while a checkpoint is written."""
    state = outline(options, vocab, vectors).state_dict()
    size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    if 8 * size > machine_memory():
        raise UserError(f"a model of {size / 2**30:.1f} GiB can't be trained on this machine: choose smaller sizes")


def fingerprint(file: str) -> dict:
    """Size and checksum of a file: it has changed if these have."""
    try:
        size = os.path.getsize(file)
        if not os.path.isfile(file):
            raise DataError(file, None, "this is not a regular file, and a run reads its files more than once")
        if size > HASHED:
            return {"bytes": size}
        return {"bytes": size, "sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest()}
    except OSError as error:
        raise DataError(file, None, f"can't be read: {why(error)}") from None


def free_name(options: Namespace, sources: Sources) -> str:
    """The default directory of a run: runs/ntp-en_gum-1, or the next free number."""
    number = 1
    while (path := Path("runs", f"{options.model}-{sources.name}-{number}")).exists():
        number += 1
    return str(path)
