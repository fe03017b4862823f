"""Run directories: whole or not there, and safe to open whoever made them."""

import json

import pytest
import torch

from parsers import MODELS
from parsers.data.sources import Sources
from parsers.io.errors import DataError, UserError
from parsers.io.files import write
from parsers.runs.run import Run, fingerprint
from parsers.runs.tensors import pack, read_tensors
from tests.parsers import processes
from tests.parsers.helpers import build, small_data, tiny_options


@pytest.fixture
def run(tmp_path):
    options = tiny_options("ntp")
    _, vocab = small_data(options)
    run = Run.create(str(tmp_path / "run"), options, Sources("synthetic"), vocab, None)
    run.save_model(build(options, vocab).state_dict())
    return run


def test_it_is_made_whole(run, monkeypatch, tmp_path):
    assert sorted(p.name for p in run.directory.iterdir()) == ["config.json", "model.safetensors", "vocab.json"]
    options, sources = run.config()
    assert vars(options) == vars(tiny_options("ntp")) and sources == Sources("synthetic")
    monkeypatch.setattr("parsers.runs.run.write", lambda path, content: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Run.create(str(tmp_path / "other"), options, sources, run.vocab(), None)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_an_existing_directory_is_left_alone(run):
    with pytest.raises(UserError, match="exists already: continue it with --resume"):
        Run.create(str(run.directory), *run.config(), run.vocab(), None)


def test_what_is_no_run(tmp_path):
    for path, message in ((tmp_path / "no", "is not a directory"), (tmp_path, "has no config.json")):
        with pytest.raises(UserError, match=message):
            Run.open(str(path))


def test_a_model_comes_back(run):
    options, _ = run.config()
    model, vocab, vectors = run.load_model(options, torch.device("cpu"))
    for name, tensor in build(options, vocab).state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)
    assert vectors is None and not model.training


def change(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize("options", [
    None, [], {}, {"model": "../../evil"}, {"model": "os:system"}, {"model": ["ntp"]},
    {"model": "ntp", "lstm_size": 10**30}, {"model": "ntp", "lstm_size": "big"},
    {"model": "ntp", "lstm_size": None, "fp16": 1},
    {"model": "ntp", "dropout": float("nan")}, {"model": "ntp", "seed": [1]}, {"model": "ntp", "dropout": True},
])  # fmt: skip
def test_hostile_options(run, options):
    change(run.directory / "config.json", options=options)
    with pytest.raises(DataError):
        run.config()


@pytest.mark.parametrize(
    "sources", [None, {}, {"name": 1}, {"name": "x", "train": [], "dev": None, "test": None, "unlabeled": None}]
)
def test_hostile_sources(run, sources):
    change(run.directory / "config.json", sources=sources)
    with pytest.raises(DataError, match="`sources`"):
        run.config()


def test_huge_sizes_cost_no_memory(run):
    config = json.loads((run.directory / "config.json").read_text())
    change(run.directory / "config.json", options=config["options"] | {"lstm_size": 65536, "hidden_size": 65536})
    with pytest.raises(DataError, match="shape"):
        run.load_model(run.config()[0], torch.device("cpu"))


def test_tensors_are_checked(tmp_path):
    path = tmp_path / "t"
    write(path, pack({"a": torch.zeros(2, 3), "b": torch.ones(4)}))
    assert read_tensors(path, {"a": [2, 3], "b": None})["b"].tolist() == [1] * 4
    for expected, message in (({"a": [2, 3]}, "'b' does not belong"), ({"a": [3, 2], "b": None}, "shape"),
                              ({"a": [2, 3], "b": None, "c": []}, "'c' is missing")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            read_tensors(path, expected)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="damaged"):
        read_tensors(path, {"a": [2, 3], "b": [4]})


def test_changed_data_are_noticed(tmp_path):
    (tmp_path / "f").write_text("a")
    before = fingerprint(str(tmp_path / "f"))
    (tmp_path / "f").write_text("b")
    assert fingerprint(str(tmp_path / "f")) != before


def test_no_model_needs_the_compiler(tmp_path):
    """Arithmetic on the meta device would make torch import it, which takes two seconds."""
    for model in MODELS:
        options = tiny_options(model)
        _, vocab = small_data(options)
        run = Run.create(str(tmp_path / model), options, Sources("synthetic"), vocab, None)
        run.save_model(build(options, vocab).state_dict())
    code = """
import sys
from parsers.runs.run import Run
for path in sys.argv[1:]:
    run = Run.open(path)
    run.load_model(run.config()[0], "cpu")
    assert "torch._dynamo" not in sys.modules, path
"""
    processes.run("-c", code, *(tmp_path / model for model in MODELS))
