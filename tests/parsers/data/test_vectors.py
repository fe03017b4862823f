"""Pretrained vectors: from a file into a run, which needs that file no more."""

import gzip
import json

import numpy as np
import pytest
import torch

import evaluate
import train
from parsers import MODELS, load_parser
from parsers.data import synthetic
from parsers.data.batches import collate
from parsers.data.examples import Indexer
from parsers.data.vectors import Vectors, read_vectors
from parsers.data.vocabulary import Vocabulary
from parsers.io.errors import DataError, UserError
from parsers.runs.run import Run
from parsers.runs.tensors import pack
from tests.parsers.helpers import TINY, SmallCorpus, tiny_options
from tests.parsers.processes import mistake, write_treebank

SIZE = 5


def forms() -> list[str]:
    return sorted({form for sentence in synthetic.sentences("train", count=40) for form in sentence.forms})


def text(words: list[str]) -> str:
    rng = np.random.default_rng(0)
    return "".join(f"{word} {' '.join(f'{x:.3f}' for x in rng.normal(size=SIZE))}\n" for word in words)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(text(forms()).encode()))
    return path


def test_words_have_rows():
    vectors = Vectors(["the", "The", "dog"], np.zeros((4, 2), dtype=np.float32))
    assert vectors.rows(["The", "the", "THE", "Dog", "cat"], str.lower) == [2, 1, 1, 3, 0]


@pytest.mark.parametrize("first", ["", "2 3\n"])
def test_reading(tmp_path, first):
    """With and without a line of counts; of words that come twice, the first counts."""
    path = tmp_path / "vectors.txt"
    path.write_text(f"{first}the 1 2 3\ndog -1 0.5 2e-3\nthe 9 9 9\n")
    vectors = read_vectors(str(path))
    assert vectors.words == ["the", "dog"]
    assert vectors.table.tolist() == [[0, 0, 0], [1, 2, 3], [-1, 0.5, np.float32(2e-3)]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there are no vectors"),
        (b"a 1 2\nb 1\n", ":2: 1 numbers where the lines before have 2"),
        (b"a 1 x\n", ":1: expected a word and its numbers"),
        (b"a 1 nan\n", ":1: a number of this vector is not finite"),
        (b"\xff 1 2\n", ":1: expected a word and its numbers"),
        (b"word\n", ":1: 0 numbers"),
        (gzip.compress(b"a 1 2\n" * 9999)[:-20], "damaged or cut off"),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(str(path))
    path.unlink()
    with pytest.raises(DataError, match="can't be read: No such file"):
        read_vectors(str(path))


def test_unknown_words_are_told_apart_by_their_vectors(file):
    """A dropped word is unknown too, and keeps its vector half of the time."""
    options = tiny_options("ntp", "--word-dropout=1")
    sentence = synthetic.sentences("train", count=1)[0]
    vectors = read_vectors(str(file))
    vocab = Vocabulary.build(SmallCorpus(1).labeled, ())
    model = load_parser("ntp")(options, vocab, vectors)
    (unknown,) = vocab.words.numbers(["never seen"])
    sentence.forms[:2] = [word for word in forms() if vocab.words.numbers([word]) == [unknown]][:2]
    batch = collate([Indexer(vocab, vectors)(sentence, sentence.heads)])
    embedded = model.encoder.embed(batch)[0]
    word = slice(options.tag_size, -SIZE)
    assert torch.equal(embedded[1, word], embedded[2, word])
    assert torch.equal(embedded[1, -SIZE:], torch.from_numpy(vectors.table[vectors.rows(sentence.forms, str.lower)[0]]))
    kept = []
    for number in range(200):
        batch.draw(f"noise {number}")
        kept.append(model.encoder.embed(batch)[0, 3:, -SIZE:].any(-1))
    share = torch.stack(kept).float().mean()
    assert 0.5 < share < 1


@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if model.uses_words])
def test_a_run_keeps_them(model, file, tmp_path, capfd):
    bank, run = tmp_path / "bank", tmp_path / "run"
    write_treebank(bank, 40)
    arguments = [f"--model={model}", f"--treebank={bank}", f"--embeddings={file}", f"--output={run}", *TINY]
    assert train.main([*arguments, "--labeled=0.5", "--epochs=2", "--threads=1", "--no-tagger"]) == 0
    file.unlink()
    assert train.main(["--resume", str(run)]) == 0
    final = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    scores = tmp_path / "scores.json"
    assert evaluate.main([str(run), f"--treebank={bank}", "--split=test", f"--json={scores}"]) == 0
    assert json.loads(scores.read_text())["uas"] == final["test_uas"]
    again = Run.open(str(run))
    loaded, _, vectors = again.load_model(again.config()[0], torch.device("cpu"))
    assert vectors.words == forms() and vectors.table.shape == (len(forms()) + 1, SIZE)
    assert not any("vectors" in name for name in loaded.state_dict())  # once is enough
    capfd.readouterr()


def test_vectors_that_do_not_belong_to_the_words(file, tmp_path, capfd):
    bank, run = tmp_path / "bank", tmp_path / "run"
    write_treebank(bank, 10)
    arguments = [f"--treebank={bank}", f"--embeddings={file}", f"--output={run}", *TINY, "--epochs=1", "--no-tagger"]
    train.main(["--model=ntp", *arguments])
    for name, content, message in [
        ("vectors.safetensors", pack({"vectors": torch.zeros(3, SIZE)}), "the vectors do not belong to the words"),
        ("vectors.safetensors", pack({"vectors": torch.zeros(3)}), "the vectors do not belong to the words"),
        ("vectors.json", b'{"words": [1]}', "expected a list of words"),
    ]:
        saved = (run / name).read_bytes()
        (run / name).write_bytes(content)
        capfd.readouterr()
        assert message in mistake(capfd, evaluate.main, run, f"--treebank={bank}")
        (run / name).write_bytes(saved)


def test_more_words_than_a_run_can_hold(file, tmp_path, monkeypatch):
    monkeypatch.setattr("parsers.runs.run.MAX_JSON", 100)
    with pytest.raises(UserError, match="has too many words: keep the most frequent ones"):
        train.main(["--model=ntp", f"--embeddings={file}", f"--output={tmp_path / 'run'}", *TINY])
    assert not (tmp_path / "run").exists()
