import pytest

from parsers.data.vocabulary import is_punctuation
from parsers.evaluation.metrics import Scores


def test_counts_by_hand():
    scores = Scores()
    scores.add([2, 0, 2, 2], [2, 0, 2, 3], [False, False, False, True])  # the comma is wrong
    scores.add([0, 1], [0, 1], [False, False])
    assert scores.counts() == [6, 5, 5, 5, 2, 1, *[0] * 7]
    assert scores.uas == 100 * (5 / 6) and scores.uas_without_punctuation == 100 and scores.complete_matches == 50
    assert scores.summary("dev_")["dev_uas"] == scores.uas


def test_unknown_heads_do_not_count():
    scores = Scores()
    scores.add([2, 0, 2], [-1, 0, 1], [False] * 3)
    scores.add([0], [-1], [False])
    assert scores.counts() == [2, 1, 2, 1, 1, 0, *[0] * 7]


def test_labels_by_hand():
    """Right are 1 (up to the subtype) and 2; 3 has a wrong head, 4 a wrong label; of 5 and 6 not all is known."""
    scores = Scores()
    found, gold = ["nsubj", "root", "det", "obj", "obl", "obl"], ["nsubj:pass", "root", "det", "punct", "_", "obl"]
    marks = [False, False, False, True, False, False]
    scores.add([2, 0, 2, 2, 2, 2], [2, 0, 1, 2, 2, -1], marks, found, gold)
    assert scores.counts() == [5, 4, 4, 3, 1, 0, 4, 2, 3, 2, 2, 3, 2]
    assert (scores.las, scores.las_without_punctuation, scores.clas) == (50, 100 * (2 / 3), 100 * (4 / 5))
    assert list(scores.summary("dev_"))[3:] == ["dev_las", "dev_las_without_punctuation", "dev_clas"]
    assert Scores(*scores.counts()) == scores


@pytest.mark.parametrize("labels", [(None, ["root"]), (["root"], None), (["root"], ["_"]), ()])
def test_labels_are_counted_only_where_both_are(labels):
    scores = Scores()
    scores.add([0], [0], [False], *labels)
    assert scores.counts() == [1, 1, 1, 1, 1, 1, *[0] * 7]
    assert list(scores.summary()) == ["uas", "uas_without_punctuation", "complete_matches"]


def test_nothing_is_zero():
    assert Scores().uas == Scores().complete_matches == Scores().las == Scores().clas == 0


def test_punctuation():
    assert is_punctuation("PUNCT", "_") and is_punctuation("_", ",") and is_punctuation("_", "``")
    assert not is_punctuation("X", ",") and not is_punctuation("_", "NN") and not is_punctuation("_", "$")
