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
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from parsers import load_parser
from parsers.data.sources import Sources
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary
from parsers.io.errors import DataError, UserError, why
from parsers.io.files import MAX_JSON, check_is_run, machine_memory, read_json, umask, write
from parsers.options import options_from, options_to_json
from parsers.runs.checkpoint import Checkpoints
from parsers.runs.tagger import Tagger, has_tagger, load_tagger
from parsers.runs.tensors import Unfilled, load_module, module_shapes, pack, read_tensors
from parsers.system import Parser

ParserKind = TypeVar("ParserKind", bound=Parser)

FORMAT = 1
HASHED = 2**26  # bytes; larger files are compared by size only, others by checksum, too


class Run:
    """An existing run directory."""

    def __init__(self, path: str):
        self.name, self.directory = path, Path(path).absolute()
        self.checkpoints = Checkpoints(self.directory)

    @classmethod
    def create(
        cls,
        path: str,
        options: Namespace,
        sources: Sources,
        vocab: Vocabulary,
        vectors: Vectors | None,
        files: Iterable[str] = (),
    ) -> "Run":
        """Makes the directory under a temporary name and renames it, so that it is never seen incomplete. ``files`` are
        others that the run starts from, beside its sources."""
        target = Path(path).absolute()
        if target.exists():
            raise UserError(f"{path} exists already: continue it with --resume {path}, or choose another --output")
        config = {
            "format": FORMAT,
            "torch": torch.__version__,
            "options": options_to_json(options),
            "sources": vars(sources),
            "files": {file: fingerprint(file) for file in [*sources.files(), *files]},
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
        return cls(path)

    @classmethod
    def open(cls, path: str) -> "Run":
        check_is_run(path)
        return cls(path)

    def __str__(self) -> str:
        """As the user gave it."""
        return self.name

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

    def check_files(self, files: Iterable[str]) -> None:
        """The data must not have changed since the run began: it would end differently."""
        saved = read_json(self.directory / "config.json").get("files")
        for file in files:
            if not isinstance(saved, dict) or saved.get(file) != fingerprint(file):
                raise DataError(file, None, f"this file has changed since {self} began: start a new run")

    def training(self) -> dict:
        """The state of the training in the last valid checkpoint; nothing in it is checked."""
        for number in self.checkpoints.numbers():
            try:
                training = self.checkpoints.state(number).get("training")
            except DataError:
                continue
            return training if isinstance(training, dict) else {}
        return {}

    def finished(self) -> bool:
        training = self.training()
        return training.get("finished") is True and training.get("continued", 0) == len(self.continued())

    def continued(self) -> list[int]:
        """For each time that it went on after it was finished, the last epoch of its last stage from then on. None for
        teachers, which have no config.json of their own."""
        path = self.directory / "config.json"
        if not path.exists():
            return []
        last_epochs = read_json(path).get("continued", [])
        if not isinstance(last_epochs, list) or not all(type(n) is int and 0 < n < 2**31 for n in last_epochs):
            raise DataError(str(path), None, "`continued` is not as train.py writes it")
        return last_epochs

    def check_goes_on(self) -> None:
        """A UserError unless this run is finished and has the weights of its last epoch."""
        if not self.finished():
            raise UserError(f"{self} is not finished: --resume it without --epochs first")
        training = self.training()
        try:
            best_stage, last_stage = training["history"][training["best_epoch"] - 1]["stage"], training["stage"]
            if type(training["epoch"]) is not int:
                raise TypeError
        except (KeyError, IndexError, TypeError):
            raise DataError(str(self.directory), None, "its last checkpoint is not that of a finished run") from None
        # Then the checkpoint has the best weights in place of the last ones.
        is_old = "continued" not in training
        if is_old and best_stage != last_stage:
            why = "an older version has finished it, and its last weights were not kept"
            raise UserError(f"{self} can't go on: {why}; --init {self} starts a new run from its best ones")

    def go_on(self, epochs: int) -> None:
        """Notes in config.json that a finished run shall have so many more epochs of its last stage."""
        path = self.directory / "config.json"
        last_epochs = [*self.continued(), self.training()["epoch"] - 1 + epochs]
        config = read_json(path) | {"continued": last_epochs}
        write(path, json.dumps(config, indent=1, ensure_ascii=False).encode())

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

    def tagger(self, vocab: Vocabulary) -> Tagger | None:
        return load_tagger(self.directory, vocab.normalize) if has_tagger(self.directory) else None

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
        self._load(model, tensors)
        return model.to(device).eval(), vocab, vectors

    def load_weights(self, model: ParserKind, device: torch.device) -> ParserKind:
        """The best weights of the run in a model that is there already, in evaluation mode."""
        path = self.directory / "model.safetensors"
        self._load(model, read_tensors(path, module_shapes(model, model.resizable)))
        return model.to(device).eval()

    def _load(self, model: Parser, tensors: dict[str, torch.Tensor]) -> None:
        try:
            load_module(model, tensors, model.resizable)
        except ValueError:
            path = self.directory / "model.safetensors"
            raise DataError(str(path), None, "this is not the model of a run") from None

    def write_metrics(self, history: list[dict]) -> None:
        """JSON has neither NaN nor infinity: null replaces them."""
        finite = ({k: v if abs(v) < math.inf else None for k, v in record.items()} for record in history)
        write(self.directory / "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in finite).encode())


def outline(options: Namespace, vocab: Vocabulary, vectors: Vectors | None) -> Parser:
    """The model on the meta device: it takes no memory, whatever its size."""
    with torch.device("meta"), Unfilled():
        return load_parser(options.model)(options, vocab, vectors)


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
