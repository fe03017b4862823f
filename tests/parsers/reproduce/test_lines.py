"""Lines: what makes two runs the same, and files that are whole or refused."""

import json
from dataclasses import asdict, replace

import pytest

from parsers.io.errors import DataError, UserError
from parsers.reproduce.lines import append, key, locked, read_lines
from tests.parsers.reproduce.lines import line


def test_lines_come_back_as_they_were(tmp_path):
    path = tmp_path / "results" / "runs.jsonl"
    lines = [line(seed=1), line("gap", {"labeled": 0.1}, labels=False), line(seed=2, tested=False)]
    for one in lines:
        append(path, one)
    assert read_lines(path) == lines
    assert [one.tested for one in lines] == [True, True, False]
    assert sorted(file.name for file in path.parent.iterdir()) == ["runs.jsonl"]


def test_the_key_is_system_options_treebank_seed_recipe(tmp_path):
    one = line(options={"labeled": 0.1, "epochs": 3})
    assert one.key == key("ntp", {"epochs": 3, "labeled": 0.1}, "en_gum", 1, one.recipe)
    others = [line(system="nmp"), line(options={"labeled": 0.2}), line(treebank="ja_gsd"), line(seed=2), line()]
    others += [replace(line(), recipe=line().recipe + 1)]
    assert len({one.key, *(other.key for other in others)}) == 1 + len(others)


def test_a_line_that_is_there_is_not_added_again(tmp_path):
    path = tmp_path / "runs.jsonl"
    append(path, line(tested=False))
    append(path, line())  # with a test set: it says more
    append(path, line(share=0.5))
    append(path, line(tested=False))
    assert [one.tested for one in read_lines(path)] == [False, True]


@pytest.mark.parametrize("change", [{"test_uas": 50.0}, {"test_las": None}, {"heads": [1]}, {"words": None}])
def test_figures_are_those_of_the_sentences(tmp_path, change):
    wrong = replace(line(), **change)
    with pytest.raises(ValueError, match="test_"):
        append(tmp_path / "runs.jsonl", wrong)
    assert not (tmp_path / "runs.jsonl").exists()


def test_a_line_without_its_end_is_completed(tmp_path):
    path = tmp_path / "runs.jsonl"
    append(path, line())
    path.write_bytes(path.read_bytes().rstrip(b"\n"))  # an editor may do that
    append(path, line(seed=2))
    assert [one.seed for one in read_lines(path)] == [1, 2]


@pytest.mark.parametrize("damage", [lambda text: text[:-40], lambda text: text.replace('"seed":2', '"seed":"2"')])
def test_a_damaged_line_is_named_and_nothing_is_lost(tmp_path, damage):
    path = tmp_path / "runs.jsonl"
    texts = [json.dumps(asdict(line(seed=seed)), separators=(",", ":")) for seed in (1, 2)]
    content = f"{texts[0]}\n{damage(texts[1])}\n"
    path.write_text(content)
    with pytest.raises(DataError, match=r"runs.jsonl:2: .*delete this line, and its run is done again"):
        append(path, line(seed=3))
    assert path.read_text() == content


def test_one_process_at_a_time(tmp_path):
    lock = tmp_path / "lock"
    with locked(lock, "in use"), pytest.raises(UserError, match="in use"), locked(lock, "in use"):
        pass
    with locked(lock, "in use"):  # free again
        pass
