"""The options of train.py: from the command line into config.json and back, and checked before torch is imported."""

import json

import pytest

from parsers import MODELS, Model, Option
from parsers.io.arguments import COUNT
from parsers.io.errors import UserError
from parsers.options import options_from, options_to_json, parse, saved_options
from tests.parsers.processes import run


def test_options_survive_json():
    options = parse(["--model=nmp", "--no-unlabeled", "--fp16", "--labeled=0.1", "--train=-x", "--seed=3", "--xpos"])
    again = options_from(json.loads(json.dumps(options_to_json(options))), "f")
    assert vars(again) == vars(options)


@pytest.mark.parametrize("model", MODELS)
def test_defaults_survive_json(model):
    """Every default is a value that the option accepts."""
    options = parse([f"--model={model}"])
    saved = json.loads(json.dumps(options_to_json(options)))
    assert vars(options_from(saved, "f")) == vars(options)
    assert {option.dest for option in saved_options(model)} | {"model"} == saved.keys()


def test_an_option_that_an_older_run_does_not_have(monkeypatch):
    """It has the value ``before``, what the program did then, and not today's default."""
    saved = options_to_json(parse(["--model=ntp"]))
    new = (
        Option("--new", COUNT, 5, "N", "", before=2),
        Option("--flag", None, False, None, "", before=True),
        Option("--same", COUNT, 7, "N", ""),
    )
    monkeypatch.setitem(MODELS, "ntp", Model(MODELS["ntp"].path, options=new))
    old = options_from(saved, "f")
    assert (old.new, old.flag, old.same) == (2, True, 7)
    today = parse(["--model=ntp"])
    assert (today.new, today.flag, today.same) == (5, False, 7)
    assert vars(options_from(options_to_json(today), "f")) == vars(today)


WRONG = {
    "lap": "--samples=0",
    "gap": "--sigma=7",
    "ntp": "--dropout=1.5",
    "nmp": "--soft-epochs=few",
    "crfae": "--xpos",
    "dppp": "--temperature=0",
    "st": "--min-confidence=2",
    "edp": "--teachers=0",
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "arguments", [["wrong value"], ["--bogus"], ["--treebank=nowhere"], ["--dev=x"], ["--device=quantum"]], ids=str
)
def test_mistakes_are_found_without_torch(model, arguments):
    """Which takes seconds to import."""
    if arguments == ["wrong value"]:
        arguments = [WRONG.get(model, "--dropout=1.5")]
    code = f"""
import sys, train
from parsers.io.command import run_command
assert run_command("train.py", train.main, {[f"--model={model}", *arguments]!r}) == 2
assert not {{"torch", "numpy", "rich", "matplotlib"}} & sys.modules.keys()
"""
    error = run("-c", code).stderr
    assert error.count("\n") == 1 and arguments[0].partition("=")[0] in error


PAPER = {
    "lap": {"pretrain_epochs": 0, "kl_weight": 1, "reconstruction": 1, "reconstruction_start": 1, "mask": 0},
    "gap": {"theta": "words", "theta_weight": 1, "power": "arc", "unlabeled_weight": 0, "tree_counts": "first"},
    "nmp": {"soft_epochs": 0},
    "st": {"soft_epochs": 0, "parsed_weight": 1, "min_confidence": 0},
}


@pytest.mark.parametrize("model", [name for name, row in MODELS.items() if row.paper is not None])
def test_the_paper(model):
    """Without labels and without what other parsers have today; kept in config.json; single options can be changed."""
    options = parse([f"--model={model}", "--paper"])
    off = {
        "label_weight": 0,
        "char_filters": 0,
        "scorer": "tanh",
        "dropout_mask": "element",
        "ema": 0,
        "distance": False,
    }
    for name, value in (off | {"decode": "viterbi"} | PAPER.get(model, {})).items():
        assert getattr(options, name) == value, name
    saved = json.loads(json.dumps(options_to_json(options)))
    assert saved["paper"] is True and vars(options_from(saved, "f")) == vars(options)
    changed = parse([f"--model={model}", "--paper", "--label-weight=1"])
    assert changed.label_weight == 1 and vars(options_from(options_to_json(changed), "f")) == vars(changed)


def test_what_is_not_in_the_paper():
    with pytest.raises(UserError, match="--paper would have no effect: edp is not in the paper"):
        parse(["--model=edp", "--paper"])


def test_defaults_of_a_system_can_be_changed():
    """Also those that are flags elsewhere."""
    options = parse(["--model=edp", "--no-distance", "--ema=0", "--scorer=tanh"])
    assert (options.distance, options.ema, options.scorer, options.char_filters) == (False, 0, "tanh", 50)
    assert vars(options_from(options_to_json(options), "f")) == vars(options)
    assert parse(["--model=edp"]).distance and parse(["--model=edp", "--distance"]).distance
