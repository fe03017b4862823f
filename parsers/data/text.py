"""Plain text: one sentence per line, its tokens between white space. Lines without tokens are no sentences."""

from collections.abc import Iterator, Sequence

from parsers.data.conllu import BOM, MAX_LINE, Sentence, decoded, opened
from parsers.io.errors import DataError

SUFFIXES = (".txt", ".txt.gz")  # of files that are read as text


def read_text(path: str, keep_lines: bool = True) -> Iterator[Sentence]:
    """The sentences of a file (gzip too, `-` is standard input), one at a time, as if it were CoNLL-U without tags and
    trees. Whatever is wrong with the file is a DataError with its line."""
    number, count = 0, 0
    with opened(str(path)) as (stream, file):
        for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), 1):
            if len(raw) == MAX_LINE:
                raise DataError(file, number, f"a line of {MAX_LINE} bytes or more: write one sentence per line")
            line = decoded(raw, file, number)
            if number == 1:
                line = line.lstrip(BOM)
            if "\0" in line:
                raise DataError(file, number, "a NUL character: this is not text in UTF-8")
            first, *others = line.split("\t")
            if len(others) == 9 and first.isdigit():
                raise DataError(file, number, "this line has 10 columns: the file is CoNLL-U and not plain text")
            if forms := line.split():
                count += 1
                yield sentence_of(forms, file=file, line=number, number=count, keep_lines=keep_lines)
    if not count:
        raise DataError(file, number or None, "there are no words in this file")


def sentence_of(
    forms: Sequence[str],
    upos: Sequence[str] | None = None,
    *,
    file: str = "",
    line: int = 1,
    number: int = 1,
    keep_lines: bool = True,
) -> Sentence:
    """A sentence of these words, with tags or without. ``line`` is where it stands in the file, and ``number`` is for
    its `sent_id`."""
    blank, xpos, feats, deprels = (["_"] * len(forms) for _ in range(4))
    tags = list(upos) if upos else blank
    lines: list[str] = []
    if keep_lines:
        lines += [f"# sent_id = {number}\n", f"# text = {' '.join(forms)}\n"]
        rows = enumerate(zip(forms, tags, strict=True), 1)
        lines += [f"{word}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n" for word, (form, tag) in rows]
        lines.append("\n")
    rows = list(range(2, 2 + len(forms))) if keep_lines else []
    return Sentence(file, line, list(forms), tags, xpos, feats, [-1] * len(forms), deprels, lines, rows)
