"""Labels of arcs: learnt from gold arcs, predicted after the tree, `root` for arcs from ROOT and for no others."""

import json
from dataclasses import replace

import pytest
import torch

from parsers import MODELS
from parsers.crfae import MAX_LABEL_ROWS, TagLabeler
from parsers.data import synthetic
from parsers.data.batches import collate
from parsers.data.examples import Indexer
from parsers.data.vocabulary import ROOT, UNKNOWN, Vocabulary
from parsers.networks.labeler import FIRST, Labeler, best_labels, label_loss
from parsers.system import Context
from parsers.training.processes import Group
from tests.parsers.helpers import NO_LABELS, SMALL, build, one_batch, small_data, small_trainer, tiny_options


def made(system, *arguments, unlabeled=6):
    options = tiny_options(system, *arguments)
    data, vocab = small_data(options, 8, unlabeled)
    return build(options, vocab).double(), data, options


def test_biaffine_by_hand():
    labeler = Labeler(4, 3, FIRST + 5).double()
    torch.nn.init.normal_(labeler.weight)
    states, heads = torch.randn(2, 6, 4).double(), torch.tensor([[-1, 2, 0, 2, 3, -1], [-1, 0, 1, 1, 3, 4]])
    log_p = labeler(states, heads)
    one = torch.ones(1).double()
    for b in range(2):
        for m in range(1, 6):
            h = max(int(heads[b, m]), 0)
            r_h = torch.cat([torch.nn.functional.leaky_relu(labeler.head(states[b, h]), 0.1), one])
            r_m = torch.cat([torch.nn.functional.leaky_relu(labeler.modifier(states[b, m]), 0.1), one])
            expected = torch.stack([r_h @ U @ r_m for U in labeler.weight]).log_softmax(0)
            torch.testing.assert_close(log_p[b, m], expected)


def test_what_counts_and_what_is_predicted():
    """Arcs from ROOT are certain, labels that were never seen are not learnt."""
    log_p = torch.randn(1, 5, 3).log_softmax(-1)
    heads, labels = torch.tensor([[-1, 2, 0, 2, 3]]), torch.tensor([[0, FIRST + 1, ROOT, UNKNOWN, FIRST]])
    torch.testing.assert_close(label_loss(log_p, heads, labels)[0], -log_p[0, 1, 1] - log_p[0, 4, 0])
    found, probability = best_labels(log_p, heads)
    best = log_p.argmax(-1)[0] + FIRST
    assert found.tolist() == [[UNKNOWN, best[1], ROOT, best[3], best[4]]]
    assert probability[0, 2] == 1 and (probability <= 1).all()


@pytest.mark.parametrize("system", MODELS)
def test_predictions(system):
    model, data, _ = made(system)
    with torch.no_grad():
        batch = one_batch(data)
        _, o = model(batch)
        labels = model.named_labels(o, batch, batch.heads)
    for tree, (names, probabilities), n in zip(batch.heads, labels, batch.lengths, strict=True):
        assert [name == "root" for name in names] == (tree[1 : n + 1] == 0).tolist()
        assert len(probabilities) == n and all(0 < p <= 1 for p in probabilities)


@pytest.mark.parametrize("system", MODELS)
def test_the_weight(system):
    """The loss with labels is that without them and their own, weighted."""
    model, data, options = made(system)
    batch = one_batch(data)
    loss, metrics = model.labeled_loss(batch)
    alone, _ = model.labeled_loss(replace(batch, labels=None))
    torch.testing.assert_close(loss - alone, metrics["label_loss"])
    options.label_weight = 0.25
    torch.testing.assert_close(model.labeled_loss(batch)[0] - alone, metrics["label_loss"] / 4)


def test_labels_are_those_of_the_arcs_in_the_file():
    """A tree that is lifted to be projective keeps the labels of its own arcs."""
    (sentence,) = synthetic.sentences("train", count=1)
    vocab = Vocabulary.build([sentence])
    lifted = [0] * len(sentence)
    batch = collate([Indexer(vocab)(sentence, lifted)])
    assert batch.heads[0, 1:].tolist() == lifted and batch.gold_heads[0, 1:].tolist() == sentence.heads
    names = [vocab.labels.symbols[number] for number in batch.labels[0, 1:].tolist()]
    expected = ["<UNKNOWN>" if label == "root" else label for label in sentence.deprels]
    assert names == expected and "root" not in vocab.labels.number


@pytest.mark.parametrize("system", ["gap", "st"])
def test_the_teacher_teaches_labels(system):
    """In the second stage, unlabelled sentences have a loss on labels, which reaches the student alone."""
    model, data, options = made(system)
    model.begin_stage(Context(data, Group("cpu"), options, stage=2, epoch=1, epochs=9))
    batch = next(data.unlabeled_batches())
    loss, metrics = model.unlabeled_loss(batch)
    assert metrics["label_loss"] > 0
    loss.backward()
    student = model.parser if system == "st" else model
    assert student.labeler.modifier.weight.grad is not None
    assert all(p.grad is None for p in model.teacher.parameters())
    options.label_weight = 0.0
    torch.testing.assert_close(loss - model.unlabeled_loss(batch)[0], metrics["label_loss"])


@pytest.mark.parametrize("system", MODELS)
def test_without_labels_nothing_is_built(system, tmp_path):
    """By an option, or because the trees have none: the model has the same tensors."""
    model, data, _ = made(system, NO_LABELS)
    assert model.vocab.labels is None and one_batch(data).labels is None
    assert not [name for name in model.state_dict() if "labeler" in name]
    bare = [replace(s, deprels=["_"] * len(s)) for s in synthetic.sentences("train", count=8)]
    assert Vocabulary.build(bare).labels is None
    history = small_trainer(tiny_options(system, NO_LABELS, "--epochs=1"), tmp_path / "run").train().history
    assert not [name for record in history for name in record if "las" in name or "label_loss" in name]


def test_a_vocabulary_with_labels_survives_json():
    vocab = Vocabulary.build(synthetic.sentences("train", count=20))
    again = Vocabulary.from_json(json.loads(vocab.to_json()), "f")
    assert again.labels.symbols == vocab.labels.symbols and again.label(ROOT) == "root"
    assert "labels" not in json.loads(
        Vocabulary.build(synthetic.sentences("train", count=9), with_labels=False).to_json()
    )


def test_stopping_on_labelled_scores(tmp_path):
    options = tiny_options("ntp", *SMALL, "--epochs=6", "--stop-on=las")
    state = small_trainer(options, tmp_path / "run", count=30).train()
    *epochs, final = state.history
    las = [record["dev_las"] for record in epochs]
    assert final["best_epoch"] == las.index(max(las)) + 1 and final["dev_las"] == state.best_uas == max(las)


def test_many_tags_share_weights():
    assert len(TagLabeler(400, FIRST + 3).weight) == MAX_LABEL_ROWS
    assert len(TagLabeler(20, FIRST + 3).weight) == (5 * 21**2 + 7 * 21) * 2
