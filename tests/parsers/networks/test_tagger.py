"""The tagger's network: what must make no difference, and what must."""

import torch

from parsers.data.conllu import Sentence
from parsers.data.noise import Noise
from parsers.data.synthetic import sentences
from parsers.networks import tagger
from parsers.networks.tagger import EDGE, UNKNOWN, FeatureScores, Sizes, TaggerBatch, TaggerNetwork, TaggerSymbols

SMALL = Sizes(word=5, affix=4, character=3, convolution=2, lstm=6)


def made(columns=("upos",)):
    trees = list(sentences("train", count=30))
    symbols, counts = TaggerSymbols.of(trees, columns)
    torch.manual_seed(0)
    return trees, symbols, counts, TaggerNetwork(symbols, SMALL)


def sentence(forms: list[str], upos: list[str]) -> Sentence:
    empty = ["_"] * len(forms)
    return Sentence("f", 1, forms, upos, empty, empty, [-1] * len(forms), empty, [], [])


def test_symbols():
    symbols, counts = TaggerSymbols.of([sentence(["Der", "der", "d"], ["X", "_", "A"])], ("upos", "feats"))
    assert symbols.words == ["der", "d"] and counts == [2, 1]
    assert set(symbols.affixes) == {"^d", "^de", "^der", "$r", "$er", "$der"}  # $d occurs once
    assert symbols.characters == ["d", "e", "r", "D"]
    assert symbols.tags == {"upos": ["A", "X"], "feats": ["_"]}
    assert symbols.numbers("upos", ["X", "_", "A", "new"]) == [1, -1, 0, -1]


def test_batch():
    symbols, _ = TaggerSymbols.of([sentence(["Der", "der"], ["X", "X"])], ("upos",))
    batch = TaggerBatch.of([["DER", "neu", "DER"], ["der"]], symbols)
    assert batch.forms.tolist() == [[0, 1, 0], [2, 0, 0]] and batch.lengths.tolist() == [3, 1]
    assert batch.words.tolist() == [1, UNKNOWN, 1]
    assert batch.shapes[:, :3].tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
    inner = [[number for number in row if number != EDGE] for row in batch.characters.tolist()]
    D, e, r, d = (symbols.character_number[c] for c in "Derd")
    assert inner == [[D, UNKNOWN, UNKNOWN], [UNKNOWN, e, UNKNOWN], [d, e, r]]


def test_characters_in_one_normal_form():
    symbols, _ = TaggerSymbols.of([sentence(["é"], ["X"])], ("upos",))
    composed, decomposed = TaggerBatch.of([["é", "e\u0301"]], symbols).characters.tolist()
    assert composed == decomposed


def test_other_sentences_of_a_batch_make_no_difference():
    """Neither their number of words, nor longer words with more characters and affixes."""
    trees, symbols, _, network = made()
    forms = [tree.forms for tree in trees] + [["x" * 500, "§", "7"] * 40]
    together = network(TaggerBatch.of(forms, symbols))["upos"]
    for row, alone in enumerate(forms):
        expected = network(TaggerBatch.of([alone], symbols))["upos"][0]
        torch.testing.assert_close(together[row, : len(alone)], expected, rtol=0, atol=1e-5)


def test_context_and_case_make_a_difference():
    trees, symbols, _, network = made()
    known = trees[0].forms[0]
    scores = network(TaggerBatch.of([[known, "Xq"], [known, "xq"], [known.capitalize() + "Z", "xq"]], symbols))["upos"]
    assert (scores[0] - scores[1]).abs().amax(-1).min() > 1e-4  # of both words
    assert (scores[1, 1] - scores[2, 1]).abs().max() > 1e-4


def test_word_dropout(monkeypatch):
    """A word that is dropped is like one that is not known, but for its characters and affixes."""
    monkeypatch.setattr(tagger, "DROPPED_CHARACTERS", 0)
    trees, symbols, counts, network = made()
    batch = TaggerBatch.of([trees[0].forms], symbols)
    never, always = torch.zeros(len(counts) + 1), torch.ones(len(counts) + 1)
    noise = Noise(("test",), 1, slice(None), torch.device("cpu"))
    known, dropped = network(batch)["upos"], network(batch, always, 0.0, noise)["upos"]
    torch.testing.assert_close(network(batch, never, 0.0, noise)["upos"], known)
    batch.words.fill_(UNKNOWN)
    torch.testing.assert_close(network(batch)["upos"], dropped)
    assert (known - dropped).abs().max() > 1e-4


def test_features_share_scores():
    tags = ["A=1|B=1", "A=1", "_", "A=2|B=1"]
    scores = FeatureScores(3, tags)
    names = ["A=1|B=1", "A=1", "B=1", "_", "A=2|B=1", "A=2"]
    o = torch.randn(2, 5, 3)
    part = dict(zip(names, scores.part(o).unbind(-1), strict=True))
    sums = [("A=1|B=1", "A=1", "B=1"), ("A=1",), ("_",), ("A=2|B=1", "A=2", "B=1")]
    expected = torch.stack([sum(part[name] for name in row) for row in sums], -1)
    torch.testing.assert_close(scores(o), expected)
    scores(o).sum().backward()
    assert scores.part.weight.grad[2].abs().sum() > 0
