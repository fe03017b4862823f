"""EDP: what the student learns from its teachers, and how these are trained: one by one, side by side, after a kill."""

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.distributions import kl_divergence

import train
import tritree
from parsers.data.corpus import Corpus, Stream
from parsers.data.sources import find_sources
from parsers.data.vocabulary import UNKNOWN
from parsers.edp import Ensemble, Reconstructor
from parsers.io.errors import UserError
from parsers.ntp import NTP
from parsers.runs.run import Run
from parsers.system import Context
from parsers.training import loop, teachers
from parsers.training.loop import Trainer
from parsers.training.processes import Group
from parsers.training.teachers import options_of, pretraining_options
from tests.parsers.helpers import NO_LABELS, TINY, build, small_data, tiny_options
from tests.parsers.processes import TWICE, run, start, write_treebank
from tests.parsers.training.interruption import check_alike, figures_of


def taught(*arguments):
    """A student in its first epoch, with untrained teachers, and a batch of text."""
    options = tiny_options("edp", "--teachers=3", *arguments)
    data, vocab = small_data(options, 6, unlabeled=8)
    model = build(options, vocab).double()
    context = Context(data, Group("cpu"), options, stage=1, epoch=1, epochs=9)
    model.begin_stage(context)
    (ensemble,) = model.ensembles
    for parameter in ensemble.double().parameters():
        if parameter.dim() > 1:
            parameter.mul_(3)  # so that they disagree
    model.begin_epoch(context)
    return model, ensemble, next(data.unlabeled_batches()), context


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_arcs_are_those_of_the_mixture_or_of_the_product(sigma):
    _, ensemble, batch, _ = taught(f"--sigma={sigma}")
    trees = [tritree.TreeCRF(member(batch)[0] / (1 - sigma), batch.lengths) for member in ensemble.members]
    mean, _ = ensemble(batch)
    torch.testing.assert_close(mean, torch.stack([crf.marginals for crf in trees]).mean(0))
    ensemble.options.combine = "product"
    product, _ = ensemble(batch)
    average = torch.stack([crf.scores for crf in trees]).mean(0)
    torch.testing.assert_close(product, tritree.marginals(average, batch.lengths))
    assert not torch.allclose(mean, product, atol=1e-3)
    assert torch.equal(ensemble.predict(batch), tritree.viterbi(product, batch.lengths, single_root=True)[1])


def test_the_loss_is_the_cross_entropy():
    """With one teacher it is a KL divergence and the teacher's entropy; and a student like it has nothing to learn."""
    model, _, batch, _ = taught("--teachers=1", "--unlabeled-weight=0.5", NO_LABELS)
    (teacher,) = model.ensembles[0].members
    loss, _ = model.unlabeled_loss(batch)
    Q, P = (tritree.TreeCRF(parser(batch)[0], batch.lengths) for parser in (teacher, model))
    torch.testing.assert_close(2 * loss.detach(), (kl_divergence(Q, P) + Q.entropy()).sum().detach(), atol=1e-4, rtol=0)
    model.load_state_dict(teacher.state_dict())
    s = model(batch)[0].detach().requires_grad_()
    model.forward = lambda batch: (s, None)
    model.unlabeled_loss(batch)[0].backward()
    assert s.grad.abs().max() < 1e-6


def test_labels_of_text():
    """The teachers' distributions, averaged, at the arcs with the largest sum of probabilities."""
    model, ensemble, batch, _ = taught()
    arcs, best, labels = model.taught(batch)
    assert torch.equal(best, tritree.viterbi(arcs, batch.lengths)[1])
    states = [member(batch)[1] for member in ensemble.members]
    each = [member.label_log_probs(o, batch, best).exp() for member, o in zip(ensemble.members, states, strict=True)]
    expected = torch.stack(each).mean(0).float()
    is_arc = best > 0
    torch.testing.assert_close(labels[is_arc], expected[is_arc])
    loss, metrics = model.unlabeled_loss(batch)
    model.options.label_weight = 0.0
    torch.testing.assert_close(loss - model.unlabeled_loss(batch)[0], metrics["label_loss"])


def test_what_is_kept_is_what_the_teachers_say():
    """Of a list; a stream has new examples in each pass."""
    model, _, batch, context = taught()
    assert len(model.kept) == 8
    kept = model.taught(batch)
    context.data.unlabeled = Stream(lambda examples=context.data.unlabeled: iter(examples))
    model.kept = {}
    model.begin_epoch(context)
    assert not model.kept
    for one, other in zip(kept, model.taught(batch), strict=True):
        assert one.shape == other.shape
        known = batch.is_word if one.dim() == 2 else batch.is_word.unsqueeze(2)
        torch.testing.assert_close(one * known, (other * known).to(one.dtype), atol=1e-6, rtol=0)


def test_taught_on_trees():
    """The text is then the sentences of the trees, and no others."""
    sources = find_sources(tiny_options("edp"))
    corpora = [
        Corpus(tiny_options("edp", f"--taught-on={of}", "--labeled=0.1"), sources, True) for of in ("text", "trees")
    ]
    assert corpora[0].labeled == corpora[1].labeled == corpora[1].unlabeled
    assert corpora[0].unlabeled and not any(sentence in corpora[0].unlabeled for sentence in corpora[0].labeled)
    for other in ("--no-unlabeled", "--unlabeled=more.txt"):
        with pytest.raises(UserError, match=f"--taught-on trees and {other.partition('=')[0]}: only one"):
            tiny_options("edp", "--taught-on=trees", other)


def test_the_student_is_saved_alone():
    model, *_ = taught()
    assert isinstance(model.ensembles[0], Ensemble)
    assert model.state_dict().keys() == NTP(model.options, model.vocab).state_dict().keys()


def test_teachers_differ_from_each_other_and_not_in_their_data():
    options = tiny_options("edp")
    seeds = [options_of(options, number).seed for number in range(1, 5)]
    assert len({*seeds, options.seed}) == 5
    assert options_of(options, 1).encoder_words == options.encoder_words == "all"
    assert options_of(tiny_options("edp", "--pretrain-epochs=0"), 1).encoder_words == "trees"


def reconstructor(*arguments):
    """A network that reconstructs, and a batch of text with random numbers."""
    options = tiny_options("edp", *arguments)
    data, vocab = small_data(options, 6, unlabeled=8)
    batch = next(data.unlabeled_batches()).draw("hidden", 1)
    return Reconstructor(options, vocab).double(), batch, data


@pytest.mark.parametrize("name", ["words", "pos"])
def test_what_is_predicted_is_hidden(name):
    """Other symbols there have another loss, but the encoder sees no difference."""
    model, batch, _ = reconstructor()
    seen, losses = [], []
    model.encoder.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for _ in range(2):
        losses.append(model.unlabeled_loss(batch.draw("hidden", 1))[0])
        symbols = getattr(batch, name).clone()
        hidden = (symbols != UNKNOWN) & (getattr(seen[0], name) == UNKNOWN)
        symbols[hidden] = symbols[hidden].flip(0)
        batch = replace(batch, **{name: symbols})
    known = batch.is_word & (getattr(batch, name) != UNKNOWN)
    assert 0.2 < hidden.sum() / known.sum() < 0.4 and not (hidden & ~known).any()
    assert torch.equal(getattr(seen[0], name), getattr(seen[1], name)) and losses[0] != losses[1]
    assert name == "pos" or not seen[0].forms[hidden].any()  # nor are its characters


def test_it_learns_to_reconstruct():
    model, batch, _ = reconstructor("--learning-rate=0.05", "--dropout=0", "--word-dropout=0")
    optimizer, losses = model.make_optimizer(), []
    for _ in range(60):
        loss, _ = model.unlabeled_loss(batch.draw("hidden", 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("count", [8, 7])
def test_an_epoch_reads_the_text_once(count):
    """Also of a stream, whose length nobody knows before."""
    model, _, data = reconstructor("--unlabeled-batch-size=3")
    data.unlabeled = Stream(lambda examples=data.unlabeled[:count]: iter(examples))
    context = Context(data, Group("cpu"), model.options, stage=0, epoch=1, epochs=9)
    for context.epoch in (1, 2):
        batches = [batch for _, batch in model.steps(context)]
        assert len(batches) == model.num_steps(context) == 3
        assert sorted(id(e) for batch in batches for e in batch.examples) == sorted(map(id, data.unlabeled))


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    directory = tmp_path_factory.mktemp("edp") / "bank"
    write_treebank(directory, 40)
    return directory


def arguments(bank: Path, name: str, *others) -> list[str]:
    first = ["--model=edp", f"--treebank={bank}", f"--output={bank / name}", "--labeled=0.5", "--teachers=2"]
    return [*first, "--epochs=2", "--teacher-epochs=3", "--threads=1", "--no-tagger", *TINY, *map(str, others)]


@pytest.fixture(scope="module")
def whole(bank):
    """A run that nothing disturbed."""
    assert train.main(arguments(bank, "whole")) == 0
    return bank / "whole"


def check_same(path: Path, whole: Path) -> None:
    assert figures_of(path) == figures_of(whole)
    for place in (".", "pretrained", "teachers/1", "teachers/2"):
        name = f"{place}/model.safetensors"
        assert (path / name).read_bytes() == (whole / name).read_bytes(), name


def processes_of(path: Path) -> list[str]:
    """Command lines that name this run."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has just ended
            continue
    return [line for line in found if "parsers.training.teachers" in line and str(path) in line]


def wait_until(condition, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_directory_and_the_last_line(whole):
    *epochs, final = figures_of(whole)
    assert [epoch["stage"] for epoch in epochs] == [1, 1]
    for number in (1, 2):
        history = figures_of(whole / "teachers" / str(number))
        assert len(history) == 4 and history[-1]["dev_uas"] == final[f"teacher_{number}_dev_uas"]
        assert not any("unlabeled_loss" in epoch or "test_uas" in epoch for epoch in history)
    assert {"ensemble_dev_uas", "ensemble_test_uas", "ensemble_test_las"} <= final.keys()
    times = json.loads((whole / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"teachers_seconds", "pretraining_seconds"} <= times.keys()
    *epochs, _ = figures_of(whole / "pretrained")
    assert [epoch["stage"] for epoch in epochs] == [0, 0] and all("unlabeled_loss" in epoch for epoch in epochs)
    model, *_ = Run.open(str(whole)).load_model(Run.open(str(whole)).config()[0], torch.device("cpu"))
    assert not model.ensembles


def test_all_begin_with_the_pretrained_encoder(bank, whole, monkeypatch):
    """With --pretrain-epochs 0 there is none."""
    begun = []

    class Watched(Trainer):
        def train(self):
            begun.append(self.model.encoder.lstm.forwards[0].weight_hh_l0.detach().clone())
            return super().train()

    for module in (loop, teachers):
        monkeypatch.setattr(module, "Trainer", Watched)
    assert train.main(arguments(bank, "watched")) == 0
    run = Run.open(str(whole))
    options, vocab = pretraining_options(run.config()[0]), run.vocab()
    model = Run(str(whole / "pretrained")).load_weights(Reconstructor(options, vocab), torch.device("cpu"))
    random, *others = begun
    assert len(others) == 3 and not torch.equal(random, others[0])
    assert all(torch.equal(weight, model.encoder.lstm.forwards[0].weight_hh_l0) for weight in others)
    begun.clear()
    assert train.main(arguments(bank, "not-pretrained", "--pretrain-epochs=0")) == 0
    assert len(begun) == 3 and not torch.equal(begun[1], begun[2])
    assert not (bank / "not-pretrained" / "pretrained").exists()


def test_without_text_there_are_no_teachers(bank):
    assert train.main(arguments(bank, "trees", "--no-unlabeled")) == 0
    assert not (bank / "trees" / "teachers").exists() and not (bank / "trees" / "pretrained").exists()


def test_killed_while_it_reconstructs(bank, whole):
    path = bank / "killed"
    process = start("train.py", *arguments(bank, path.name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: (path / "pretrained/metrics.jsonl").exists() or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL and not (path / "teachers").exists()
    assert train.main(["--resume", str(path)]) == 0
    check_same(path, whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_side_by_side_and_stopped(bank, whole, number):
    """Nothing goes on behind a run that is stopped or killed. Resumed, its bits are those of one process."""
    path = bank / f"stopped-{number}"
    first = arguments(bank, path.name, "--processes=2", "--teacher-epochs=3")
    process = start("train.py", *first, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: (path / "teachers/1/metrics.jsonl").exists() or process.poll() is not None)
    process.send_signal(number)
    code = process.wait()
    assert code == (143 if number == signal.SIGTERM else -number)
    wait_until(lambda: not processes_of(path), 5)
    assert not (path / "teachers/1/curves.png").exists() or not (path / "teachers/2/curves.png").exists()
    if number == signal.SIGTERM:
        assert train.main(["--resume", str(path)]) == 0
        check_same(path, whole)


def test_two_processes_share_each_batch(bank, whole):
    run(*TWICE, "train.py", *arguments(bank, "two"))
    check_alike(figures_of(whole), figures_of(bank / "two"))
