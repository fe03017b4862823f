"""From names to files, and from files to sentences."""

import pytest

from parsers.data.sources import MAX_WORDS, find_split, find_treebank, sentences
from parsers.io.errors import DataError, UserError


def test_the_files_of_a_treebank(tmp_path, monkeypatch):
    for name in ("xx-ud-train.conllu", "xx-ud-dev.conllu.gz", "mine.test.conllu"):
        (tmp_path / name).touch()
    monkeypatch.setenv("TRITREE_DATA", str(tmp_path.parent))
    assert find_treebank(str(tmp_path)) == find_treebank(tmp_path.name) == tmp_path
    found = [find_split(tmp_path, split) for split in ("train", "dev", "test")]
    assert found == [str(tmp_path / name) for name in ("xx-ud-train.conllu", "xx-ud-dev.conllu.gz", "mine.test.conllu")]
    assert find_split(tmp_path, "unlabeled", required=False) is None
    with pytest.raises(UserError, match=r"has no \*-ud-unlabeled.conllu"):
        find_split(tmp_path, "unlabeled")
    (tmp_path / "yy-ud-train.conllu").touch()
    with pytest.raises(UserError, match=r"has more than one \*-ud-train.conllu: name the file that is meant"):
        find_split(tmp_path, "train")
    with pytest.raises(UserError, match="is not a directory, nor a name under TRITREE_DATA"):
        find_treebank("nowhere")


def test_sentences_that_are_too_long(tmp_path):
    path = tmp_path / "long.conllu"
    word = "{}\ta\t_\tX\t_\t_\t0\t_\t_\t_\n"
    for length in (MAX_WORDS, MAX_WORDS + 1):
        path.write_text("".join(map(word.format, range(1, length + 1))) + "\n")
        if length == MAX_WORDS:
            assert len(next(sentences(str(path)))) == MAX_WORDS
        else:
            with pytest.raises(DataError, match=f"long.conllu:1: a sentence of {length} words; at most {MAX_WORDS}"):
                list(sentences(str(path)))
