"""Encoder and scorer: the formula, its gradients, and what must make no difference."""

import pytest
import torch
from torch.autograd import gradcheck

from parsers.data.batches import collate
from parsers.networks import scorer
from parsers.networks.encoder import BiLSTM
from parsers.networks.scorer import ArcScorer, PairwiseTanh
from tests.parsers.helpers import build, one_batch, small_data, tiny_options


def pairs(B=2, N=5, K=7, scale=1.0):
    a, b = (scale * torch.randn(B, N, K, dtype=torch.float64) for _ in range(2))
    return a.requires_grad_(), b.requires_grad_(), torch.randn(K, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("chunk", [1, 80, 200, 10**6])
def test_pairwise_tanh(monkeypatch, chunk):
    monkeypatch.setattr(scorer, "CHUNK", chunk)
    a, b, w = pairs()
    expected = torch.tanh(a.unsqueeze(2) + b.unsqueeze(1)) @ w
    torch.testing.assert_close(PairwiseTanh.apply(a, b, w), expected, rtol=1e-12, atol=1e-12)
    assert gradcheck(PairwiseTanh.apply, (a, b, w))


def test_pairwise_tanh_in_float32():
    a, b, w = (x.detach().float() for x in pairs(N=30, scale=4.0))
    exact = torch.tanh(a.double().unsqueeze(2) + b.double().unsqueeze(1)) @ w.double()
    torch.testing.assert_close(PairwiseTanh.apply(a, b, w).double(), exact, rtol=0, atol=3e-6)
    large = torch.full((1, 2, 3), 1e30)
    assert PairwiseTanh.apply(large, large, torch.ones(3)).tolist() == [[[3, 3], [3, 3]]]


def test_distances():
    arcs = ArcScorer(4, 3, distance=True)
    o = torch.randn(2, 40, 4)
    s, terms = arcs(o), arcs.distance(o)
    arcs.distance = None
    added = s - arcs(o)
    for h, m in ((0, 1), (5, 2), (7, 8), (39, 1), (1, 39)):
        bucket = max(-scorer.DISTANCES, min(scorer.DISTANCES, h - m)) + scorer.DISTANCES
        torch.testing.assert_close(added[:, h, m], terms[:, m, bucket], atol=1e-5, rtol=0)


def test_lstm_is_that_of_torch():
    ours = BiLSTM(3, 4, 2)
    theirs = torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    for layer in range(2):
        for suffix, module in (("", ours.forwards[layer]), ("_reverse", ours.backwards[layer])):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(theirs, f"{name}_l{layer}{suffix}").data = getattr(module, f"{name}_l0").data
    x, lengths = torch.randn(3, 7, 3), torch.tensor([6, 0, 3])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths + 1, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    found = ours(x, lengths)
    for b, n in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[b, : n + 1], expected[b, : n + 1])


@pytest.mark.parametrize("extra", [(), ("--xpos", "--feats", "--distance", "--layers=1")])
def test_padding_and_neighbours_do_not_matter(extra):
    options = tiny_options("ntp", *extra)
    data, vocab = small_data(options, 6)
    model = build(options, vocab).double()
    batch = collate(data.labeled)
    together = model.arc_scores(batch)
    for row, example in enumerate(data.labeled):
        n = len(example) + 1
        torch.testing.assert_close(together[row, :n, :n], model.arc_scores(collate([example]))[0])


def test_words_of_unlabelled_text_are_unknown_to_an_encoder_of_trees():
    options = tiny_options("gap")
    data, vocab = small_data(options, 5, unlabeled=50)
    model = build(options, vocab)
    batch = one_batch(data)
    batch.words[:, 1] = vocab.num_labeled
    expected = model.encoder.embed(batch)
    batch.words[:, 1] = 0
    assert torch.equal(expected, model.encoder.embed(batch))
    assert len(model.encoder.word.weight) == vocab.num_labeled < len(vocab.words)


def test_rare_words_are_dropped_more_often():
    options = tiny_options("ntp", "--word-dropout=1.0")
    _, vocab = small_data(options)
    rates = build(options, vocab).encoder.word_drop
    counts = torch.tensor(vocab.words.counts[2:])
    torch.testing.assert_close(rates[2:], 1 / (1 + counts))
    assert rates[:2].tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_on_a_cpu(dtype):
    options = tiny_options("ntp")
    data, vocab = small_data(options)
    model, batch = build(options, vocab), one_batch(data)
    exact = model.arc_scores(batch)
    with torch.autocast("cpu", dtype):
        scores = model.arc_scores(batch)
        loss, _ = model.labeled_loss(batch)
    loss.backward()
    assert scores.dtype == torch.float32 and all(p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(scores, exact, atol=0.05, rtol=0)
