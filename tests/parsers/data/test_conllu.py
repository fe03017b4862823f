"""The reader: every byte comes back, and every fault has its line."""

import gzip
import io

import conllu as library
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.data import conllu
from parsers.data.conllu import DEPREL, HEAD, MISC, cycle, parse, read
from parsers.io.errors import DataError

SAMPLE = """# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\tNumber=Plur|Mood=Imp\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t1:obj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|X=ä
3\ta\ta\tADP\t_\t_\t5\tcase\t5:case\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t5:det\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t1:obl\t_
5.1\tidos\tir\tVERB\t_\t_\t_\t_\t1:conj\t_

# only a comment

# sent_id = 2
1\t海\t_\tNOUN\t_\t_\t_\t_\t_\t_


"""


def lines(*heads, ids=None):
    ids = ids or range(1, len(heads) + 1)
    return "".join(f"{i}\tw\t_\tX\t_\t_\t{h}\t_\t_\t_\n" for i, h in zip(ids, heads, strict=True)) + "\n"


def parsed(content, **options):
    content = content if isinstance(content, bytes) else content.encode()
    return list(parse(io.BytesIO(content), "f", **options))


def fault(content):
    with pytest.raises(DataError) as caught:
        parsed(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_words_are_what_the_file_says():
    first, second = parsed(SAMPLE)
    assert first.forms == ["Vamos", "nos", "a", "el", "mar"] and first.heads == [0, 1, 5, 5, 1]
    assert (first.upos[4], first.xpos[4]) == ("NOUN", "N")
    assert first.feats[0] == "Number=Plur|Mood=Imp"
    assert first.deprels == ["root", "obj", "case", "det", "obl"] == first.column(DEPREL)
    assert second.forms == ["海"] and second.heads == [-1] and second.deprels == ["_"]
    assert (first.line, second.line) == (4, 15)


@pytest.mark.parametrize("change", [
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.rstrip("\n"),
    lambda text: "\n\n" + text,
    lambda text: "\ufeff" + text,
    lambda text: text + "# the end\n",
    lambda text: text + "# the end, and no newline",
    lambda text: text.replace("# only a comment\n\n", "\n"),
])  # fmt: skip
def test_every_byte_comes_back(change):
    content = change(SAMPLE).encode()
    sentences = parsed(content)
    assert "".join(s.text() for s in sentences).encode() == content
    assert [s.forms for s in sentences] == [s.forms for s in parsed(SAMPLE)]


def test_new_heads_change_nothing_else():
    first, _ = parsed(SAMPLE.replace("\n", "\r\n"))
    text = first.text({HEAD: [5, 1, 2, 3, 0]})
    assert parsed(text)[0].heads == [5, 1, 2, 3, 0]
    assert parsed(text)[0].text({HEAD: first.heads}) == first.text()
    with pytest.raises(ValueError, match="shorter"):
        first.text({HEAD: [0]})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_columns_and_comments(end, mark):
    """Comments replace those of the same name where they stand, a numbered one its series; new ones come last."""
    first, second = parsed((mark + "# k_9 = old\n# k_of = 1\n# k_3 = old\n# k: 1\n" + SAMPLE).replace("\n", end))
    comments = {"sent_id": "2", "new": "x = y", "k_1": "a", "k_2": "b"}
    misc = [f"W={i}" for i in range(1, 6)]
    text = first.text({HEAD: [0] * 5, MISC: misc}, comments)
    head = ["# k_1 = a", "# k_2 = b", "# k_of = 1", "# k: 1", "# sent_id = 2", "# text = Vámonos al mar"]
    written, original = text.split(end), first.text().split(end)
    assert written[:8] == [mark + head[0], *head[1:], "# new = x = y", original[6]]
    changed = parsed(text)[0]
    assert changed.heads == [0] * 5 and changed.column(MISC) == misc
    assert changed.text({HEAD: first.heads, MISC: first.column(MISC)}).split(end)[7:] == original[6:]
    assert second.text(None, {"a": "b"}).split(end)[2:5] == ["# sent_id = 2", "# a = b", second.text().split(end)[3]]
    assert [first.line_of(word) for word in range(1, 6)] == [8, 9, 11, 12, 13]


def test_files(tmp_path):
    plain, zipped = tmp_path / "a.conllu", tmp_path / "b.conllu"
    plain.write_bytes(SAMPLE.encode())
    zipped.write_bytes(gzip.compress(SAMPLE.encode()))
    assert [s.text() for s in read(plain)] == [s.text() for s in read(zipped)]
    assert next(read(plain)).file == str(plain)
    zipped.write_bytes(zipped.read_bytes()[:-20])
    with pytest.raises(DataError, match="damaged or cut off"):
        list(read(zipped))
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DataError, match=f"{path}: can't be read"):
            list(read(path))


def test_lines_can_be_left_out():
    for with_lines, without in zip(parsed(SAMPLE), parsed(SAMPLE, keep_lines=False), strict=True):
        assert without.lines == [] == without.rows and without.heads == with_lines.heads
        assert without.line == with_lines.line


class Endless(io.RawIOBase):
    """The same text again and again, and how many bytes of it have been read."""

    def __init__(self, text):
        self.text, self.given = text, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        count = len(buffer) // len(self.text) * len(self.text)
        buffer[:count] = self.text * (count // len(self.text))
        self.given += count
        return count


def test_it_streams():
    """The first sentence is there before the file has been read."""
    stream = parse(io.BufferedReader(Endless(lines(0, 1).encode()), len(lines(0, 1))), "f")
    assert [next(stream).heads for _ in range(3)] == [[0, 1]] * 3


FAULTS = {
    "f:1: CoNLL-U has 10 columns, separated by tabs, and this line has 9": "1\tw\t_\tX\t_\t_\t0\t_\t_\n\n",
    "f:1: CoNLL-U has 10 columns, separated by tabs, and this line has no tabs": "1 w _ X _ _ 0 _ _ _\n",
    "f:2: id '3' where word 2 should be: number the words 1, 2, 3, …": lines(0, 1, ids=[1, 3]),
    "f:2: id '1' where word 2 should be: a blank line must stand between sentences": lines(0, 0, ids=[1, 1]),
    "f:1: id 'x' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=["x"]),
    "f:1: id '１' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=["１"]),
    "f:2: empty node 3.1 stands behind word 1": lines(0, 0, 1, ids=[1, "3.1", 2]),
    "f:2: multiword token 1-2 stands before word 2": lines(0, 0, 1, ids=[1, "1-2", 2]),
    "f:2: multiword token 1-3 overlaps the one in line 1": lines(0, 0, 0, 1, ids=["1-2", "1-3", 1, 2]),
    "f:1: the multiword token ends at 4, after word 2": lines(0, 0, 1, ids=["1-4", 1, 2]),
    "f:2: word 2 has head 3, but the sentence has only 2 words": lines(0, 3),
    "f:2: word 2 is its own head: 0 stands for the root": lines(0, 2),
    "f:1: the head of word 1 is '-1', and not a number or _": lines(-1),
    "f:1: the head of word 1 is 'x', and not a number or _": lines("x"),
    "f:1: the head of word 1 is '1_0', and not a number or _": lines("1_0"),
    "f:2: the heads go in a circle: 2 → 3 → 2; one of them is wrong": lines(0, 3, 2),
    "f:1: the heads go in a circle: 1 → 3 → 2 → 1; one of them is wrong": lines(3, 1, 2),
    "f:4: word 1 is its own head: 0 stands for the root": lines(0, 1) + lines(1),
    "f:1: word 1 has no form: write _ for an empty column": "1\t\t_\tX\t_\t_\t0\t_\t_\t_\n",
    "f:2: byte 0xe9 is not UTF-8: save the file in UTF-8": b"# a\n# caf\xe9\n" + lines(0).encode(),
    "f:1: a sentence without words, of multiword tokens or empty nodes alone": lines(0, ids=["1-2"]) + lines(0, 1),
    "f:1: CoNLL-U has 10 columns, separated by tabs, and this line has 11": "1\tw\t_\tX\t_\t_\t0\t_\t_\t_\t\n\n",
    "f:1: id '0' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=[0]),
    "f:1: id '' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=[""]),
    "f:1: id '01' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=["01"]),
    "f:1: id '1-' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=["1-"]),
    "f:1: id '1-02' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=["1-02"]),
    "f:1: id '-1' where word 1 should be: number the words 1, 2, 3, …": lines(0, ids=["-1"]),
    "f:1: empty node 1.1 stands behind word 0": lines("_", 0, ids=["1.1", 1]),
    "f:1: multiword token 2-1 stands before word 1": lines("_", 0, ids=["2-1", 1]),
    "f:1: the head of word 1 is '', and not a number or _": lines(""),
    "f:1: the head of word 1 is '00', and not a number or _": lines("00"),
    "f:1: the head of word 1 is ' 0', and not a number or _": lines(" 0"),
    "f:1: the head of word 1 is '²', and not a number or _": lines("²"),
    "f:1: the head of word 1 is '1.1', and not a number or _": lines("1.1"),
    "f:1: word 1 has head 999999999, but the sentence has only 1 words": lines(999_999_999),
    "f:1: the head of word 1 is '4294967296', and not a number or _": lines(2**32),
    "f:3: CoNLL-U has 10 columns, separated by tabs, and this line has no tabs": lines(0) + " \n",
    "f:1: word 1 has more than 100 features": lines(0).replace("X\t_\t_", "X\t_\t" + "a=b|" * 100),
    "f:1: byte 0xff is not UTF-8: save the file in UTF-8": lines(0).encode("utf-16"),
    "f:1: byte 0xed is not UTF-8: save the file in UTF-8": b"# \xed\xa0\x80\n" + lines(0).encode(),
    "f: there are no sentences in this file": "",
    "f:3: there are no sentences in this file": "\n\n# nothing\n",
}  # fmt: skip


@pytest.mark.parametrize("message", FAULTS)
def test_faults(message):
    assert fault(FAULTS[message]) == message


def test_long_numbers_and_names_are_cut():
    assert len(fault(lines("9" * 10_000))) < 200
    assert len(fault(lines(0, ids=["9" * 10_000 + "-1"]))) < 200
    assert len(fault(lines(*range(2, 1001), 1))) < 200
    assert fault("x" * 2**21) == "f:1: a line of 1048576 bytes or more: this is not CoNLL-U"


@pytest.mark.parametrize("line", [b"# comment\n", b"\n", lines("_", ids=["0.1"]).encode()[:-1]])
def test_what_never_ends_is_not_held(line, monkeypatch):
    monkeypatch.setattr(conllu, "MAX_SENTENCE", 2**17)
    stream = Endless(line)
    with pytest.raises(DataError, match="131072 bytes without the end of a sentence"):
        list(parse(io.BufferedReader(stream, 2**16), "f"))
    assert stream.given < 2**18


def test_labels():
    """As they stand, whatever they are; an empty one is none; one string for all words that have it."""
    text = "".join(lines(0, 1, 1)).replace("1\t_\t_\t_", "1\tnsubj:pass\t_\t_").replace("0\t_", "0\t")
    (sentence,) = parsed(text)
    assert sentence.deprels == ["_", "nsubj:pass", "nsubj:pass"] and sentence.deprels[1] is sentence.deprels[2]
    assert sentence.text() == text


def test_several_roots_and_no_heads_are_fine():
    assert parsed(lines(0, 0) + lines("_", "_"))[1].heads == [-1, -1]


@given(st.binary(max_size=200) | st.text(alphabet="01289-._\t\n\r#x", max_size=200).map(str.encode))
def test_whatever_comes_is_read_back_or_refused(content):
    try:
        sentences = parsed(content)
    except DataError:
        return
    assert "".join(s.text() for s in sentences).encode() == content


def plainly(content):
    """The heads of each sentence, read as simply as can be, with no checks at all."""
    trees = []
    for block in content.decode().lstrip("\ufeff").replace("\r", "").split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line and not line.startswith("#")]
        words = [row for row in rows if "-" not in row[0] and "." not in row[0]]
        if words:
            assert [row[0] for row in words] == [str(i) for i in range(1, len(words) + 1)]
            trees.append([-1 if row[6] == "_" else int(row[6]) for row in words])
    return trees


def leads_to_root(heads):
    for word in range(1, len(heads) + 1):
        for _ in heads:
            word = heads[word - 1] if word > 0 else word
        if word > 0:
            return False
    return True


@st.composite
def damaged(draw):
    """A valid file with a few bytes, lines or columns changed, lost, doubled or exchanged."""
    content = SAMPLE.encode() + lines(2, 0, 2, 3).encode() + lines("_", 1).encode()
    for _ in range(draw(st.integers(1, 3))):
        separator = draw(st.sampled_from([b"", b"\n", b"\t"]))
        parts = content.split(separator) if separator else [content[i : i + 1] for i in range(len(content))]
        place, other = (draw(st.integers(0, len(parts) - 1)) for _ in range(2))
        change = draw(st.sampled_from(["lose", "double", "exchange", "cut", "replace"]))
        if change == "lose":
            del parts[place]
        elif change == "double":
            parts.insert(place, parts[place])
        elif change == "exchange":
            parts[place], parts[other] = parts[other], parts[place]
        elif change == "cut":
            parts = parts[:place]
        else:
            values = [
                b"0",
                b"1",
                b"2",
                b"9",
                b"_",
                b"",
                b"1-2",
                b"1.1",
                b"-1",
                b"\r",
                b"\xff",
                "１".encode(),
                b"#",
                b" ",
            ]
            parts[place] = draw(st.sampled_from(values) | st.binary(max_size=3))
        content = separator.join(parts)
        if not content:
            break
    return content


@settings(max_examples=500)
@given(damaged())
def test_damaged_files_are_refused_or_read_as_they_stand(content):
    """Never another exception, and never a tree that is not in the file."""
    try:
        sentences = parsed(content)
    except DataError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
        return
    assert "".join(s.text() for s in sentences).encode() == content
    assert [s.heads for s in sentences] == plainly(content)
    for sentence in sentences:
        assert max(sentence.heads) <= len(sentence) and leads_to_root(sentence.heads)
        written = sentence.text({HEAD: sentence.heads}).split("\n")
        for row, head in zip(sentence.rows, sentence.heads, strict=True):
            columns = written[row].split("\t")
            assert columns[6] == str(head)
            written[row] = "\t".join([*columns[:6], "_" if head < 0 else columns[6], *columns[7:]])
        assert "\n".join(written) == sentence.text()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_cycles(heads):
    heads = [min(head, len(heads)) for head in heads]
    found = cycle(heads)
    steps = [w for w in range(1, len(heads) + 1)]
    for _ in heads:
        steps = [heads[w - 1] if w else 0 for w in steps]
    assert bool(found) == any(steps)
    for word, head in zip(found, found[1:] + found[:1], strict=True):
        assert heads[word - 1] == head


def row(text):
    """Columns that are separated by a bar and a space here; empty ones at the end are left out."""
    columns = text.split("| ")
    return "\t".join([*columns, *["_"] * (10 - len(columns))]) + "\n"


NODE = row("1.1| e| _| X| _| _| _| _| 1:dep")
# What a CoNLL-U file can have.
CONSTRUCTS = {
    "sample": SAMPLE.replace("# only a comment\n\n", ""),
    "comments": "# newdoc id = d\n# newpar\n# sent_id = x-1\n# text = a = b\n# text_en = ä\n# no value\n" + lines(0),
    "empty node first": row("0.1| nada| _| PRON| _| _| _| _| 1:obj") + lines(0),
    "several empty nodes": lines(0).rstrip("\n") + "\n" + NODE + NODE.replace("1.1", "1.2") + row("2| b| _| X") + "\n",
    "token around a node": row("1-2| ab") + row("1| a| _| X| _| _| 0| root") + NODE + row("2| b| _| X| _| _| 1") + "\n",
    "columns": row("1| Words| word| NOUN| NNS| Case=Nom|Number=Plur| 0| root| 0:root|2:x| Gloss=x|SpaceAfter=No")
    + row("2| 10 000| 10 000| NUM| CD| _| 1| nummod:x| 1:nummod")
    + "\n",
    "underscores": row("1| _") + "\n",
    "features without a value": row("1| a| _| X| _| Foo| 0| root| _| Bar|Baz=") + "\n",
    "two sentences": lines(0, 1) + lines(2, 0, 2),
    "end without a blank line": lines(0, 1).rstrip("\n") + "\n",
    "other line ends": lines(0, 1).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("content", CONSTRUCTS.values(), ids=CONSTRUCTS)
def test_the_library_of_the_field_reads_the_same(content):
    """Words, tags, features, heads, labels, ids and comments, as the library `conllu` has them."""
    theirs, ours = library.parse(content.replace("\r\n", "\n")), parsed(content)
    assert len(ours) == len(theirs) > 0
    for sentence, tokens in zip(ours, theirs, strict=True):
        words = [token for token in tokens if isinstance(token["id"], int)]
        text = [library.serializer.serialize_field(token["feats"]) for token in words]
        assert sentence.forms == [token["form"] for token in words]
        assert sentence.upos == [token["upos"] for token in words]
        assert sentence.xpos == [token["xpos"] or "_" for token in words] and sentence.feats == text
        assert sentence.heads == [-1 if token["head"] is None else token["head"] for token in words]
        assert sentence.deprels == [token["deprel"] for token in words]
        cells = [line.rstrip("\r\n").split("\t") for line in sentence.lines if line.strip() and line[0] != "#"]
        assert [row[0] for row in cells] == [library.serializer.serialize_field(token["id"]) for token in tokens]
        assert [row[1] for row in cells] == [token["form"] for token in tokens]
        comments = [line[1:].strip() for line in sentence.lines if line[0] == "#"]
        comments = [text for text in comments if " = " in text or text == "newpar"]  # the library drops the others
        pairs = tokens.metadata.items()
        assert comments == [f"{name} = {value}" if value is not None else name for name, value in pairs]
    assert "".join(sentence.text() for sentence in ours) == content
