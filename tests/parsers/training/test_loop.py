"""The loop: interrupted anywhere, it ends with the same bits."""

import signal

import pytest
import torch

from parsers import MODELS, Model
from parsers.runs.run import Run
from parsers.system import Parser
from parsers.training import loop
from parsers.training.loop import Diverged, Interrupted
from tests.parsers.helpers import build, small_data, small_trainer, tiny_options
from tests.parsers.training.interruption import check_resumed, figures, figures_of, interrupt_after, weights

OPTIONS = ("--epochs=3", "--batch-size=4")


@pytest.mark.parametrize("extra", [(), ("--fp16",), ("--bf16", "--labeled=1.0")])
def test_interrupted_runs_end_the_same(tmp_path, extra):
    options = tiny_options("ntp", *OPTIONS, *extra)
    whole = small_trainer(options, tmp_path / "whole")
    whole.train()
    check_resumed(whole, after=(1, 5, 9), epoch_steps=5)


def test_interrupted_while_the_dev_set_is_parsed(tmp_path):
    options = tiny_options("ntp", *OPTIONS)
    expected = figures(small_trainer(options, tmp_path / "whole").train().history)
    trainer = small_trainer(options, tmp_path / "run")
    trainer.evaluate = lambda examples: signal.raise_signal(signal.SIGINT) or type(trainer).evaluate(trainer, examples)
    with pytest.raises(Interrupted):
        trainer.train()
    resumed = small_trainer(options, tmp_path / "run")
    assert resumed.restore() and resumed.state.phase == "dev"
    assert figures(resumed.train().history) == expected


def test_damaged_checkpoints_are_passed_over(tmp_path, capfd, monkeypatch):
    options = tiny_options("ntp", *OPTIONS)
    monkeypatch.setattr(loop, "SAVE_SHARE", 1e9)  # at the end of every epoch
    expected = figures(small_trainer(options, tmp_path / "run").train().history)
    last = sorted((tmp_path / "run").glob("checkpoint-*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-100])
    resumed = small_trainer(options, tmp_path / "run")
    resumed.display.console.quiet = False
    assert resumed.restore() and not resumed.state.finished
    assert (
        "the checksum is wrong: the file is damaged or cut off; using the checkpoint before it"
        in capfd.readouterr().err
    )
    assert figures(resumed.train().history) == expected
    for path in (tmp_path / "run").glob("checkpoint-*.json"):
        path.write_text("{}")
    assert not small_trainer(options, tmp_path / "run").restore()


def test_hostile_checkpoints(tmp_path):
    """With right checksums, but of another model, or of no model at all."""
    options = tiny_options("ntp", *OPTIONS)
    trainer = small_trainer(options, tmp_path / "run")
    trainer.train()
    good = trainer.run.checkpoints.state(trainer.run.checkpoints.numbers()[0])
    tensors = {"x": torch.zeros(3)}
    for state in (
        good,
        {},
        {"training": {"step": []}},
        good | {"optimizer": {"state": {"99999": {"a": None}}, "groups": []}},
    ):
        for path in (tmp_path / "run").glob("checkpoint-*"):
            path.unlink()
        trainer.run.checkpoints.save(tensors, state)
        assert not small_trainer(options, tmp_path / "run").restore()


def test_two_checkpoints_are_kept(tmp_path):
    trainer = small_trainer(tiny_options("ntp", *OPTIONS), tmp_path / "run")
    for _ in range(4):
        trainer.save()
    assert sorted(path.name for path in (tmp_path / "run").glob("check*")) == [
        "checkpoint-3.json", "checkpoint-3.safetensors", "checkpoint-4.json", "checkpoint-4.safetensors",
    ]  # fmt: skip


def with_dev_uas(trainer, figures):
    """As if these were the figures of its epochs on the dev set. Returns the weights at each, which will be there."""
    original, figures, kept = trainer.evaluate, iter(figures), []

    def evaluate(examples):
        scores = original(examples)
        scores.words, scores.correct = 100, next(figures)
        kept.append(weights(trainer))
        return scores

    trainer.evaluate = evaluate
    return kept


def test_early_stopping_keeps_the_best(tmp_path):
    trainer = small_trainer(tiny_options("ntp", "--epochs=9", "--patience=2"), tmp_path / "run")
    kept = with_dev_uas(trainer, [50, 60, 55, 60, 60, 60])
    state = trainer.train()
    assert (state.best_epoch, state.best_uas, len(state.history)) == (2, 60, 5)  # 4 epochs and the final line
    assert all(torch.equal(a, b) for a, b in zip(kept[1].values(), weights(trainer).values(), strict=True))


@pytest.mark.parametrize(("second", "best"), [([10, 20, 30, 25, 25], 2), ([10, 70, 60, 60], 6)])
def test_a_second_parser_has_its_own_patience(tmp_path, second, best):
    """It may take its time, although it is worse at first, and is kept only if it becomes better than the first one."""
    options = tiny_options("st", "--epochs=9", "--patience=2")
    trainer = small_trainer(options, tmp_path / "run", count=8, unlabeled=8)
    kept = with_dev_uas(trainer, [50, 60, 55, 55, *second, 0])
    state = trainer.train()
    assert (state.best_epoch, len(state.history)) == (best, 4 + len(second) + 1)
    assert all(torch.equal(a, b) for a, b in zip(kept[best - 1].values(), weights(trainer).values(), strict=True))


def test_a_finished_run_goes_on_with_its_last_weights(tmp_path):
    """In its last stage, with its patience counted anew; the best epoch stays the best."""
    options = tiny_options("st", "--epochs=9", "--patience=2")
    sizes = {"count": 8, "unlabeled": 8}
    trainer = small_trainer(options, tmp_path / "run", **sizes)
    kept = with_dev_uas(trainer, [50, 60, 55, 55, 10, 20, 15, 15, 0])
    assert len(trainer.train().history) == 9
    trainer.run.go_on(5)
    again = small_trainer(options, tmp_path / "run", **sizes)
    assert again.restore() and not again.run.finished()
    last = {name: tensor.clone() for name, tensor in again.model.state_dict().items()}
    assert all(torch.equal(a, b) for a, b in zip(kept[7].values(), last.values(), strict=True))
    with_dev_uas(again, [30, 25, 25, 0])
    state = again.train()
    assert [(r["stage"], r["epoch"]) for r in state.history[8:-1]] == [(2, 5), (2, 6), (2, 7)]
    assert (state.best_epoch, state.best_uas, again.run.finished()) == (2, 60, True)
    assert all(torch.equal(a, b) for a, b in zip(kept[1].values(), weights(again).values(), strict=True))


def test_what_goes_on_in_one_stage_is_a_longer_run(tmp_path):
    """Interrupted after it goes on, too, and where the checkpoint from before is all that is left."""
    whole = small_trainer(tiny_options("ntp", *OPTIONS), tmp_path / "whole")
    expected = figures(whole.train().history)
    options = tiny_options("ntp", "--epochs=1", "--batch-size=4")
    small_trainer(options, tmp_path / "run").train()
    Run.open(str(tmp_path / "run")).go_on(1)
    goes_on = small_trainer(options, tmp_path / "run")
    assert goes_on.restore()
    interrupt_after(goes_on, 2)
    again = small_trainer(options, tmp_path / "run")
    assert again.restore() and again.state.step == 2
    again.train()
    again.run.go_on(1)
    last = small_trainer(options, tmp_path / "run")
    assert last.restore() and figures(last.train().history) == expected
    assert last.run.continued() == [2, 3] and figures_of(tmp_path / "run") == expected


def test_the_bar_counts_all_stages_and_comes_to_its_end(tmp_path):
    trainer = small_trainer(tiny_options("gap", "--epochs=2", "--patience=9"), tmp_path / "run", count=8, unlabeled=9)
    shown = []
    trainer.display.due = lambda: True
    trainer.display.update = lambda name, done, total, left, *figures: shown.append((name, done, total))
    trainer.train()
    assert [done for _, done, _ in shown] == list(range(1, 13)) and {total for *_, total in shown} == {12}
    assert shown[-1][0] == "stage 2, epoch 2 of 2"


def test_gradients_are_clipped(tmp_path):
    trainer = small_trainer(tiny_options("ntp", "--epochs=1", "--clip=1e-12", "--learning-rate=0.1"), tmp_path / "run")
    norms = []
    original = trainer.optimizer.step

    def step(*args, **kwargs):
        norms.append(sum(float(p.grad.square().sum()) for p in trainer.model.parameters()) ** 0.5)
        return original(*args, **kwargs)

    trainer.optimizer.step = step
    trainer.train()
    assert norms and all(norm < 1.1e-12 for norm in norms)


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path):
    trainer = small_trainer(tiny_options("ntp", "--epochs=2"), tmp_path / "run")
    trainer.model.labeled_loss = lambda batch: (trainer.model.scorer.weight.sum() * torch.nan, {})
    with pytest.raises(Diverged, match="epoch 1"):
        trainer.train()


class TwoStages(Parser):
    """Learns from unlabelled sentences, in two stages, with a buffer whose size changes."""

    stages = 2
    resizable = ("counts",)

    def __init__(self, *args):
        super().__init__(*args)
        self.register_buffer("counts", torch.zeros(0))
        self.begun = []

    def labeled_loss(self, batch):
        return self.arc_scores(batch).square().sum(), {"twice": 2.0 * batch.num_words}

    def unlabeled_loss(self, batch):
        return (self.arc_scores(batch) * batch.noise.normal(batch.N, batch.N)).sum(), {}

    def begin_stage(self, context):
        self.begun.append(context.stage)
        return context.stage == 2

    def end_epoch(self, context):
        self.counts = torch.cat([self.counts, torch.tensor([float(context.epoch)])])
        sentences = sum(len(batch.examples) for batch in context.data.unlabeled_batches())
        return {"seen": sentences, "progress": context.progress}


def test_stages_unlabelled_steps_and_state(tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, "ntp", Model(f"{__name__}:TwoStages", uses_unlabeled=True))
    options = tiny_options("ntp", "--epochs=2", "--patience=9")
    whole = small_trainer(options, tmp_path / "whole", unlabeled=9)
    expected = figures(whole.train().history)
    assert [(r["stage"], r["epoch"], r["progress"], r["seen"], r["twice"]) for r in expected[:-1]] == [
        (1, 1, 0, 9, 2), (1, 2, 1, 9, 2), (2, 1, 0, 9, 2), (2, 2, 1, 9, 2),
    ]  # fmt: skip
    assert all("unlabeled_loss" in record for record in expected[:-1])
    assert whole.model.begun == [1, 2]
    check_resumed(whole, after=(3, 14, 23, 37), epoch_steps=10, unlabeled=9)
    assert whole.state.best_uas == max(record["dev_uas"] for record in expected)
    loaded, *_ = whole.run.load_model(options, torch.device("cpu"))
    assert torch.equal(loaded.counts, whole.model.counts)


def test_the_same_seed_is_the_same_run(tmp_path):
    runs = [small_trainer(tiny_options("ntp", *OPTIONS, f"--seed={seed}"), tmp_path / name)
            for seed, name in ((1, "a"), (1, "b"), (2, "c"))]  # fmt: skip
    first, again, other = (figures(run.train().history) for run in runs)
    assert first == again != other


def test_the_model_needs_no_memory_to_be_checked():
    options = tiny_options("ntp", "--lstm-size=60000", "--hidden-size=60000")
    _, vocab = small_data(options)
    with torch.device("meta"):
        assert sum(p.numel() for p in build(options, vocab).parameters()) > 10**10
