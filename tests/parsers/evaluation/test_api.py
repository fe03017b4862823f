"""parsers.load: what goes in and comes out of a parser in Python."""

import copy
import io
import itertools
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import conllu
import pytest
import torch

import parsers
from parsers.data import synthetic
from parsers.data.conllu import read
from parsers.evaluation.inference import WINDOW
from parsers.io.extra import EXTRA
from tests.parsers.evaluation.calls import ODD, main

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def parser(place):
    return parsers.load(place / "second")


def check(parse):
    n = len(parse.words)
    for name in ("words", "tags", "heads", "labels", "probabilities", "label_probabilities"):
        values = getattr(parse, name)
        assert type(values) is list and len(values) == n, name
    assert all(type(head) is int and 0 <= head <= n for head in parse.heads) and parse.heads.count(0) == 1
    assert all((head == 0) == (label == "root") for head, label in zip(parse.heads, parse.labels, strict=True))
    shares = parse.probabilities + parse.label_probabilities
    assert all(type(share) is float and 0 <= share <= 1 for share in shares)
    assert type(parse.log_prob) is float and parse.log_prob <= 0 <= parse.entropy and type(parse.entropy) is float


def test_one_sentence(parser):
    parse = parser.parse(["The", "dog", "barks"])
    check(parse)
    assert parse.words == ["The", "dog", "barks"] and parse.tags == ["_"] * 3 and parse.kbest is None
    assert parser.parse(("The", "dog", "barks")) == parse == parser.parse(iter(["The", "dog", "barks"]))
    assert parse.words == pickle.loads(pickle.dumps(parse)).words
    alone = parser.parse(["Yes"])
    assert alone.heads == [0] and alone.labels == ["root"] and alone.log_prob == pytest.approx(0, abs=1e-6)
    check(parser.parse(["word"] * 300))


def test_the_same_as_the_command(parser, place, tmp_path):
    """From TokenLists, from words with tags, and from the file."""
    out, figures = tmp_path / "out.conllu", tmp_path / "figures.json"
    main(place / "second", place / "gold.conllu", "--output", out, "--json", figures, "--confidence", "--kbest=3")
    expected, written = json.loads(figures.read_text())["parses"], list(read(out))
    gold = conllu.parse((place / "gold.conllu").read_text(encoding="utf-8"))
    tagged = [[(token["form"], token["upos"]) for token in tokens if type(token["id"]) is int] for tokens in gold]
    for sentences in (gold, tagged, iter(gold)):
        found = list(parser.parse_all(sentences, kbest=3))
        assert len(found) == len(expected) == 31
        for parse, record, sentence in zip(found, expected, written, strict=True):
            check(parse)
            assert parse.words == sentence.forms and parse.tags == sentence.upos
            assert parse.heads == record["heads"] == sentence.heads and parse.labels == sentence.deprels
            assert parse.probabilities == record["probabilities"] and parse.log_prob == record["log_prob"]
            assert parse.label_probabilities == record["label_probabilities"]
            assert [{"log_prob": p, "heads": heads} for p, heads in parse.kbest] == record["kbest"]
    mbr = [parse.heads for parse in parser.parse_all(tagged, decode="mbr")]
    main(place / "second", place / "gold.conllu", "--output", out, "--decode=mbr")
    assert mbr == [sentence.heads for sentence in read(out)]


def test_a_parse_shows_itself(parser):
    parse = parser.parse([("<b>", "X"), ("dog", "NOUN")])
    first, *_, last = str(parse).splitlines()
    assert "root" in first and "<b>" in str(parse) and last.startswith("tree ") and "\x1b" not in str(parse)
    svg = parse._repr_svg_()
    assert svg.startswith("<svg ") and "&lt;b&gt;" in svg and "NOUN" in svg


def test_token_lists_come_back(parser):
    """With comments, multiword tokens, empty nodes and other columns where they were."""
    (tokens,) = conllu.parse(ODD)
    before = copy.deepcopy(tokens)
    parse = parser.parse(tokens)
    after = parse.to_conllu()
    assert tokens == before and after.metadata == before.metadata
    assert [token["id"] for token in after] == [token["id"] for token in before]
    words = [token for token in after if type(token["id"]) is int]
    assert [token["head"] for token in words] == parse.heads and [t["deprel"] for t in words] == parse.labels
    for old, new in zip(before, after, strict=True):
        assert old.keys() == new.keys()
        assert all(old[key] == new[key] for key in old if key not in ("head", "deprel") or type(old["id"]) is tuple)
    assert conllu.parse(after.serialize())[0] == after


def test_heads_in_a_token_list_are_not_read(parser):
    (tokens,) = conllu.parse(ODD)
    other = copy.deepcopy(tokens)
    for token in other:
        token["head"], token["deprel"] = None, "_"
    assert parser.parse(tokens) == parser.parse(other)


def test_words_become_a_token_list(parser):
    parse = parser.parse([("The", "DET"), ("10 000", None), "dogs"])
    tokens = parse.to_conllu()
    assert tokens.metadata == {"text": "The 10 000 dogs"} and parse.tags == ["DET", "_", "_"]
    assert [list(token) for token in tokens] == [list(conllu.parse(ODD)[0][1])] * 3
    (again,) = conllu.parse(tokens.serialize())
    assert again == tokens
    made_by_hand = conllu.TokenList([{"id": 1, "form": "a"}, {"id": 2, "form": "b", "upos": None}])
    assert parser.parse(made_by_hand).to_conllu().serialize().splitlines()[0].count("\t") == 9


def test_runs_without_labels(place):
    parse = parsers.load(str(place / "bare"), device="cpu").parse(["a", "b"])
    assert parse.labels == ["_", "_"] and parse.label_probabilities == [None, None]
    assert [token["deprel"] for token in parse.to_conllu()] == ["_", "_"]
    assert parse._repr_svg_() and str(parse)


def test_known_heads(parser):
    words = ["a", "b", "c", "d"]
    parse = parser.parse(words, known_heads=[-1, -1, 1, -1])
    assert parse.heads[2] == 1 and parser.parse(words, known_heads=[-1] * 4) == parser.parse(words)
    assert parser.parse(words, known_heads=torch.tensor([2, 0, 2, 2])).heads == [2, 0, 2, 2]
    assert parser.parse(words, known_heads=[0, 0, 0, 0], multi_root=True).heads == [0] * 4
    several = list(parser.parse_all([words, ["x"], words], known_heads=[None, [0], [2, 0, 2, 3]]))
    assert several[0].heads == parser.parse(words).heads and several[2].heads == [2, 0, 2, 3]
    (tokens,) = conllu.parse(ODD)
    heads = [token["head"] for token in tokens if type(token["id"]) is int]
    assert parser.parse(tokens, known_heads=heads).heads == heads
    check(parser.parse(tokens, known_heads=heads))


@pytest.mark.parametrize("words, message", [
    ("The dog", "a sentence is a list of words, not a plain string: split it into words"),
    (None, "a sentence is a list of words, not None"),
    (3, "a sentence is a list of words, not an object of type int"),
    (b"The", "a sentence is a list of words, not an object of type bytes"),
    ({"The": "DET"}, "a sentence is a list of words, not an object of type dict"),
    ([], "there are no words in this sentence"),
    (conllu.TokenList(), "there are no words in this sentence"),
    (["a", ""], "word 2 is empty"),
    (["a", " \u3000"], "word 2 is empty"),
    (["a\tb"], "word 1 has a tab or a line end in it"),
    (["a", None], "word 2 is None, and not a string"),
    (["a", 7], "word 2 is an object of type int, and not a string"),
    ([("a",)], "word 1 is a tuple of 1, and not (word, tag)"),
    (["a", ("b", "X", "Y")], "word 2 is a tuple of 3, and not (word, tag)"),
    ([("a", 3)], "the tag of word 1 is an object of type int, and not a string"),
    ([("", "X")], "word 1 is empty"),
    ([["a", "b"], ["c"]], "word 1 is a list: parse_all takes several sentences"),
    (["a"] * 2001, "a sentence of 2001 words; at most 2000 can be parsed: divide it"),
    (conllu.TokenList([{"id": 2, "form": "a"}]), "a token has id 2 where word 1 should be"),
    (conllu.TokenList([{"id": 1, "form": None}]), "word 1 is None, and not a string"),
    (conllu.TokenList([{"id": 1, "form": "a", "feats": {"A": object()}}]), "feats of word 1 is an object of type dict"),
])  # fmt: skip
def test_mistakes(parser, words, message):
    with pytest.raises(ValueError) as caught:
        parser.parse(words)
    assert str(caught.value) == message
    stream = parser.parse_all([["good"], words])
    assert next(stream).words == ["good"]
    with pytest.raises(ValueError) as caught:
        next(stream)
    assert str(caught.value) == f"sentence 2: {message}"


@pytest.mark.parametrize("known, message", [
    ([0], "known_heads has 1 entries for 3 words"),
    ([0, 1, 4], "known_heads gives word 3 the head 4"),
    ([0, 2, -1], "known_heads makes word 2 its own head: 0 stands for the root"),
    ([0, -2, 1], "known_heads gives word 2 the head -2"),
    ([2, 1, 0], "known_heads go in a circle: 1 → 2 → 1"),
    ([0, 0, 2], "known_heads can't be kept: words 1 and 2 both hang from the root"),
    ([3, 0, -1], "known_heads can't be kept: the arcs to words 1 and 2 cross, which no projective tree has"),
    ("abc", "known_heads is a list of numbers, −1 where the head is free"),
    (3, "known_heads is a list of numbers, −1 where the head is free"),
    ([0.0, 1, 1], "known_heads is a list of numbers, −1 where the head is free"),
])  # fmt: skip
def test_known_heads_that_are_wrong(parser, known, message):
    with pytest.raises(ValueError) as caught:
        parser.parse(["a", "b", "c"], known_heads=known)
    assert str(caught.value) == message
    with pytest.raises(ValueError) as caught:
        list(parser.parse_all([["x"], ["a", "b", "c"]], known_heads=[[0], known]))
    assert str(caught.value) == f"sentence 2: {message}"


def test_options_that_are_wrong(parser):
    words = ["a", "b"]
    for options in ({"decode": "best"}, {"decode": 1}, {"kbest": 0}, {"kbest": 1001}, {"kbest": True}):
        for call in (lambda o: parser.parse(words, **o), lambda o: parser.parse_all([words], **o)):
            with pytest.raises(ValueError, match=r"decode is viterbi or mbr|kbest is a number from 1 to 1000"):
                call(options)
    for several in (None, "The dog", conllu.TokenList([{"id": 1, "form": "a"}]), 3):
        with pytest.raises(ValueError, match="sentences must be an iterable with an entry for each sentence"):
            parser.parse_all(several)
    with pytest.raises(ValueError, match="sentence 1: a sentence is a list of words, not a plain string"):
        list(parser.parse_all(["The", "dog"]))
    with pytest.raises(ValueError, match="known_heads has no entry for sentence 2"):
        list(parser.parse_all([words, words], known_heads=[None]))
    with pytest.raises(ValueError, match="known_heads has more entries than the 1 sentences"):
        list(parser.parse_all([words], known_heads=[None, None]))


def test_streams(parser):
    """An endless stream is read a window ahead, and keeps its order; nothing is read before the first parse."""
    taken = itertools.count()
    lengths = itertools.cycle([7, 1, 4, 2])
    stream = parser.parse_all([f"w{number}"] * next(lengths) for number in taken)
    assert next(taken) == 0
    for number, parse in enumerate(itertools.islice(stream, WINDOW + 5), 1):
        assert parse.words[0] == f"w{number}"
    assert next(taken) <= 2 * WINDOW + 3
    assert list(parser.parse_all([])) == []


def test_what_can_not_be_loaded(place, tmp_path):
    for path, message in ((tmp_path / "none", "is not a directory"), (tmp_path, "is not a run"), (None, "a string or")):
        with pytest.raises(ValueError, match=message):
            parsers.load(path)
    with pytest.raises(ValueError, match="is not a supported device"):
        parsers.load(place / "first", device="quantum")
    with pytest.raises(ValueError, match="torch sees"):
        parsers.load(place / "first", device="cuda:99")
    assert parsers.load(place / "first", device=torch.device("cpu")).parse(["a"]).heads == [0]


def test_scores_that_are_not_numbers(place):
    broken = parsers.load(place / "first")
    next(broken.model.parameters()).data.fill_(math.nan)
    with pytest.raises(ValueError, match="the scores of the model are not numbers"):
        broken.parse(["a", "b"])


def test_the_import_is_light():
    code = "import sys, parsers; print({'torch', 'numpy', 'conllu', 'rich'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("package", EXTRA)
def test_a_package_that_is_missing(package, place):
    """`load` and the commands say in one line how to install it."""
    code = f"""
import sys
sys.modules[{package!r}] = None
import parsers, train, evaluate
from parsers.io.command import run_command
try:
    parsers.load({str(place / "first")!r})
except ImportError as error:
    print(error)
assert run_command("train.py", train.main, ["--model=ntp"]) == 2
assert run_command("evaluate.py", evaluate.main, {[str(place / "first"), str(place / "gold.conllu")]!r}) == 2
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    message = f"{package} is not installed: pip install 'tritree[parsers]'\n"
    assert done.stdout == message and done.stderr == f"train.py: {message}evaluate.py: {message}"


def test_a_file_of_any_size_can_be_parsed(parser):
    """With conllu.parse_incr on one side and serialize on the other."""
    text = "".join(synthetic.conllu("test", count=5))
    parsed = "".join(parse.to_conllu().serialize() for parse in parser.parse_all(conllu.parse_incr(io.StringIO(text))))
    assert [len(tokens) for tokens in conllu.parse(parsed)] == [len(tokens) for tokens in conllu.parse(text)]
