"""Which trees evaluate.py may choose: --constrain and --multi-root."""

import os

from parsers.data.conllu import read
from parsers.data.projective import is_projective
from tests.parsers.evaluation.evaluating import main, mistake, words


def test_constrain(place, tmp_path, capfd):
    """Every second head is taken away: the others stay, and the trees are projective and single-rooted."""
    partly, parsed = tmp_path / "partly.conllu", tmp_path / "parsed.conllu"
    gold = list(read(str(place / "gold.conllu")))
    partly.write_text("".join(s.text([h if i % 2 else "_" for i, h in enumerate(s.heads)]) for s in gold))
    main(place / "first", partly, "--constrain", "--output", parsed)
    assert "heads in the file were kept: not scored" in capfd.readouterr().out
    for before, after in zip(gold, read(str(parsed)), strict=True):
        assert before.heads[1::2] == after.heads[1::2] and after.heads.count(0) == 1 and min(after.heads) >= 0
        assert is_projective(after.heads)


def test_constraints_without_a_tree(place, tmp_path, capfd):
    path = tmp_path / "bad.conllu"
    rows = [(3, 4, "_", "_"), ("_", "_"), (0, 0), (4, "_", "_", 2)]  # the last: 2 and 3 could only hang from each other
    path.write_text("# one\n" + "\n".join(words(*row) for row in rows) + "\n")
    for target in (tmp_path / "out", "-"):
        error = mistake(capfd, place / "first", path, "--constrain", "--output", target, lines=4)
        first, second, third, last = error.splitlines()
        assert f"{path}:3: the arcs to words 1 and 2 cross" in first
        assert f"{path}:11: words 1 and 2 both hang from the root: --multi-root" in second
        assert f"{path}:13: no projective tree has the heads in the file" in third
        assert "3 sentences can't be parsed" in last
    assert os.listdir(tmp_path) == ["bad.conllu"]


def test_multi_root(place, tmp_path):
    path, parsed = tmp_path / "two.conllu", tmp_path / "parsed.conllu"
    path.write_text(words(0, "_", 0))
    main(place / "first", path, "--output", parsed)
    assert next(read(str(parsed))).heads.count(0) == 1
    main(place / "first", path, "--output", parsed, "--constrain", "--multi-root")
    assert next(read(str(parsed))).heads[::2] == [0, 0]
