"""Run directories from somebody who means harm: one line, exit code 2, and nothing else happens."""

import hashlib
import json
import os
import resource
import signal
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

import evaluate
import train
from parsers.data import synthetic
from parsers.evaluation.plots import read_history
from parsers.io.errors import DataError
from parsers.runs.checkpoint import Checkpoints
from parsers.runs.tensors import pack
from tests.parsers.helpers import TINY, small_trainer, tiny_options
from tests.parsers.processes import call

ROOM = 2**30  # bytes that a command may ask for


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An unfinished run of GAP, whose model has tensors of any length."""
    directory = tmp_path_factory.mktemp("evil") / "run"
    trainer = small_trainer(tiny_options("gap", "--epochs=1"), directory)
    trainer.train()
    trainer.state.finished = False
    trainer.state.history.pop()
    trainer.save()
    return directory


@pytest.fixture
def copy(run, tmp_path):
    directory = tmp_path / "evil"
    directory.mkdir()
    for file in run.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    return directory


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.conllu"
    path.write_text("".join(synthetic.conllu("test", count=2)), encoding="utf-8")
    return path


@pytest.fixture
def mistake(capfd):
    """Runs a command with little time and memory; the line it says."""

    def run(main, *arguments) -> str:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        old = resource.getrlimit(resource.RLIMIT_AS)
        capfd.readouterr()
        signal.alarm(60)
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, old[1]))
        try:
            code = call(main, *arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, old)
            signal.alarm(0)
        errors = capfd.readouterr().err
        assert code == 2 and errors.count("\n") == 1 and len(errors) < 1000, errors
        return errors

    return run


def change(path: Path, **fields) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def options_of(directory: Path) -> dict:
    return json.loads((directory / "config.json").read_text())["options"]


def huge(directory: Path) -> None:
    change(directory / "config.json", options=options_of(directory) | {"lstm_size": 2**16, "word_size": 2**16})


def holes(directory: Path) -> None:
    """A terabyte that takes no room on the disk, in the right shape for a resizable tensor."""
    path = directory / "model.safetensors"
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    header["theta.keys"] |= {"shape": [2**37], "data_offsets": [end, end + 2**40]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end + 2**40)


def pipe(name: str):
    def make(directory: Path) -> None:
        (directory / name).unlink()
        os.mkfifo(directory / name)

    return make


def endless(name: str):
    def make(directory: Path) -> None:
        (directory / name).unlink()
        (directory / name).symlink_to("/dev/zero")

    return make


def config(**fields):
    return lambda directory: change(directory / "config.json", **fields)


def option(**fields):
    return lambda directory: change(directory / "config.json", options=options_of(directory) | fields)


def sources(**fields):
    empty = {"name": "x", "train": None, "dev": None, "test": None, "unlabeled": None}
    return config(sources=empty | fields, files={})


def content(name: str, text: bytes):
    return lambda directory: (directory / name).write_bytes(text)


def new(kind, name: str):
    """A file that the run does not have."""

    def make(directory: Path) -> None:
        (directory / name).touch()
        kind(name)(directory)

    return make


def hungry_tagger(directory: Path) -> None:
    """Its network would take 16 GiB, its tensors are few."""
    sizes = dict.fromkeys(("word", "affix", "character", "convolution", "lstm"), 2**12)
    tagger = {"format": 1, "sizes": sizes, "figures": {}, "tags": {"upos": ["A"]}, "characters": [], "affixes": []}
    tagger["words"] = list(map(str, range(10**6)))
    (directory / "tagger.json").write_text(json.dumps(tagger))
    (directory / "tagger.safetensors").write_bytes(pack({"word.weight": torch.zeros(2, 2)}))


BOTH = {
    "deep JSON": (content("config.json", b'{"a":' * 10**6), "config.json: this is not JSON"),
    "a number of a million digits": (content("vocab.json", b'{"a":' + b"9" * 10**6 + b"}"), "json: this is not JSON"),
    "an endless configuration": (endless("config.json"), "is not a run: it has no config.json"),
    "an endless vocabulary": (endless("vocab.json"), "vocab.json: this is not a regular file"),
    "a vocabulary that is a pipe": (pipe("vocab.json"), "vocab.json: this is not a regular file"),
    "a tagger of another size": (hungry_tagger, "the file is of another model"),
    "a model of another kind": (option(model="../../x"), "`options` names no known model"),
    "code for a number": (option(seed="__import__('os')"), "--seed: \"__import__('os')\" is not an integer"),
    "two lines for a device": (option(device="cpu\nx"), "option device has characters that can't be shown"),
    "a list for a number": (option(epochs=[1]), "option epochs must be a number or a string"),
    "a format of megabytes": (config(format="x" * 10**6), "`format` is not 1"),
    "sources of another type": (config(sources=[[]]), "`sources` is not as train.py writes it"),
    "a name that can't be shown": (sources(name="\x1b[2J"), "`sources` is not as train.py writes it"),
    "no tagger": (content("tagger.json", b'{"format": 1}'), "tagger.json: this is not the tagger of a run"),
    "deep JSON in a tagger": (content("tagger.json", b"[" * 10**6), "tagger.json: this is not JSON"),
    "an endless tagger": (new(endless, "tagger.json"), "tagger.json: this is not a regular file"),
    "a tagger that is a pipe": (new(pipe, "tagger.json"), "tagger.json: this is not a regular file"),
    "no vocabulary": (content("vocab.json", b'{"words": {"symbols": [1]}}'), "not the vocabulary of a run"),
}  # fmt: skip
EVALUATE = {
    "huge sizes": (huge, "has shape"),
    "a model with holes": (holes, "model.safetensors: this file is too large"),
    "a model that is a pipe": (pipe("model.safetensors"), "model.safetensors: this is not a regular file"),
    "an endless model": (endless("model.safetensors"), "model.safetensors: this is not a regular file"),
    "no model": (content("model.safetensors", b"\xff" * 1000), "model.safetensors: can't be read: it is damaged"),
}
RESUME = {
    "huge sizes": (huge, "GiB can't be trained on this machine: choose smaller sizes"),
    "data that never end": (sources(train="/dev/zero"), "/dev/zero: this is not a regular file"),
    "data from elsewhere": (sources(train="../../../etc/passwd"), "passwd: "),
    "a file name with a zero": (sources(train="a\0b"), "`sources` is not as train.py writes it"),
}


@pytest.mark.parametrize("case", [*BOTH, *EVALUATE])
def test_evaluating(case, copy, file, mistake):
    make, message = (BOTH | EVALUATE)[case]
    make(copy)
    assert message in mistake(evaluate.main, copy, file)


@pytest.mark.parametrize("case", [*BOTH, *RESUME])
def test_resuming(case, copy, mistake):
    make, message = (BOTH | RESUME)[case]
    make(copy)
    assert message in mistake(train.main, "--resume", copy)


def resumed(directory: Path, capfd) -> str:
    """What restoring says, when the only checkpoint there is can't be used."""
    trainer = small_trainer(tiny_options("gap", "--epochs=1"), directory)
    trainer.display.console.quiet = False
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    assert not trainer.restore()
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, before[name])  # it can start over as if nothing had been there
    return capfd.readouterr().err


def states():
    """Changes of the state in a checkpoint whose checksums are right."""

    def training(**fields):
        return lambda state: state["training"].update(fields)

    yield "steps", training(step="many")
    yield "a negative step", training(step=-1)
    yield "an epoch beyond the last", training(epoch=10**9)
    yield "a stage beyond the last", training(stage=10**9)
    yield "no history", training(history=None)
    yield "a history of strings", training(history=[{"loss": "<b>"}])
    yield "another phase", training(phase="dev", record={})
    yield "sums without words", training(totals={"loss": 1.0})
    yield "another field", training(code="1")
    yield "settings of another optimiser", lambda state: state["optimizer"]["groups"][0].update(lr="fast")
    yield "parameters by number", lambda state: state["optimizer"]["groups"][0].update(params=[0])
    yield "half a state", lambda state: state["optimizer"]["state"]["0"].pop("exp_avg")
    yield "a state without a parameter", lambda state: state["optimizer"]["state"].update({"99": {}})
    yield "a loss scaler", lambda state: state.update(scaler={"scale": "x"})


@pytest.mark.parametrize("case", dict(states()))
def test_hostile_states(case, copy, capfd):
    checkpoints = Checkpoints(copy)
    number = checkpoints.numbers()[0]
    state = checkpoints.state(number)
    tensors = load(checkpoints.tensor_file(number).read_bytes())
    dict(states())[case](state)
    for path in copy.glob("checkpoint-*"):
        path.unlink()
    checkpoints.save(tensors, state)
    assert "using the one before" in resumed(copy, capfd)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "{}"], ids=["deep", "list", "dict"])
def test_a_state_that_is_none(text, copy, capfd):
    number = Checkpoints(copy).numbers()[0]
    path = copy / f"checkpoint-{number}.json"
    sums = json.loads(path.read_text())["sha256"] | {"state": hashlib.sha256(text.encode()).hexdigest()}
    for other in copy.glob("checkpoint-*.json"):
        other.unlink()
    path.write_text(json.dumps({"sha256": sums, "state": text}))
    assert resumed(copy, capfd)


@pytest.mark.parametrize(
    ("keys", "counts"),
    [(torch.zeros(5), torch.zeros(3)), (torch.zeros(2, 2), torch.zeros(2, 2)), (torch.zeros(3), torch.zeros(3))],
)
def test_counts_that_do_not_belong_together(keys, counts, copy, file, mistake):
    path = copy / "model.safetensors"
    tensors = load(path.read_bytes()) | {"theta.keys": keys, "theta.counts": counts.double()}
    path.write_bytes(pack(tensors))
    assert "this is not the model of a run" in mistake(evaluate.main, copy, file)


def test_links_in_a_run_lead_nowhere(copy, tmp_path):
    """What a run writes replaces links; what they point to stays."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    for name in ("metrics.jsonl", "model.safetensors", "curves.png"):
        (copy / name).unlink()
        (copy / name).symlink_to(outside)
    for name in ("checkpoint-99.safetensors", ".x.tmp"):
        (copy / name).symlink_to(outside)
    trainer = small_trainer(tiny_options("gap", "--epochs=1"), copy)
    assert trainer.restore()
    trainer.train()
    assert outside.read_bytes() == b"mine" and not any(path.is_symlink() for path in copy.iterdir())


def test_a_model_that_does_not_fit_is_not_begun(tmp_path, mistake):
    output = tmp_path / "run"
    sizes = [f"--{name}-size=65536" for name in ("word", "lstm", "hidden")]
    assert "GiB can't be trained" in mistake(train.main, "--model=ntp", *TINY, *sizes, "--output", output)
    assert not output.exists()


def test_curves_of_a_file_that_never_ends(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{}")
    for make in (pipe("metrics.jsonl"), endless("metrics.jsonl")):
        make(tmp_path)
        with pytest.raises(DataError, match=r"metrics\.jsonl: this is not a regular file"):
            read_history(tmp_path)
