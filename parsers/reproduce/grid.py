"""The grid: a TOML file that names rows (a system with options), and steps: rows × treebanks × seeds × shares.

    [rows."GAP (L+U)"]
    system = "gap"
    options = {xpos = true, smoothing = 2}      # of train.py, without the dashes
    text = false         # from trees alone (true)
    tagger = true        # a tagger is trained, too, and the test set also parsed with its tags (false)

    [[steps]]
    title = "English"
    rows = ["GAP (L+U)"]
    treebanks = ["en_gum"]
    seeds = [1, 2]
    shares = [0.1]       # of the trees that keep their heads
    table = "systems"    # of RESULTS.md that it belongs to: systems, shares, text or list
    dev-only = true      # the test set is not touched (false)
    skip = "no time"     # nothing is run, and this stands in the empty cells

All of it is checked before anything runs.
"""

import itertools
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from parsers import MODELS
from parsers.io.errors import DataError, UserError
from parsers.io.files import read_whole
from parsers.options import options_to_json, parse, saved_options
from parsers.reproduce import RECIPES
from parsers.reproduce.lines import Key, key

# They say where the data is and how the machine is used; the rest changes results. A tagger changes none where all
# words have tags.
PLACES = ("treebank", "train", "dev", "test", "output", "resume", "seed")
MACHINE = {"device": "cpu", "threads": 1, "processes": 1}  # each run has a core
SET_ELSEWHERE = (*PLACES, "no-tagger", *MACHINE)
ROW = {"system": str, "options": dict, "text": bool, "tagger": bool}
TABLES = ("systems", "shares", "text", "list")
STEP = {
    "title": str, "table": str, "dev-only": bool, "skip": str,
    "rows": list, "treebanks": list, "seeds": list, "shares": list,
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """A run that the grid wants. ``options`` are those of a line; text in them is a treebank's name."""

    row: str
    system: str
    options: dict[str, object] = field(hash=False)
    treebank: str
    seed: int
    dev_only: bool
    skip: str
    arguments: tuple[str, ...] = ()  # of train.py, without data, seed and machine

    @cached_property
    def key(self) -> Key:
        return key(self.system, self.options, self.treebank, self.seed, RECIPES[self.system])

    def __str__(self) -> str:
        share = f"{100 * self.share:g} % of " if self.share != 1 else ""
        return f"{self.row} on {share}{self.treebank}, seed {self.seed}"

    @property
    def share(self) -> float:
        share = self.options.get("labeled", 1.0)
        assert isinstance(share, float)
        return share

    @property
    def uses_text(self) -> bool:
        return reads_text(self.system, self.options)


def reads_text(system: str, options: dict[str, object]) -> bool:
    return system in MODELS and MODELS[system].uses_unlabeled and options.get("use_unlabeled", True) is True


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    label: str
    system: str
    arguments: tuple[str, ...]
    tagger: bool


@dataclass(frozen=True)
class Step:
    title: str
    table: str
    plans: list[Plan]

    def plans_of(self, row: str, share: float) -> list[Plan]:
        return [plan for plan in self.plans if (plan.row, plan.share) == (row, share)]


@dataclass(frozen=True)
class Grid:
    steps: list[Step]

    @property
    def plans(self) -> list[Plan]:
        """In the order in which they are run, each once. One with a test set makes one without it needless."""
        plans = [plan for step in self.steps for plan in step.plans if not plan.skip]
        tested = {plan.key for plan in plans if not plan.dev_only}
        found: dict[Key, Plan] = {}
        for plan in plans:
            if not (plan.dev_only and plan.key in tested):
                found.setdefault(plan.key, plan)
        return list(found.values())


def read_grid(path: Path) -> Grid:
    file = str(path)
    try:
        content = tomllib.loads(read_whole(path).decode())
    except ValueError as error:
        raise DataError(file, None, f"this is not TOML: {error}") from None
    _check_names(content, {"rows": dict, "steps": list}, file, "the grid")
    rows = {label: _row(label, entry, file) for label, entry in content.get("rows", {}).items()}
    steps = [_step(rows, entry, f"step {number}", file) for number, entry in enumerate(content.get("steps", []), 1)]
    if not steps:
        raise DataError(file, None, "nothing is to be run: name rows in [rows.NAME] and use them in [[steps]]")
    return Grid(steps)


def _row(label: str, entry: object, file: str) -> Row:
    where = f"row {label!r}"
    entry = _check_names(entry, ROW, file, where)
    system = entry.get("system")
    if system not in RECIPES:
        raise DataError(file, None, f"{where}: `system` is not one of {', '.join(RECIPES)}")
    arguments = [] if entry.get("text", True) else ["--no-unlabeled"]
    for name, value in entry.get("options", {}).items():
        if value is True:
            arguments.append(f"--{name}")
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(file, None, f"{where}: option {name} must be a number, a string, or true for a flag")
        else:
            arguments.append(f"--{name}={value}")
    row = Row(label, system, tuple(arguments), entry.get("tagger", False))
    _options(row, 1.0, file)
    return row


def _step(rows: dict[str, Row], entry: object, where: str, file: str) -> Step:
    step = _check_names(entry, STEP, file, where)
    if step.get("table", "list") not in TABLES:
        raise DataError(file, None, f"{where}: `table` is not one of {', '.join(TABLES)}")
    return Step(step.get("title", where), step.get("table", "list"), list(_plans(rows, step, where, file)))


def _plans(rows: dict[str, Row], step: dict, where: str, file: str) -> Iterator[Plan]:
    kinds = {"rows": (str,), "treebanks": (str,), "seeds": (int,), "shares": (float, int)}
    lists = {name: step.get(name, [1.0] if name == "shares" else []) for name in kinds}
    for name, values in lists.items():
        if not values or any(type(value) not in kinds[name] for value in values):
            raise DataError(file, None, f"{where}: `{name}` must be a list of {kinds[name][0].__name__}, not empty")
    if unknown := [label for label in lists["rows"] if label not in rows]:
        raise DataError(file, None, f"{where}: there is no row {unknown[0]!r}: define it as [rows.{unknown[0]!r}]")
    settings = (step.get("dev-only", False), step.get("skip", ""))
    # Seeds outside: after each of them there is a whole table.
    order = (lists["seeds"], lists["shares"], lists["treebanks"], lists["rows"])
    for seed, share, treebank, label in itertools.product(*order):
        row, name = rows[label], Path(treebank).name
        options, arguments = _options(row, float(share), file)
        yield Plan(label, row.system, options, name, seed, *settings, arguments)


def _options(row: Row, share: float, file: str) -> tuple[dict[str, object], tuple[str, ...]]:
    """The options of a line, and the arguments they come from; a DataError if train.py does not have them."""
    arguments = (*row.arguments, f"--labeled={share}")
    if row.system not in MODELS:  # udpipe, which has no such options
        names = dict(argument.removeprefix("--").split("=") for argument in row.arguments)
        return names | ({"labeled": share} if share != 1 else {}), arguments
    arguments += () if row.tagger else ("--no-tagger",)
    try:
        options = parse([f"--model={row.system}", *arguments])
    except UserError as error:
        raise DataError(file, None, f"row {row.label!r}: {error}") from None
    for name in SET_ELSEWHERE:
        if f"--{name}" in {argument.partition("=")[0] for argument in row.arguments}:
            raise DataError(file, None, f"row {row.label!r}: --{name} is not an option of a row, but set by the grid")
    return line_options(options), arguments


def line_options(options: Namespace) -> dict[str, object]:
    """Those that differ from the system's defaults and change results."""
    defaults = options_to_json(parse([f"--model={options.model}"]))
    saved = {name: value for name, value in options_to_json(options).items() if value != defaults[name]}
    return {name: value for name, value in saved.items() if name not in (*PLACES, "tagger", *MACHINE)}


def machine_arguments(system: str) -> list[str]:
    """Those of MACHINE that the system has."""
    known = {option.dest: option.name for option in saved_options(system)}
    return [f"{known[name]}={value}" for name, value in MACHINE.items() if name in known]


def _check_names(entry: object, known: dict[str, type], file: str, where: str) -> dict:
    if not isinstance(entry, dict):
        raise DataError(file, None, f"{where} must be a table of {', '.join(known)}")
    for name, value in entry.items():
        if name not in known:
            raise DataError(file, None, f"{where} has `{name}`, which is none of {', '.join(known)}")
        if type(value) is not known[name]:
            raise DataError(file, None, f"{where}: `{name}` must be of type {known[name].__name__}")
    return entry
