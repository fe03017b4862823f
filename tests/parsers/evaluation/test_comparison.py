"""Two runs side by side: evaluate.py --compare and its bootstrap."""

import json
from collections import Counter

import numpy as np
import pytest

from parsers.evaluation.comparison import paired_bootstrap
from tests.parsers.evaluation.calls import main


def test_compare(place, tmp_path, capfd):
    arcs, figures = tmp_path / "arcs.tsv", tmp_path / "figures.json"
    gold = place / "gold.conllu"
    main("--compare", place / "first", place / "second", gold, "--output", arcs, "--json", figures)
    text = capfd.readouterr().out
    assert f"more: all of them are in {arcs}" in text.replace("\n", "") or len(arcs.read_text().splitlines()) <= 11
    figures = json.loads(figures.read_text())
    first, second = figures["scores"]
    assert figures["bootstrap"]["uas"]["difference"] == pytest.approx(second["uas"] - first["uas"])
    header, *rows = [line.split("\t") for line in arcs.read_text().splitlines()]
    different = sum(sum(figures[what].values()) - figures[what].get("same", 0) for what in ("arcs", "labels"))
    assert len(rows) == different and len(header) == 12
    lines = gold.read_text().splitlines()
    for row in rows:
        columns = lines[int(row[0].rpartition(":")[2]) - 1].split("\t")
        assert row[1] == f"{columns[0]} {columns[1]}" and row[3].split()[0] == columns[6]
        differ = [what for what, a, b in (("head", 4, 5), ("label", 9, 10)) if row[a] != row[b]]
        assert row[8] == columns[7] and row[11] == ", ".join(differ) != ""
    right = Counter(who for row in rows for who in (4, 5) if row[who] == row[3] and row[4] != row[5])
    assert (right[4], right[5]) == (figures["arcs"]["first right"], figures["arcs"]["second right"])
    assert f"Run 2 has the better UAS (p = {figures['bootstrap']['uas']['p_value']:.4f})" in text
    main("--compare", place / "first", place / "first", gold)
    assert "may well be chance (p = 1.0000)" in capfd.readouterr().out


def test_bootstrap():
    """Against drawing sentences one by one; and the p-value of a difference that is none."""
    rng = np.random.default_rng(0)
    words, differences = rng.integers(5, 30, 200), rng.integers(-3, 5, 200)
    kinds = Counter(zip(words.tolist(), differences.tolist(), strict=True))
    found = paired_bootstrap(kinds, 4000)
    drawn = rng.integers(0, 200, (4000, 200))
    naive = 100 * differences[drawn].sum(1) / words[drawn].sum(1)
    assert found["interval"] == pytest.approx(np.quantile(naive, [0.025, 0.975]).tolist(), abs=0.3)
    centred = np.abs(naive - found["difference"]) >= found["difference"]
    assert found["p_value"] == pytest.approx(centred.mean(), abs=0.01)
    assert found == paired_bootstrap(kinds, 4000)
    assert paired_bootstrap(Counter({(10, 1): 5, (10, -1): 5}), 100)["p_value"] == 1
