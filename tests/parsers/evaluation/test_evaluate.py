"""The figures of evaluate.py: those of the official evaluation, and what is counted by hand."""

import json

import pytest
from udtools.udeval import evaluate as official
from udtools.udeval import load_conllu

from parsers.data import synthetic
from parsers.evaluation.breakdown import Breakdown
from parsers.evaluation.calibration import Calibration
from tests.parsers.evaluation.evaluating import main, mistake
from tests.parsers.evaluation.made_up import parse_of


@pytest.mark.parametrize("decode", ["viterbi", "mbr"])
def test_agrees_with_the_official_evaluation(place, tmp_path, decode):
    parsed, scores = tmp_path / "parsed.conllu", tmp_path / "scores.json"
    main(place / "second", place / "gold.conllu", f"--decode={decode}", "--output", parsed, "--json", scores)
    figures = json.loads(scores.read_text())
    loaded = []
    for path in (place / "gold.conllu", parsed):
        with open(path, encoding="utf-8") as file:
            loaded.append(load_conllu(file, str(path), {}))
    uas = official(*loaded)["UAS"]
    assert figures["uas"] == 100 * uas.f1 and 20 < figures["uas"] < 100
    assert (figures["correct"], figures["words"]) == (uas.correct, uas.gold_total)


def test_report_and_figures_agree(place, tmp_path, capfd):
    scores, plot = tmp_path / "scores.json", tmp_path / "plot.png"
    main(place / "second", place / "gold.conllu", "--json", scores, "--calibration", plot)
    text = capfd.readouterr().out
    figures = json.loads(scores.read_text())
    for key in ("uas", "uas_without_punctuation", "complete_matches", "root_accuracy"):
        assert f" {figures[key]:.2f} " in text
    assert f"{figures['expected_calibration_error'] * 100:.2f}" in text and "per second" in text
    for table in ("by_sentence_length", "by_arc_length"):
        assert sum(row["words"] for row in figures[table]) == figures["words"]
        assert sum(row["correct"] for row in figures[table]) == figures["correct"]
    assert sum(row["words"] for row in figures["by_pos"].values()) == figures["words"]
    assert sum(row["arcs"] for row in figures["calibration"]) == figures["words"]
    assert figures["coverage"][0]["coverage"] == 1
    assert 100 * figures["coverage"][0]["accuracy"] == pytest.approx(figures["uas"])
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_files_without_heads(place, tmp_path, capfd):
    path, scores = tmp_path / "raw.conllu", tmp_path / "scores.json"
    path.write_text("".join(synthetic.conllu("unlabeled", count=3)))
    main(place / "first", path, "--json", scores)
    assert "not scored" in capfd.readouterr().out
    figures = json.loads(scores.read_text())
    assert figures["parsed_sentences"] == 3 and "uas" not in figures
    error = mistake(capfd, place / "first", path, "--calibration", tmp_path / "x.png")
    assert "no heads to compare with" in error and not (tmp_path / "x.png").exists()
    main("--compare", place / "first", place / "second", path)
    assert "no heads in the file: not scored" in capfd.readouterr().out


def test_breakdown_by_hand():
    breakdown = Breakdown()
    breakdown.add(parse_of(["a"] * 4, [2, 0, 2, 2], [2, 0, 4, -1], [1.0] * 4))
    figures = breakdown.figures()
    assert figures["words"] == 3 and figures["uas"] == 100 * (2 / 3) and figures["root_accuracy"] == 100
    root, short = figures["by_arc_length"]
    assert root["from_root"] and root["words"] == 1
    assert (short["from"], short["to"], short["words"], short["correct"], short["predicted"]) == (1, 1, 2, 1, 2)
    assert Breakdown().figures() == {}


def test_calibration_by_hand():
    calibration = Calibration()
    calibration.add(parse_of(["a"] * 5, [2, 0, 2, 2, 1], [2, 0, 4, -1, 1], [1.0, 0.9, 0.25, 0.5, 0.8]))
    figures = calibration.figures()
    assert [(b["from"], b["arcs"]) for b in figures["calibration"]] == [(0.2, 1), (0.8, 1), (0.9, 2)]
    assert figures["expected_calibration_error"] == pytest.approx((0.25 + 0.2 + 2 * 0.05) / 4)
    by_threshold = {row["threshold"]: row for row in figures["thresholds"]}
    assert by_threshold[0.9]["coverage"] == 0.5 and by_threshold[0.9]["accuracy"] == 1
    assert by_threshold[0.5]["coverage"] == 0.75 and by_threshold[0.5]["errors_below"] == 1
