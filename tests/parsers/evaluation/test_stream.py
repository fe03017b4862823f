"""evaluate.py reads as it goes: a window ahead, each file once, and it keeps nothing."""

import itertools
import os
import threading

import pytest
import torch

from parsers.data import synthetic
from parsers.data.examples import Indexer
from parsers.evaluation.inference import WINDOW, parse_sentences
from parsers.runs.run import Run
from tests.parsers.evaluation.evaluating import main


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
    found, distribution = [], model.distribution
    monkeypatch.setattr(model, "distribution", lambda *a: found.append(distribution(*a)) or found[-1])
    assert len(list(parse_sentences(model, Indexer(vocab), synthetic.sentences("test", count=3)))) == 3
    assert found and not any(trees.scores.requires_grad for trees in found) and torch.is_grad_enabled()


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes here")
def test_a_pipe_is_opened_once(place, tmp_path, capfd):
    """As in `evaluate.py RUN <(zcat *.gz)`: whoever opens it twice waits for ever, or finds it empty."""
    pipe, gold = tmp_path / "pipe", place / "gold.conllu"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(gold.read_bytes()), daemon=True).start()
    done = threading.Thread(target=main, args=(place / "first", pipe, "--output", tmp_path / "parsed"), daemon=True)
    done.start()
    done.join(60)
    main(place / "first", gold, "--output", tmp_path / "expected")
    assert (tmp_path / "parsed").read_bytes() == (tmp_path / "expected").read_bytes()
