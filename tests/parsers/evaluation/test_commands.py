"""The figures of evaluate.py: they agree with the official evaluation, with the printed tables and with each other."""

import json

import pytest
from udtools.udeval import evaluate as official
from udtools.udeval import load_conllu

from parsers.data import synthetic
from tests.parsers.evaluation.calls import main, mistake


@pytest.mark.parametrize("decode", ["viterbi", "mbr"])
def test_agrees_with_the_official_evaluation(place, tmp_path, decode):
    parsed, scores = tmp_path / "parsed.conllu", tmp_path / "scores.json"
    main(place / "second", place / "gold.conllu", f"--decode={decode}", "--output", parsed, "--json", scores)
    figures = json.loads(scores.read_text())
    loaded = []
    for path in (place / "gold.conllu", parsed):
        with open(path, encoding="utf-8") as file:
            loaded.append(load_conllu(file, str(path), {}))
    scores = official(*loaded)
    for name in ("UAS", "LAS", "CLAS"):
        assert figures[name.lower()] == 100 * scores[name].f1 and 10 < figures[name.lower()] < 100
    uas = scores["UAS"]
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
