"""Self-training: the second parser learns from the first one's trees, and from the given ones as they are."""

import torch

from parsers.system import Context
from parsers.training.processes import Group
from tests.parsers.helpers import NO_LABELS, build, one_batch, small_data, small_trainer, tiny_options
from tests.parsers.training.interruption import check_resumed, figures


def in_stage_two(*arguments):
    """A model at the beginning of stage 2, with the weights that it had at the end of stage 1."""
    options = tiny_options("st", NO_LABELS, *arguments)
    data, vocab = small_data(options, 6, unlabeled=8)
    model = build(options, vocab).double()
    first = {name: tensor.clone() for name, tensor in model.parser.state_dict().items()}
    context = Context(data, Group("cpu"), options, stage=2, epoch=1, epochs=9)
    assert model.begin_stage(context)
    return model, data, first, context


def test_the_second_parser_starts_anew():
    model, _, first, _ = in_stage_two()
    assert all(torch.equal(first[name], tensor) for name, tensor in model.teacher.state_dict().items())
    assert not any(torch.equal(first[name], p) for name, p in model.parser.named_parameters() if p.dim() > 1)


def test_trees_come_from_the_first_parser():
    model, data, _, _ = in_stage_two()
    batch = next(data.unlabeled_batches()).draw("dropout is for the second parser only")
    heads, confidence, _ = model.parse(batch)
    assert batch.heads is None and ((confidence > 0) & (confidence <= 1)).all()
    assert torch.equal(heads, model.teacher.predict(next(data.unlabeled_batches())))
    batch.noise = None
    loss, metrics = model.unlabeled_loss(batch)
    assert metrics["kept"] == batch.lengths.sum()
    batch.heads = heads
    torch.testing.assert_close(loss, model.parser.labeled_loss(batch)[0])
    loss.backward()
    assert all(p.grad is not None for p in model.parser.parameters())
    assert all(p.grad is None for p in model.teacher.parameters())


def test_given_trees_are_kept():
    model, data, _, context = in_stage_two()
    steps = list(model.steps(context))
    assert len(steps) == model.num_steps(context) == 4  # 6 trees in batches of 4, an unlabelled batch after each
    for loss, batch in steps[::2]:
        assert loss == model.labeled_loss
        for example, heads in zip(batch.examples, batch.heads.tolist(), strict=True):
            assert heads[1 : len(example) + 1] == example.gold
    assert all(loss == model.unlabeled_loss and batch.heads is None for loss, batch in steps[1::2])
    batch = one_batch(data)
    assert torch.equal(model.labeled_loss(batch)[0], model.parser.labeled_loss(batch)[0])


def test_weight_and_confidence():
    model, data, _, _ = in_stage_two("--parsed-weight=0.25")
    batch = next(data.unlabeled_batches())
    heads, confidence, _ = model.parse(batch)
    each = model.parser.margin_losses(model.parser.arc_scores(batch), batch, heads)
    torch.testing.assert_close(model.unlabeled_loss(batch)[0], each.sum() / 4)
    model.options.min_confidence = float(confidence.median())
    kept = confidence >= confidence.median()
    loss, metrics = model.unlabeled_loss(batch)
    assert 0 < kept.sum() < len(kept) and metrics["kept"] == batch.lengths[kept].sum()
    torch.testing.assert_close(loss, each[kept].sum() / 4)


def test_a_confident_parser_has_confidence_one():
    model, data, _, _ = in_stage_two()
    batch = one_batch(data)
    certain = 1e3 * torch.zeros(4, batch.N, batch.N).scatter(1, batch.heads.clamp(0).unsqueeze(1), 1.0)
    model.teacher.forward = lambda batch: (certain, None)
    heads, confidence, _ = model.parse(batch)
    assert torch.equal(heads, batch.heads)
    torch.testing.assert_close(confidence, torch.ones(4))


def test_interrupted_self_training_ends_the_same(tmp_path):
    options = tiny_options("st", "--epochs=2", "--patience=9", "--rounds=2")
    whole = small_trainer(options, tmp_path / "whole", count=8, unlabeled=8)
    expected = figures(whole.train().history)
    assert [record["stage"] for record in expected[:-1]] == [1, 1, 2, 2, 3, 3]
    assert [name in record for record in expected[:-1] for name in ["unlabeled_loss"]] == [False] * 2 + [True] * 4
    dev = [record["dev_uas"] for record in expected[:-1]]
    assert expected[-1]["dev_uas"] == whole.state.best_uas == max(dev) == dev[whole.state.best_epoch - 1]
    check_resumed(whole, after=(5, 11), count=8, unlabeled=8)


def test_without_other_sentences_there_is_one_stage(tmp_path):
    state = small_trainer(tiny_options("st", "--epochs=1"), tmp_path / "run").train()
    assert [record.get("stage") for record in state.history] == [1, None]
