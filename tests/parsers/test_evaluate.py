"""evaluate.py from the inside: figures, files and mistakes. One small model is trained for all tests."""

import io
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.progress import Progress
from udtools.udeval import evaluate as official
from udtools.udeval import load_conllu

import evaluate
from parsers import synthetic
from parsers.batches import Encoding, collate
from parsers.breakdown import Breakdown
from parsers.calibration import Calibration
from parsers.command import run_command
from parsers.comparison import paired_bootstrap
from parsers.confidence import with_confidence
from parsers.conllu import read
from parsers.evaluation import WINDOW, parse_sentences
from parsers.metrics import Scores
from parsers.output import output
from parsers.parse import Parse
from parsers.report import Bar, evaluation_tables, progress
from parsers.run import Run
from tests.parsers.helpers import SMALL, small_trainer, tiny_options
from tests.parsers.test_commands import ENVIRONMENT, ROOT

# A multiword token, an empty node, spaces after words, several comments, a blank FEATS order: all must survive.
ODD = """# newdoc id = d
# sent_id = odd-1
# text = vámonos al mar .
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tvamos\tir\tVERB\t_\tMood=Imp|Aspect=X\t0\troot\t_\t_
2\tnos\tnos\tPRON\t_\t_\t1\tobj\t_\tGloss=us
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
4.1\tgran\tgrande\tADJ\t_\t_\t_\t_\t5:amod\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t1:obl\tSpaceAfter=No|Gloss=sea
6\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

"""
WORD = "{}\ta\t_\tX\t_\t_\t{}\t_\t_\t_\n"


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Two runs, and test sentences of their language with some odd ones among them."""
    directory = tmp_path_factory.mktemp("evaluate")
    for name, epochs in (("first", 1), ("second", 4)):
        options = tiny_options("ntp", *SMALL, f"--epochs={epochs}")
        small_trainer(options, directory / name, count=60).train()
    text = "".join(synthetic.conllu("test", count=30))
    (directory / "gold.conllu").write_text(text + ODD, encoding="utf-8", newline="")
    return directory


def main(*arguments) -> None:
    assert evaluate.main([str(argument) for argument in arguments]) == 0


def mistake(capfd, *arguments) -> str:
    assert run_command("evaluate.py", evaluate.main, [str(argument) for argument in arguments]) == 2
    out, error = capfd.readouterr()
    assert out == "" and error.startswith("evaluate.py: ")
    return error


@pytest.mark.parametrize("decode", ["viterbi", "mbr"])
def test_agrees_with_the_official_evaluation(place, tmp_path, decode):
    parsed, scores = tmp_path / "parsed.conllu", tmp_path / "scores.json"
    main(place / "second", place / "gold.conllu", f"--decode={decode}", "--output", parsed, "--json", scores)
    figures = json.loads(scores.read_text())
    loaded = []
    for path in (place / "gold.conllu", parsed):
        with open(path, encoding="utf-8") as file:
            loaded.append(load_conllu(file, str(path), {}))
    uas = official(*loaded)["UAS"]
    assert figures["uas"] == 100 * uas.f1 and 20 < figures["uas"] < 100
    assert (figures["correct"], figures["words"]) == (uas.correct, uas.gold_total)


def test_report_and_figures_agree(place, tmp_path, capfd):
    scores, plot = tmp_path / "scores.json", tmp_path / "plot.png"
    main(place / "second", place / "gold.conllu", "--json", scores, "--calibration", plot)
    text = capfd.readouterr().out
    figures = json.loads(scores.read_text())
    for key in ("uas", "uas_without_punctuation", "complete_matches", "root_accuracy"):
        assert f" {figures[key]:.2f} " in text
    assert f"{figures['expected_calibration_error'] * 100:.2f}" in text and "per second" in text
    for table in ("by_sentence_length", "by_arc_length"):
        assert sum(row["words"] for row in figures[table]) == figures["words"]
        assert sum(row["correct"] for row in figures[table]) == figures["correct"]
    assert sum(row["words"] for row in figures["by_pos"].values()) == figures["words"]
    assert sum(row["arcs"] for row in figures["calibration"]) == figures["words"]
    assert figures["coverage"][0]["coverage"] == 1
    assert 100 * figures["coverage"][0]["accuracy"] == pytest.approx(figures["uas"])
    assert plot.read_bytes()[:4] == b"\x89PNG"


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

    parses = parse_sentences(model, Encoding(vocab), endless())
    for number, parse in enumerate(itertools.islice(parses, 2 * WINDOW + 1)):
        assert count <= number + WINDOW and len(parse.heads) == len(parse.sentence)
    parses.close()


def test_parsing_keeps_no_graph(place, monkeypatch):
    run = Run.open(str(place / "first"))
    model, vocab, _ = run.load_model(run.config()[0], "cpu")
    found, distribution = [], model.distribution
    monkeypatch.setattr(model, "distribution", lambda *a: found.append(distribution(*a)) or found[-1])
    assert len(list(parse_sentences(model, Encoding(vocab), synthetic.sentences("test", count=3)))) == 3
    assert found and not any(trees.scores.requires_grad for trees in found) and torch.is_grad_enabled()


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
    crf = model.distribution(collate([Encoding(vocab)(sentence)]))
    trees = [[-1, 0, 1, 1], [-1, 0, 1, 2], [-1, 0, 3, 1], [-1, 2, 0, 2], [-1, 2, 3, 0], [-1, 3, 3, 0], [-1, 3, 1, 0]]
    log_probs = [float(crf.log_prob(crf.mode.new_tensor([tree])).detach()) for tree in trees]
    assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-5)
    parsed = tmp_path / "parsed.conllu"
    main(place / "second", path, "--output", parsed, "--confidence")
    assert f"# log_prob = {max(log_probs):.4f}\n" in parsed.read_text()
    assert f"# entropy = {-np.dot(np.exp(log_probs), log_probs):.4f}\n" in parsed.read_text()


def test_constrain(place, tmp_path, capfd):
    """Every second head is taken away: the others stay, and the trees are projective and single-rooted."""
    partly, parsed = tmp_path / "partly.conllu", tmp_path / "parsed.conllu"
    gold = list(read(str(place / "gold.conllu")))
    partly.write_text("".join(s.text([h if i % 2 else "_" for i, h in enumerate(s.heads)]) for s in gold))
    main(place / "first", partly, "--constrain", "--output", parsed)
    assert "heads in the file were kept: not scored" in capfd.readouterr().out
    for before, after in zip(gold, read(str(parsed)), strict=True):
        assert before.heads[1::2] == after.heads[1::2] and after.heads.count(0) == 1 and min(after.heads) >= 0


def test_constraints_without_a_tree(place, tmp_path, capfd):
    path = tmp_path / "bad.conllu"
    rows = [(3, 4, "_", "_"), ("_", "_"), (0, 0), (4, "_", "_", 2)]  # the last: 2 and 3 could only hang from each other
    sentences = ["".join(f"{i}\ta\t_\tX\t_\t_\t{h}\t_\t_\t_\n" for i, h in enumerate(row, 1)) for row in rows]
    path.write_text("# one\n" + "\n".join(sentences) + "\n")
    for target in (tmp_path / "out", "-"):
        error = mistake(capfd, place / "first", path, "--constrain", "--output", target)
        first, second, third, last = error.splitlines()
        assert f"{path}:3: the arcs to words 1 and 2 cross" in first
        assert f"{path}:11: words 1 and 2 both hang from the root: --multi-root" in second
        assert f"{path}:13: no projective tree has the heads in the file" in third
        assert "3 sentences can't be parsed" in last
    assert os.listdir(tmp_path) == ["bad.conllu"]


def test_files_without_heads(place, tmp_path, capfd):
    path, scores = tmp_path / "raw.conllu", tmp_path / "scores.json"
    path.write_text("".join(synthetic.conllu("unlabeled", count=3)))
    main(place / "first", path, "--json", scores)
    assert "not scored" in capfd.readouterr().out
    figures = json.loads(scores.read_text())
    assert figures["parsed_sentences"] == 3 and "uas" not in figures
    error = mistake(capfd, place / "first", path, "--calibration", tmp_path / "x.png")
    assert "no heads to compare with" in error and not (tmp_path / "x.png").exists()
    main("--compare", place / "first", place / "second", path)
    assert "no heads in the file: not scored" in capfd.readouterr().out


def test_many_tags(place, tmp_path, capfd):
    """Those of the universal set have a line each; of more, the rarest share one."""
    path = tmp_path / "many.conllu"
    words = range(1, 41)
    path.write_text("".join(f"{i}\ta\t_\tT{max(1, i - 20)}\t_\t_\t{i - 1}\t_\t_\t_\n" for i in words) + "\n")
    main(place / "first", path)
    shown = capfd.readouterr().out
    assert re.search(r"\bT1 +21 ", shown) and re.search(r"\bT16 +1 ", shown) and re.search(r"\b4 others +4 ", shown)


def test_multi_root(place, tmp_path):
    path, parsed = tmp_path / "two.conllu", tmp_path / "parsed.conllu"
    path.write_text("".join(WORD.format(word, head) for word, head in enumerate((0, "_", 0), 1)))
    main(place / "first", path, "--output", parsed)
    assert next(read(str(parsed))).heads.count(0) == 1
    main(place / "first", path, "--output", parsed, "--constrain", "--multi-root")
    assert next(read(str(parsed))).heads[::2] == [0, 0]


def test_compare(place, tmp_path, capfd):
    arcs, figures = tmp_path / "arcs.tsv", tmp_path / "figures.json"
    gold = place / "gold.conllu"
    main("--compare", place / "first", place / "second", gold, "--output", arcs, "--json", figures)
    text = capfd.readouterr().out
    figures = json.loads(figures.read_text())
    first, second = figures["scores"]
    assert figures["bootstrap"]["uas"]["difference"] == pytest.approx(second["uas"] - first["uas"])
    header, *rows = [line.split("\t") for line in arcs.read_text().splitlines()]
    assert len(rows) == sum(figures["arcs"].values()) - figures["arcs"]["same"] and len(header) == 8
    lines = gold.read_text().splitlines()
    for row in rows:
        columns = lines[int(row[0].rpartition(":")[2]) - 1].split("\t")
        assert row[1] == f"{columns[0]} {columns[1]}" and row[3].split()[0] == columns[6] and row[4] != row[5]
    right = Counter(who for row in rows for who in (4, 5) if row[who] == row[3])
    assert (right[4], right[5]) == (figures["arcs"]["first right"], figures["arcs"]["second right"])
    assert f"Run 2 has the better UAS (p = {figures['bootstrap']['uas']['p_value']:.4f})" in text
    main("--compare", place / "first", place / "first", gold)
    assert "may well be chance (p = 1.0000)" in capfd.readouterr().out


def test_bootstrap():
    """Against drawing sentences one by one; and the p-value of a difference that is none."""
    rng = np.random.default_rng(0)
    words, differences = rng.integers(5, 30, 200), rng.integers(-3, 5, 200)
    kinds = Counter(zip(words.tolist(), differences.tolist(), strict=True))
    found = paired_bootstrap(kinds, 4000)
    drawn = rng.integers(0, 200, (4000, 200))
    naive = 100 * differences[drawn].sum(1) / words[drawn].sum(1)
    assert found["interval"] == pytest.approx(np.quantile(naive, [0.025, 0.975]).tolist(), abs=0.3)
    centred = np.abs(naive - found["difference"]) >= found["difference"]
    assert found["p_value"] == pytest.approx(centred.mean(), abs=0.01)
    assert found == paired_bootstrap(kinds, 4000)
    assert paired_bootstrap(Counter({(10, 1): 5, (10, -1): 5}), 100)["p_value"] == 1


def made_up_parse(tmp_path, heads, gold, probabilities):
    path = tmp_path / "made_up.conllu"
    path.write_text("".join(f"{i}\ta\t_\tX\t_\t_\t_\t_\t_\t_\n" for i in range(1, len(heads) + 1)))
    return Parse(next(read(str(path))), heads, gold, probabilities, [], -1.0, 1.0)


def test_breakdown_by_hand(tmp_path):
    breakdown = Breakdown()
    breakdown.add(made_up_parse(tmp_path, [2, 0, 2, 2], [2, 0, 4, -1], [1.0] * 4))
    figures = breakdown.figures()
    assert figures["words"] == 3 and figures["uas"] == 100 * (2 / 3) and figures["root_accuracy"] == 100
    root, short = figures["by_arc_length"]
    assert root["from_root"] and root["words"] == 1
    assert (short["from"], short["to"], short["words"], short["correct"], short["predicted"]) == (1, 1, 2, 1, 2)
    assert Breakdown().figures() == {}


def test_calibration_by_hand(tmp_path):
    calibration = Calibration()
    calibration.add(made_up_parse(tmp_path, [2, 0, 2, 2, 1], [2, 0, 4, -1, 1], [1.0, 0.9, 0.25, 0.5, 0.8]))
    figures = calibration.figures()
    assert [(b["from"], b["arcs"]) for b in figures["calibration"]] == [(0.2, 1), (0.8, 1), (0.9, 2)]
    assert figures["expected_calibration_error"] == pytest.approx((0.25 + 0.2 + 2 * 0.05) / 4)
    by_threshold = {row["threshold"]: row for row in figures["thresholds"]}
    assert by_threshold[0.9]["coverage"] == 0.5 and by_threshold[0.9]["accuracy"] == 1
    assert by_threshold[0.5]["coverage"] == 0.75 and by_threshold[0.5]["errors_below"] == 1


def test_curves(place, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # names of runs are cut off on narrow terminals
    main("--curves", place / "first", place / "second", "--output", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"
    assert str(place / "second") in capfd.readouterr().out.replace("\n", "")
    assert "is not a run" in mistake(capfd, "--curves", tmp_path, "--output", tmp_path / "y.png")
    assert not (tmp_path / "y.png").exists()


def test_pictures(place, tmp_path, capfd):
    page = tmp_path / "page.html"
    main(place / "second", place / "gold.conllu", "--draw=2", "--html", page)
    text = capfd.readouterr().out
    assert text.index("heads right") < text.index("UAS") and "vámonos" not in text
    assert "<svg" in page.read_text() or "<script" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN"], "name either a FILE or a --treebank"),
        (["RUN", "FILE", "more"], "name either a FILE or a --treebank"),
        (["RUN", "FILE", "--treebank", "DIR"], "name either a FILE or a --treebank"),
        (["RUN", "FILE", "--split=dev"], "--split is a part of a --treebank"),
        (["RUN", "FILE", "--confidence"], "--confidence is written to --output"),
        (["RUN", "FILE", "--output="], "--output has no name"),
        (["RUN", "FILE", "--output=x", "--json=./x"], "x can't take two outputs"),
        (["RUN", "FILE", "--draw=0"], "--draw: '0' is not an integer"),
        (["RUN", "FILE", "--decode=magic"], "invalid choice: 'magic'"),
        (["RUN", "FILE", "--output=-", "--json=-"], "standard output can't take two outputs"),
        (["RUN", "FILE", "--constrain", "--calibration=x.png"], "choose one"),
        (["--compare", "RUN", "RUN", "FILE", "--draw=1"], "--draw does not go with --compare"),
        (["--compare", "RUN", "FILE"], "name either a FILE"),
        (["--curves", "RUN", "--json=x"], "--json does not go with --curves"),
        (["RUN", "FILE", "--device=quantum"], "--device quantum"),
        (["FILE", "FILE"], "is not a directory"),
        (["RUN", "FILE", "--outptu=x"], "unrecognized arguments: --outptu=x"),
    ],
)
def test_options_that_make_no_sense(place, capfd, arguments, message):
    names = {"RUN": place / "first", "FILE": place / "gold.conllu", "DIR": place}
    error = mistake(capfd, *(names.get(argument, argument) for argument in arguments))
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": there are no sentences in this file"),
        (b"# nothing\n\n", ":2: there are no sentences in this file"),
        (
            (WORD.format(1, 0) + "2 a\n").encode(),
            ":2: CoNLL-U has 10 columns, separated by tabs, and this line has no tabs",
        ),
        ((WORD.format(1, 0) + WORD.format(2, 7)).encode(), ":2: word 2 has head 7, but the sentence has only 2 words"),
        ((WORD.format(1, 2) + WORD.format(2, 1)).encode(), ":1: the heads go in a circle"),
        ((WORD.format(1, 0) + WORD.format(2, 2)).encode(), ":2: word 2 is its own head"),
        ((WORD.format(1, 0) + WORD.format(3, 1)).encode(), ":2: id '3' where word 2 should be"),
        (WORD.format(1, 0).encode() + b"2\t\xe9" + WORD.format("", 0).encode(), ":2: byte 0xe9 is not UTF-8"),
        (b"\x1f\x8b broken", ": "),
    ],
)
def test_broken_files(place, tmp_path, capfd, content, message):
    """One line that names the place, and no file, neither whole nor half."""
    path = tmp_path / "broken.conllu"
    path.write_bytes(content)
    for target in (tmp_path / "out", "-"):
        error = mistake(capfd, place / "first", path, "--output", target, "--json", tmp_path / "json")
        assert f"{path}{message}" in error and error.count("\n") == 1
    assert os.listdir(tmp_path) == ["broken.conllu"]


def test_a_missing_file_is_reported_at_once(tmp_path, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "parsers.evaluating", None)  # importing it, and torch with it, would fail
    missing = tmp_path / "missing.conllu.gz"
    for arguments in (["RUN", missing], ["--compare", "RUN1", "RUN2", missing]):
        assert mistake(capfd, *arguments) == f"evaluate.py: {missing}: can't be read: No such file or directory\n"
    assert f"{tmp_path}: can't be read: Is a directory" in mistake(capfd, "RUN", tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes here")
def test_a_pipe_is_opened_once(place, tmp_path, capfd):
    """As in `evaluate.py RUN <(zcat *.gz)`: whoever opens it twice waits for ever, or finds it empty."""
    pipe, gold = tmp_path / "pipe", place / "gold.conllu"
    os.mkfifo(pipe)
    done = threading.Thread(target=main, args=(place / "first", pipe, "--output", tmp_path / "parsed"), daemon=True)
    done.start()
    with open(pipe, "wb") as file:
        file.write(gold.read_bytes())
    done.join(60)
    main(place / "first", gold, "--output", tmp_path / "expected")
    assert (tmp_path / "parsed").read_bytes() == (tmp_path / "expected").read_bytes()


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
    code = f"""
import resource, sys, evaluate
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
status = evaluate.run_command("evaluate.py", evaluate.main, {arguments})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sys.exit(status)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"evaluate.py: {target} can't be written: File too large\n"
    assert os.listdir(tmp_path) == ["parsed.conllu"] and target.read_text() == "old"


def test_a_run_that_is_not_one(place, tmp_path, capfd):
    gold = place / "gold.conllu"
    assert "is not a run" in mistake(capfd, tmp_path, gold)
    config = tmp_path / "config.json"
    saved = json.loads((place / "first" / "config.json").read_text())
    for content, message in [
        ("{", "this is not JSON"),
        (json.dumps(saved | {"options": saved["options"] | {"model": "magic"}}), "names no known model"),
        (json.dumps(saved), "has no model yet"),
    ]:
        config.write_text(content)
        assert message in mistake(capfd, tmp_path, gold)


def test_ctrl_c_leaves_nothing(place, tmp_path, monkeypatch, capfd):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Scores, "add", interrupt)
    arguments = [place / "first", place / "gold.conllu", "--output", tmp_path / "x", "--json", tmp_path / "y"]
    assert run_command("evaluate.py", evaluate.main, list(map(str, arguments))) == 130
    assert os.listdir(tmp_path) == [] and capfd.readouterr().err == "evaluate.py: stopped\n"


def test_output_through_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with output(str(link)) as write:
        write("new")
        write(b"er")
    assert link.is_symlink() and target.read_text() == "newer"


def _bars(*values, width):
    for value in values:
        console = Console(width=width, file=io.StringIO())
        console.print(Bar(value))
        yield console.file.getvalue()


@pytest.mark.parametrize("factor", [1, 10_000])
def test_tables_fit_into_80_columns(place, tmp_path, factor):
    """Also those of a file with millions of words: nothing is cut but the bars."""
    scores = tmp_path / "scores.json"
    main(place / "second", place / "gold.conllu", "--json", scores)
    figures = json.loads(scores.read_text())
    for row in [figures, *figures["by_sentence_length"], *figures["by_arc_length"], *figures["by_pos"].values()]:
        row |= {key: factor * row[key] for key in ("words", "plain_words", "sentences", "roots") if key in row}
    console = Console(width=80, file=io.StringIO())
    console.print(evaluation_tables(figures))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    for tag, row in figures["by_pos"].items():
        assert re.search(rf"\b{tag} +{row['words']:,} +{row['uas']:.2f}  ━*╸? *$", "\n".join(lines), re.M)
    assert any(line.startswith("without punctuation ") for line in lines)
    assert [len(line.rstrip()) for line in _bars(100.0, 75.0, 50.0, 0.0, width=8)] == [8, 6, 4, 0]


def test_progress(place, monkeypatch, capfd):
    """What has been parsed counts, not what has been read ahead."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(Progress, "update", lambda self, task, **shown: updates.append(shown))
    path, updates = str(place / "gold.conllu"), []
    sentences = list(read(path))
    with progress(path) as watch:
        parses = [Parse(sentence, [], None, [], [], 0.0, 0.0) for sentence in 3 * sentences]
        for number, parse in enumerate(watch(parses)):
            assert parse is parses[number] and len(updates) == (number + 1) // 64
    size = sum(len(line.encode()) for parse in parses[:64] for line in parse.sentence.lines)
    assert updates == [{"completed": size, "text": "64 sentences"}]
    capfd.readouterr()
