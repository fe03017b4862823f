from parsers.data.vocabulary import is_punctuation
from parsers.evaluation.metrics import Scores


def test_counts_by_hand():
    scores = Scores()
    scores.add([2, 0, 2, 2], [2, 0, 2, 3], [False, False, False, True])  # the comma is wrong
    scores.add([0, 1], [0, 1], [False, False])
    assert scores.counts() == [6, 5, 5, 5, 2, 1]
    assert scores.uas == 100 * (5 / 6) and scores.uas_without_punctuation == 100 and scores.complete_matches == 50
    assert scores.summary("dev_")["dev_uas"] == scores.uas


def test_unknown_heads_do_not_count():
    scores = Scores()
    scores.add([2, 0, 2], [-1, 0, 1], [False] * 3)
    scores.add([0], [-1], [False])
    assert scores.counts() == [2, 1, 2, 1, 1, 0]


def test_nothing_is_zero():
    assert Scores().uas == Scores().complete_matches == 0


def test_punctuation():
    assert is_punctuation("PUNCT", "_") and is_punctuation("_", ",") and is_punctuation("_", "``")
    assert not is_punctuation("X", ",") and not is_punctuation("_", "NN") and not is_punctuation("_", "$")
