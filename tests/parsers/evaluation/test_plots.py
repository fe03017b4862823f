"""Learning curves of runs, and files that are no history of a run."""

import contextlib

import pytest

from parsers.evaluation import plots
from parsers.evaluation.plots import read_history, summarize
from parsers.io.errors import DataError, UserError
from tests.parsers.evaluation.calls import main, mistake


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no metrics.jsonl yet: no epoch has ended"),
        ("", "this file is empty"),
        ('{"epoch": 1}\n{"epoch": 2', ":2: this is not JSON: the file is damaged"),
        ("[1]\n", ":1: expected a JSON object"),
        pytest.param("[" * 100_000, ":1: this is not JSON", id="deep"),
    ],
)
def test_histories_that_are_none(tmp_path, content, message):
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content)
    with pytest.raises(UserError, match=message):
        read_history(tmp_path)


def test_only_numbers_are_kept(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": 1, "loss": 0.5, "note": "x"}\n')
    assert read_history(tmp_path) == [{"epoch": 1, "loss": 0.5}]
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError):
        read_history(tmp_path)


def test_scores_of_a_run():
    """While it trains, the best of each on dev; at the end, those of its model."""
    epochs = [{"dev_uas": 80, "dev_las": 70}, {"dev_uas": 82, "dev_las": 69}, {"loss": 1}]
    running = {"epochs": 3, "dev_uas": 82, "dev_las": 70, "test_uas": None, "test_las": None}
    assert summarize(epochs) == running
    final = {"final": 1, "dev_uas": 82, "dev_las": 69, "test_uas": 81, "test_las": 68}
    assert summarize([*epochs, final]) == {"epochs": 3, **{key: final[key] for key in final if key != "final"}}
    assert summarize([{"dev_uas": 80}])["dev_las"] is None


def test_stages_in_the_picture_of_a_run(tmp_path, monkeypatch):
    """A dashed line between two stages; both panels have the same epochs, though pretraining has no scores."""
    plotting, panels = plots.plotting, []

    @contextlib.contextmanager
    def watched(title):
        with plotting(title) as drawn:
            yield drawn
            panels.extend(drawn[:2])

    monkeypatch.setattr(plots, "plotting", watched)
    text = {"stage": 0, "unlabeled_loss": 2.0, "unlabeled_reconstruction": 1.9}
    trees = [{"stage": 1, "loss": loss, "unlabeled_loss": 0.2, "dev_uas": 80 + loss} for loss in (2.0, 1.0, 0.5)]
    plots.draw_curves(tmp_path / "curves.png", [text, *trees, {"final": True}], "a run")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert all([1.5, 1.5] in [list(line.get_xdata()) for line in axes.lines] for axes in panels)
    low, high = panels[0].get_xlim()
    assert panels[1].get_xlim() == (low, high) and low < 1 and high > 4
    assert [text.get_text() for text in panels[0].get_legend().get_texts()] == [
        "loss", "unlabelled loss", "unlabelled reconstruction",
    ]  # fmt: skip


def test_curves(place, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # names of runs are cut off on narrow terminals
    main("--curves", place / "first", place / "second", "--output", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"
    assert str(place / "second") in capfd.readouterr().out.replace("\n", "")
    assert "is not a run" in mistake(capfd, "--curves", tmp_path, "--output", tmp_path / "y.png")
    assert not (tmp_path / "y.png").exists()
