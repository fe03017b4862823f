"""The files that evaluate.py writes: what is in them, and that they are whole or as they were before."""

import json
import os
import re

import numpy as np
import pytest

import evaluate
from parsers.data.batches import collate
from parsers.data.conllu import read
from parsers.data.examples import Indexer
from parsers.evaluation.metrics import Scores
from parsers.evaluation.parse import Parse, Trees
from parsers.evaluation.sinks import ConlluFile
from parsers.runs.run import Run
from tests.parsers.evaluation.calls import main, mistake
from tests.parsers.processes import call, run
from tritree import TreeCRF


def test_output_changes_nothing_else(place, tmp_path):
    gold = (place / "gold.conllu").read_bytes()
    source = tmp_path / "windows.conllu"
    source.write_bytes(b"\xef\xbb\xbf" + gold.replace(b"\n", b"\r\n").rstrip() + b"\r\n\r\n# the end")
    plain, sure = tmp_path / "plain.conllu", tmp_path / "sure.conllu"
    main(place / "bare", source, "--output", plain)
    main(place / "bare", source, "--output", sure, "--confidence")

    def without_arcs(path):
        lines = [line.split(b"\t") for line in path.read_bytes().split(b"\n")]
        return [line[:6] + line[8:] for line in lines]

    assert without_arcs(plain) == without_arcs(source)
    assert {label for sentence in read(str(plain)) for label in sentence.deprels} == {"_"}  # none is predicted
    probabilities, kept = [], []
    for line in sure.read_bytes().split(b"\n"):
        if line.startswith((b"# log_prob = ", b"# entropy = ")):
            assert line.endswith(b"\r") and len(line.rpartition(b".")[2]) == 5
            continue
        columns = line.split(b"\t")
        if b"Prob=" in columns[-1]:
            misc, _, value = columns[-1].rstrip(b"\r").rpartition(b"Prob=")
            probabilities.append(float(value))
            columns[-1] = (misc.rstrip(b"|") or b"_") + b"\r"
        kept.append(b"\t".join(columns))
    assert b"\n".join(kept) == plain.read_bytes()
    assert sure.read_bytes().count(b"# log_prob = ") == 31
    assert len(probabilities) == sum(map(len, read(str(source)))) and all(0 < p <= 1 for p in probabilities)
    again = tmp_path / "again.conllu"
    main(place / "bare", sure, "--output", again, "--confidence")
    assert again.read_bytes() == sure.read_bytes()  # replaced, not added once more


def test_confidence_in_json(place, tmp_path):
    """Unrounded, and together with the figures."""
    gold, parsed, found, plain = (
        place / "gold.conllu",
        tmp_path / "x.conllu",
        tmp_path / "x.json",
        tmp_path / "y.json",
    )
    main(place / "second", gold, "--output", parsed, "--confidence", "--json", found)
    main(place / "second", gold, "--json", plain)
    figures, without = json.loads(found.read_text()), json.loads(plain.read_text())
    parses = figures.pop("parses")
    assert [parse["heads"] for parse in parses] == [sentence.heads for sentence in read(str(parsed))]
    assert [parse["line"] for parse in parses] == [sentence.line for sentence in read(str(gold))]
    probabilities = [p for parse in parses for p in parse["probabilities"]]
    for key, name in (("Prob", "probabilities"), ("LabelProb", "label_probabilities")):
        written = re.findall(rf"[\t|]{key}=([.0-9]+)", parsed.read_text())
        found = [p for parse in parses for p in parse[name]]
        assert [f"{p:.4f}" for p in found] == written and any(p != round(p, 6) for p in found)
    assert figures["doubtful_words"] == sum(p < 0.9 for p in probabilities)
    for each in (figures, without):
        del each["sentences_per_second"]
    assert figures == without


def test_comments_by_hand(tmp_path):
    """A byte order mark stays first; comments of an earlier run are replaced where they stand, a series as a whole."""
    path = tmp_path / "file.conllu"
    for old in ("", "# kbest_12 = -1 old\n# text = a\n# kbest_3 = -2 old\n"):
        path.write_text(f"\ufeff{old}1\ta\t_\tX\t_\t_\t_\t_\t_\tProb=1|A=b", encoding="utf-8")
        (sentence,) = read(str(path))
        trees = Trees(np.log([0.5, 0.25]), np.array([[0], [0]], dtype=np.int16))
        pieces = []
        ConlluFile(pieces.append, confidence=True).add(Parse(sentence, [0], None, [1.0], [], -1e-9, 0.0, trees))
        kbest, sure = "# kbest_1 = -0.6931 0\n# kbest_2 = -1.3863 0\n", "# log_prob = 0.0000\n# entropy = 0.0000\n"
        comments = f"{kbest}# text = a\n{sure}" if old else f"{sure}{kbest}"
        assert pieces == [f"\ufeff{comments}1\ta\t_\tX\t_\t_\t0\t_\t_\tA=b|Prob=1.0000"]


def test_probabilities_are_those_of_the_trees(place, tmp_path):
    """Of a sentence with three words, all trees can be enumerated by hand: they sum to one."""
    run = Run.open(str(place / "second"))
    model, vocab, _ = run.load_model(run.config()[0], "cpu")
    path = tmp_path / "three.conllu"
    path.write_text("".join(f"{i}\t{f}\t_\tNOUN\t_\t_\t_\t_\t_\t_\n" for i, f in enumerate("abc", 1)))
    (sentence,) = read(str(path))
    crf = TreeCRF(model.arc_scores(collate([Indexer(vocab)(sentence)])), single_root=True)
    trees = [[-1, 0, 1, 1], [-1, 0, 1, 2], [-1, 0, 3, 1], [-1, 2, 0, 2], [-1, 2, 3, 0], [-1, 3, 3, 0], [-1, 3, 1, 0]]
    log_probs = [float(crf.log_prob(crf.mode.new_tensor([tree])).detach()) for tree in trees]
    assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-5)
    parsed = tmp_path / "parsed.conllu"
    main(place / "second", path, "--output", parsed, "--confidence")
    assert f"# log_prob = {max(log_probs):.4f}\n" in parsed.read_text()
    assert f"# entropy = {-np.dot(np.exp(log_probs), log_probs):.4f}\n" in parsed.read_text()


def test_drawings_and_page(place, tmp_path, capfd):
    page = tmp_path / "page.html"
    main(place / "second", place / "gold.conllu", "--draw=2", "--html", page)
    text = capfd.readouterr().out
    assert text.index("heads right") < text.index("UAS") and "vámonos" not in text
    assert "vamos" in page.read_text(encoding="utf-8")


def test_what_cannot_be_written(place, tmp_path, capfd):
    gold = place / "gold.conllu"
    assert "is a directory" in mistake(capfd, place / "first", gold, "--output", tmp_path)
    for option in ("--output", "--json", "--html", "--calibration"):
        error = mistake(capfd, place / "first", gold, option, tmp_path / "no" / "x")
        assert "can't be written: No such file or directory" in error
    if os.path.exists("/dev/full"):
        error = mistake(capfd, place / "first", gold, "--output", "/dev/full")
        assert "/dev/full can't be written: No space left on device" in error and not os.path.isfile("/dev/full")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="file sizes can't be limited here")
def test_full_disk(place, tmp_path):
    """A limit on the size of files stands for it: what was there before is still there."""
    target = tmp_path / "parsed.conllu"
    target.write_text("old")
    arguments = [str(place / "first"), str(place / "gold.conllu"), "--output", str(target)]
    script = f"""
import resource, sys, evaluate
from parsers.io.command import run_command
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
status = run_command("evaluate.py", evaluate.main, {arguments})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sys.exit(status)
"""
    assert run("-c", script, code=2).stderr == f"evaluate.py: {target} can't be written: File too large\n"
    assert os.listdir(tmp_path) == ["parsed.conllu"] and target.read_text() == "old"


def test_ctrl_c_leaves_nothing(place, tmp_path, monkeypatch, capfd):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Scores, "add", interrupt)
    arguments = [place / "first", place / "gold.conllu", "--output", tmp_path / "x", "--json", tmp_path / "y"]
    assert call(evaluate.main, *arguments, name="evaluate.py") == 130
    assert os.listdir(tmp_path) == [] and capfd.readouterr().err == "evaluate.py: stopped\n"
