"""evaluate.py --kbest: the trees, what is written of them, and the oracle."""

import json
import re

import numpy as np
import pytest
import torch

import tritree
from parsers.data import synthetic
from parsers.data.conllu import HEAD, read
from parsers.evaluation.kbest import Oracle, best_trees
from parsers.evaluation.parse import Parse, Trees
from tests.oracle import Oracle as Enumeration
from tests.oracle import number_of_trees
from tests.parsers.evaluation.calls import ODD, main, mistake, words
from tests.parsers.evaluation.made_up import parse_of
from tests.parsers.helpers import SMALL, small_trainer, tiny_options

SIZES = [1, 2, 5, 10, 20, 30]


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A run, and test sentences of its language; the last two have one word and two."""
    directory = tmp_path_factory.mktemp("kbest")
    small_trainer(tiny_options("ntp", *SMALL, "--epochs=2"), directory / "run", count=60).train()
    text = "".join(synthetic.conllu("test", count=20)) + ODD + words(0) + "\n" + words(0, 1)
    (directory / "gold.conllu").write_text(text, encoding="utf-8", newline="")
    return directory


def kbest(place, path, *options):
    """The figures of --json, and the parses."""
    found = path / "found.json"
    main(place / "run", place / "gold.conllu", "--json", found, "--confidence", *options)
    figures = json.loads(found.read_text())
    return figures, figures.pop("parses")


@pytest.mark.parametrize("single_root", [False, True])
def test_against_all_trees(single_root):
    """The k best of all trees with their probabilities, all of them where there are no more; also far from zero."""
    lengths = torch.tensor([4, 1, 3, 4]).repeat(5)
    offsets = torch.tensor([0.0, 1.0, -300.0, 1e5]).repeat(5)
    scores = torch.randn(20, 5, 5) + offsets[:, None, None]
    crf = tritree.TreeCRF(scores, lengths, single_root=single_root)
    for row, (trees, n) in enumerate(zip(best_trees(crf, 40), lengths.tolist(), strict=True)):
        every = Enumeration(scores[row].double(), n, single_root)
        expected = (every.tree_scores - every.log_z).sort(descending=True).values[:40]
        assert trees.heads.shape == (min(40, number_of_trees(n, single_root)), n)
        # Trees whose scores are one in float32 may come in either order.
        rounding = n * np.spacing(np.float32(every.tree_scores.abs().max()))
        np.testing.assert_allclose(trees.log_probs, expected, atol=1e-6 + rounding)
        assert (np.diff(trees.log_probs) <= 0).all()


def test_laws(place, tmp_path):
    figures, parses = kbest(place, tmp_path, "--kbest=30")
    for parse in parses:
        trees = parse["kbest"]
        n, log_probs = len(parse["heads"]), [tree["log_prob"] for tree in trees]
        assert len(trees) == min(30, number_of_trees(n, single_root=True))
        assert trees[0] == {"log_prob": parse["log_prob"], "heads": parse["heads"]}
        assert log_probs == sorted(log_probs, reverse=True) and np.exp(log_probs).sum() <= 1 + 1e-6
        assert len({tuple(tree["heads"]) for tree in trees}) == len(trees)
        assert all(tree["heads"].count(0) == 1 for tree in trees)
        for word, probability in enumerate(parse["probabilities"]):
            share = sum(np.exp(t["log_prob"]) for t in trees if t["heads"][word] == parse["heads"][word])
            assert share <= probability + 1e-5

    rows, gold = figures["kbest"], [sentence.heads for sentence in read(str(place / "gold.conllu"))]
    assert [row["trees"] for row in rows] == SIZES
    assert rows[0]["oracle_uas"] == figures["uas"] < rows[-1]["oracle_uas"]
    for row in rows:
        first = [parse["kbest"][: row["trees"]] for parse in parses]
        right = [max(np.equal(t["heads"], g).sum() for t in trees) for trees, g in zip(first, gold, strict=True)]
        assert row["oracle_uas"] == pytest.approx(100 * sum(right) / figures["words"])
        mass = [sum(np.exp(tree["log_prob"]) for tree in trees) for trees in first]
        assert row["mass"] == pytest.approx(np.mean(mass)) and row["mass"] <= 1
    for key in ("oracle_uas", "mass"):
        assert [row[key] for row in rows] == sorted(row[key] for row in rows)

    few, fewer_parses = kbest(place, tmp_path, "--kbest=7")
    assert few["kbest"][:3] == rows[:3] and few["kbest"][3]["trees"] == 7
    assert [parse["kbest"] for parse in fewer_parses] == [parse["kbest"][:7] for parse in parses]
    without, plain_parses = kbest(place, tmp_path)
    for each in (figures, without):
        del each["sentences_per_second"]
    del figures["kbest"]
    assert without == figures
    assert plain_parses == [{key: value for key, value in parse.items() if key != "kbest"} for parse in parses]


def test_other_decoding(place, tmp_path):
    """The trees are the most probable ones, also where the surest arcs are chosen; and as the options want them."""
    _, viterbi = kbest(place, tmp_path, "--kbest=3")
    _, mbr = kbest(place, tmp_path, "--kbest=3", "--decode=mbr")
    assert [parse["kbest"] for parse in mbr] == [parse["kbest"] for parse in viterbi]
    assert any(parse["heads"] != parse["kbest"][0]["heads"] for parse in mbr)
    _, several = kbest(place, tmp_path, "--kbest=50", "--multi-root")
    assert any(tree["heads"].count(0) > 1 for parse in several for tree in parse["kbest"])
    assert [len(parse["kbest"]) for parse in several[-2:]] == [number_of_trees(1), number_of_trees(2)]


def test_constrain(place, tmp_path, capfd):
    """Every second head is taken away: all trees have the others."""
    partly, found, gold = tmp_path / "partly.conllu", tmp_path / "x.json", list(read(str(place / "gold.conllu")))
    partly.write_text("".join(s.text({HEAD: [h if i % 2 else "_" for i, h in enumerate(s.heads)]}) for s in gold))
    main(place / "run", partly, "--constrain", "--kbest=9", "--confidence", "--json", found)
    figures = json.loads(found.read_text())
    for sentence, parse in zip(gold, figures["parses"], strict=True):
        assert all(tree["heads"][1::2] == sentence.heads[1::2] for tree in parse["kbest"])
    assert "oracle_uas" not in figures["kbest"][0]
    text = capfd.readouterr().out
    assert f"probability of the best 9 trees: {100 * figures['kbest'][-1]['mass']:.2f} % on average" in text


def test_report(place, tmp_path, capfd):
    """In the report, with no file written."""
    main(place / "run", place / "gold.conllu", "--kbest=30")
    text = capfd.readouterr().out
    figures, _ = kbest(place, tmp_path, "--kbest=30")
    for row in figures["kbest"]:
        assert re.search(rf"^{row['trees']} +{100 * row['mass']:.2f} +{row['oracle_uas']:.2f} ", text, re.M)


@pytest.mark.parametrize("confidence", [[], ["--confidence"]])
def test_output_changes_nothing_else(place, tmp_path, confidence):
    """Comments are added, and replaced by the next run, fewer or more; no other byte differs."""
    source, target = tmp_path / "windows.conllu", tmp_path / "target.conllu"
    gold = (place / "gold.conllu").read_bytes().rstrip()
    own = b"# kbest_of = all\r\n# kbest_1: mine\r\n"  # comments that are not ours
    source.write_bytes(b"\xef\xbb\xbf" + own + gold.replace(b"\n", b"\r\n") + b"\r\n\r\n# kbest_1 = the end")

    def run(path, *options):
        main(place / "run", path, "--output", target, *confidence, *options)
        return target.read_bytes()

    plain, five = run(source), run(source, "--kbest=5")
    comments = re.findall(rb"^# kbest_[0-9]+ = .*\r\n", five, re.M)
    assert re.sub(rb"(?m)^# kbest_[0-9]+ = .*\r\n", b"", five) == plain
    assert len(comments) == 5 * 21 + 1 + 2  # two sentences have fewer trees
    assert all(re.fullmatch(rb"# kbest_[1-5] = -?\d+\.\d{4}( \d+)+\r\n", comment) for comment in comments)
    again = tmp_path / "again.conllu"
    again.write_bytes(five)
    assert run(again, "--kbest=5") == five
    assert run(again, "--kbest=2") == run(source, "--kbest=2") != five
    assert run(again) == five  # without --kbest they stay


def test_comments_are_the_record(place, tmp_path):
    parsed = tmp_path / "parsed.conllu"
    _, parses = kbest(place, tmp_path, "--kbest=4", "--output", parsed)
    for sentence, parse in zip(read(str(parsed)), parses, strict=True):
        found = [line.split() for line in sentence.lines if line.startswith("# kbest_")]
        assert [(line[1], line[4:]) for line in found] == [
            (f"kbest_{rank}", [str(head) for head in tree["heads"]]) for rank, tree in enumerate(parse["kbest"], 1)
        ]
        for line, tree in zip(found, parse["kbest"], strict=True):
            assert line[3] == f"{tree['log_prob'] + 0.0:.4f}".replace("-0.0000", "0.0000")
        (log_prob,) = (line.split()[3] for line in sentence.lines if line.startswith("# log_prob = "))
        assert log_prob == found[0][3]


def test_by_hand():
    trees = Trees(np.log([0.5, 0.25]), np.array([[2, 0, 2], [0, 1, 2]], dtype=np.int16))
    assert [heads for _, heads in trees] == [[2, 0, 2], [0, 1, 2]]
    oracle, made_up = Oracle(3), parse_of(["a", "b", "c"], [2, 0, 2])
    for gold in ([0, 1, -1], [2, 0, 2], None):  # the second tree is right, the first one is, no head is known
        oracle.add(Parse(made_up.sentence, made_up.heads, gold, [], [], 0.0, 0.0, trees))
    one, two, three = oracle.figures()["kbest"]
    assert (one["trees"], one["oracle_uas"], one["mass"]) == (1, pytest.approx(100 * 3 / 5), pytest.approx(0.5))
    assert (two["oracle_uas"], two["mass"]) == (100, pytest.approx(0.75))
    assert three == {**two, "trees": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN", "FILE", "--kbest=0"], "--kbest: '0' is not an integer from 1 to 1000"),
        (["RUN", "FILE", "--kbest=1001"], "--kbest: '1001' is not an integer from 1 to 1000"),
        (["RUN", "FILE", "--kbest=2", "--constrain"], "--kbest with --constrain is written to --output and --json"),
        (["--compare", "RUN", "RUN", "FILE", "--kbest=2"], "--kbest does not go with --compare"),
        (["--curves", "RUN", "--kbest=2"], "--kbest does not go with --curves"),
        (["RUN", "RAW", "--kbest=2"], "has no heads to compare with: --kbest needs them, or --output, or --json"),
    ],
)
def test_mistakes(place, tmp_path, capfd, arguments, message):
    names = {"RUN": place / "run", "FILE": place / "gold.conllu", "RAW": tmp_path / "raw.conllu"}
    names["RAW"].write_text("".join(synthetic.conllu("unlabeled", count=3)))
    assert message in mistake(capfd, *(names.get(argument, argument) for argument in arguments))
