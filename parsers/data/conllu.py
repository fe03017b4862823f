"""CoNLL-U files: read in a stream, checked line by line, written back byte for byte.

Not read with the `conllu` library: it keeps neither line numbers nor all bytes (line ends, spaces in comments, empty
columns), and takes 5 to 6 times as long: 3.9 s against 0.65 s for the 12,543 training sentences of English-EWT, all
checks included (conllu 6.0.0, one core, shared with other work).
"""

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from parsers.io.errors import DataError
from parsers.io.files import reading, unzipped

ID, FORM, UPOS, XPOS, FEATS, HEAD, DEPREL, MISC = 0, 1, 3, 4, 5, 6, 7, 9
MAX_LINE = 2**20  # bytes; limits memory on input without line ends,
MAX_SENTENCE = 2**24  # and on input without blank lines
MAX_FEATURES = 100  # of a word; in a batch, all words get as much room as the one with most
BOM = "\ufeff"
_SMALL = {str(number): number for number in range(1000)}
_COMMENT = re.compile("# (.*?)(_[0-9]+)? = ")


@dataclass(slots=True)
class Sentence:
    """One sentence. ``forms[i]`` and the other lists belong to word i + 1; multiword tokens and empty nodes are only in
    ``lines``. A head is −1 where the file has `_`; a label is `_` where the file has that or nothing."""

    file: str
    line: int  # of the first word, for messages
    forms: list[str]
    upos: list[str]
    xpos: list[str]
    feats: list[str]
    heads: list[int]
    deprels: list[str]  # the labels of the arcs
    lines: list[str]  # as in the file, line ends included, with comments before and blank lines behind the words
    rows: list[int]  # lines[rows[i]] is word i + 1

    def __len__(self) -> int:
        return len(self.forms)

    def line_of(self, word: int) -> int:
        """The number of a word's line in the file; words count from 1."""
        return self.line + self.rows[word - 1] - self.rows[0]

    def column(self, number: int) -> list[str]:
        """What the file has in a column of the words."""
        return [self.lines[row].rstrip("\r\n").split("\t")[number] for row in self.rows]

    def text(
        self, columns: Mapping[int, Sequence[object]] | None = None, comments: Mapping[str, str] | None = None
    ) -> str:
        """The sentence as it stands in the file, byte for byte, except for what is given.

        Args:
            columns: new values of a column, one per word: ``{HEAD: [2, 0, 2]}``.
            comments: lines `# name = value`. They replace those of the same name, and names that end in a number, such
                as kbest_1, the whole series; new ones come before the first word.
        """
        lines = self.lines.copy()
        if columns:
            for row, *values in zip(self.rows, *columns.values(), strict=True):
                text = lines[row].rstrip("\r\n")
                cells = text.split("\t")
                for number, value in zip(columns, values, strict=True):
                    cells[number] = str(value)
                lines[row] = "\t".join(cells) + lines[row][len(text) :]
        return _with_comments(lines, comments) if comments else "".join(lines)


def _with_comments(lines: list[str], comments: Mapping[str, str]) -> str:
    start = lines[0].lstrip(BOM)
    mark = lines[0].removesuffix(start)  # stays first, whatever comes first now
    lines = [start, *lines[1:]]
    end = "\r\n" if any(line.endswith("\r\n") for line in lines) else "\n"
    new: dict[tuple[str, bool], list[str]] = {}  # by the name, and whether a number was taken off it
    for name, value in comments.items():
        line = f"# {name} = {value}{end}"
        new.setdefault(_series(line), []).append(line)
    first = next(i for i, line in enumerate(lines) if line.strip("\r\n") and line[0] != "#")
    head: list[str] = []
    for line in lines[:first]:
        series = _series(line)
        if series not in new:
            head.append(line)
        else:
            head += new[series]
            new[series] = []
    return mark + "".join([*head, *(line for rest in new.values() for line in rest), *lines[first:]])


def _series(line: str) -> tuple[str, bool] | None:
    """The name of a comment without its number, and whether it has one; None for other lines."""
    found = _COMMENT.match(line)
    return found and (found[1], found[2] is not None)


def read(path: str, keep_lines: bool = True) -> Iterator[Sentence]:
    """The sentences of a file (`.gz` too, `-` is standard input), one at a time.

    ``"".join(s.text() for s in read(path)).encode()`` is the file, unless ``keep_lines`` is False, which saves memory.
    Whatever is wrong with the file is a DataError with its line.
    """
    with opened(str(path)) as (stream, file):
        yield from parse(stream, file, keep_lines)


@contextlib.contextmanager
def opened(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """The binary stream of a file (`.gz` too, `-` is standard input), and its name in messages."""
    if path != "-":
        with unzipped(path) as stream:
            yield stream, path
    elif sys.stdin is None:
        raise DataError("<stdin>", None, "can't be read: it is closed")
    else:
        with reading("<stdin>"):
            yield sys.stdin.buffer, "<stdin>"


def decoded(raw: bytes, file: str, number: int) -> str:
    """A line as text."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        raise DataError(file, number, f"byte {byte:#04x} is not UTF-8: save the file in UTF-8") from None


def parse(stream: BinaryIO, file: str, keep_lines: bool = True) -> Iterator[Sentence]:
    """The sentences of an open binary stream; ``file`` is its name in messages."""
    done: Sentence | None = None  # yielded late: comments and blank lines at the end of the file belong to it
    sentence = _Builder(file)
    number = size = 0
    for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), 1):
        if len(raw) == MAX_LINE:
            raise DataError(file, number, f"a line of {MAX_LINE} bytes or more: this is not CoNLL-U")
        size += len(raw)
        if size > MAX_SENTENCE:
            raise DataError(file, number, f"{MAX_SENTENCE} bytes without the end of a sentence: this is not CoNLL-U")
        line = decoded(raw, file, number)
        text = line.rstrip("\r\n") if number > 1 else line.rstrip("\r\n").lstrip(BOM)
        if not text:
            if sentence.first:
                if done is not None:
                    yield done
                done, sentence, size = sentence.finish(keep_lines), _Builder(file), 0
                if keep_lines:
                    done.lines.append(line)
                continue
        elif text[0] != "#":
            sentence.add(number, text)
        if keep_lines:
            sentence.lines.append(line)
    if sentence.first:
        if done is not None:
            yield done
        done = sentence.finish(keep_lines)
    elif done is not None:
        done.lines += sentence.lines
    if done is None:
        raise DataError(file, number or None, "there are no sentences in this file")
    yield done


class _Builder:
    """A sentence while its lines come in."""

    def __init__(self, file: str):
        self.file = file
        self.forms: list[str] = []
        self.upos: list[str] = []
        self.xpos: list[str] = []
        self.feats: list[str] = []
        self.heads: list[int] = []
        self.deprels: list[str] = []
        self.numbers: list[int] = []  # of the words' lines in the file
        self.first = 0  # of the first line that is no comment
        self.lines: list[str] = []
        self.rows: list[int] = []
        self.token_end, self.token_line = 0, 0  # the last multiword token

    def add(self, number: int, text: str) -> None:
        """One line that is no comment and not blank."""
        self.first = self.first or number
        columns = text.split("\t")
        if len(columns) != 10:
            hint = f"this line has {len(columns)}" if "\t" in text else "this line has no tabs"
            raise DataError(self.file, number, f"CoNLL-U has 10 columns, separated by tabs, and {hint}")
        expected = len(self.forms) + 1
        if _SMALL.get(columns[ID]) != expected and columns[ID] != str(expected):
            self._add_other(number, columns[ID], expected)
            return
        if not columns[FORM]:
            raise DataError(self.file, number, f"word {expected} has no form: write _ for an empty column")
        head = _SMALL.get(columns[HEAD])
        if head is None:
            head = self._read_head(number, expected, columns[HEAD])
        if head == expected:
            raise DataError(self.file, number, f"word {expected} is its own head: 0 stands for the root")
        if columns[FEATS].count("|") >= MAX_FEATURES:
            raise DataError(self.file, number, f"word {expected} has more than {MAX_FEATURES} features")
        intern = sys.intern  # one string per tag, not one per word
        self.forms.append(columns[FORM])
        self.upos.append(intern(columns[UPOS]))
        self.xpos.append(intern(columns[XPOS]))
        self.feats.append(intern(columns[FEATS]))
        self.heads.append(head)
        self.deprels.append(intern(columns[DEPREL] or "_"))
        self.numbers.append(number)
        self.rows.append(len(self.lines))

    def _read_head(self, number: int, word: int, text: str) -> int:
        if text == "_":
            return -1
        if _is_number(text):
            return int(text)
        raise DataError(self.file, number, f"the head of word {word} is {_quote(text)}, and not a number or _")

    def _add_other(self, number: int, text: str, expected: int) -> None:
        """A multiword token 3-4, before word 3, or an empty node 3.1, behind word 3."""
        for mark in "-.":
            first, found, second = text.partition(mark)
            if found and _is_number(first) and _is_number(second):
                break
        else:
            what = f"id {_quote(text)} where word {expected} should be"
            hint = "a blank line must stand between sentences" if text == "1" else "number the words 1, 2, 3, …"
            raise DataError(self.file, number, f"{what}: {hint}")
        start, end = int(first), int(second)
        if mark == "." and start != expected - 1:
            raise DataError(self.file, number, f"empty node {text} stands behind word {expected - 1}")
        if mark == "-":
            if start != expected or end < start:
                raise DataError(self.file, number, f"multiword token {text} stands before word {expected}")
            if start <= self.token_end:
                raise DataError(self.file, number, f"multiword token {text} overlaps the one in line {self.token_line}")
            self.token_end, self.token_line = end, number

    def finish(self, keep_lines: bool) -> Sentence:
        n = len(self.forms)
        if n == 0:
            raise DataError(self.file, self.first, "a sentence without words, of multiword tokens or empty nodes alone")
        if self.token_end > n:
            raise DataError(self.file, self.token_line, f"the multiword token ends at {self.token_end}, after word {n}")
        for word, head in enumerate(self.heads, 1):
            if head > n:
                message = f"word {word} has head {head}, but the sentence has only {n} words"
                raise DataError(self.file, self.numbers[word - 1], message)
        looping = cycle(self.heads)
        if looping:
            shown = looping if len(looping) < 10 else [*looping[:8], "…"]
            path = " → ".join(map(str, [*shown, looping[0]]))
            raise DataError(
                self.file, self.numbers[looping[0] - 1], f"the heads go in a circle: {path}; one of them is wrong"
            )
        rows = self.rows if keep_lines else []
        columns = (self.forms, self.upos, self.xpos, self.feats, self.heads, self.deprels)
        return Sentence(self.file, self.numbers[0], *columns, self.lines, rows)


def cycle(heads: list[int]) -> list[int]:
    """The words of a cycle, each before its head; empty where every word leads to ROOT or to an unknown head."""
    seen = [0] * (len(heads) + 1)
    for start in range(1, len(heads) + 1):
        word = start
        while word > 0 and not seen[word]:
            seen[word] = start
            word = heads[word - 1]
        if word > 0 and seen[word] == start:
            first, words = word, [word]
            while (word := heads[word - 1]) != first:
                words.append(word)
            return words
    return []


def _is_number(text: str) -> bool:
    """Digits only: int() also takes signs, spaces, underscores, leading zeros, other scripts, thousands of digits."""
    return text.isascii() and text.isdigit() and len(text) < 10 and (text[0] != "0" or text == "0")


def _quote(text: str) -> str:
    """For a message: one line, printable, not too long."""
    return repr(text if len(text) <= 30 else text[:30] + "…")
