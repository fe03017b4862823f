"""The commands as a user runs them, each in a process of its own."""

import json
import os
import re
import signal
import subprocess
from contextlib import nullcontext

import pytest

import evaluate
import train
from parsers import MODELS
from parsers.io.errors import UserError
from parsers.runs.run import Run
from parsers.training.progress import Display
from tests.parsers.helpers import TINY
from tests.parsers.processes import ENVIRONMENT, TWICE, call, mistake, run, start, wait_for_epochs, write_treebank
from tests.parsers.training.interruption import check_alike, figures_of

FAST = [*TINY, "--epochs=3", "--seed=7", "--no-tagger"]


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    directory = tmp_path_factory.mktemp("commands") / "bank"
    write_treebank(directory, 60, unlabeled=20)
    return directory


@pytest.fixture(scope="module")
def whole(bank):
    """A run that nothing disturbed."""
    done = run("train.py", "--model=ntp", "--treebank", bank, "--output", bank / "whole", "--labeled=0.5", *FAST)
    return bank / "whole", done.stdout


def test_training(whole, bank):
    path, text = whole
    assert (
        "30 trees, no other sentences (it learns from trees only), 20 dev sentences, 20 test" in text
        and "test UAS" in text
    )
    assert "\x1b" not in text and text.count("\nepoch") == 3  # plain lines where there is no terminal
    names = {file.name for file in path.iterdir() if not file.name.startswith("checkpoint")}
    assert names == {"config.json", "vocab.json", "metrics.jsonl", "model.safetensors", "curves.png"}
    *epochs, final = figures_of(path)
    assert len(epochs) == 3 and final["final"] and {"loss", "dev_uas"} <= epochs[0].keys() and "test_uas" in final
    assert (path / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_a_finished_run_is_left_alone(whole):
    path, _ = whole
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.iterdir()}
    assert "finished already" in run("train.py", "--resume", path).stdout
    assert {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.iterdir()} == before


def test_a_finished_run_goes_on(whole, bank, capfd):
    """Killed after it is noted, and after its first new epoch, it ends as a run of so many epochs does."""
    path, options = bank / "on", ["--treebank", bank, "--labeled=0.5", *TINY, "--seed=7", "--no-tagger"]
    run("train.py", "--model=ntp", "--output", path, *options, "--epochs=1")
    unfinished = bank / "unfinished"
    unfinished.mkdir()
    for name in ("config.json", "vocab.json"):
        (unfinished / name).write_bytes((path / name).read_bytes())
    error = mistake(capfd, train.main, "--resume", unfinished, "--epochs=2")
    assert f"{unfinished} is not finished: --resume it without --epochs first" in error
    Run.open(str(path)).go_on(2)
    process = start("train.py", "--resume", path, stdout=subprocess.DEVNULL)
    wait_for_epochs(process, path, 2)
    process.kill()
    process.wait()
    run("train.py", "--resume", path)
    assert figures_of(path) == figures_of(whole[0]) and Run.open(str(path)).continued() == [3]
    assert (path / "model.safetensors").read_bytes() == (whole[0] / "model.safetensors").read_bytes()
    assert "finished already" in run("train.py", "--resume", path).stdout


def test_a_run_starts_from_another(whole, bank, capfd):
    """And again, where it has no checkpoint; with the words of both."""
    other = bank / "other.conllu"
    other.write_text((bank / "small-ud-test.conllu").read_text())
    options = ["--model=ntp", "--train", other, *FAST]
    run("train.py", *options, "--init", whole[0], "--output", bank / "tuned")
    again = bank / "tuned-again"
    again.mkdir()
    for name in ("config.json", "vocab.json"):
        (again / name).write_bytes((bank / "tuned" / name).read_bytes())
    run("train.py", "--resume", again)
    assert figures_of(again) == figures_of(bank / "tuned")
    old, new = (set(Run.open(str(path)).vocab().words.symbols) for path in (whole[0], bank / "tuned"))
    assert old < new
    for arguments, message in [
        (["--model=nmp"], "is a run of ntp: choose --model ntp"),
        (["--model=ntp", "--lstm-size=7"], "has other inputs or sizes: it was trained with --lstm-size 6"),
        (["--model=ntp", "--xpos"], "has other inputs or sizes: it was trained with no --xpos"),
    ]:
        error = mistake(
            capfd, train.main, "--train", other, "--init", whole[0], "--output", bank / "x", *FAST, *arguments
        )
        assert message in error
    (whole[0] / "vocab.json").touch()


def test_killed_and_resumed(whole, bank):
    """SIGKILL after the first epoch is written, then after the second; then to the end."""
    path = bank / "killed"
    first = ["train.py", "--model=ntp", "--treebank", bank, "--output", path, "--labeled=0.5", *FAST]
    for epochs, command in ((1, first), (2, ["train.py", "--resume", path])):
        process = start(*command, stdout=subprocess.DEVNULL)
        wait_for_epochs(process, path, epochs)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    run("train.py", "--resume", path)
    assert figures_of(path) == figures_of(whole[0])
    assert (path / "model.safetensors").read_bytes() == (whole[0] / "model.safetensors").read_bytes()


def test_without_a_checkpoint_it_starts_over(whole, bank):
    """And with the number of threads that it had, whatever that is elsewhere."""
    path = bank / "copy"
    path.mkdir()
    for name in ("config.json", "vocab.json"):
        (path / name).write_bytes((whole[0] / name).read_bytes())
    run("train.py", "--resume", path, env=ENVIRONMENT | {"OMP_NUM_THREADS": "2"})
    assert figures_of(path) == figures_of(whole[0])


def test_two_processes(whole, bank):
    path = bank / "two"
    arguments = ["--model=ntp", "--treebank", bank, "--output", path, "--labeled=0.5", *FAST]
    done = run(*TWICE, "train.py", *arguments)
    assert done.stdout.count("test UAS") == 1
    check_alike(figures_of(whole[0]), figures_of(path))


def test_ctrl_c(bank):
    path = bank / "interrupted"
    command = ["train.py", "--model=nmp", "--output", path, *TINY, "--epochs=1000", "--no-tagger"]
    process = start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_epochs(process, path)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("stopped; continue with: python train.py --resume ")


def test_evaluation(whole, bank, tmp_path):
    gold = bank / "small-ud-test.conllu"
    scores, parsed = tmp_path / "scores.json", tmp_path / "parsed.conllu"
    done = run("evaluate.py", whole[0], gold, "--json", scores, "--output", parsed)
    figures = json.loads(scores.read_text())
    assert done.stdout.startswith("tags: those in the file\n") and done.stderr == ""
    assert re.search(rf"^UAS +{figures['uas']:.2f} ", done.stdout, re.M)
    final = figures_of(whole[0])[-1]
    assert (figures["uas"], figures["complete_matches"]) == (final["test_uas"], final["test_complete_matches"])
    pairs = zip(gold.read_text().splitlines(), parsed.read_text().splitlines(), strict=True)
    differences = [(a.split("\t"), b.split("\t")) for a, b in pairs if a != b]
    assert sum(a[6] != b[6] for a, b in differences) == figures["words"] - figures["correct"]
    assert all(a[:6] + a[8:] == b[:6] + b[8:] for a, b in differences)

    piped = run("evaluate.py", whole[0], "-", "--output", "-", input=gold.read_text())
    assert piped.stdout == parsed.read_text() and "UAS" in piped.stderr
    done = run("-X", "importtime", "evaluate.py", whole[0], bank / "small-ud-unlabeled.conllu")
    assert "not scored" in done.stdout and "arcs have a probability below 0.9" in done.stdout
    assert (
        "parsers.evaluation.commands" in done.stderr and "torch._dynamo" not in done.stderr
    )  # two seconds for nothing


def test_mistakes_of_training(bank, tmp_path, capfd):
    broken = tmp_path / "broken.conllu"
    broken.write_text("1\ta\t_\tX\t_\t_\t9\t_\t_\t_\n\n")
    bare, gold = tmp_path / "bare.conllu", bank / "small-ud-test.conllu"
    bare.write_text("1\ta\t_\tX\t_\t_\t0\t_\t_\t_\n\n")
    output = tmp_path / "run"
    for arguments, message in [
        (["--model=magic"], "invalid choice: 'magic'"),
        (["--model=ntp", "--dropout=1.5"], "--dropout: '1.5' is not a number from 0 to 0.99"),
        (["--model=ntp", "--fp16", "--bf16"], "not allowed with argument"),
        (["--model=ntp", "--treebank="], "argument --treebank: the name is empty"),
        (["--model=ntp", "--dev", ""], "argument --dev: the name is empty"),
        (["--resume=run", "--seed=5"], "--output would have no effect: a resumed run goes on with the options"),
        (["--model=ntp", "--stop-on=las", "--label-weight=0"], "with --label-weight 0 there are none"),
        (["--model=ntp", "--train", bare, "--dev", gold, "--stop-on=las"], "DEPREL is empty in the trees"),
        (["--model=ntp", "--train", gold, "--dev", bare, "--stop-on=las"], "DEPREL is empty in the dev set"),
        (["--model=ntp", "--treebank=nowhere"], "--treebank nowhere is not a directory"),
        (["--model=ntp", "--treebank", tmp_path], "has no *-ud-train.conllu"),
        (["--model=ntp", "--dev", broken], "--dev needs --train or --treebank"),
        (["--model=ntp", "--train", broken], f"{broken}:1: word 1 has head 9, but the sentence has only 1 words"),
        (["--model=ntp", "--train", bank / "small-ud-unlabeled.conllu"], ":3: word 1 has no head, but training needs"),
        (["--model=crfae", "--feats"], "--feats would have no effect: crfae sees nothing but tags"),
        (["--model=gap", "--unlabeled=x", "--no-unlabeled"], "--unlabeled and --no-unlabeled: only one of them"),
        (
            ["--model=ntp", "--device=quantum"],
            "'quantum' is not a supported device: cpu, cuda or cuda:1",
        ),
        (["--model=ntp", "--device=meta"], "'meta' is not a supported device: cpu, cuda or cuda:1"),
        (["--model=ntp", "--device=cuda:99"], "--device cuda:99: torch sees"),
        (["--model=ntp", "--embeddings", broken], f"{broken}:1: "),
        ([], "--model is missing"),
    ]:
        assert message in mistake(capfd, train.main, *arguments, "--output", output)
        assert not output.exists()
    assert "is not a run: it has no config.json" in mistake(capfd, train.main, "--resume", tmp_path)
    assert "can't be made: File exists" in mistake(capfd, train.main, "--model=ntp", "--output", broken / "x")


def test_mistakes_of_evaluation(whole, tmp_path, capfd):
    path, gold = whole[0], whole[0].parent / "small-ud-test.conllu"
    for arguments, message in [
        ([path], "name either a FILE, a --treebank or a --text"),
        ([path, tmp_path / "missing.conllu"], "missing.conllu: can't be read: No such file"),
        ([path, gold, "--output", tmp_path], "is a directory: name a file"),
        ([path, gold, "--output", tmp_path / "no" / "x"], "can't be written: No such file or directory"),
        ([tmp_path, gold], "is not a run"),
        ([gold, path], f"{gold} is a file and {path} is a run: the run comes first"),
        (["--compare", path, gold, path], "the run comes first"),
        ([path, gold, "--skip-impossible"], "--skip-impossible goes with --constrain"),
        ([path, gold, "--threads=0"], "--threads: '0' is not an integer from 1 to 4096"),
    ]:
        assert message in mistake(capfd, evaluate.main, *arguments)
    broken = tmp_path / "broken.conllu"
    broken.write_text(gold.read_text() + "1\ta\n")
    mistake(capfd, evaluate.main, path, broken, "--output", tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["broken.conllu"]  # nothing half-written


def test_exit_code_of_a_mistake():
    done = run("train.py", "--model=magic", code=2)
    assert done.stdout == "" and done.stderr.startswith("train.py: argument --model: invalid choice: 'magic'")


def test_a_full_disk_while_training(bank, tmp_path, capfd, monkeypatch):
    """Says how to go on; a full disk under standard output is no fault of ours either."""

    def full(*_):
        raise UserError("model.safetensors can't be written: No space left on device")

    monkeypatch.setattr(Run, "save_model", full)
    path = tmp_path / "run"
    assert call(train.main, "--model=ntp", "--treebank", bank, "--output", path, *FAST) == 2
    error = capfd.readouterr().err
    assert "No space left on device" in error and error.endswith(f"train.py --resume {path}\n")
    assert error.count("\n") == 1
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as file, pytest.raises(UserError, match="standard output can't be written"):
            display = Display()
            display.console.file = file
            display.say("a line\n" * 10_000)


@pytest.mark.parametrize(
    ("command", "arguments", "most"),
    [("evaluate", [], 50), ("train", [], 50), *(("train", [f"--model={model}"], 74) for model in MODELS)],
)
def test_help_fits_a_screen(command, arguments, most, capsys):
    """80 columns; 50 lines, and up to half as many more where all options of a system are shown."""
    with pytest.raises(SystemExit) if command == "evaluate" else nullcontext():
        {"train": train, "evaluate": evaluate}[command].main([*arguments, "--help"])
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= most and max(map(len, text.splitlines())) <= 80
    assert ("--lstm-size" in text) == bool(arguments) and ("examples:" in text) != bool(arguments)
