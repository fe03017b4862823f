"""A run with a tagger: the parser's results stay what they are, and sentences without tags get some."""

import dataclasses
import json
import signal
import time
from pathlib import Path

import pytest

import evaluate
import train
from parsers.data import synthetic
from parsers.data.conllu import UPOS, read
from parsers.data.corpus import Corpus, Stream
from parsers.data.sources import find_sources
from parsers.data.vocabulary import Vocabulary
from parsers.options import parse
from parsers.runs import tagger as tagger_file
from parsers.runs.run import Run
from parsers.runs.tagger import Tagger, load_tagger
from parsers.training import loop, tagging
from parsers.training.tagging import columns_for, tag_corpus
from tests.parsers.helpers import TINY
from tests.parsers.processes import TWICE, call, run, start, write_treebank
from tests.parsers.training.interruption import check_alike, figures_of

FEW = {"MIN_STEPS": 40, "MAX_STEPS": 40}
SCRIPT = """import sys, train
from parsers.training import tagging
tagging.MIN_STEPS = tagging.MAX_STEPS = {}
if __name__ == "__main__":
    sys.exit(train.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tagged") / "bank"
    write_treebank(directory, 40, unlabeled=20)
    return directory


@pytest.fixture
def few(monkeypatch):
    """Few steps: what a tagger predicts is of no interest here."""
    for name, value in FEW.items():
        monkeypatch.setattr(tagging, name, value)


def arguments(bank: Path, name: str, *others, model: str = "ntp") -> list[str]:
    first = [f"--model={model}", f"--treebank={bank}", f"--output={bank / name}", "--epochs=2", "--labeled=0.5"]
    return [*first, "--threads=1", *TINY, *map(str, others)]


@pytest.fixture(scope="module")
def whole(bank):
    """A run that nothing disturbed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FEW.items():
            patch.setattr(tagging, name, value)
        assert train.main(arguments(bank, "whole")) == 0
    return bank / "whole"


def without_tags(source: Path, target: Path) -> Path:
    text = "".join(sentence.text({UPOS: ["_"] * len(sentence)}) for sentence in read(str(source)))
    target.write_text(text, "utf-8")
    return target


def split_figures(path: Path) -> tuple[list[dict], dict]:
    """The figures of a run without those of the tagger, and those."""
    *epochs, final = figures_of(path)
    assert not any(name.startswith("tagger") for epoch in epochs for name in epoch)
    of_tagger = {name: value for name, value in final.items() if name.startswith("tagger_")}
    return [*epochs, {name: value for name, value in final.items() if name not in of_tagger}], of_tagger


@pytest.mark.parametrize("model", ["ntp", "gap", "crfae"])
def test_the_parser_is_the_same_to_the_bit(bank, few, model):
    """With tags in all files, whether there is a tagger or not."""
    inputs = ["--unlabeled", bank / "small-ud-unlabeled.conllu"] if model != "ntp" else []
    assert train.main(arguments(bank, f"{model}-with", *inputs, model=model)) == 0
    assert train.main(arguments(bank, f"{model}-without", *inputs, "--no-tagger", model=model)) == 0
    one, other = bank / f"{model}-with", bank / f"{model}-without"
    (found, of_tagger), (expected, nothing) = split_figures(one), split_figures(other)
    assert found == expected and not nothing
    assert of_tagger.keys() == {"tagger_upos_accuracy", *loop.TAGGED}
    for name in ("model.safetensors", "vocab.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert (one / "tagger.json").exists() and not (other / "tagger.json").exists()


def test_the_screen_and_the_last_line(bank, few, capfd):
    assert train.main(arguments(bank, "shown")) == 0
    out, error = capfd.readouterr()
    assert out.count("tagger") == 1 and "tagger: 20 sentences in " in out and error == ""
    final = json.loads((bank / "shown" / "metrics.jsonl").read_text().splitlines()[-1])
    assert final["tagger_seconds"] > 0 and 0 < final["tagger_upos_accuracy"] <= 100
    assert f"UPOS {final['tagger_upos_accuracy']:.1f} % of dev" in out


def test_the_test_set_with_predicted_tags(bank, whole, tmp_path, capfd):
    """The last line has its scores, those that evaluate.py finds, and the command shows them."""
    final = json.loads((whole / "metrics.jsonl").read_text().splitlines()[-1])
    json_file = tmp_path / "figures.json"
    evaluate.main([str(whole), "--treebank", str(bank), "--predict-tags", "--json", str(json_file)])
    figures = json.loads(json_file.read_text())
    assert [final[name] for name in loop.TAGGED] == [figures[name] for name in ("uas", "las", "clas")]


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_stopped_while_the_tagger_is_written(bank, whole, few, moment, capfd, monkeypatch):
    """Before its files are there, between the two, and when both are: the same bits in the end."""
    path = bank / f"stopped-{moment}"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "before":
            patch.setattr(Tagger, "save", stop)
        elif moment == "between":
            write = tagger_file.write
            patch.setattr(
                tagger_file, "write", lambda path, text: stop() if path.suffix == ".json" else write(path, text)
            )
        else:
            patch.setattr(tagging, "tag_corpus", stop)
        assert call(train.main, *arguments(bank, path.name)) == 130
    error = capfd.readouterr().err
    assert f"continue with: python train.py --resume {Run.open(str(path))}" in error
    trained = []
    original = tagging.train_tagger
    monkeypatch.setattr(tagging, "train_tagger", lambda *a, **k: trained.append(1) or original(*a, **k))
    assert train.main(["--resume", str(path)]) == 0
    assert len(trained) == (moment != "after")
    assert figures_of(path) == figures_of(whole)
    for name in ("model.safetensors", "tagger.safetensors"):
        assert (path / name).read_bytes() == (whole / name).read_bytes()


def test_killed_while_the_tagger_is_trained(bank, whole, few, tmp_path):
    path = bank / "killed"
    process = start("-c", SCRIPT.format(10**9), *arguments(bank, path.name))
    deadline = time.monotonic() + 120
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    process.kill()
    assert process.wait() == -signal.SIGKILL and not (path / "tagger.json").exists()
    assert train.main(["--resume", str(path)]) == 0
    assert figures_of(path) == figures_of(whole)
    for name in ("model.safetensors", "tagger.safetensors"):
        assert (path / name).read_bytes() == (whole / name).read_bytes()


def test_two_processes(bank, whole, tmp_path):
    """One trains it, the other loads it."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(FEW["MAX_STEPS"]))
    done = run(*TWICE, script, *arguments(bank, "two"))
    assert done.stdout.count("tagger: ") == 1
    check_alike(figures_of(whole), figures_of(bank / "two"))
    assert (bank / "two" / "tagger.safetensors").read_bytes() == (whole / "tagger.safetensors").read_bytes()


def test_files_without_tags(bank, few, tmp_path, capfd):
    """Text, dev and test set without tags: all words get some, the vocabulary has no other tag, nothing is amiss."""
    files = {s: without_tags(bank / f"small-ud-{s}.conllu", tmp_path / f"{s}.conllu") for s in ("dev", "test")}
    raw = without_tags(bank / "small-ud-unlabeled.conllu", tmp_path / "raw.conllu")
    named = ["--dev", files["dev"], "--test", files["test"], "--unlabeled", raw]
    assert train.main(arguments(bank, "bare", *named, model="gap")) == 0
    error = capfd.readouterr().err
    assert "tag" not in error
    assert "_" not in Run.open(str(bank / "bare")).vocab().pos.symbols
    final = figures_of(bank / "bare")[-1]
    assert "tagger_upos_accuracy" not in final  # dev has no tags to compare with
    assert final["dev_uas"] != final["dev_uas_without_punctuation"]  # predicted tags tell what is punctuation
    assert train.main(arguments(bank, "bare-none", *named, "--no-tagger", model="gap")) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(": ")[2].partition(":")[0] for line in lines if "there is no tagger" in line] == [
        "the dev set",
        "the test set",
        "the unlabelled sentences",
    ]
    assert "_" in Run.open(str(bank / "bare-none")).vocab().pos.symbols


def test_a_stream_stays_one(bank, few, tmp_path, whole):
    raw = without_tags(bank / "small-ud-unlabeled.conllu", tmp_path / "raw.conllu")
    options = parse(arguments(bank, "x", "--unlabeled", raw, model="gap"))
    corpus = Corpus(options, find_sources(options), with_unlabeled=True)
    tagger = load_tagger(whole)
    tag_corpus(corpus, tagger)
    assert isinstance(corpus.unlabeled, Stream)
    first, second = list(corpus.unlabeled), list(corpus.unlabeled)
    assert first == second and len(first) == 20 + 20
    assert not any("_" in sentence.upos for sentence in first)
    others = {tuple(sentence.forms): sentence.upos for sentence in read(str(bank / "small-ud-train.conllu"))}
    assert all(sentence.upos == others[tuple(sentence.forms)] for sentence in first[:20])  # the tags that are there


def test_trees_without_tags(bank, few, tmp_path, capfd):
    bare = without_tags(bank / "small-ud-train.conllu", tmp_path / "train.conllu")
    assert train.main(arguments(bank, "no-tags", "--train", bare)) == 0
    out, error = capfd.readouterr()
    assert "the trees have no tags (UPOS and XPOS are empty)" in out and "tagger" not in out
    assert "the dev set: unlike the training data" in error and "tags that are not known" in error
    assert not (bank / "no-tags" / "tagger.json").exists()


def test_columns():
    options = parse(["--model=ntp"])
    with_both = parse(["--model=ntp", "--xpos", "--feats"])
    (sentence,) = read_one()
    n = len(sentence)
    only_xpos = dataclasses.replace(sentence, upos=["_"] * n, xpos=["A"] * n)
    rich = dataclasses.replace(sentence, xpos=["A"] * n, feats=["B=1"] * n)
    assert columns_for([sentence], options) == ("upos",) == columns_for([sentence], with_both)
    assert columns_for([rich], options) == ("upos",)
    assert columns_for([rich], with_both) == ("upos", "xpos", "feats")
    assert columns_for([only_xpos], options) == ("xpos",)
    assert columns_for([dataclasses.replace(rich, upos=["_"] * n, xpos=["_"] * n)], with_both) == ()
    assert columns_for([rich], parse(["--model=ntp", "--no-tagger"])) == ()


def read_one():
    return synthetic.sentences("train", count=1)


def test_a_vocabulary_without_what_will_be_tagged():
    """`_` of the trees stays a tag; XPOS of words with UPOS stays as it is."""
    trees, text = read_one(), read_one()
    n = len(trees[0])
    text[0].upos[:] = ["_"] * n
    assert "_" in Vocabulary.build(trees, text).pos.symbols
    assert "_" not in Vocabulary.build(trees, text, with_tagger=True).pos.symbols
    trees[0].upos[0] = "_"
    vocab = Vocabulary.build(trees, text, with_tagger=True)
    assert vocab.pos.counts[vocab.pos.number["_"]] == 1 and vocab.xpos.counts[vocab.xpos.number["_"]] == n
    with_tags = Vocabulary.build(trees, trees), Vocabulary.build(trees, trees, with_tagger=True)
    assert with_tags[0].xpos.symbols == with_tags[1].xpos.symbols
