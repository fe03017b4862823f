"""Labels in what evaluate.py shows and writes: official scores, figures of each label, files, the report."""

import io
import json
import re

import pytest
from udtools.udeval import CONTENT_DEPRELS, load_conllu
from udtools.udeval import evaluate as official

from parsers.commands import evaluate
from parsers.data.conllu import DEPREL, HEAD, MISC, parse
from parsers.evaluation import commands
from parsers.evaluation.labels import Labels
from parsers.evaluation.metrics import CONTENT
from parsers.evaluation.parse import Parse
from parsers.evaluation.sinks import ConlluFile, Evaluation
from parsers.evaluation.tags import TagReader
from tests.parsers.evaluation.calls import main
from tests.parsers.evaluation.made_up import parse_of, treebank_parses


def figures_of(parses) -> dict:
    evaluation = Evaluation(None)
    for each in parses:
        evaluation.add(each)
    return evaluation.figures(1.0)


def written(parses, confidence: bool = False) -> str:
    pieces = []
    for each in parses:
        ConlluFile(pieces.append, confidence).add(each)
    return "".join(pieces)


def official_scores(parses) -> dict:
    """Those of the file that --output writes against the file that was read."""
    gold = "".join(each.sentence.text() for each in parses)
    return official(*(load_conllu(io.StringIO(text), "made up", {}) for text in (gold, written(parses))))


@pytest.mark.parametrize("run", range(5))
def test_official_evaluation(run):
    """Subtypes, missing labels, functional relations, punctuation, labels that are not universal: to the last bit."""
    parses = list(treebank_parses(120, run))
    figures, scores = figures_of(parses), official_scores(parses)
    assert CONTENT == CONTENT_DEPRELS
    for key in ("uas", "las", "clas"):
        assert figures[key] == 100 * scores[key.upper()].f1 and 20 < figures[key] < 100
    clas = scores["CLAS"]
    counts = [figures[f"content_{key}"] for key in ("words", "predicted", "correct")]
    assert counts == [clas.gold_total, clas.system_total, clas.correct]
    assert counts[0] < figures["plain_labelled_words"] < figures["labelled_words"] == figures["words"]
    plain = [(parse, i) for parse in parses for i, tag in enumerate(parse.sentence.upos) if tag != "PUNCT"]
    right = sum(
        p.heads[i] == p.gold[i] and p.labels[i].split(":")[0] == p.gold_labels[i].split(":")[0] for p, i in plain
    )
    assert figures["las_without_punctuation"] == 100 * (right / len(plain))


def test_sentences_without_labels_do_not_count():
    parses = list(treebank_parses(60))
    labelled = figures_of(parses[:40])
    for each in parses[40:]:
        each.gold_labels = None
    mixed = figures_of(parses)
    for key in ("las", "las_without_punctuation", "clas", "labelled_words", "by_label", "label_confusions"):
        assert mixed[key] == labelled[key]
    assert mixed["uas"] == 100 * official_scores(parses)["UAS"].f1 and mixed["words"] > labelled["words"]


@pytest.mark.parametrize("without", ["labels", "gold_labels"])
def test_without_labels_the_figures_are_those_of_heads(without):
    parses, plain = list(treebank_parses(30)), list(treebank_parses(30, labels=False))
    for each in parses:
        setattr(each, without, None)
    figures = figures_of(parses)
    assert figures == figures_of(plain)
    assert not [key for key in figures if "las" in key or "label" in key or "content" in key]


def test_figures_by_hand():
    labels = Labels()
    found, gold = ["obj", "root", "obl:x", "obl", "punct"], ["nsubj", "root", "obl", "obl", "_"]
    labels.add(parse_of(["a"] * 5, [2, 0, 2, 2, 2], [2, 0, 2, 3, 2], labels=found, gold_labels=gold))
    labels.add(parse_of(["a"], [0], [0], labels=["root"]))  # nothing to compare with
    figures = labels.figures()
    assert list(figures["by_label"]) == ["obl", "nsubj", "root", "obj", "obl:x"]
    obl = {"words": 2, "predicted": 1, "correct": 0, "precision": 0.0, "recall": 0.0, "f1": 0.0}  # a wrong head
    root = {"words": 1, "predicted": 1, "correct": 1, "precision": 100.0, "recall": 100.0, "f1": 100.0}
    assert figures["by_label"]["obl"] == obl and figures["by_label"]["root"] == root
    assert figures["by_label"]["nsubj"]["precision"] is None and figures["by_label"]["obj"]["recall"] is None
    assert figures["label_confusions"] == [
        {"gold": "nsubj", "predicted": "obj", "words": 1},
        {"gold": "obl", "predicted": "obl:x", "words": 1},
    ]
    assert Labels().figures() == {}


def test_laws():
    parses = list(treebank_parses(400))
    figures = figures_of(parses)
    rows = figures["by_label"].values()
    assert sum(row["words"] for row in rows) == sum(row["predicted"] for row in rows) == figures["words"]
    same = sum(p.labels[i] == p.gold_labels[i] and p.heads[i] == p.gold[i] for p in parses for i in range(len(p.heads)))
    assert sum(row["correct"] for row in rows) == same < figures["labelled_correct"]  # which ignores subtypes
    words = [row["words"] for row in rows]
    assert words == sorted(words, reverse=True)
    for row in rows:
        if row["correct"]:
            assert row["f1"] == pytest.approx(2 / (1 / row["precision"] + 1 / row["recall"]))
    counts = [row["words"] for row in figures["label_confusions"]]
    assert counts == sorted(counts, reverse=True) and len(counts) == 20
    assert all(row["gold"] != row["predicted"] for row in figures["label_confusions"])
    assert figures["correct"] >= figures["labelled_correct"]


TEXT = """# a = b
1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_
1\ta\t_\tX\t_\t_\t2\tnsubj:pass\t_\tLabelProb=0.1|A=b|Prob=0.2
2\tb\t_\tX\t_\t_\t0\troot\t_\t_
3\tc\t_\tX\t_\t_\t_\tobj\t_\t_
4\td\t_\tX\t_\t_\t2\t\t_\tLabelProbe=1

"""


def parsed(labels, known: bool) -> Parse:
    (sentence,) = parse(io.BytesIO(TEXT.encode()), "file")
    gold = sentence.heads if known else None
    heads, shares = [2, 0, 2, 3], [0.9, 0.8, 0.7, 0.6]
    return Parse(
        sentence, heads, gold, shares, [], -1.0, 1.0, None, labels, None, [0.5, 1.0, 0.25, 0.125] if labels else None
    )


@pytest.mark.parametrize(
    ("labels", "known", "expected"),
    [
        (["x", "root", "y:z", "w"], True, ["x", "root", "y:z", "w"]),
        (["nsubj:pass", "root", "y", "_"], False, ["nsubj:pass", "root", "y", "_"]),
        (None, True, ["_", "_", "_", "_"]),  # heads were predicted: the labels in the file belong to others
        (None, False, ["nsubj:pass", "root", "_", "_"]),  # heads in the file were kept, with their labels
    ],
)
def test_output(labels, known, expected):
    """HEAD, DEPREL and, with --confidence, MISC: no other byte differs."""
    each = parsed(labels, known)
    assert each.sentence.deprels == ["nsubj:pass", "root", "obj", "_"]
    plain, sure = (Sentences(written([each], confidence)) for confidence in (False, True))
    assert plain.column(HEAD) == ["2", "0", "2", "3"] and plain.column(DEPREL) == sure.column(DEPREL) == expected
    original = each.sentence.text({HEAD: [2, 0, 2, 3], DEPREL: expected})
    assert plain.text == original
    of_labels = ["|LabelProb=0.5000", "|LabelProb=1.0000", "|LabelProb=0.2500", "|LabelProb=0.1250"]
    misc = ["A=b|Prob=0.9000", "Prob=0.8000", "Prob=0.7000", "LabelProbe=1|Prob=0.6000"]
    assert sure.column(MISC) == [a + b * bool(labels) for a, b in zip(misc, of_labels, strict=True)]


class Sentences:
    def __init__(self, text: str):
        self.text = text
        (self.sentence,) = parse(io.BytesIO(text.encode()), "file")

    def column(self, number: int) -> list[str]:
        return self.sentence.column(number)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """evaluate.py with parses made up: run 1 and 2 have labels, run 3 has none. Gives the path of the file."""

    class Made:
        def __init__(self, path: str, options):
            self.path, self.run, self.tags = path, int(path), TagReader(None, predict=False)

        def warning(self, file: str) -> None:
            """There is nothing to warn of."""

        def __call__(self, sentences):
            made = treebank_parses(60, self.run, labels=self.run < 3)
            for sentence, each in zip(sentences, made, strict=True):
                each.sentence = sentence
                yield each

    monkeypatch.setattr(commands, "RunParser", Made)
    monkeypatch.setattr(evaluate, "check_is_run", lambda path: None)
    path = tmp_path / "treebank.conllu"
    path.write_text("".join(each.sentence.text() for each in treebank_parses(60)))
    return path


def test_report_and_json(runs, tmp_path, capfd):
    found = tmp_path / "x.json"
    main("1", runs, "--json", found, "--confidence", "--draw=2", "--html", tmp_path / "x.html")
    report, figures = capfd.readouterr().out, json.loads(found.read_text())
    for name, key in (("UAS", "uas"), ("LAS", "las"), ("CLAS", "clas")):
        assert re.search(rf"^{name} +{figures[key]:.2f}  [\d,]+ words", report, re.M)
    assert report.count("without punctuation") == 2
    for label, row in list(figures["by_label"].items())[:14]:
        cells = f"{label} +{row['words']} +{row['precision']:.2f} +{row['recall']:.2f} +{row['f1']:.2f} "
        assert re.search(f"^{cells}", report, re.M)
    assert re.search(rf"^{len(figures['by_label']) - 14} others ", report, re.M)
    shown = re.findall(r"^(\S+) +(\S+) +(\d+) *$", report[report.index("right head, label ") :], re.M)
    expected = [(row["gold"], row["predicted"], str(row["words"])) for row in figures["label_confusions"]]
    assert shown == expected[:10]
    assert max(map(len, report.splitlines())) <= 80
    for record, each in zip(figures["parses"], treebank_parses(60), strict=True):
        assert (record["labels"], record["label_probabilities"]) == (each.labels, each.label_probabilities)


def test_report_without_labels(runs, tmp_path, capfd):
    found = tmp_path / "x.json"
    main("3", runs, "--json", found, "--confidence", "--draw=2")
    report, figures = capfd.readouterr().out.replace(str(runs), ""), json.loads(found.read_text())
    assert (
        "LAS" not in report and "right head, label" not in report and "las" not in figures and "by_label" not in figures
    )
    assert "labels" not in figures["parses"][0]


def test_compare(runs, tmp_path, capfd):
    arcs, found = tmp_path / "arcs.tsv", tmp_path / "x.json"
    main("--compare", "1", "2", runs, "--output", arcs, "--json", found)
    report, figures = capfd.readouterr().out, json.loads(found.read_text())
    first, second = figures["scores"]
    las = figures["bootstrap"]["las"]
    assert las["difference"] == pytest.approx(second["las"] - first["las"])
    for key in ("las", "clas"):
        assert re.search(rf"^{key.upper()} +{first[key]:.2f} +{second[key]:.2f} +[+-]", report, re.M)
    assert f"LAS may well be chance (p = {las['p_value']:.4f})" in report or f"LAS (p = {las['p_value']:.4f})" in report
    assert max(map(len, report.splitlines())) <= 80

    header, *rows = [line.split("\t") for line in arcs.read_text().splitlines()]
    listed = [dict(zip(header, row, strict=True)) for row in rows]
    expected = []
    for one, other in zip(treebank_parses(60, 1), treebank_parses(60, 2), strict=True):
        for i, line in enumerate(range(one.sentence.line, one.sentence.line + len(one.heads))):
            differ = [("head", one.heads[i] != other.heads[i]), ("label", one.labels[i] != other.labels[i])]
            if which := ", ".join(name for name, differs in differ if differs):
                expected.append((f"{runs}:{line}", one.gold_labels[i], one.labels[i], other.labels[i], which))
    keys = ("line", "label in the file", "label 1", "label 2", "differ in")
    assert [tuple(row[key] for key in keys) for row in listed] == expected
    assert {row["differ in"] for row in listed} == {"head", "label", "head, label"}
    only = [row for row in listed if row["differ in"] == "label"]
    right = [
        sum(r["head 1"] == r["head in the file"] and r[f"label {n}"] == r["label in the file"] for r in only)
        for n in (1, 2)
    ]
    assert right == [figures["labels"]["first right"], figures["labels"]["second right"]]
    total = sum(n for counts in (figures["arcs"], figures["labels"]) for kind, n in counts.items() if kind != "same")
    assert total == len(rows) and sum(figures["labels"].values()) == figures["arcs"]["same"]


def test_compare_where_one_run_has_no_labels(runs, tmp_path, capfd):
    found = tmp_path / "x.json"
    main("--compare", "1", "3", runs, "--json", found)
    report, figures = capfd.readouterr().out, json.loads(found.read_text())
    assert "las" not in figures["bootstrap"] and "labels" not in figures and "only labels" not in report
    assert re.search(rf"^LAS +{figures['scores'][0]['las']:.2f} +– *$", report, re.M)
    main("--compare", "3", "3", runs, "--json", found)
    report = capfd.readouterr().out
    assert "LAS" not in report and "las" not in json.loads(found.read_text())["scores"][0]


def test_labels_from_a_file_are_harmless_in_the_report(runs, monkeypatch, capfd):
    """Control characters, markup, long labels: shown as text, and cut."""
    original = treebank_parses

    def hostile(*arguments, **options):
        for each in original(*arguments, **options):
            each.labels = ["\x1b[31m[red]" + "x" * 50] * len(each.heads)
            each.gold_labels = ["\x07[b]gold"] * len(each.heads)
            yield each

    monkeypatch.setitem(globals(), "treebank_parses", hostile)
    main("1", runs, "--draw=3")
    report = capfd.readouterr().out
    assert "\x1b" not in report and "\x07" not in report and "[red]" in report and "[b]gold" in report
    assert max(map(len, report.splitlines())) <= 80
    main("--compare", "1", "2", runs)
    assert "\x1b" not in capfd.readouterr().out
