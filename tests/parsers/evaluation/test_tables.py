"""The tables of evaluate.py fit into a terminal."""

import io
import itertools
import json
import re

import pytest
from rich.console import Console

from parsers.evaluation.sinks import Evaluation
from parsers.evaluation.tables import Bar, evaluation_tables
from tests.parsers.evaluation.calls import main
from tests.parsers.evaluation.made_up import treebank_parses


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


def scaled(figures: dict, factor: int) -> dict:
    """The figures of a file that has so many times as many words."""
    tables = ("by_sentence_length", "by_arc_length", "label_confusions")
    groups = [figures[name] for name in tables if name in figures]
    groups += [figures[name].values() for name in ("by_pos", "by_label") if name in figures]
    for row in [figures, *itertools.chain(*groups)]:
        row |= {key: factor * value for key, value in row.items() if key.endswith(("words", "sentences", "roots"))}
    return figures


@pytest.mark.parametrize("factor", [1, 10_000])
def test_tables_of_labels_fit_into_80_columns(factor):
    evaluation = Evaluation(None)
    for parse in treebank_parses(300):
        evaluation.add(parse)
    figures = scaled(evaluation.figures(1.0), factor)
    console = Console(width=80, file=io.StringIO())
    console.print(evaluation_tables(figures))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert re.search(rf"^CLAS +{figures['clas']:.2f}  {figures['content_words']:,} words ", text, re.M)
    label, row = next(iter(figures["by_label"].items()))
    assert re.search(rf"^{label} +{row['words']:,} +{row['precision']:.2f} ", text, re.M)
    row = figures["label_confusions"][0]
    assert re.search(rf"^{row['gold']} +{row['predicted']} +{row['words']:,} *$", text, re.M)


@pytest.mark.parametrize("factor", [1, 10_000])
def test_tables_fit_into_80_columns(place, tmp_path, factor):
    """Also those of a file with millions of words: nothing is cut but the bars."""
    scores = tmp_path / "scores.json"
    main(place / "second", place / "gold.conllu", "--json", scores)
    figures = scaled(json.loads(scores.read_text()), factor)
    console = Console(width=80, file=io.StringIO())
    console.print(evaluation_tables(figures))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    for tag, row in figures["by_pos"].items():
        assert re.search(rf"\b{tag} +{row['words']:,} +{row['uas']:.2f}  ━*╸? *$", "\n".join(lines), re.M)
    assert any(line.startswith("without punctuation ") for line in lines)
    assert [len(line.rstrip()) for line in _bars(100.0, 75.0, 50.0, 0.0, width=8)] == [8, 6, 4, 0]
