"""Every system: its gradients agree with finite differences, and it learns 20 sentences by heart."""

import pytest
import torch

from parsers import MODELS
from parsers.system import Context
from parsers.training.processes import Group
from tests.oracle import projective_trees
from tests.parsers.helpers import NO_LABELS, SMALL, build, one_batch, small_data, small_trainer, tiny_options

LOSSES = [(system, "labeled") for system in MODELS]
LOSSES += [(system, "unlabeled") for system, model in MODELS.items() if model.uses_unlabeled]


def context(options, data):
    return Context(data, Group("cpu"), options, stage=1, epoch=1, epochs=options.epochs)


@pytest.mark.parametrize(("system", "kind"), LOSSES)
def test_gradients(system, kind):
    options = tiny_options(system, "--distance")
    data, vocab = small_data(options, 4, unlabeled=4)
    model = build(options, vocab).double()
    for parameter in model.parameters():
        if not parameter.any():  # where all scores are 0, trees tie, and max has no gradient
            torch.nn.init.normal_(parameter, std=0.1)
    model.begin_stage(context(options, data))
    model.begin_epoch(context(options, data))
    batch = one_batch(data) if kind == "labeled" else next(data.unlabeled_batches())

    def loss():
        batch.draw("the same dropout each time")
        return getattr(model, f"{kind}_loss")(batch)[0]

    loss().backward()
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        step = 1e-6 * direction
        with torch.no_grad():
            parameter += step
            above = loss()
            parameter -= 2 * step
            below = loss()
            parameter += step
        torch.testing.assert_close(
            (parameter.grad * direction).sum(), (above - below) / 2e-6, rtol=1e-5, atol=1e-6, msg=name
        )


@pytest.mark.parametrize("system", MODELS)
def test_losses_are_sums_over_sentences(system):
    options = tiny_options(system)
    data, vocab = small_data(options, 4)
    model = build(options, vocab).double()
    parts = sum(model.labeled_loss(one)[0] for one in data.batches(data.labeled, 1))
    torch.testing.assert_close(model.labeled_loss(one_batch(data))[0], parts)


@pytest.mark.on_device
@pytest.mark.parametrize("system", MODELS)
def test_it_learns_by_heart(system, tmp_path, device):
    options = tiny_options(system, *SMALL, "--epochs=40", "--dropout=0", "--word-dropout=0", "--patience=40")
    state = small_trainer(options, tmp_path / "run", Group(device.type)).train()
    assert state.history[-1]["dev_uas"] > 95 and state.history[-1]["dev_las"] > 90


def short_sentence(system):
    options = tiny_options(system, NO_LABELS)
    data, vocab = small_data(options, 30)
    model = build(options, vocab).double()
    example = next(e for e in data.labeled if len(e) <= 4)
    batch = next(data.batches([example], 1))
    return model, batch, example.gold, projective_trees(len(example)).tolist()


def test_ntp_by_hand():
    model, batch, gold, trees = short_sentence("ntp")
    s = model.arc_scores(batch)[0]

    def score(tree):
        return sum(s[h, m] for m, h in enumerate(tree, 1))

    expected = torch.stack(list(map(score, trees))).logsumexp(0) - score(gold)
    torch.testing.assert_close(model.labeled_loss(batch)[0], expected)


def test_nmp_by_hand():
    """The loss is what the best tree has too much, errors counted, and 0 if nothing beats the right one."""
    model, batch, gold, trees = short_sentence("nmp")
    s = model.arc_scores(batch)[0]

    def value(tree):
        return sum(s[h, m] + (h != right) for (m, h), right in zip(enumerate(tree, 1), gold, strict=True))

    values = torch.stack(list(map(value, trees)))
    torch.testing.assert_close(model.labeled_loss(batch)[0], values.max() - value(gold))
    model.softened = True  # in the first epochs
    torch.testing.assert_close(model.labeled_loss(batch)[0], values.logsumexp(0) - value(gold))
    model.softened = False
    right = 100 * torch.zeros_like(s).scatter(0, batch.heads.clamp(0), 1).unsqueeze(0)
    model.forward = lambda batch: (right, None)
    assert model.labeled_loss(batch)[0] == 0
