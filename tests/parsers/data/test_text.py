"""Plain text: one sentence per line. What can't be read is one line that names the place."""

import gzip
import io
import json
import sys

import pytest
from udtools.udeval import load_conllu

from parsers.data.conllu import HEAD, MAX_LINE, read
from parsers.data.sources import MAX_WORDS, Sources
from parsers.data.text import read_text
from parsers.io.errors import DataError
from tests.parsers.evaluation.calls import main, mistake
from tests.parsers.helpers import TINY

TEXT = "\ufeffThe dog  barks .\n\n \t \nİyi\r\n a\u00a0b\u3000c \x0bd\n# text = x\nlast"


def test_lines_are_sentences(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    found = list(read_text(path))
    words = [["The", "dog", "barks", "."], ["İyi"], ["a", "b", "c", "d"], ["#", "text", "=", "x"], ["last"]]
    assert [sentence.forms for sentence in found] == words
    assert [sentence.line for sentence in found] == [1, 4, 5, 6, 7]
    assert all(set(sentence.heads) == {-1} and set(sentence.upos) == {"_"} for sentence in found)
    again = tmp_path / "a.conllu"
    again.write_text("".join(sentence.text() for sentence in found), encoding="utf-8", newline="")
    assert [sentence.forms for sentence in read(again)] == words
    zipped = tmp_path / "a.txt.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert [sentence.forms for sentence in read_text(zipped, keep_lines=False)] == words


@pytest.mark.parametrize("content, message", [
    (b"", ": there are no words in this file"),
    (b"\n \n", ":2: there are no words in this file"),
    (b"good\nb\xe4d\n", ":2: byte 0xe4 is not UTF-8: save the file in UTF-8"),
    ("good".encode("utf-16"), ":1: byte 0xff is not UTF-8"),
    ("good\n".encode("utf-16-le"), ":1: a NUL character: this is not text in UTF-8"),
    (b"good\n" + b"a " * MAX_LINE, f":2: a line of {MAX_LINE} bytes or more: write one sentence per line"),
    (b"# sent_id = 1\n1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n", ":2: this line has 10 columns: the file is CoNLL-U and not"),
    (b"good\n" + b"a " * (MAX_WORDS + 1), f":2: a sentence of {MAX_WORDS + 1} words; at most {MAX_WORDS}"),
    (b"\x1f\x8b\x08 cut off", ": this gzip file is damaged"),
])  # fmt: skip
def test_what_is_no_text(place, tmp_path, capfd, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    error = mistake(capfd, place / "first", "--text", path, "--output", tmp_path / "out")
    assert f"{path}{message}" in error and not (tmp_path / "out").exists()
    with pytest.raises(DataError) as caught:
        list(Sources("x", train="x", unlabeled=str(path)).sentences("unlabeled"))
    assert f"{path}{message}" in str(caught.value)


def test_text_becomes_conllu(place, tmp_path, capsys):
    """Complete, with a root alone and a long line, and loaded by the official evaluation."""
    path, parsed, figures = tmp_path / "a.txt", tmp_path / "a.conllu", tmp_path / "a.json"
    path.write_text(TEXT + "\n\n" + "long " * 400 + "\nweird \x1b\x7f \u200b \u0301 _ # 1\n", encoding="utf-8")
    main(place / "first", "--text", path, "--output", parsed, "--json", figures, "--html", tmp_path / "h", "--draw=2")
    shown = capsys.readouterr().out
    assert "a.txt:1" in shown and "no heads in the file: not scored" in shown
    loaded = load_conllu(io.StringIO(parsed.read_text(encoding="utf-8")), "parsed", {})
    assert len(loaded.words) == 4 + 1 + 4 + 4 + 1 + 400 + 7 and len(loaded.sentences) == 7
    sentences = list(read(parsed))
    assert sentences[1].heads == [0] and sentences[1].deprels == ["root"]
    assert all(-1 not in s.heads and s.heads.count(0) == 1 and "_" not in s.deprels for s in sentences)
    assert sentences[0].lines[:2] == ["# sent_id = 1\n", "# text = The dog barks .\n"]
    assert json.loads(figures.read_text())["parsed_sentences"] == 7


def test_text_from_a_pipe(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a dog\nbarks\n")))
    main(place / "first", "--text", "-", "--output", tmp_path / "out")
    assert [len(sentence.column(HEAD)) for sentence in read(tmp_path / "out")] == [2, 1]


@pytest.mark.parametrize("arguments, message", [
    (["--text=a.txt", "more"], "expected RUN besides --text, and found"),
    (["--text=a.txt", "--treebank=x"], "--text and --treebank: only one of them"),
    (["--text=a.txt", "--constrain", "--output=x"], "--constrain needs heads in the file, and --text has none"),
    (["--text=a.txt", "--calibration=x.png"], "--calibration needs heads in the file, and --text has none"),
    (["--text="], "the name is empty"),
    (["--text=missing.txt"], "missing.txt: can't be read: No such file or directory"),
    (["--text=a.txt", "--kbest=2"], "a.txt has no heads to compare with: --kbest needs them"),
])  # fmt: skip
def test_wrong_options(place, tmp_path, monkeypatch, capfd, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a b\n")
    assert message in mistake(capfd, place / "first", *arguments)


def test_training_reads_text(tmp_path):
    """As sentences without trees: the same run as with the same words in CoNLL-U."""
    import train
    from parsers.data import synthetic

    trees, raw = synthetic.sentences("train", count=20), synthetic.sentences("unlabeled", count=30)
    (tmp_path / "t.conllu").write_text("".join(synthetic.conllu("train", count=20)), encoding="utf-8")
    text = "".join(" ".join(sentence.forms) + "\n" for sentence in raw)
    (tmp_path / "raw.txt").write_text(text, encoding="utf-8")
    (tmp_path / "raw.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "raw.conllu").write_text("".join(s.text() for s in read_text(tmp_path / "raw.txt")), encoding="utf-8")
    models = []
    for name in ("raw.txt", "raw.txt.gz", "raw.conllu"):
        run = tmp_path / f"run-{name}"
        arguments = ["--model=gap", f"--train={tmp_path / 't.conllu'}", f"--unlabeled={tmp_path / name}"]
        assert train.main([*arguments, f"--output={run}", *TINY, "--epochs=1", "--threads=1"]) == 0
        models.append((run / "model.safetensors").read_bytes())
    assert models[0] == models[1] == models[2] and len(trees) == 20
