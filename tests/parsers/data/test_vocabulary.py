import gzip
import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.data import synthetic
from parsers.data.examples import Indexer
from parsers.data.text import sentence_of
from parsers.data.vectors import read_vectors
from parsers.data.vocabulary import NUMBER, ROOT, UNKNOWN, Vocabulary, features, fold, normalize, part_of_speech
from parsers.io.errors import DataError


def test_words_are_normalised():
    assert [normalize(w) for w in ("The", "1999", "3rd", "x2", "ÄÖ", "²")] == ["the", NUMBER, NUMBER, "x2", "äö", "²"]


@pytest.mark.parametrize("words", [
    ["İyi", "iyi", "I\u0307yi", "i\u0307yi", "IYI"], ["café", "cafe\u0301", "CAFÉ"],
    ["\u212b", "å", "A\u030a"], ["한", "\u1112\u1161\u11ab"],
], ids=lambda words: words[0])  # fmt: skip
def test_one_normal_form(words):
    assert len(set(map(normalize, words))) == 1


def test_what_differs_stays_different():
    words = ["ı", "i", "ï", "İı", "ss", "ß", "é", "e"]
    assert len(set(map(normalize, words))) == len(words)


@given(st.text(min_size=1))
def test_a_normal_form_is_that_of_all_ways_to_write_it(form):
    assert fold(unicodedata.normalize("NFD", form)) == fold(unicodedata.normalize("NFC", form)) == fold(form)


def test_the_normal_form_is_kept_in_the_run():
    """Runs without the field have lower case alone, as they were trained."""
    vocab = Vocabulary.build([sentence_of(["İyi", "cafe\u0301", "gün"])])
    fields = json.loads(vocab.to_json())
    assert fields["normal_form"] == 2 and "iyi" in fields["words"]["symbols"] and "café" in fields["words"]["symbols"]
    sentence = sentence_of(["iyi", "İYİ", "CAFÉ", "GÜN"])
    assert (
        Indexer(Vocabulary.from_json(fields, "f"))(sentence).words.tolist() == Indexer(vocab)(sentence).words.tolist()
    )
    assert UNKNOWN not in Indexer(vocab)(sentence).words
    old = {"symbols": ["<UNKNOWN>", "<ROOT>", "cafe\u0301", "gün", "i\u0307yi"], "counts": [0, 0, 1, 1, 1]}
    del fields["normal_form"]
    before = Indexer(Vocabulary.from_json(fields | {"words": old}, "f"))
    assert before(sentence_of(["İyi", "iyi", "CAFE\u0301", "CAFÉ", "GÜN"])).words.tolist() == [ROOT, 4, 0, 2, 0, 3]


def test_tags():
    assert part_of_speech("NOUN", "NN") == "NOUN" and part_of_speech("_", "NN") == "NN"
    assert features("_") == [] and features("A=b|C=d") == ["A=b", "C=d"]


def test_words_of_trees_come_first():
    labeled, unlabeled = synthetic.sentences("train", count=30), synthetic.sentences("unlabeled", count=200)
    vocab = Vocabulary.build(labeled, unlabeled, min_count=2)
    in_trees = {normalize(w) for s in labeled for w in s.forms}
    symbols = vocab.words.symbols
    assert set(symbols[2 : vocab.num_labeled]) == in_trees
    assert symbols[vocab.num_labeled :] and not in_trees & set(symbols[vocab.num_labeled :])
    assert all(count >= 2 for count in vocab.unlabeled_counts[vocab.num_labeled :])
    assert all(vocab.words.counts[2 : vocab.num_labeled]) and not any(vocab.words.counts[vocab.num_labeled :])
    assert sum(vocab.words.counts) == sum(map(len, labeled))
    assert vocab.words.numbers(["never seen", symbols[5]]) == [UNKNOWN, 5] and symbols[ROOT] == "<ROOT>"


def test_the_vocabulary_can_be_bounded():
    labeled, unlabeled = synthetic.sentences("train", count=5), synthetic.sentences("unlabeled", count=200)
    assert len(Vocabulary.build(labeled, unlabeled, max_words=100).words) == 100
    assert Vocabulary.build(labeled, unlabeled, max_words=1).num_labeled == len(Vocabulary.build(labeled).words)


def test_json_and_back():
    vocab = Vocabulary.build(synthetic.sentences("train", count=5), synthetic.sentences("unlabeled", count=9))
    fields = json.loads(vocab.to_json())
    again = Vocabulary.from_json(fields, "f")
    assert again.to_json() == vocab.to_json() and again.words.number == vocab.words.number


@pytest.mark.parametrize("change", [
    {"words": None}, {"words": {"symbols": ["a"], "counts": [1]}}, {"num_labeled": 10**9}, {"num_labeled": True},
    {"pos": {"symbols": ["<UNKNOWN>", "<ROOT>", 3], "counts": [0, 0, 1]}}, {"unlabeled_counts": [-1]},
    {"normal_form": 3}, {"normal_form": True}, {"normal_form": "NFC"},
    {"xpos": {"symbols": ["<UNKNOWN>", "<ROOT>"], "counts": [0, 1e400]}},
])  # fmt: skip
def test_what_is_no_vocabulary(change):
    fields = json.loads(Vocabulary.build(synthetic.sentences("train", count=5)).to_json())
    with pytest.raises(DataError, match="f: this is not the vocabulary of a run"):
        Vocabulary.from_json(fields | change, "f")


def test_vectors(tmp_path):
    path = tmp_path / "v.gz"
    path.write_bytes(gzip.compress(b"3 2\nsea 1 2\nSea 3 4.5\nsea 7 7\n"))
    vectors = read_vectors(str(path))
    assert vectors.rows(["Sea", "SEA", "sea", "land"], fold) == [2, 1, 1, 0]
    path.write_text("i\u0307yi 1 1\niyi 2 2\ncaf\u00e9 3 3\n", encoding="utf-8")
    assert read_vectors(str(path)).rows(["İyi", "iyi", "CAFE\u0301"], fold) == [1, 2, 3]
    assert np.array_equal(vectors.table, [[0, 0], [1, 2], [3, 4.5]]) and vectors.table.dtype == np.float32


@pytest.mark.parametrize("content, line", [
    (b"a 1 2\nb 1\n", 2), (b"a 1 x\n", 1), (b"a 1 nan\n", 1), (b"\xff 1 2\n", 1), (b"a\n", 1), (b"", None),
])  # fmt: skip
def test_what_are_no_vectors(tmp_path, content, line):
    path = tmp_path / "v"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_vectors(str(path))
    assert caught.value.line == line
