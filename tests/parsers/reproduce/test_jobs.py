"""Jobs: every run once, in processes that may fail or be stopped; and a run of its own, from training to its line."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from parsers.data import synthetic
from parsers.io.errors import UserError
from parsers.reproduce import __main__ as command
from parsers.reproduce import child, jobs
from parsers.reproduce.commit import ROOT
from parsers.reproduce.estimates import Estimates
from parsers.reproduce.grid import read_grid
from parsers.reproduce.lines import Line, append, read_lines
from tests.parsers.helpers import TINY
from tests.parsers.reproduce.lines import line, line_of

GRID = """
[rows."NTP (L)"]
system = "ntp"
[rows."NMP (L)"]
system = "nmp"
[[steps]]
rows = ["NTP (L)", "NMP (L)"]
treebanks = ["small"]
seeds = [1, 2]
"""
# In place of a training: says what it was asked, and fails, waits or ends at once.
CHILD = """
import json, os, pathlib, sys, time
task = json.loads(sys.argv[1])
with open("asked", "a") as file: file.write(" ".join(task["arguments"]) + "\\n")
if "--model=nmp" in task["arguments"] and os.path.exists("fail"): sys.exit("no luck today")
while os.path.exists("wait"): time.sleep(0.01)
run = pathlib.Path(task["run"]); run.mkdir(exist_ok=True)
found = {"sizes": {"trees": 9, "text": 0, "dev": 1, "test": 1}, "epochs": 3, "best_epoch": 2, "seconds": 1.5}
found |= {"dev_uas": 50.0, "test_uas": 50.0, "words": [4], "heads": [2], "figures": {"more": 1}}
(run / "result.json").write_text(json.dumps(found))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A grid, a treebank, and a child that needs no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITREE_DATA", str(tmp_path))
    monkeypatch.setattr(jobs, "CHILD", (sys.executable, "-c", CHILD))
    (tmp_path / "small").mkdir()
    for split in ("train", "dev", "test"):
        text = "".join(synthetic.conllu(split, count=20))
        (tmp_path / "small" / f"x-ud-{split}.conllu").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def reproduce(*arguments: str) -> int:
    return command.main(["grid.toml", "--jobs", "2", *arguments])


def asked(place) -> list[str]:
    return (place / "asked").read_text().splitlines()


def test_every_run_is_done_once(place, capsys):
    assert reproduce() == 0 and reproduce() == 0
    lines = read_lines(place / "runs.jsonl")
    assert sorted((one.system, one.seed) for one in lines) == [("nmp", 1), ("nmp", 2), ("ntp", 1), ("ntp", 2)]
    assert len(asked(place)) == 4
    assert f"--treebank={place / 'small'}" in asked(place)[0] and "--threads=1" in asked(place)[0]
    assert list((place / "runs" / "reproduce").iterdir()) == []  # and nothing is left of them
    assert "done: NTP (L) on small, seed 1: dev UAS 50.00, test UAS 50.00 (0:02)" in capsys.readouterr().out


def test_what_is_there_is_not_run(place):
    plans = read_grid(place / "grid.toml").plans
    append(place / "runs.jsonl", line_of(plans[0]))
    assert jobs.remaining(plans, read_lines(place / "runs.jsonl")) == plans[1:]
    assert jobs.remaining(plans, [line_of(plans[1], recipe=99)]) == plans  # another recipe


def test_runs_without_a_test_set(place):
    (place / "grid.toml").write_text(GRID + "dev-only = true\n")
    (plan, *_) = plans = read_grid(place / "grid.toml").plans
    for tested in (True, False):
        found = line(plan.system, plan.options, plan.treebank, plan.seed, tested=tested)
        assert jobs.remaining(plans, [found]) == plans[1:]
    reproduce()
    assert all("--dev=" in text and "--treebank" not in text and "--test" not in text for text in asked(place))


def test_a_run_that_fails_is_said_and_the_others_go_on(place, capsys):
    (place / "fail").touch()
    assert reproduce() == 1
    assert [one.system for one in read_lines(place / "runs.jsonl")] == ["ntp", "ntp"]
    assert "failed: NMP (L) on small, seed 1: no luck today (" in capsys.readouterr().out
    (place / "fail").unlink()
    assert reproduce() == 0
    assert len(read_lines(place / "runs.jsonl")) == 4 and len(asked(place)) == 6


def test_a_result_whose_figures_do_not_fit_is_no_line(place, monkeypatch, capsys):
    monkeypatch.setattr(jobs, "CHILD", (sys.executable, "-c", CHILD.replace('"test_uas": 50.0', '"test_uas": 51.0')))
    assert reproduce() == 1
    assert not (place / "runs.jsonl").exists()
    assert "test_uas is 51.0, but its sentences give 50.0" in capsys.readouterr().out


def test_a_treebank_that_is_missing_is_said(place, capsys):
    (place / "grid.toml").write_text(GRID.replace('["small"]', '["small", "large"]'))
    assert reproduce() == 0
    assert len(read_lines(place / "runs.jsonl")) == 4
    assert "not there, and left out: large (set TRITREE_DATA" in capsys.readouterr().out
    (place / "grid.toml").write_text(GRID.replace("small", "large"))
    with pytest.raises(UserError, match="none of the treebanks is there"):
        reproduce()


def test_when_it_is_stopped_so_are_its_children(place):
    (place / "wait").touch()
    script = f"from parsers.reproduce import __main__, jobs; jobs.CHILD = {jobs.CHILD!r}; "
    script += "import sys; sys.exit(__main__.main(['grid.toml', '--jobs', '2']))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 60
    while not (place / "asked").exists() or len(asked(place)) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(UserError, match=r"another python -m parsers\.reproduce writes to runs\.jsonl"):
        reproduce()
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped; the same command goes on from here" in said
    (place / "wait").unlink()
    assert not (place / "runs.jsonl").exists()
    assert reproduce() == 0
    assert len(read_lines(place / "runs.jsonl")) == 4


def test_time_left_is_that_of_similar_runs():
    plans = {plan.row: plan for plan in _plans_of_sizes()}
    found = Estimates([], {"small": 1000})
    assert found.left(plans.values(), [], 2) is None
    found.add(line("ntp", {}, "small", seconds=10.0))  # 100 trees and 900 sentences of text: 0.01 s for each
    assert found.seconds(plans["NTP"]) == pytest.approx(0.01 * 100)  # a tenth of the trees
    assert found.seconds(plans["GAP"]) == pytest.approx(0.01 * 1000)  # and all the text, at the rate of the others
    found.add(line("gap", {}, "small", seconds=50.0))
    assert found.seconds(plans["GAP"]) == pytest.approx(0.05 * 1000)
    assert found.left(plans.values(), [], 2) == pytest.approx((1 + 50) / 2)


def _plans_of_sizes():
    from parsers.reproduce.grid import Plan

    for row in ("NTP", "GAP"):
        yield Plan(row, row.lower(), {"labeled": 0.1}, "small", 1, False, "")


def test_a_run_from_training_to_its_line(place, monkeypatch):
    """Its sentences add up to the figures of the training, and going on with a finished run changes nothing."""
    monkeypatch.setattr(child, "end_with", lambda parent: None)
    run, text = place / "run", place / "small" / "x-ud-train.conllu"
    arguments = ["--model=gap", f"--treebank={place / 'small'}", f"--unlabeled={text}", "--labeled=0.5"]
    task = child.Task(str(run), [*arguments, "--epochs=1", *TINY, "--no-tagger"], 0).to_json()
    assert child.main([task]) == 0
    result = json.loads((run / child.RESULT).read_text())
    (run / child.RESULT).unlink()
    found = Line("gap", {}, "small", 1, 1, commit=None, **result)
    found.check()
    assert found.sizes == {"trees": 10, "text": 30, "dev": 20, "test": 20} and found.labels is not None
    assert child.main([task]) == 0
    assert json.loads((run / child.RESULT).read_text()) == result
