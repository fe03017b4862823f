"""The tagger: it learns, it is the same each time, it comes back from its files, and damaged files are refused."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from parsers.data.synthetic import sentences
from parsers.io.errors import DataError
from parsers.networks.tagger import Sizes
from parsers.runs import tagger as tagger_file
from parsers.runs.tagger import Tagger, has_tagger, load_tagger, replaced
from parsers.training import tagging
from parsers.training.tagging import accuracy, tagged_columns, train_tagger
from tests.threads import threads

SMALL = Sizes(word=8, affix=8, character=8, convolution=8, lstm=16)


def trees(count: int = 40, split: str = "train"):
    """With features made from the tags: the synthetic treebank has none."""
    return [
        dataclasses.replace(s, feats=["_" if tag == "DET" else f"A={tag}|B=1" for tag in s.upos], xpos=["_"] * len(s))
        for s in sentences(split, count=count)
    ]


@pytest.fixture(scope="module")
def trained() -> Tagger:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MIN_STEPS", 150), ("MAX_STEPS", 150), ("BATCHES", 8)):
            patch.setattr(tagging, name, value)
        return train_tagger(trees(), trees(100, "dev"), ("upos", "feats"))


def train_few(monkeypatch, seed: int = 1, columns=("upos",), data=None) -> Tagger:
    monkeypatch.setattr(tagging, "MIN_STEPS", 5)
    monkeypatch.setattr(tagging, "MAX_STEPS", 5)
    return train_tagger(data or trees(10), (), columns, seed, sizes=SMALL)


def same(a: Tagger, b: Tagger) -> bool:
    ours, theirs = a.network.state_dict(), b.network.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_learns(trained):
    """Of the dev set what 40 sentences tell: most of its words are not in them."""
    assert min(accuracy(trained, trees()).values()) > 95
    figures = trained.figures
    assert figures.keys() == {"tagger_upos_accuracy", "tagger_feats_accuracy", "tagger_seconds"}
    assert figures["tagger_upos_accuracy"] > 75 and figures["tagger_feats_accuracy"] > 75


def test_same_bits_for_the_same_seed(monkeypatch):
    first = train_few(monkeypatch)
    torch.manual_seed(9)
    before = torch.get_rng_state()
    assert same(first, train_few(monkeypatch))
    assert torch.equal(torch.get_rng_state(), before)  # the parser's random numbers stay what they are
    assert not same(first, train_few(monkeypatch, seed=2))


def test_one_thread(monkeypatch):
    """With two, the same training gave other bits each time."""
    used = set()
    monkeypatch.setattr(tagging, "clip_grad_norm_", lambda *_: used.add(torch.get_num_threads()))
    with threads(2):
        train_few(monkeypatch)
        assert used == {1} and torch.get_num_threads() == 2


def test_order_of_a_stream(trained, monkeypatch):
    """The same tags in batches of any size, and a stream is not read ahead of by more than a window."""
    data = trees(60, "test")
    expected = [next(trained.tag([sentence])) for sentence in data]
    assert [len(tags["upos"]) for tags in expected] == [len(sentence) for sentence in data]
    assert len({tag for tags in expected for tag in tags["upos"]}) > 3
    monkeypatch.setattr(tagger_file, "WINDOW", 7)
    monkeypatch.setattr(tagger_file, "MAX_CELLS", 50)
    read = []
    stream = trained.tag(sentence for sentence in data if read.append(sentence) is None)
    assert next(stream) == expected[0] and len(read) == 7
    assert [expected[0], *stream] == expected


def test_words_without_tags_are_tagged(trained):
    (sentence,) = trees(1, "test")
    tags = next(trained.tag([sentence]))
    n = len(sentence)
    half = dataclasses.replace(sentence, upos=["_", *["ODD"] * (n - 1)], feats=["_", *["C=1"] * (n - 1)])
    (found,) = trained.tagged([half])
    assert found.upos == [tags["upos"][0], *["ODD"] * (n - 1)]
    assert found.feats == [tags["feats"][0], *["C=1"] * (n - 1)]
    assert found.forms == half.forms and found.heads == half.heads and half.upos[0] == "_"
    (found,) = trained.tagged([dataclasses.replace(half, xpos=["X"] * n)])
    assert found.upos == half.upos  # XPOS is a tag too
    given = dataclasses.replace(half, feats=["C=1"] * n)
    (found,) = trained.tagged([given])
    assert found.upos == [tags["upos"][0], *["ODD"] * (n - 1)] and found.feats == ["C=1"] * n
    found = replaced(half, tags)
    assert found.upos == tags["upos"] and found.feats == tags["feats"]
    assert set(replaced(half, {"xpos": ["A"] * n}).upos) == {"_"}  # or the parser would read it


def test_only_what_lacks_tags_is_tagged(trained, monkeypatch):
    data = trees(6)
    bare = [dataclasses.replace(s, upos=["_"] * len(s)) if i % 2 else s for i, s in enumerate(data)]
    seen, tag_batch = [], Tagger._tag_batch
    monkeypatch.setattr(Tagger, "_tag_batch", lambda self, forms: seen.extend(forms) or tag_batch(self, forms))
    found = list(trained.tagged(bare))
    assert sorted(seen) == sorted(s.forms for s in data[1::2])
    assert found[::2] == data[::2] and [s.forms for s in found] == [s.forms for s in data]


def test_any_word_is_tagged(trained):
    forms = ["\u0301", "x" * 10_000, "İ", "🙂", "١٢", "\u200d", "-", "7th"]
    odd = dataclasses.replace(trees(1)[0], forms=forms)
    assert [len(tags) for tags in next(trained.tag([odd])).values()] == [len(forms)] * 2
    assert list(trained.tag([])) == []


def test_words_that_have_no_tag_are_not_learnt_from(monkeypatch):
    """Nor is `_` ever predicted; a whole batch without tags is no trouble."""
    data = trees(4)
    data[1:] = [dataclasses.replace(sentence, upos=["_"] * len(sentence)) for sentence in data[1:]]
    tagger = train_few(monkeypatch, data=data)
    assert "_" not in tagger.symbols.tags["upos"]
    assert all(tensor.isfinite().all() for tensor in tagger.network.state_dict().values())


def test_columns(monkeypatch):
    assert tagged_columns(trees(2)) == ("upos", "feats")
    with pytest.raises(ValueError, match="xpos"):
        train_few(monkeypatch, columns=("upos", "xpos"))
    only_xpos = [dataclasses.replace(s, upos=["_"] * len(s), xpos=s.upos) for s in trees(5)]
    assert train_few(monkeypatch, columns=("xpos",), data=only_xpos).columns == ("xpos",)


def test_normal_form(monkeypatch):
    """Words are the same if the function that is given says so."""
    monkeypatch.setattr(tagging, "MAX_STEPS", 1)
    monkeypatch.setattr(tagging, "MIN_STEPS", 1)
    tagger = train_tagger(trees(3), columns=("upos",), normalize=lambda form: "same", sizes=SMALL)
    assert tagger.symbols.words == ["same"]


def test_says_what_was_reached(monkeypatch):
    monkeypatch.setattr(tagging, "MAX_STEPS", 1)
    monkeypatch.setattr(tagging, "MIN_STEPS", 1)
    lines = []
    train_tagger(trees(3), trees(2, "dev"), sizes=SMALL, say=lines.append)
    assert len(lines) == 1 and lines[0].startswith("tagger: 3 sentences in ") and "UPOS" in lines[0]


def test_comes_back_from_its_files(trained, tmp_path):
    assert not has_tagger(tmp_path)
    trained.save(tmp_path)
    assert has_tagger(tmp_path)
    before = torch.get_rng_state()
    found = load_tagger(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(trained, found) and found.figures == trained.figures and found.sizes == trained.sizes
    data = trees(20, "test")
    assert list(found.tag(data)) == list(trained.tag(data))


def test_missing_files(trained, tmp_path):
    with pytest.raises(DataError, match=r"tagger\.json"):
        load_tagger(tmp_path)
    trained.save(tmp_path)
    (tmp_path / "tagger.safetensors").unlink()
    with pytest.raises(DataError, match=r"tagger\.safetensors"):
        load_tagger(tmp_path)


HOSTILE = {
    "format": [2, None],
    "sizes": [None, [], {}, {"word": 8}, dataclasses.asdict(Sizes()) | {"word": 2**40}]
    + [dataclasses.asdict(Sizes()) | {"lstm": value} for value in (0, -1, 1.5, "8", True)],
    "figures": [None, [1], {"test_uas": 100.0}, {"tagger_seconds": "long"}, {"tagger_seconds": float("nan")}],
    "words": [None, {}, "words", [1], ["a", "a"], ["a"]],  # the last has another length than the tensor
    "characters": [None, [None], ["a"]],
    "affixes": [None, [[]], ["^a"]],
    "tags": [None, [], {}, {"upos": []}, {"upos": "NOUN"}, {"upos": ["A", "A"]}, {"lemma": ["A"]}, {"upos": ["A"]}]
    + [{"upos": [bad]} for bad in ("A\tB", "A\nB", "\ud800", 1)]
    + [{"feats": ["|".join(f"A{number}=1" for number in range(1000))]}],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json(trained, tmp_path, name):
    trained.save(tmp_path)
    path = tmp_path / "tagger.json"
    content = json.loads(path.read_text("utf-8"))
    for value in HOSTILE[name]:
        path.write_text(json.dumps(content | {name: value}), "utf-8")
        with pytest.raises(DataError):
            load_tagger(tmp_path)
    del content[name]
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(DataError):
        load_tagger(tmp_path)


def test_many_symbols_take_no_memory_before_the_tensors_are_checked(trained, tmp_path):
    """Nor much time: 100,000 feature strings would be a table of 10¹⁰ numbers if it had a cell for each pair."""
    trained.save(tmp_path)
    path = tmp_path / "tagger.json"
    content = json.loads(path.read_text("utf-8"))
    content["tags"]["feats"] = [f"A{number}=1|B=1" for number in range(100_000)]
    content["sizes"]["lstm"] = 4096
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(DataError, match="shape"):
        load_tagger(tmp_path)


def test_tensors_of_another_kind(trained, tmp_path):
    trained.save(tmp_path)
    path = tmp_path / "tagger.safetensors"
    tensors = load_file(path)
    for changed in (
        {name: tensor for name, tensor in tensors.items() if name != "word.weight"},
        tensors | {"more": torch.zeros(1)},
        tensors | {"word.weight": torch.zeros(3, 64)},
    ):
        save_file(changed, path)
        with pytest.raises(DataError, match=r"tagger\.safetensors"):
            load_tagger(tmp_path)
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="damaged"):
        load_tagger(tmp_path)
