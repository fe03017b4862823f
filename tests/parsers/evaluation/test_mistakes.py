"""What a user of evaluate.py gets wrong: one line that names the place, and no file."""

import json
import os
import sys

import pytest

from tests.parsers.evaluation.calls import WORD, mistake, words
from tests.parsers.processes import run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN"], "name either a FILE, a --treebank or a --text"),
        (["RUN", "FILE", "more"], "name either a FILE, a --treebank or a --text"),
        (["RUN", "FILE", "--treebank", "DIR"], "name either a FILE, a --treebank or a --text"),
        (["RUN", "FILE", "--split=dev"], "--split is a part of a --treebank"),
        (["RUN", "FILE", "--confidence"], "--confidence is written to --output"),
        (["RUN", "FILE", "--output="], "argument --output: the name is empty"),
        (["RUN", "FILE", "--calibration=x.pdf"], "x.pdf would be a PNG picture: name it .png"),
        (["--curves", "RUN", "--output=x.svg"], "x.svg would be a PNG picture"),
        (["RUN", "FILE", "--output=x", "--json=./x"], "x can't take two outputs"),
        (["RUN", "FILE", "--draw=0"], "--draw: '0' is not an integer"),
        (["RUN", "FILE", "--decode=magic"], "invalid choice: 'magic'"),
        (["RUN", "FILE", "--output=-", "--json=-"], "standard output can't take two outputs"),
        (["RUN", "FILE", "--constrain", "--calibration=x.png"], "choose one"),
        (["--compare", "RUN", "RUN", "FILE", "--draw=1"], "--draw does not go with --compare"),
        (["--compare", "RUN", "FILE"], "name either a FILE"),
        (["--curves", "RUN", "--json=x"], "--json does not go with --curves"),
        (["RUN", "FILE", "--device=quantum"], "argument --device: 'quantum' is not a supported device"),
        (["FILE", "FILE"], "is not a directory"),
        (["RUN", "FILE", "--outptu=x"], "unrecognized arguments: --outptu=x"),
    ],
)
def test_options_that_make_no_sense(place, capfd, arguments, message):
    names = {"RUN": place / "first", "FILE": place / "gold.conllu", "DIR": place}
    error = mistake(capfd, *(names.get(argument, argument) for argument in arguments))
    assert message in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": there are no sentences in this file"),
        (b"# nothing\n\n", ":2: there are no sentences in this file"),
        (words(0).encode() + b"2 a\n", ":2: CoNLL-U has 10 columns, separated by tabs, and this line has no tabs"),
        (words(0, 7).encode(), ":2: word 2 has head 7, but the sentence has only 2 words"),
        (words(2, 1).encode(), ":1: the heads go in a circle"),
        (words(0, 2).encode(), ":2: word 2 is its own head"),
        ((words(0) + WORD.format(3, 1)).encode(), ":2: id '3' where word 2 should be"),
        (words(0).encode() + b"2\t\xe9" + WORD.format("", 0).encode(), ":2: byte 0xe9 is not UTF-8"),
        (b"\x1f\x8b broken", ": this gzip file is damaged"),
    ],
)
def test_broken_files(place, tmp_path, capfd, content, message):
    """One line that names the place, and no file, neither whole nor half."""
    path = tmp_path / "broken.conllu"
    path.write_bytes(content)
    for target in (tmp_path / "out", "-"):
        error = mistake(capfd, place / "first", path, "--output", target, "--json", tmp_path / "json")
        assert f"{path}{message}" in error
    assert os.listdir(tmp_path) == ["broken.conllu"]


def test_wrong_options_are_answered_without_torch():
    """Torch takes seconds to import: none of the large packages is imported for a wrong value of any option."""
    wrong = [
        ["RUN"],
        ["RUN", "FILE", "--bogus"],
        ["RUN", "--treebank="],
        ["RUN", "--treebank=nowhere"],
        ["RUN", "FILE", "--split=other"],
        ["RUN", "--compare", "RUN"],
        ["--curves", "RUN", "--kbest=2"],
        ["RUN", "FILE", "--decode=magic"],
        ["RUN", "FILE", "--device=quantum"],
        ["RUN", "FILE", "--output="],
        ["RUN", "FILE", "--kbest=0"],
        ["RUN", "FILE", "--json="],
        ["RUN", "FILE", "--html="],
        ["RUN", "FILE", "--draw=x"],
        ["RUN", "FILE", "--calibration=x.pdf"],
        ["RUN", "missing.conllu"],
    ]
    script = f"""
import sys, evaluate
from parsers.io.command import run_command
for arguments in {wrong}:
    assert run_command("evaluate.py", evaluate.main, arguments) == 2
print({{"torch", "numpy", "rich"}} & sys.modules.keys())
"""
    done = run("-c", script)
    assert done.stdout == "set()\n" and done.stderr.count("\n") == len(wrong)


def test_a_missing_file_is_reported_at_once(place, tmp_path, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "parsers.evaluation.commands", None)  # importing it, and torch with it, fails
    run, missing = place / "first", tmp_path / "missing.conllu.gz"
    for arguments in ([run, missing], ["--compare", run, run, missing]):
        assert mistake(capfd, *arguments) == f"evaluate.py: {missing}: can't be read: No such file or directory\n"
    assert f"{tmp_path}: can't be read: Is a directory" in mistake(capfd, run, tmp_path)


def test_a_run_that_is_not_one(place, tmp_path, capfd):
    gold = place / "gold.conllu"
    assert "is not a run" in mistake(capfd, tmp_path, gold)
    config = tmp_path / "config.json"
    saved = json.loads((place / "first" / "config.json").read_text())
    for content, message in [
        ("{", "this is not JSON"),
        (json.dumps(saved | {"options": saved["options"] | {"model": "magic"}}), "names no known model"),
        (json.dumps(saved), "has no model yet"),
    ]:
        config.write_text(content)
        assert message in mistake(capfd, tmp_path, gold)
