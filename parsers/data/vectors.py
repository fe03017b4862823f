"""Pretrained word vectors in text format: each line a word and its numbers. A first line of two counts is skipped."""

import zlib

import numpy as np

from parsers.data.conllu import unzipped
from parsers.io.errors import DataError, why


class Vectors:
    """Row 0 is zero and stands for words without a vector."""

    def __init__(self, words: list[str], table: np.ndarray):
        self.words, self.table = words, table
        self.row = {word: row for row, word in enumerate(words, 1)}

    def rows(self, forms: list[str]) -> list[int]:
        """The word as it is written, or else in lower case."""
        get = self.row.get
        return [get(form) or get(form.lower(), 0) for form in forms]


def read_vectors(path: str) -> Vectors:
    words, rows, size = [], [], None
    seen = set()
    try:
        with open(path, "rb") as file, unzipped(file) as stream:
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
                if word not in seen:
                    seen.add(word)
                    words.append(word)
                    rows.append(row)
    except OSError as error:
        raise DataError(path, None, f"can't be read: {why(error)}") from None
    except (EOFError, zlib.error):
        raise DataError(path, None, "this gzip file is damaged or cut off: make it again") from None
    if not rows:
        raise DataError(path, None, "there are no vectors in this file")
    return Vectors(words, np.stack([np.zeros(size, dtype=np.float32), *rows]))
