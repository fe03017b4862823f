"""Options of the networks and of training that all neural systems have: characters, the biaffine scorer, one mask of
dropout per sentence, words of the text, trees by marginals, the averaged weights."""

import json

import pytest
import torch

import tritree
from parsers.data import synthetic
from parsers.data.batches import collate
from parsers.data.characters import EDGE, spelling
from parsers.data.examples import Indexer
from parsers.data.noise import Noise, dropout
from parsers.data.vocabulary import Vocabulary
from parsers.networks.scorer import BiaffineScorer
from parsers.training.average import Average
from tests.parsers.helpers import build, one_batch, small_data, small_trainer, tiny_options
from tests.parsers.training.interruption import check_resumed, weights

ALL = ("--char-filters=6", "--scorer=biaffine", "--dropout-mask=sentence", "--decode=mbr", "--ema=0.9", "--beta2=0.9")


def test_biaffine_scores():
    """One arc at a time."""
    scorer = BiaffineScorer(4, 3, distance=True).double()
    torch.nn.init.normal_(scorer.weight)
    o = torch.randn(2, 5, 4, dtype=torch.float64)
    s, terms = scorer(o), scorer.distance(o)
    for h, m in ((0, 1), (3, 2), (4, 4)):
        r_h = torch.nn.functional.leaky_relu(scorer.head(o[:, h]), 0.1)
        r_m = torch.nn.functional.leaky_relu(scorer.modifier(o[:, m]), 0.1)
        one = torch.cat((r_m, torch.ones(2, 1)), 1)
        expected = torch.einsum("bi,ij,bj->b", r_h, scorer.weight, one) + terms[:, m, h - m + 16]
        torch.testing.assert_close(s[:, h, m], expected)


def test_one_mask_per_sentence():
    x, noise = torch.ones(3, 5, 40), Noise(("key",), 3, slice(None), torch.device("cpu"))
    y = dropout(x, 0.5, noise, per_sentence=True)
    assert (y == y[:, :1]).all() and set(y.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(y[0, 0], y[1, 0])


def test_characters_of_a_word():
    """They are those of the trees that occur twice; capitals count, and words that are not known are spelt, too."""
    sentences = synthetic.sentences("train", count=20)
    vocab = Vocabulary.build(sentences, with_characters=True)
    again = Vocabulary.from_json(json.loads(vocab.to_json()), "f")
    assert again.characters.symbols == vocab.characters.symbols and "characters" in vocab.to_json()
    assert Vocabulary.build(sentences).characters is None
    assert spelling("A\u0308" + "b" * 30 + "c") == "Ä" + "b" * 22 + "c"
    batch = collate([Indexer(vocab)(sentence) for sentence in sentences])
    for b, sentence in enumerate(sentences):
        assert batch.forms[b, 0] == 0 and not batch.forms[b, len(sentence) + 1 :].any()
        for i, form in enumerate(sentence.forms, 1):
            row = [number for number in batch.characters[batch.forms[b, i]].tolist() if number != EDGE]
            assert row == vocab.characters.numbers(form)
    assert (batch.characters[0] == EDGE).all()


def test_characters_reach_the_states_and_padding_does_not():
    options = tiny_options("ntp", "--char-filters=6")
    data, vocab = small_data(options, 6)
    model = build(options, vocab).eval()
    batch, first = one_batch(data, 6), data.labeled[0]
    alone = next(data.batches([first], 1))
    row = next(i for i, example in enumerate(batch.examples) if example is first)
    torch.testing.assert_close(model.encoder(batch)[row, : len(first) + 1], model.encoder(alone)[0])
    nothing = torch.zeros_like(alone.is_token)
    hidden = alone.hide(words=alone.is_word, tags=nothing)
    assert not hidden.forms.any()
    unknown = alone.hide(words=nothing, tags=nothing)
    unknown.words = hidden.words
    assert not torch.allclose(model.encoder(hidden), model.encoder(unknown))  # the same words, but not their characters


def test_words_of_the_text():
    options = tiny_options("gap", "--encoder-words=all")
    _, vocab = small_data(options, 4, unlabeled=40)
    encoder = build(options, vocab).encoder
    assert encoder.num_words == len(vocab.words) > vocab.num_labeled
    rare = vocab.num_labeled  # a word of the text
    assert encoder.word_drop[rare] == pytest.approx(0.25 / (0.25 + vocab.unlabeled_counts[rare]))
    options.encoder_words = "trees"
    assert build(options, vocab).encoder.num_words == vocab.num_labeled


def test_trees_by_marginals(tmp_path):
    options = tiny_options("ntp", "--decode=mbr", "--epochs=1")
    trainer = small_trainer(options, tmp_path / "run")
    batch = one_batch(trainer.data, 8)
    with torch.no_grad():
        s = 3 * trainer.model.eval().arc_scores(batch)
    expected = tritree.TreeCRF(s, batch.lengths, single_root=True).mbr
    assert torch.equal(trainer.model.best_heads(s, batch.lengths), expected)
    options.decode = "viterbi"
    assert torch.equal(
        trainer.model.best_heads(s, batch.lengths), tritree.viterbi(s, batch.lengths, single_root=True)[1]
    )


def test_the_average():
    """By hand; within a block it is in the model, and afterwards the weights of the last step are."""
    layer = torch.nn.Linear(2, 1, bias=False)
    average = Average(layer, 0.5)
    expected = layer.weight.detach().clone()
    for step in range(1, 9):
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[1.0, -1.0]]) * step)
        average.add()
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * layer.weight.detach()
    with average.used():
        torch.testing.assert_close(layer.weight.detach(), expected)
        with average.used(in_model=False):
            assert layer.weight.tolist() == [[8, -8]]
    assert layer.weight.tolist() == [[8, -8]]


def test_interrupted_with_all_of_them(tmp_path):
    """The model in the run is the average; it is not what the optimiser goes on with."""
    options = tiny_options("ntp", *ALL, "--epochs=3")
    whole = small_trainer(options, tmp_path / "whole")
    whole.train()
    check_resumed(whole, after=(1, 5, 9), epoch_steps=5)
    one = small_trainer(tiny_options("ntp", *ALL, "--epochs=1"), tmp_path / "one")
    last_step = []
    one._take_steps = lambda context: type(one)._take_steps(one, context) or last_step.append(weights(one))
    one.train()
    assert all(torch.equal(one.best[name], tensor) for name, tensor in one.average.tensors.items())
    assert not torch.equal(one.best["scorer.weight"], last_step[0]["scorer.weight"])


def test_hidden_tags():
    """In training, a share of the words has no tags, XPOS and FEATS; ROOT keeps its own."""
    options = tiny_options("ntp", "--tag-dropout=0.5", "--word-dropout=0", "--xpos")
    data, vocab = small_data(options, 20)
    encoder = build(options, vocab).encoder
    batch = one_batch(data, 20).draw("noise")
    u, size = encoder.embed(batch), options.tag_size
    unknown = (u[..., :size] == encoder.tag.weight[0]).all(-1)
    assert torch.equal(unknown, (u[..., -size:] == encoder.xpos.weight[0]).all(-1))
    assert not unknown[:, 0].any() and 0.4 < unknown[batch.is_word].float().mean() < 0.6
    batch.noise = None
    assert not (encoder.embed(batch)[..., :size] == encoder.tag.weight[0]).all(-1)[batch.is_word].any()
