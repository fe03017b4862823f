"""DPPP: the decoder sees the past and the tree, the encoder learns through the tree."""

import torch

import tritree
from parsers.data.batches import tree_arcs
from parsers.system import Context
from parsers.training.processes import Group
from tests.parsers.helpers import NO_LABELS, build, one_batch, small_data, small_trainer, tiny_options
from tests.parsers.training.interruption import check_resumed, figures


def setting(*arguments):
    options = tiny_options("dppp", NO_LABELS, "--decoder-size=7", *arguments)
    data, vocab = small_data(options, 6, unlabeled=6)
    return build(options, vocab).double(), data


def soft_trees(batch, seed=0):
    scores = torch.randn(len(batch.lengths), batch.N, batch.N, dtype=torch.float64, generator=torch.manual_seed(seed))
    return tritree.relaxed_tree(scores, batch.lengths)


def test_the_decoder_never_sees_the_future():
    """Another word i changes log p of word i and of later ones, given the tree."""
    model, data = setting()
    batch = one_batch(data)
    A = soft_trees(batch)
    before = model.log_likelihood(batch, A)
    for i in range(1, int(batch.lengths.min()) + 1):
        original = batch.words.clone()
        batch.words[:, i] = (batch.words[:, i] + 3) % model.encoder.num_words
        after = model.log_likelihood(batch, A)
        assert torch.equal(before[:, :i], after[:, :i]) and (before[:, i] != after[:, i]).all()
        batch.words = original


def test_the_decoder_sees_the_arcs_to_words_before():
    """All arcs from and to words up to i may matter for word i, and no others do."""
    model, data = setting()
    batch = one_batch(data, size=1)
    A = soft_trees(batch).requires_grad_()
    for i in range(1, int(batch.lengths) + 1):
        (grad,) = torch.autograd.grad(model.log_likelihood(batch, A)[0, i], A)
        touched = torch.zeros(batch.N, batch.N, dtype=torch.bool)
        touched[:i, i] = touched[i, :i] = True
        assert torch.equal(grad[0] != 0, touched)


def test_probabilities_by_hand():
    model, data = setting()
    batch = one_batch(data, size=1)
    A, words, n = soft_trees(batch)[0], batch.words[0], int(batch.lengths)
    decoder = model.decoder
    e = decoder.lstm(decoder.word(words))[0]
    for i in range(1, n + 1):
        g = decoder.self.weight @ e[i - 1] + decoder.self.bias
        for j in range(i):
            g = g + A[j, i] * (decoder.head.weight @ e[j]) + A[i, j] * (decoder.modifier.weight @ e[j])
        p = (decoder.out.weight @ g.tanh() + decoder.out.bias).softmax(0)
        torch.testing.assert_close(model.log_likelihood(batch, A.unsqueeze(0))[0, i], p[words[i]].log())


def test_words_of_no_tree_are_one_word():
    model, data = setting()
    batch = one_batch(data)
    A = soft_trees(batch)
    batch.words[:, 1] = 0
    expected = model.log_likelihood(batch, A)
    batch.words[:, 1] = model.encoder.num_words + 5
    assert torch.equal(model.log_likelihood(batch, A), expected)


def test_the_encoder_learns_through_the_tree():
    model, data = setting()
    batch = next(data.unlabeled_batches()).draw("some noise")
    model.unlabeled_loss(batch)[0].backward()
    assert all(p.grad is not None and p.grad.any() for p in model.encoder.lstm.parameters())
    assert model.scorer.weight.grad.any()


def test_reconstruction_with_the_given_tree_is_no_matter_of_the_encoder():
    model, data = setting("--tree-weight=0")
    model.labeled_loss(one_batch(data))[0].backward()
    assert model.decoder.out.weight.grad.any()
    assert not any(p.grad is not None and p.grad.any() for p in model.encoder.parameters())


def test_losses_by_hand():
    model, data = setting("--tree-weight=3", "--unlabeled-weight=0.5", "--temperature=0.7")
    batch = one_batch(data)
    W = model.arc_scores(batch)
    likelihood = tritree.TreeCRF(W, batch.lengths).log_prob(batch.heads).sum()
    words = model.log_likelihood(batch, tree_arcs(batch.heads).double()).sum()
    torch.testing.assert_close(model.labeled_loss(batch)[0], -words - 3 * likelihood)
    A = tritree.relaxed_tree(W, batch.lengths, temperature=0.7)  # nothing is perturbed outside of training
    torch.testing.assert_close(model.unlabeled_loss(batch)[0], -model.log_likelihood(batch, A).sum() / 2)


def test_noise_is_for_training():
    model, data = setting("--dropout=0", "--word-dropout=0")
    batch = one_batch(data)
    still = model.sample(batch)
    first, other = (model.sample(batch.draw(key)).detach() for key in ("one", "two"))
    assert not torch.allclose(first, other) and not torch.allclose(first, still)
    torch.testing.assert_close(first, model.sample(batch.draw("one")))
    live = (torch.arange(batch.N) > 0) & (torch.arange(batch.N) <= batch.lengths.unsqueeze(1))
    torch.testing.assert_close(first.sum(1), live.double())  # every word has one head in all
    batch.noise = None
    best = tritree.viterbi(model.arc_scores(batch), batch.lengths, single_root=True)[1]
    assert torch.equal(model.predict(batch), best)


def test_interrupted_runs_end_the_same(tmp_path):
    options = tiny_options("dppp", "--epochs=2", "--patience=9", "--decoder-size=7")
    whole = small_trainer(options, tmp_path / "whole", count=8, unlabeled=8)
    expected = figures(whole.train().history)
    assert ["unlabeled_loss" in record for record in expected[:-1]] == [False, False, True, True]
    check_resumed(whole, after=(3, 7), count=8, unlabeled=8)


def test_stages():
    """Trees first, then one unlabelled batch after each labelled one."""
    model, data = setting()
    first, second = (Context(data, Group("cpu"), model.options, stage, 1, 9) for stage in (1, 2))
    assert {loss for loss, _ in model.steps(first)} == {model.labeled_loss}
    assert [loss for loss, _ in model.steps(second)] == [model.labeled_loss, model.unlabeled_loss] * 2
