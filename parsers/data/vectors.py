"""Pretrained word vectors in text format: each line a word and its numbers. A first line of two counts is skipped."""

from collections.abc import Callable

import numpy as np

from parsers.io.errors import DataError
from parsers.io.files import unzipped


class Vectors:
    """Row 0 is zero and stands for words without a vector."""

    def __init__(self, words: list[str], table: np.ndarray):
        self.words, self.table = words, table
        self.row = {word: row for row, word in enumerate(words, 1)}

    def rows(self, forms: list[str], fold: Callable[[str], str]) -> list[int]:
        """The row of each word: as it is written, else in lower case, else in the normal form of the run, else 0."""
        get = self.row.get
        return [get(form) or get(form.lower()) or get(fold(form), 0) for form in forms]


def read_vectors(path: str) -> Vectors:
    """The vectors of a file (`.gz` too). Of a word that comes twice, the first counts; what is wrong is a DataError."""
    rows: dict[str, np.ndarray] = {}
    size = None
    with unzipped(path) as stream:
        for number, raw in enumerate(stream, 1):
            fields = raw.rstrip().split(b" ")
            if number == 1 and len(fields) == 2:
                continue
            try:
                word = fields[0].decode()
                row = np.array(fields[1:], dtype=np.float32)
            except (UnicodeDecodeError, ValueError):
                raise DataError(path, number, "expected a word and its numbers, with spaces between") from None
            size = size or len(row)
            if not size or len(row) != size:
                raise DataError(path, number, f"{len(row)} numbers where the lines before have {size}")
            if not np.isfinite(row).all():
                raise DataError(path, number, "a number of this vector is not finite in float32")
            rows.setdefault(word, row)
    if not rows:
        raise DataError(path, None, "there are no vectors in this file")
    return Vectors(list(rows), np.stack([np.zeros(size, dtype=np.float32), *rows.values()]))
