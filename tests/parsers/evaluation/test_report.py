"""What evaluate.py shows: tables that fit a terminal, pictures, and how far it is."""

import io
import json
import re

import pytest
from rich.console import Console
from rich.progress import Progress

from parsers.data.conllu import read
from parsers.evaluation.parse import Parse
from parsers.evaluation.tables import Bar, evaluation_tables, progress
from tests.parsers.evaluation.evaluating import main


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


def test_pictures(place, tmp_path, capfd):
    page = tmp_path / "page.html"
    main(place / "second", place / "gold.conllu", "--draw=2", "--html", page)
    text = capfd.readouterr().out
    assert text.index("heads right") < text.index("UAS") and "vámonos" not in text
    assert "vamos" in page.read_text(encoding="utf-8")


def test_progress(place, monkeypatch, capfd):
    """What has been parsed counts, not what has been read ahead."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(Progress, "update", lambda self, task, **shown: updates.append(shown))
    path, updates = str(place / "gold.conllu"), []
    sentences = list(read(path))
    with progress(path) as watch:
        parses = [Parse(sentence, [], None, [], [], 0.0, 0.0) for sentence in 3 * sentences]
        for number, parse in enumerate(watch(parses)):
            assert parse is parses[number] and len(updates) == (number + 1) // 64
    size = sum(len(line.encode()) for parse in parses[:64] for line in parse.sentence.lines)
    assert updates == [{"completed": size, "text": "64 sentences"}]
    capfd.readouterr()
