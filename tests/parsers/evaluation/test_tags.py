"""Whose tags the parser reads: those in the file, predicted ones where there are none, and what is said of it."""

import json
import shutil
from pathlib import Path

import conllu
import pytest

import parsers
from parsers.commands.evaluate import parse as parse_options
from parsers.data import synthetic
from parsers.data.conllu import FEATS, UPOS, XPOS, read
from parsers.data.examples import Indexer
from parsers.data.text import sentence_of
from parsers.data.vocabulary import Vocabulary
from parsers.evaluation.mismatch import Mismatch
from parsers.evaluation.tags import TagReader, TagScores
from parsers.networks.tagger import Sizes
from parsers.options import parse
from parsers.runs.tagger import Tagger, filled
from parsers.training.tagging import train_tagger
from tests.parsers.evaluation.calls import main, mistake
from tests.parsers.helpers import SMALL, small_trainer, tiny_options

KEPT = Path(__file__).parents[1] / "kept"


def columns(text: str, **values: str | None) -> str:
    """CoNLL-U with other values in all cells of some columns; for None, UPOS goes there."""
    numbers = {UPOS: values.get("upos", "keep"), XPOS: values.get("xpos", "keep"), FEATS: values.get("feats", "keep")}
    lines = []
    for line in text.split("\n"):
        cells = line.split("\t")
        if len(cells) == 10:
            new = {number: cells[UPOS] if value is None else value for number, value in numbers.items()}
            for number, value in new.items():
                cells[number] = cells[number] if value == "keep" else value
        lines.append("\t".join(cells))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return train_tagger(synthetic.sentences("train", count=300), sizes=Sizes(16, 8, 8, 8, 24))


@pytest.fixture(scope="module")
def files(tmp_path_factory, tagger):
    """A run with a tagger, the same one without it, and test sentences with tags and without."""
    directory = tmp_path_factory.mktemp("tags")
    options = tiny_options("ntp", *SMALL, "--epochs=6")
    small_trainer(options, directory / "run", count=300).train()
    shutil.copytree(directory / "run", directory / "none")
    tagger.save(directory / "run")
    text = "".join(synthetic.conllu("test", count=60))
    (directory / "gold.conllu").write_text(text, encoding="utf-8")
    (directory / "bare.conllu").write_text(columns(text, upos="_"), encoding="utf-8")
    return directory


def evaluated(capfd, *arguments) -> tuple[str, str, dict]:
    """The report, what is said on stderr, and the figures."""
    path = Path(arguments[1]).parent / "figures.json"
    main(*arguments, "--json", path)
    out, error = capfd.readouterr()
    return out, error, json.loads(path.read_text("utf-8"))


def test_a_file_without_tags(files, capfd):
    """Nearly as good as with the tags of the file, and --output has the tags."""
    gold = evaluated(capfd, files / "run", files / "gold.conllu", "--output", files / "parsed-gold.conllu")
    bare = evaluated(capfd, files / "run", files / "bare.conllu", "--output", files / "parsed.conllu")
    none = evaluated(capfd, files / "none", files / "bare.conllu")
    assert gold[0].startswith("tags: those in the file\n") and gold[2]["predicted_tags"] == 0 and gold[1] == ""
    assert bare[0].startswith("tags: predicted\n") and bare[1] == ""
    assert bare[2]["predicted_tags"] == bare[2]["words"] and "upos_accuracy" not in bare[2]
    assert bare[2]["uas"] > gold[2]["uas"] - 6 and bare[2]["las"] > gold[2]["las"] - 10
    assert gold[2]["uas"] > none[2]["uas"] + 15
    assert none[0].startswith("tags: none\n")
    words = none[2]["words"]
    assert f"{words} of {words} words have no tag, and there is no tagger" in none[1] and none[1].count("\n") == 1
    expected, found = (list(read(str(files / name))) for name in ("gold.conllu", "parsed.conllu"))
    right = [a == b for one, two in zip(expected, found, strict=True) for a, b in zip(one.upos, two.upos, strict=True)]
    assert sum(right) > 0.95 * len(right) and {tag for sentence in found for tag in sentence.xpos} == {"_"}
    assert [s.upos for s in read(str(files / "parsed-gold.conllu"))] == [s.upos for s in expected]
    # The scores without punctuation and the table of tags are made with predicted tags, for lack of others.
    assert "PUNCT" in bare[2]["by_pos"] and "_" not in bare[2]["by_pos"]


def test_predict_tags(files, capfd):
    """The same trees as for the file without tags, and accuracy of the tags; tables go by the tags in the file."""
    gold = evaluated(capfd, files / "run", files / "gold.conllu")[2]
    bare = evaluated(capfd, files / "run", files / "bare.conllu", "--output", files / "bare-parsed.conllu")[2]
    arguments = (files / "run", files / "gold.conllu", "--predict-tags", "--output", files / "again.conllu")
    report, error, found = evaluated(capfd, *arguments)
    assert report.startswith("tags: predicted\n") and error == ""
    assert (files / "again.conllu").read_bytes() == (files / "bare-parsed.conllu").read_bytes()
    assert (found["uas"], found["las"]) == (bare["uas"], bare["las"]) and found["uas"] != gold["uas"]
    assert {tag: row["words"] for tag, row in found["by_pos"].items()} == {
        tag: row["words"] for tag, row in gold["by_pos"].items()
    }
    assert found["plain_words"] == gold["plain_words"]
    pairs = zip(read(str(files / "gold.conllu")), read(str(files / "again.conllu")), strict=True)
    hits = [a == b for one, two in pairs for a, b in zip(one.upos, two.upos, strict=True)]
    assert found["upos_accuracy"] == 100 * (sum(hits) / len(hits)) and found["upos_words"] == len(hits)
    assert f"UPOS of the tagger   {found['upos_accuracy']:.2f}" in report
    assert gold["upos_accuracy"] == found["upos_accuracy"]  # also where the tags in the file are read
    text = columns((files / "gold.conllu").read_text("utf-8"))
    (files / "headless.conllu").write_text("\n".join(headless(line) for line in text.split("\n")), "utf-8")
    report, _, found = evaluated(capfd, files / "run", files / "headless.conllu", "--predict-tags")
    assert "not scored" in report and f"UPOS of the tagger {found['upos_accuracy']:.2f} %" in report


def headless(line: str) -> str:
    cells = line.split("\t")
    return "\t".join([*cells[:6], "_", "_", *cells[8:]]) if len(cells) == 10 else line


def test_some_words_without_tags(files, capfd):
    """Tags that are there stay."""
    lines = (files / "gold.conllu").read_text("utf-8").split("\n")
    taken = 0
    for i, line in enumerate(lines):
        cells = line.split("\t")
        if len(cells) == 10 and int(cells[0]) % 5 == 2:
            cells[UPOS], taken = "_", taken + 1
            lines[i] = "\t".join(cells)
    path = files / "some.conllu"
    path.write_text("\n".join(lines), "utf-8")
    report, error, figures = evaluated(capfd, files / "run", path, "--output", files / "whole.conllu")
    assert report.startswith(f"tags: predicted where the file has none ({taken:,} words)\n") and error == ""
    assert figures["predicted_tags"] == taken
    for gold, found in zip(read(str(files / "gold.conllu")), read(str(files / "whole.conllu")), strict=True):
        assert "_" not in found.upos
        kept = [i for i in range(len(gold)) if (i + 1) % 5 != 2]
        assert [found.upos[i] for i in kept] == [gold.upos[i] for i in kept]
    report, error, _ = evaluated(capfd, files / "none", path)
    assert report.startswith("tags: those in the file\n") and f"{taken:,} of {figures['words']:,} words" in error


def test_compare(files, tmp_path, capfd):
    """Both runs by the same rules."""
    runs = (files / "run", files / "none")
    main("--compare", *runs, files / "bare.conllu", "--json", tmp_path / "x.json")
    out, error = capfd.readouterr()
    figures = json.loads((tmp_path / "x.json").read_text())
    assert out.startswith("tags: 1: predicted; 2: none\n") and figures["tags"] == ["predicted", "none"]
    assert error.count("\n") == 1 and error.startswith(
        f"evaluate.py: {files / 'none'}, {files / 'bare.conllu'}: unlike"
    )
    assert figures["scores"][0]["uas"] > figures["scores"][1]["uas"]
    main("--compare", files / "run", files / "run", files / "gold.conllu", "--predict-tags")
    out, error = capfd.readouterr()
    assert out.startswith("tags: predicted\n") and error == "" and "UPOS of the tagger" in out
    assert "has no tagger" in mistake(capfd, "--compare", *runs, files / "gold.conllu", "--predict-tags")


def test_predict_tags_without_a_tagger(files, tmp_path, capfd):
    target = tmp_path / "x.conllu"
    error = mistake(capfd, files / "none", files / "gold.conllu", "--predict-tags", "--output", target)
    assert "has no tagger, which --predict-tags needs" in error and not target.exists()
    assert "does not go with --curves" in mistake(capfd, "--curves", files / "run", "--predict-tags")


def test_unknown_tags(files, capfd):
    path = files / "odd.conllu"
    text = (files / "gold.conllu").read_text("utf-8")
    for number, tag in enumerate(("NOUN", "VERB", "DET", "ADP")):
        text = text.replace(f"\t{tag}\t", f"\tT{number}\x1b\t")
    path.write_text(text, "utf-8")
    _, error, figures = evaluated(capfd, files / "run", path)
    words = sum(row["words"] for tag, row in figures["by_pos"].items() if tag.startswith("T"))
    assert f"{words:,} of {figures['words']:,} words have tags that are not known (T" in error and ", …)" in error
    assert error.count("\n") == 1 and "\x1b" not in error and "--predict-tags replaces" in error
    _, error, _ = evaluated(capfd, files / "run", path, "--predict-tags")
    assert error == ""


def test_unknown_words(files, capfd):
    """Another language."""
    path = files / "other.conllu"
    path.write_text("".join(synthetic.conllu("test", seed=5, count=20)), "utf-8")
    _, error, figures = evaluated(capfd, files / "run", path)
    assert f" of {figures['words']:,} words are not known\n" in error and error.count("\n") == 1


def test_an_old_run_without_tags(tmp_path, capfd):
    """It has no tagger, and says so."""
    path = tmp_path / "bare.conllu"
    path.write_text(columns("".join(synthetic.conllu("test", count=5)), upos="_"), "utf-8")
    out, error, _ = evaluated(capfd, KEPT / "finished", path)
    assert out.startswith("tags: none\n") and "have no tag, and there is no tagger" in error


def test_a_run_that_never_had_tags():
    """What is like the training data is not worth a word."""
    trees = [sentence for sentence in synthetic.sentences("train", count=50)]
    for sentence in trees:
        sentence.upos[:] = ["_"] * len(sentence)
    mismatch = mismatch_of(trees, trees)
    assert mismatch.reasons() == []
    tagged = mismatch_of(trees, synthetic.sentences("train", count=50))
    assert " have tags that are not known (" in tagged.line("x")


def mismatch_of(trees, sentences, *arguments: str, text=()) -> Mismatch:
    vocab = Vocabulary.build(trees, text)
    mismatch = Mismatch(Indexer(vocab), parse(["--model=ntp", *arguments]), len(vocab.words))
    for sentence in sentences:
        mismatch(sentence)
    return mismatch


def test_one_word_without_a_tag_among_the_trees():
    """It does not make files without tags usual."""
    trees = synthetic.sentences("train", count=50)
    trees[0].upos[0] = "_"
    bare = synthetic.sentences("train", count=50)
    for sentence in bare:
        sentence.upos[:] = ["_"] * len(sentence)
    assert len(mismatch_of(trees, bare).reasons()) == 1
    assert mismatch_of(trees, trees).reasons() == []


def test_text_without_tags_does_not_make_them_usual():
    """However much of it there was, the trees had tags. Trees without tags stay without, beside any text."""
    trees, bare = synthetic.sentences("train", count=20), synthetic.sentences("unlabeled", count=100)
    for sentence in bare:
        sentence.upos[:] = ["_"] * len(sentence)
    assert len(mismatch_of(trees, bare[:20], text=bare).reasons()) == 1
    assert mismatch_of(trees, trees, text=bare).reasons() == []
    assert mismatch_of(bare[:20], bare[20:40], text=bare).reasons() == []


def test_inputs_that_are_empty():
    trees = synthetic.sentences("train", count=30)
    assert mismatch_of(trees, trees, "--xpos", "--feats").reasons() == []  # as in training
    for sentence in trees:
        sentence.xpos[:], sentence.feats[:] = sentence.upos, ["A=1"] * len(sentence)
    bare = synthetic.sentences("train", count=30)
    assert mismatch_of(trees, trees, "--xpos", "--feats").reasons() == []
    assert mismatch_of(trees, bare).reasons() == []  # they are no inputs
    assert mismatch_of(trees, bare, "--feats").reasons() == ["FEATS, which the parser reads, is empty"]
    alone = sentence_of(["Yes"], ["INTJ"])  # has no features; all words have an XPOS
    assert mismatch_of([*trees, alone], [alone], "--feats").lacks_inputs() == []
    assert mismatch_of([*trees, alone], [alone], "--xpos").lacks_inputs() == ["XPOS"]
    both = mismatch_of(trees, bare, "--feats", "--xpos").line("x")
    assert (
        both == "x: unlike the training data, which costs accuracy: XPOS and FEATS, which the parser reads, are empty"
    )


def test_xpos_as_the_tag(tagger):
    """Trees that have XPOS alone: the UPOS of a file does not hide what is predicted."""
    (sentence,) = synthetic.sentences("test", count=1)
    n = len(sentence)
    trees = synthetic.sentences("train", count=20)
    for tree in trees:
        tree.xpos[:], tree.upos[:] = tree.upos, ["_"] * len(tree)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parsers.training.tagging.MIN_STEPS", 5)
        patch.setattr("parsers.training.tagging.MAX_STEPS", 5)
        of_xpos = train_tagger(trees, columns=("xpos",))
    ((read_as, shown, written),) = TagReader(of_xpos, predict=True)([sentence])
    assert read_as.upos == ["_"] * n and written.keys() == {"xpos"} and read_as.xpos == written["xpos"]
    assert shown.upos == sentence.upos and shown.xpos == sentence.xpos


def test_tag_scores(tagger):
    (sentence,) = synthetic.sentences("test", count=1)
    n = len(sentence)
    sentence.upos[0] = "_"
    scores = TagScores()
    scores.add(sentence, {"upos": sentence.upos[::-1][::-1], "feats": ["_"] * n})
    assert scores.figures() == {"upos_accuracy": 100.0, "upos_words": n - 1}  # FEATS are empty
    sentence.feats[1] = "A=1"
    scores.add(sentence, {"upos": ["?"] * n, "feats": ["_"] * n})
    figures = scores.figures()
    assert figures["upos_accuracy"] == 50 and figures["feats_words"] == 2 * n
    assert figures["feats_accuracy"] == pytest.approx(100 * (2 * n - 1) / (2 * n))


def test_a_stream_is_not_read_ahead_of_by_much(files, monkeypatch):
    """Tagging and parsing hold a window each."""
    count = 0

    def endless():
        nonlocal count
        while True:
            for sentence in synthetic.sentences("test", count=5):
                count += 1
                sentence.upos[:] = ["_"] * len(sentence)
                yield sentence

    from parsers.evaluation import inference
    from parsers.runs import tagger as tagger_file

    monkeypatch.setattr(inference, "WINDOW", 8)
    monkeypatch.setattr(tagger_file, "WINDOW", 8)
    options = parse_options([str(files / "run"), "x.conllu"])
    parses = inference.RunParser(str(files / "run"), options)(endless())
    for number in range(40):
        parse = next(parses)
        assert count <= number + 24 and "_" not in parse.sentence.upos
    parses.close()


def test_from_python(files, capfd, caplog):
    """The same tags and trees as by evaluate.py; without a tagger, a line says that tags are missing."""
    evaluated(capfd, files / "run", files / "bare.conllu", "--output", files / "parsed.conllu")
    expected = list(read(str(files / "parsed.conllu")))
    tokens = conllu.parse((files / "bare.conllu").read_text("utf-8"))
    parser = parsers.load(files / "run")
    for sentences in ([sentence.forms for sentence in expected], tokens):
        for found, sentence in zip(parser.parse_all(sentences), expected, strict=True):
            assert (found.tags, found.heads, found.labels) == (sentence.upos, sentence.heads, sentence.deprels)
            assert [token["upos"] for token in found.to_conllu()] == sentence.upos
    first = expected[0]
    given = parser.parse([(form, "X" if form == first.forms[0] else None) for form in first.forms])
    assert given.tags == ["X", *first.upos[1:]]
    assert caplog.messages == ["what was parsed: unlike the training data, which costs accuracy: "
                               f"1 of {len(first)} words have tags that are not known (X)"]  # fmt: skip
    caplog.clear()
    assert parsers.load(files / "none").parse(first.forms).tags == ["_"] * len(first)
    assert f"{len(first)} of {len(first)} words have no tag, and there is no tagger" in caplog.text


def test_xpos_in_python(files):
    """It is not read in place of UPOS that the tagger predicts, and stays. Words alone get what --text writes."""
    parser = parsers.load(files / "run")
    (tokens,) = conllu.parse((files / "bare.conllu").read_text("utf-8").split("\n\n")[0])
    expected = parser.parse(tokens)
    for token in tokens:
        token["xpos"] = "NN"
    found = parser.parse(tokens)
    assert found == expected and set(found.tags) <= {*parser.tagger.symbols.tags["upos"]}
    assert [(token["upos"], token["xpos"]) for token in found.to_conllu()] == [(tag, "NN") for tag in found.tags]
    parser.tagger = OneTag()
    (token,) = parser.parse(["a"]).to_conllu()
    assert (token["upos"], token["xpos"], token["feats"]) == ("_", "NN", {"Number": "Sing"})


class OneTag:
    """The tagger of a run whose trees have XPOS and FEATS, and no UPOS."""

    columns = ("xpos", "feats")

    def tagged(self, sentences):
        for sentence in sentences:
            yield filled(sentence, {"xpos": ["NN"] * len(sentence), "feats": ["Number=Sing"] * len(sentence)})
