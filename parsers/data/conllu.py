"""CoNLL-U files: read in a stream, checked line by line, written back byte for byte.

A reader of our own, because the `conllu` library keeps neither line numbers nor the bytes (line ends, the order of
FEATS, empty columns), and takes 5 to 6 times as long: 3.9 s against 0.65 s for the 12,543 training sentences of
English-EWT, all checks included (conllu 6.0.0, one core, shared with other work).
"""

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import BinaryIO

from parsers.io.errors import DataError, why

ID, FORM, UPOS, XPOS, FEATS, HEAD = 0, 1, 3, 4, 5, 6
MAX_LINE = 2**20  # bytes; what has no line ends must not fill the memory,
MAX_SENTENCE = 2**24  # nor what has no blank lines
MAX_FEATURES = 100  # of a word; all words of a batch get as much room as the one with most
_SMALL = {str(number): number for number in range(1000)}


@dataclass(slots=True)
class Sentence:
    """One sentence. ``forms[i]`` and the other lists belong to word i + 1; multiword tokens and empty nodes are only in
    ``lines``. A head is −1 where the file has `_`."""

    file: str
    line: int  # of the first word, for messages
    forms: list[str]
    upos: list[str]
    xpos: list[str]
    feats: list[str]
    heads: list[int]
    lines: list[str]  # as in the file, line ends included; comments before and blank lines behind belong to it
    rows: list[int]  # lines[rows[i]] is word i + 1

    def __len__(self) -> int:
        return len(self.forms)

    def text(self, heads: list[int] | None = None) -> str:
        """The sentence as it stands in the file, with other heads if they are given."""
        if heads is None:
            return "".join(self.lines)
        lines = self.lines.copy()
        for row, head in zip(self.rows, heads, strict=True):
            columns = lines[row].split("\t")
            columns[HEAD] = str(head)
            lines[row] = "\t".join(columns)
        return "".join(lines)


def read(path: str, keep_lines: bool = True) -> Iterator[Sentence]:
    """The sentences of a file (`.gz` too, `-` is standard input), one at a time.

    ``"".join(s.text() for s in read(path)).encode()`` is the file, unless ``keep_lines`` is False, which saves memory.
    Whatever is wrong with the file is a DataError with its line.
    """
    path = str(path)
    if path == "-":
        if sys.stdin is None:
            raise DataError("<stdin>", None, "can't be read: it is closed")
        yield from parse(sys.stdin.buffer, "<stdin>", keep_lines)
        return
    try:
        with open(path, "rb") as file, unzipped(file) as stream:
            yield from parse(stream, path, keep_lines)
    except OSError as error:  # a damaged gzip file is one too
        raise _unreadable(path, error) from None
    except (EOFError, zlib.error):
        raise DataError(path, None, "this gzip file is damaged or cut off: make it again") from None


def check_file(path: str) -> None:
    """A DataError if a file is not there or can't be opened. A pipe is not touched: it can be opened only once."""
    try:
        if path != "-" and stat.S_IFMT(os.stat(path).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
            open(path, "rb").close()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> DataError:
    return DataError(path, None, f"can't be read: {why(error)}")


def unzipped(file: BufferedReader) -> BinaryIO:
    """The file itself, or what is in it if it is a gzip file, whatever its name."""
    return gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file


def parse(stream: BinaryIO, file: str, keep_lines: bool = True) -> Iterator[Sentence]:
    """The sentences of an open binary stream; ``file`` is its name in messages."""
    done: Sentence | None = None  # held back: what comes without words at the end of the file belongs to it
    sentence = _Builder(file)
    number = size = 0
    for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), 1):
        if len(raw) == MAX_LINE:
            raise DataError(file, number, f"a line of {MAX_LINE} bytes or more: this is not CoNLL-U")
        size += len(raw)
        if size > MAX_SENTENCE:
            raise DataError(file, number, f"{MAX_SENTENCE} bytes without the end of a sentence: this is not CoNLL-U")
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise DataError(file, number, f"byte {byte:#04x} is not UTF-8: save the file in UTF-8") from None
        text = line.rstrip("\r\n") if number > 1 else line.rstrip("\r\n").lstrip("\ufeff")
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
        intern = sys.intern  # a treebank has few tags, and many words with each
        self.forms.append(columns[FORM])
        self.upos.append(intern(columns[UPOS]))
        self.xpos.append(intern(columns[XPOS]))
        self.feats.append(intern(columns[FEATS]))
        self.heads.append(head)
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
        columns = (self.forms, self.upos, self.xpos, self.feats, self.heads)
        return Sentence(self.file, self.numbers[0], *columns, self.lines, rows)


def cycle(heads: list[int]) -> list[int]:
    """The words of a circle, each before its head; empty where every word leads to ROOT or to an unknown head."""
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
    """int() takes more than this: signs, spaces, underscores, zeros in front, other scripts, thousands of digits."""
    return text.isascii() and text.isdigit() and len(text) < 10 and (text[0] != "0" or text == "0")


def _quote(text: str) -> str:
    """For a message: one line, printable, not too long."""
    return repr(text if len(text) <= 30 else text[:30] + "…")
