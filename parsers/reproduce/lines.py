"""runs.jsonl: one line per finished run. It is replaced as a whole, so that no line is ever seen incomplete."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from parsers.io.errors import DataError, UserError
from parsers.io.files import parse_json, read_whole, write, writing
from parsers.reproduce import RECIPES

SIZES = ("trees", "text", "dev", "test")

Key = str


@dataclass(frozen=True)
class Line:
    """A finished run. Entry i of ``words``, ``heads`` and ``labels`` belongs to test sentence i."""

    system: str
    options: dict[str, object]  # as in config.json, those that differ from the defaults and change results
    treebank: str
    seed: int
    recipe: int
    sizes: dict[str, int]  # sentences: SIZES
    epochs: int | None  # None for udpipe
    best_epoch: int | None
    seconds: float
    commit: str | None
    dev_uas: float | None = None  # in percent; None where there are no such sentences, or no labels
    dev_las: float | None = None
    dev_clas: float | None = None
    test_uas: float | None = None
    test_las: float | None = None
    test_clas: float | None = None
    figures: dict[str, float] = field(default_factory=dict)  # others that the run ended with
    words: list[int] | None = None  # with a head in the file; None without a test set
    heads: list[int] | None = None  # of these, how many have the right head
    labels: list[int] | None = None  # the right head and label; None without labels

    @property
    def key(self) -> Key:
        return key(self.system, self.options, self.treebank, self.seed, self.recipe)

    @property
    def tested(self) -> bool:
        return self.test_uas is not None

    def check(self) -> None:
        """A ValueError unless the figures are those of the sentences."""
        if any(type(self.sizes.get(name)) is not int for name in SIZES):
            raise ValueError(f"`sizes` must have {', '.join(SIZES)}")
        for what, score, correct in (("uas", self.test_uas, self.heads), ("las", self.test_las, self.labels)):
            if (score is None) != (correct is None) or (correct is not None and self.words is None):
                raise ValueError(f"test_{what} and the counts of its sentences belong together")
            if score is None or correct is None or self.words is None:
                continue
            if len(correct) != len(self.words) or len(correct) != self.sizes["test"]:
                raise ValueError(f"the counts of test_{what} are not those of {self.sizes['test']} sentences")
            found = 100 * sum(correct) / max(1, sum(self.words))
            if abs(found - score) > 1e-6:
                raise ValueError(f"test_{what} is {score}, but its sentences give {found}")


def key(system: str, options: dict[str, object], treebank: str, seed: int, recipe: int) -> Key:
    """What makes two runs the same."""
    return json.dumps([system, sorted(options.items()), treebank, seed, recipe])


def read_lines(path: Path) -> list[Line]:
    """All of a file, those of older recipes too; none if there is no file."""
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(read_whole(path).split(b"\n"), 1):
        if text:
            lines.append(parse_line(text, path, number))
    return lines


def parse_line(text: bytes, path: Path, number: int) -> Line:
    hint = "delete this line, and its run is done again"
    try:
        record = parse_json(text, path, number)
    except DataError:
        raise DataError(str(path), number, f"this line is damaged: {hint}") from None
    try:
        line = Line(**record)
        for entry in fields(Line):
            kinds = KINDS[entry.name]
            if type(getattr(line, entry.name)) not in kinds:
                raise ValueError(f"wrong type of `{entry.name}`")
        line.check()
    except (TypeError, ValueError) as error:
        raise DataError(str(path), number, f"not the line of a run ({error}): {hint}") from None
    return line


NONE = type(None)
KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("system", "treebank"), (str,)),
    **dict.fromkeys(("options", "sizes", "figures"), (dict,)),
    **dict.fromkeys(("seed", "recipe"), (int,)),
    **dict.fromkeys(("epochs", "best_epoch"), (int, NONE)),
    **dict.fromkeys(("words", "heads", "labels"), (list, NONE)),
    **dict.fromkeys(
        (f"{split}_{what}" for split in ("dev", "test") for what in ("uas", "las", "clas")), (float, int, NONE)
    ),
    "seconds": (float, int),
    "commit": (str, NONE),
}


def current(lines: Iterable[Line]) -> list[Line]:
    """Those of today's recipes."""
    return [line for line in lines if line.recipe == RECIPES.get(line.system)]


def append(path: Path, line: Line) -> None:
    """Adds a line, unless it is there. Two processes may do so at the same time."""
    line.check()
    with writing(str(path.parent)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent):
        old = read_lines(path)
        if any(line.key == other.key and other.tested >= line.tested for other in old):
            return
        content = path.read_bytes() if path.exists() else b""
        end = b"" if not content or content.endswith(b"\n") else b"\n"
        text = json.dumps(asdict(line), ensure_ascii=False, separators=(",", ":"))
        write(path, content + end + text.encode() + b"\n")


@contextlib.contextmanager
def locked(path: Path, in_use: str | None = None) -> Iterator[None]:
    """Holds a directory or a file of its own for this process. Waits for another; with ``in_use``, a UserError."""
    import fcntl  # not on Windows, where tables can be made all the same

    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if in_use else 0))
        except BlockingIOError:
            raise UserError(in_use) from None
        yield
    finally:
        os.close(handle)
