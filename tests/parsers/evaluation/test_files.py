"""The files that evaluate.py writes are whole, or as they were before."""

import os

import pytest

import evaluate
from parsers.evaluation.metrics import Scores
from parsers.io.output import output
from tests.parsers.evaluation.evaluating import mistake
from tests.parsers.processes import call, run


def test_what_cannot_be_written(place, tmp_path, capfd):
    gold = place / "gold.conllu"
    assert "is a directory" in mistake(capfd, place / "first", gold, "--output", tmp_path)
    for option in ("--output", "--json", "--html", "--calibration"):
        error = mistake(capfd, place / "first", gold, option, tmp_path / "no" / "x")
        assert "can't be written: No such file or directory" in error
    if os.path.exists("/dev/full"):
        error = mistake(capfd, place / "first", gold, "--output", "/dev/full")
        assert "/dev/full can't be written: No space left on device" in error and not os.path.isfile("/dev/full")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="file sizes can't be limited here")
def test_full_disk(place, tmp_path):
    """A limit on the size of files stands for it: what was there before is still there."""
    target = tmp_path / "parsed.conllu"
    target.write_text("old")
    arguments = [str(place / "first"), str(place / "gold.conllu"), "--output", str(target)]
    script = f"""
import resource, sys, evaluate
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
status = evaluate.run_command("evaluate.py", evaluate.main, {arguments})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sys.exit(status)
"""
    assert run("-c", script, code=2).stderr == f"evaluate.py: {target} can't be written: File too large\n"
    assert os.listdir(tmp_path) == ["parsed.conllu"] and target.read_text() == "old"


def test_ctrl_c_leaves_nothing(place, tmp_path, monkeypatch, capfd):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Scores, "add", interrupt)
    arguments = [place / "first", place / "gold.conllu", "--output", tmp_path / "x", "--json", tmp_path / "y"]
    assert call(evaluate.main, *arguments, name="evaluate.py") == 130
    assert os.listdir(tmp_path) == [] and capfd.readouterr().err == "evaluate.py: stopped\n"


def test_output_through_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with output(str(link)) as write:
        write("new")
        write(b"er")
    assert link.is_symlink() and target.read_text() == "newer"
