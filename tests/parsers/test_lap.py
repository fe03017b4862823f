"""LAP: each term of its objective, and what is random when."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence

import tritree
from parsers.data.batches import collate
from parsers.lap import kl_to_standard_normal
from parsers.system import Context
from parsers.training.processes import Group
from tests.parsers.helpers import NO_LABELS, build, one_batch, small_data, small_trainer, tiny_options
from tests.parsers.training.interruption import check_resumed, figures


def small_model(*arguments, unlabeled=4):
    """With the final weights of all terms."""
    options = tiny_options("lap", NO_LABELS, *arguments)
    data, vocab = small_data(options, 4, unlabeled)
    model = build(options, vocab).double()
    at(model, options, data, epoch=options.epochs)
    return model, data


def at(model, options, data, epoch):
    model.begin_epoch(Context(data, Group("cpu"), options, stage=1, epoch=epoch, epochs=options.epochs))


def test_kl_against_torch():
    mean, log_variance = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    q = Normal(mean, (0.5 * log_variance).exp())
    expected = kl_divergence(q, Normal(torch.zeros_like(mean), 1)).sum(-1)
    torch.testing.assert_close(kl_to_standard_normal(mean, log_variance), expected)
    assert kl_to_standard_normal(torch.zeros(3, 7), torch.zeros(3, 7)).tolist() == [0, 0, 0]


def test_the_loss_is_the_sum_of_its_terms():
    """Without noise z is μ: everything can be computed again, one sentence and one token at a time."""
    model, data = small_model("--kl-weight=0.3", "--reconstruction=0.7", "--free-nats=2")
    batch = one_batch(data)
    mean, log_variance = model.posterior(batch)
    tree = words = tags = kl = costly = 0
    for b, n in enumerate(batch.lengths.tolist()):
        scores = model.scorer(mean[b : b + 1, : n + 1])[0]
        tree -= tritree.TreeCRF(scores).log_prob(batch.heads[b, : n + 1])
        for t in range(n + 1):
            one = kl_to_standard_normal(mean[b, t], log_variance[b, t])
            kl, costly = kl + one, costly + max(one - 2, 0)
            if t > 0:  # ROOT is always there: it is not reconstructed
                logits = model.encoder.word.weight @ model.word_decoder(mean[b, t]) + model.word_bias
                words -= logits.log_softmax(0)[batch.words[b, t]]
                tags -= model.tag_decoder(mean[b, t]).log_softmax(0)[batch.pos[b, t]]
    loss, terms = model.labeled_loss(batch)
    expected = {"tree": tree, "word_reconstruction": words, "tag_reconstruction": tags, "kl": kl}
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, msg=name)
    torch.testing.assert_close(loss, tree + 0.7 * (words + tags) + 0.3 * costly)
    torch.testing.assert_close(model.unlabeled_loss(batch)[0], loss - tree)


@pytest.mark.parametrize("kind", ["labeled", "unlabeled"])
def test_gradients_with_all_terms(kind):
    """test_systems has the weights of the first epoch, in which there is no KL."""
    model, data = small_model("--samples=2", "--kl-weight=1", "--reconstruction=1", "--negatives=5", "--mask=0.5")
    batch = one_batch(data) if kind == "labeled" else next(data.unlabeled_batches())

    def loss():
        batch.draw("the same noise each time")
        return getattr(model, f"{kind}_loss")(batch)[0]

    parameters = [p for name, p in model.named_parameters() if kind == "labeled" or "scorer" not in name]
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    expected = sum((g * d).sum() for g, d in zip(torch.autograd.grad(loss(), parameters), directions, strict=True))
    values = []
    with torch.no_grad():
        for step in (1e-6, -2e-6, 1e-6):
            for p, d in zip(parameters, directions, strict=True):
                p += step * d
            values.append(loss())
    torch.testing.assert_close((values[0] - values[1]) / 2e-6, expected, rtol=1e-6, atol=0)


def test_the_mean_over_samples_is_an_estimate_of_the_expectation():
    """As many samples in one step, or one sample in each of as many steps."""
    many, data = small_model("--samples=500", "--dropout=0", "--word-dropout=0")
    batch = one_batch(data, 1)
    with torch.no_grad():
        torch.nn.init.constant_(many.log_variance.bias, 2)
        at_once = many.labeled_loss(batch.draw("at once"))[1]
        many.options.samples = 1
        steps = [many.labeled_loss(batch.draw("one", i))[1] for i in range(500)]
        at_mean = many.labeled_loss(next(data.batches(data.labeled[:1], 1)))[1]
    for name in ("tree", "word_reconstruction", "tag_reconstruction"):
        values = torch.stack([step[name] for step in steps])
        error = values.std() / 500**0.5
        assert abs(at_once[name] - values.mean()) < 6 * error
        assert abs(at_once[name] - at_mean[name]) > 6 * error  # noise makes a difference, or nothing was shown here
    assert all(torch.equal(step["kl"], at_once["kl"]) for step in steps)  # in closed form


def test_nothing_is_random_at_prediction():
    model, data = small_model("--samples=3", "--dropout=0.5")
    batch = one_batch(data)
    scores = model.arc_scores(batch)
    torch.manual_seed(123)
    assert torch.equal(model.arc_scores(batch), scores)
    assert torch.equal(scores, model.scorer(model.posterior(batch)[0]))  # z = μ
    assert torch.equal(model.predict(batch), tritree.viterbi(scores, batch.lengths, single_root=True)[1])
    assert not torch.equal(model.arc_scores(batch.draw("training")), scores)
    batch.noise = None
    assert torch.equal(model.labeled_loss(batch)[0], model.labeled_loss(batch)[0])


def test_sentences_without_trees_need_no_tree_computation(monkeypatch):
    model, data = small_model()
    batch = next(data.unlabeled_batches()).draw("noise")
    assert batch.heads is None

    def fail(*args, **kwargs):
        raise AssertionError("a tree was computed")

    for name in ("TreeCRF", "viterbi", "log_partition", "marginals"):
        monkeypatch.setattr(tritree, name, fail)
    monkeypatch.setattr(model.scorer, "forward", fail)
    loss, terms = model.unlabeled_loss(batch)
    loss.backward()
    assert "tree" not in terms
    assert all(p.grad is None for p in model.scorer.parameters())
    assert all(p.grad is not None for p in model.encoder.parameters())


def test_weights_go_from_the_first_to_the_final_ones():
    arguments = ["--epochs=11", "--anneal=0.5", "--kl-weight=0.2", "--reconstruction-start=1", "--reconstruction=0.5"]
    model, data = small_model(*arguments)
    weights = []
    for epoch in (1, 2, 6, 11):
        at(model, model.options, data, epoch)
        weights += [model.kl_weight, model.reconstruction_weight]
    assert weights == pytest.approx([0, 1, 0.04, 0.9, 0.2, 0.5, 0.2, 0.5])
    model.options.anneal = 0.0
    at(model, model.options, data, 1)
    assert (model.kl_weight, model.reconstruction_weight) == (0.2, 0.5)


def test_free_nats():
    """KL up to so many nats per token costs nothing, and pulls at nothing."""
    model, data = small_model("--kl-weight=1", "--reconstruction=0", "--free-nats=1e6")
    loss, terms = model.unlabeled_loss(one_batch(data))
    assert loss == 0 and terms["kl"] > 0
    loss.backward()
    assert not model.mean.weight.grad.any()


def test_what_is_hidden_from_the_encoder_is_what_it_must_tell():
    model, data = small_model("--mask=0.5")
    batch = next(data.unlabeled_batches()).draw("noise")
    seen, hidden = model.mask(batch)
    for name in ("words", "pos"):
        whole, a, b = (getattr(one, name) for one in (batch, seen, hidden))
        assert torch.equal(a + b, whole) and not (a * b).any()  # each in one of the two, 0 (unknown) in the other
        assert a[:, 1:].any() and b[:, 1:].any()
        assert torch.equal(a[:, 0], whole[:, 0])  # ROOT is seen
    before = model.unlabeled_loss(batch.draw("noise"))[1]
    model.options.mask = 0.0
    after = model.unlabeled_loss(batch.draw("noise"))[1]
    for name in ("word_reconstruction", "tag_reconstruction"):
        assert before[name] > 0 and after[name] == 0
    batch.noise = None
    assert all(part is batch for part in model.mask(batch))


def test_drawn_words_estimate_the_sum_over_all():
    """Σ_{v ≠ w} e^{s(v)}, without bias."""
    model, data = small_model("--negatives=4", unlabeled=30)
    batch = one_batch(data)
    z, words = torch.randn(5, 100, dtype=torch.float64), torch.tensor([2, 3, 4, 5, 6])
    with torch.no_grad():
        scores = model.encoder.word.weight @ model.word_decoder(z).T + model.word_bias.unsqueeze(1)
        right = scores.gather(0, words.unsqueeze(0))[0]
        exact = model.word_log_prob(z, words, None)
        torch.testing.assert_close(exact, right - scores.logsumexp(0))
        sums = []
        for i in range(3000):
            log_prob = model.word_log_prob(z, words, batch.draw(i).noise)
            sums.append((right - log_prob).exp() - right.exp())
        sums = torch.stack(sums)
    expected = scores.exp().sum(0) - right.exp()
    assert ((sums.mean(0) - expected).abs() < 5 * sums.std(0) / len(sums) ** 0.5).all()


def test_words_of_unlabeled_sentences_have_embeddings():
    model, _ = small_model(unlabeled=50)
    assert model.encoder.num_words == len(model.vocab.words) > model.vocab.num_labeled


@pytest.mark.parametrize("kind", ["labeled", "unlabeled"])
def test_processes_that_share_a_batch_draw_the_same_words(kind):
    model, data = small_model("--negatives=5", "--samples=2")
    loss = getattr(model, f"{kind}_loss")
    whole = collate(data.labeled)
    halves = [collate(data.labeled, rank, world=2) for rank in range(2)]
    expected = loss(whole.draw("noise"))[0]
    torch.testing.assert_close(sum(loss(half.draw("noise"))[0] for half in halves), expected)


def test_text_comes_first(tmp_path):
    """Stage 0 has no trees, no dev set and no times, and is over after --epochs at the latest; it is resumed, too."""
    options = tiny_options("lap", "--epochs=3", "--pretrain-epochs=2")
    whole = small_trainer(options, tmp_path / "whole", count=8, unlabeled=9)
    lines = []
    whole.display.say = lines.append
    *epochs, final = figures(whole.train().history)
    assert [(record["stage"], record["epoch"]) for record in epochs] == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]
    for record in whole.state.history[:2]:
        assert not {"epoch_seconds", "dev_uas", "loss"} & record.keys() and record["unlabeled_loss"] > 0
    assert final["best_epoch"] > 2 and final["epochs"] == 5
    assert lines[0] == "pretraining: text" and lines[3] == "training: trees and text"
    for line, record in zip(lines[1:3] + lines[4:], epochs, strict=True):  # without weights: stages can be compared
        both = record["unlabeled_word_reconstruction"] + record["unlabeled_tag_reconstruction"]
        assert record["unlabeled_reconstruction"] == pytest.approx(both)
        assert f"  unlabelled {both:.3f}  " in line
    check_resumed(whole, after=(1, 2, 5), count=8, unlabeled=9)
    for arguments, unlabeled, expected in (
        (["--epochs=1"], 9, [0, 1]),
        (["--epochs=1", "--pretrain-epochs=0"], 9, [1]),
        (["--epochs=1"], 0, [1]),
    ):
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        trainer = small_trainer(tiny_options("lap", *arguments), path, count=8, unlabeled=unlabeled)
        assert [record["stage"] for record in trainer.train().history[:-1]] == expected


def test_reconstruction_alone_in_stage_0():
    model, data = small_model("--kl-weight=0.2")
    model.begin_epoch(Context(data, Group("cpu"), model.options, stage=0, epoch=1, epochs=2))
    assert (model.kl_weight, model.reconstruction_weight) == (0.2, 1)
    steps = list(model.steps(Context(data, Group("cpu"), model.options, stage=0, epoch=1, epochs=2)))
    assert [loss for loss, _ in steps] == [model.unlabeled_loss] and steps[0][1].heads is None


def test_the_second_stage_learns_the_first_ones_trees():
    """The cross-entropy of the teacher's posterior and the student's, beside the ELBO; new weights."""
    model, data = small_model("--second-stage", "--mask=0")
    first = {name: tensor.clone() for name, tensor in model.state_dict().items() if not name.startswith("teacher.")}
    context = Context(data, Group("cpu"), model.options, stage=2, epoch=9, epochs=9)
    batch = next(data.unlabeled_batches())
    assert model.begin_stage(context)
    model.begin_epoch(context)
    assert all(torch.equal(first[name], tensor) for name, tensor in model.teacher.state_dict().items())
    assert not torch.equal(first["mean.weight"], model.mean.weight)
    loss, _ = model.unlabeled_loss(batch)
    mean, log_variance = model.posterior(batch)
    reconstruction, _ = model.autoencoder_loss(mean.unsqueeze(1), mean, log_variance, batch)
    Q, P = (tritree.TreeCRF(parser(batch)[0], batch.lengths) for parser in (model.teacher, model))
    torch.testing.assert_close(loss - reconstruction, (kl_divergence(Q, P) + Q.entropy()).sum())
    loss.backward()
    assert all(p.grad is None for p in model.teacher.parameters()) and model.scorer.weight.grad is not None


def test_interrupted_in_the_second_stage(tmp_path):
    options = tiny_options("lap", "--epochs=2", "--pretrain-epochs=1", "--second-stage")
    whole = small_trainer(options, tmp_path / "whole", count=8, unlabeled=8)
    assert [record["stage"] for record in whole.train().history[:-1]] == [0, 1, 1, 2, 2]
    check_resumed(whole, after=(6, 13), count=8, unlabeled=8)
    alone = small_trainer(options, tmp_path / "alone", count=8)
    assert [record["stage"] for record in alone.train().history[:-1]] == [1, 1]
