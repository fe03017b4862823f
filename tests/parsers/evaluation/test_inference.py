"""Parsing reads a window ahead, opens a file once and keeps nothing; --constrain and --multi-root give other trees."""

import itertools
import json
import os
import threading

import pytest
import torch

from parsers.data import synthetic
from parsers.data.conllu import DEPREL, HEAD, read
from parsers.data.examples import Indexer
from parsers.evaluation.inference import WINDOW, parse_sentences
from parsers.runs.run import Run
from tests.parsers.evaluation.calls import main, mistake, words
from tritree.projective import is_projective


def test_reads_no_further_than_a_window(place):
    """A file without an end can be parsed."""
    run = Run.open(str(place / "first"))
    model, vocab, _ = run.load_model(run.config()[0], "cpu")
    count = 0

    def endless():
        nonlocal count
        for sentence in itertools.cycle(synthetic.sentences("test", count=5)):
            count += 1
            yield sentence

    parses = parse_sentences(model, Indexer(vocab), endless())
    for number, parse in enumerate(itertools.islice(parses, 2 * WINDOW + 1)):
        assert count <= number + WINDOW and len(parse.heads) == len(parse.sentence)
    parses.close()


def test_parsing_keeps_no_graph(place, monkeypatch):
    run = Run.open(str(place / "first"))
    model, vocab, _ = run.load_model(run.config()[0], "cpu")
    found, forward = [], model.forward
    monkeypatch.setattr(model, "forward", lambda batch: found.append(forward(batch)) or found[-1])
    assert len(list(parse_sentences(model, Indexer(vocab), synthetic.sentences("test", count=3)))) == 3
    assert found and not any(tensor.requires_grad for both in found for tensor in both) and torch.is_grad_enabled()


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes here")
def test_a_pipe_is_opened_once(place, tmp_path, capfd):
    """As in `evaluate.py RUN <(zcat *.gz)`: opened a second time, it would be empty or wait for ever."""
    pipe, gold = tmp_path / "pipe", place / "gold.conllu"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(gold.read_bytes()), daemon=True).start()
    done = threading.Thread(target=main, args=(place / "first", pipe, "--output", tmp_path / "parsed"), daemon=True)
    done.start()
    done.join(60)
    main(place / "first", gold, "--output", tmp_path / "expected")
    assert (tmp_path / "parsed").read_bytes() == (tmp_path / "expected").read_bytes()


def test_constrain(place, tmp_path, capfd):
    """Every second head is taken away: the others stay, and the trees are projective and single-rooted."""
    partly, parsed = tmp_path / "partly.conllu", tmp_path / "parsed.conllu"
    gold = list(read(str(place / "gold.conllu")))
    changes = [
        {HEAD: [h if i % 2 else "_" for i, h in enumerate(s.heads)], DEPREL: [f"l:{i}" for i in range(len(s))]}
        for s in gold
    ]
    partly.write_text("".join(s.text(change) for s, change in zip(gold, changes, strict=True)))
    for run in ("first", "bare"):
        main(place / run, partly, "--constrain", "--output", parsed)
        assert "heads in the file were kept: not scored" in capfd.readouterr().out
        for before, after in zip(gold, read(str(parsed)), strict=True):
            assert before.heads[1::2] == after.heads[1::2] and after.heads.count(0) == 1 and min(after.heads) >= 0
            assert is_projective(after.heads)
            assert after.deprels[1::2] == [f"l:{i}" for i in range(1, len(before), 2)]  # they keep their labels
            for head, label in list(zip(after.heads, after.deprels, strict=True))[::2]:
                assert (label == "_") if run == "bare" else (label == "root") == (head == 0) and ":" not in label[:2]


def test_labels_in_the_file(place, tmp_path):
    """Known where the head is; none where no label or no head is known, or where heads are given."""
    run = Run.open(str(place / "first"))
    model, vocab, _ = run.load_model(run.config()[0], "cpu")
    path = tmp_path / "labels.conllu"
    sentence = words(0, 1, "_")
    path.write_text("\n".join([sentence.replace("\t_\t_\t_\n", "\tx:y\t_\t_\n"), sentence, words("_", "_")]))
    found = [parse.gold_labels for parse in parse_sentences(model, Indexer(vocab), read(str(path)))]
    assert found == [["x:y", "x:y", "_"], None, None]
    given = parse_sentences(model, Indexer(vocab), read(str(path)), constrain=True)
    assert [parse.gold_labels for parse in given] == [None] * 3


def test_constraints_without_a_tree(place, tmp_path, capfd):
    path = tmp_path / "bad.conllu"
    rows = [(3, 4, "_", "_"), ("_", "_"), (0, 0), (4, "_", "_", 2)]  # the last: 2 and 3 could only hang from each other
    path.write_text("# one\n" + "\n".join(words(*row) for row in rows) + "\n")
    for target in (tmp_path / "out", "-"):
        error = mistake(capfd, place / "first", path, "--constrain", "--output", target, lines=4)
        first, second, third, last = error.splitlines()
        assert f"{path}:3: the arcs to words 1 and 2 cross" in first
        assert f"{path}:11: words 1 and 2 both hang from the root: --multi-root" in second
        assert f"{path}:13: no projective tree has these heads" in third
        assert "3 sentences can't be parsed" in last
    assert os.listdir(tmp_path) == ["bad.conllu"]
    parsed, scores = tmp_path / "parsed.conllu", tmp_path / "scores.json"
    outputs = ["--output", parsed, "--json", scores, "--confidence", "--html", tmp_path / "page.html"]
    main(place / "first", path, "--constrain", "--skip-impossible", *outputs)
    out, error = capfd.readouterr()
    assert error.count("left as it is") == 3 and "3 sentences left as in the file" in out
    assert all(words(*row) in parsed.read_text() for row in (rows[0], rows[2], rows[3]))  # byte for byte
    figures = json.loads(scores.read_text())
    assert (figures["skipped_sentences"], figures["parsed_sentences"], len(figures["parses"])) == (3, 1, 1)


def test_multi_root(place, tmp_path):
    path, parsed = tmp_path / "two.conllu", tmp_path / "parsed.conllu"
    path.write_text(words(0, "_", 0))
    main(place / "first", path, "--output", parsed)
    assert next(read(str(parsed))).heads.count(0) == 1
    main(place / "first", path, "--output", parsed, "--constrain", "--multi-root")
    assert next(read(str(parsed))).heads[::2] == [0, 0]
