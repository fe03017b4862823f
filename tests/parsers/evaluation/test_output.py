"""What evaluate.py --output writes: the file with other heads, and how sure the parser is of them."""

import json

import numpy as np
import pytest

from parsers.data.batches import collate
from parsers.data.conllu import read
from parsers.data.examples import Indexer
from parsers.evaluation.confidence import with_confidence
from parsers.evaluation.parse import Parse
from parsers.runs.run import Run
from tests.parsers.evaluation.evaluating import main


def test_output_changes_nothing_else(place, tmp_path):
    gold = (place / "gold.conllu").read_bytes()
    source = tmp_path / "windows.conllu"
    source.write_bytes(b"\xef\xbb\xbf" + gold.replace(b"\n", b"\r\n").rstrip() + b"\r\n\r\n# the end")
    plain, sure = tmp_path / "plain.conllu", tmp_path / "sure.conllu"
    main(place / "second", source, "--output", plain)
    main(place / "second", source, "--output", sure, "--confidence")

    def without_heads(path):
        lines = [line.split(b"\t") for line in path.read_bytes().split(b"\n")]
        return [line[:6] + line[7:] for line in lines]

    assert without_heads(plain) == without_heads(source)
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
    main(place / "second", sure, "--output", again, "--confidence")
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
    written = [line.rpartition("Prob=")[2] for line in parsed.read_text().splitlines() if "Prob=" in line]
    assert [f"{p:.4f}" for p in probabilities] == written and any(p != round(p, 6) for p in probabilities)
    assert figures["doubtful_words"] == sum(p < 0.9 for p in probabilities)
    for each in (figures, without):
        del each["sentences_per_second"]
    assert figures == without


def test_confidence_where_a_file_begins_without_comments(tmp_path):
    path = tmp_path / "file.conllu"
    path.write_text("\ufeff1\ta\t_\tX\t_\t_\t_\t_\t_\t_", encoding="utf-8")
    (sentence,) = read(str(path))
    parse = Parse(sentence, [0], None, [1.0], [], -1e-9, 0.0)
    expected = "\ufeff# log_prob = 0.0000\n# entropy = 0.0000\n1\ta\t_\tX\t_\t_\t0\t_\t_\tProb=1.0000"
    assert with_confidence(parse) == expected


def test_probabilities_are_those_of_the_trees(place, tmp_path):
    """Of a sentence with three words, all trees can be enumerated by hand: they sum to one."""
    run = Run.open(str(place / "second"))
    model, vocab, _ = run.load_model(run.config()[0], "cpu")
    path = tmp_path / "three.conllu"
    path.write_text("".join(f"{i}\t{f}\t_\tNOUN\t_\t_\t_\t_\t_\t_\n" for i, f in enumerate("abc", 1)))
    (sentence,) = read(str(path))
    crf = model.distribution(collate([Indexer(vocab)(sentence)]))
    trees = [[-1, 0, 1, 1], [-1, 0, 1, 2], [-1, 0, 3, 1], [-1, 2, 0, 2], [-1, 2, 3, 0], [-1, 3, 3, 0], [-1, 3, 1, 0]]
    log_probs = [float(crf.log_prob(crf.mode.new_tensor([tree])).detach()) for tree in trees]
    assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-5)
    parsed = tmp_path / "parsed.conllu"
    main(place / "second", path, "--output", parsed, "--confidence")
    assert f"# log_prob = {max(log_probs):.4f}\n" in parsed.read_text()
    assert f"# entropy = {-np.dot(np.exp(log_probs), log_probs):.4f}\n" in parsed.read_text()
