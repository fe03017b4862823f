"""Runs that an earlier version made: they can be loaded and resumed.

Both are of `train.py --model gap --word-size 4 --tag-size 4 --lstm-size 4 --hidden-size 4 --labeled 0.08 --max-words
100 --batch-size 2 --learning-rate 0.03 --dropout 0.1 --epochs 2 --threads 1`. `interrupted` was stopped after 7 steps
of the second epoch of the second stage.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file

import evaluate
import train
from parsers.data import synthetic
from parsers.runs.run import Run
from tests.parsers.training.interruption import check_alike, figures_of

KEPT = Path(__file__).parent / "kept"


def test_a_finished_run_parses_as_it_did(tmp_path):
    gold, scores = tmp_path / "test.conllu", tmp_path / "scores.json"
    gold.write_text("".join(synthetic.conllu("test")), encoding="utf-8")
    assert evaluate.main([str(KEPT / "finished"), str(gold), "--json", str(scores)]) == 0
    found, final = json.loads(scores.read_text()), figures_of(KEPT / "finished")[-1]
    for name in ("uas", "uas_without_punctuation", "complete_matches"):
        assert abs(found[name] - final[f"test_{name}"]) < 1


def test_an_interrupted_run_goes_on(tmp_path):
    path = tmp_path / "run"
    shutil.copytree(KEPT / "interrupted", path)
    assert train.main(["--resume", str(path)]) == 0
    newer = ("parse_loss",)  # figures that the kept runs do not have
    found = [{key: value for key, value in record.items() if key not in newer} for record in figures_of(path)]
    check_alike(figures_of(KEPT / "finished"), found)
    expected, found = (load_file(directory / "model.safetensors") for directory in (KEPT / "finished", path))
    assert {name: tensor.shape for name, tensor in found.items()} == {k: v.shape for k, v in expected.items()}
    run = Run.open(str(path))
    assert run.finished()
    model, *_ = run.load_model(run.config()[0], torch.device("cpu"))
    assert torch.equal(model.theta.counts, found["theta.counts"])
