"""Where the sentences of a run come from: files that the options name, or the synthetic treebank."""

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from parsers.data import synthetic
from parsers.data.conllu import Sentence, read
from parsers.data.text import SUFFIXES, read_text
from parsers.io.errors import DataError, UserError

MAX_WORDS = 2000  # of a sentence: time grows with the cube, memory with the square
SPLITS = ("train", "dev", "test")


@dataclass
class Sources:
    """The files of a run; None where there is none. Without a file to train on, it is the synthetic treebank."""

    name: str
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    unlabeled: str | None = None

    def files(self) -> list[str]:
        return [path for path in (self.train, self.dev, self.test, self.unlabeled) if path]

    def sentences(self, split: str) -> Iterable[Sentence]:
        """The sentences of "train", "dev", "test" or "unlabeled"; none if there is no such file."""
        if self.train is None:
            return synthetic.sentences(split)
        path = getattr(self, split)
        return sentences(path, is_text=split == "unlabeled" and path.endswith(SUFFIXES)) if path else []


def find_sources(options: Namespace) -> Sources:
    """The files that the options name: --treebank, or --train with --dev and --test, or nothing at all."""
    files = {name: getattr(options, name) for name in (*SPLITS, "unlabeled")}
    files = {name: os.path.abspath(file) for name, file in files.items() if file}
    if options.treebank:
        directory = find_treebank(options.treebank)
        found = {split: find_split(directory, split, required=split == "train") for split in SPLITS}
        return Sources(directory.name, **found | files)
    if options.train:
        return Sources(Path(options.train).name.partition(".")[0], **files)
    if files:
        hint = "with no data at all a synthetic treebank is used"
        raise UserError(f"--{next(iter(files))} needs --train or --treebank too; {hint}")
    return Sources(synthetic.NAME)


def find_treebank(name: str) -> Path:
    """A directory, or the name of one under TRITREE_DATA."""
    root = os.environ.get("TRITREE_DATA")
    for directory in [Path(name)] + ([Path(root, name)] if root else []):
        if directory.is_dir():
            return directory.absolute()
    where = f"nor a name under TRITREE_DATA ({root})" if root else "and TRITREE_DATA is not set"
    raise UserError(f"--treebank {name} is not a directory, {where}")


def find_split(directory: Path, split: str, required: bool = True) -> str | None:
    """The file of a split: *-ud-train.conllu, or else *train.conllu; also with .gz."""
    for pattern in (f"*-ud-{split}.conllu", f"*-ud-{split}.conllu.gz", f"*{split}.conllu", f"*{split}.conllu.gz"):
        found = sorted(directory.glob(pattern))
        if len(found) > 1:
            raise UserError(f"{directory} has more than one {pattern}: name the file that is meant")
        if found:
            return str(found[0])
    if required:
        raise UserError(f"{directory} has no *-ud-{split}.conllu")
    return None


def sentences(path: str, is_text: bool = False) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, or of plain text, none of them longer than can be parsed."""
    for sentence in (read_text if is_text else read)(path, keep_lines=False):
        check_length(sentence)
        yield sentence


def check_length(sentence: Sentence) -> None:
    if len(sentence) > MAX_WORDS:
        message = f"a sentence of {len(sentence)} words; at most {MAX_WORDS} can be parsed: divide it"
        raise DataError(sentence.file, sentence.line, message)
