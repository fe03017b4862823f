"""The tables of evaluate.py fit into a terminal."""

import io
import json
import re

import pytest
from rich.console import Console

from parsers.evaluation.tables import Bar, evaluation_tables
from tests.parsers.evaluation.calls import main


def test_many_tags(place, tmp_path, capfd):
    """Those of the universal set have a line each; of more, the rarest share one."""
    path = tmp_path / "many.conllu"
    words = range(1, 41)
    path.write_text("".join(f"{i}\ta\t_\tT{max(1, i - 20)}\t_\t_\t{i - 1}\t_\t_\t_\n" for i in words) + "\n")
    main(place / "first", path)
    shown = capfd.readouterr().out
    assert re.search(r"\bT1 +21 ", shown) and re.search(r"\bT16 +1 ", shown) and re.search(r"\b4 others +4 ", shown)


def _bars(*values, width):
    for value in values:
        console = Console(width=width, file=io.StringIO())
        console.print(Bar(value))
        yield console.file.getvalue()


@pytest.mark.parametrize("factor", [1, 10_000])
def test_tables_fit_into_80_columns(place, tmp_path, factor):
    """Also those of a file with millions of words: nothing is cut but the bars."""
    scores = tmp_path / "scores.json"
    main(place / "second", place / "gold.conllu", "--json", scores)
    figures = json.loads(scores.read_text())
    for row in [figures, *figures["by_sentence_length"], *figures["by_arc_length"], *figures["by_pos"].values()]:
        row |= {key: factor * row[key] for key in ("words", "plain_words", "sentences", "roots") if key in row}
    console = Console(width=80, file=io.StringIO())
    console.print(evaluation_tables(figures))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    for tag, row in figures["by_pos"].items():
        assert re.search(rf"\b{tag} +{row['words']:,} +{row['uas']:.2f}  ━*╸? *$", "\n".join(lines), re.M)
    assert any(line.startswith("without punctuation ") for line in lines)
    assert [len(line.rstrip()) for line in _bars(100.0, 75.0, 50.0, 0.0, width=8)] == [8, 6, 4, 0]
