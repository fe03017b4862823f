"""What is made of parsed sentences: figures, files, the printed report.

A sink gets every parse by `add`, and the figures of the whole file by `finish`. A new kind of file is a class here, a
line in SINKS and an option in evaluate.py; a new column of CoNLL-U is a line in `ConlluFile.add`.
"""

import json
import os
from argparse import Namespace
from collections.abc import Callable
from typing import Protocol

from parsers.data.conllu import DEPREL, FEATS, HEAD, MISC, UPOS, XPOS
from parsers.evaluation.breakdown import Breakdown
from parsers.evaluation.calibration import Calibration
from parsers.evaluation.kbest import Oracle
from parsers.evaluation.labels import Labels
from parsers.evaluation.page import Page
from parsers.evaluation.parse import Parse
from parsers.evaluation.plots import reliability_plot
from parsers.evaluation.screen import Printer
from parsers.evaluation.tables import TAG_ACCURACIES, counted, evaluation_tables
from parsers.evaluation.terminal import draw_tree
from parsers.io.errors import UserError
from parsers.io.files import Write

DOUBT = 0.9
TAGS = {"upos": UPOS, "xpos": XPOS, "feats": FEATS}


class Sink(Protocol):
    def add(self, parse: Parse) -> None: ...

    def skip(self, parse: Parse) -> None:
        """Gets a parse without a tree, with --skip-impossible."""

    def finish(self, figures: dict) -> None: ...


class Evaluation(Sink):
    """Counts, from which the figures are made. Memory does not grow with the file."""

    def __init__(self, kbest: int | None):
        self.counters = [Breakdown(), Labels(), Calibration(), *([Oracle(kbest)] if kbest else [])]
        self.sentences = self.words = self.skipped = 0
        self.doubtful = 0  # words whose arc has a probability below DOUBT

    def add(self, parse: Parse) -> None:
        for counter in self.counters:
            counter.add(parse)
        self.sentences += 1
        self.words += len(parse.heads)
        self.doubtful += sum(probability < DOUBT for probability in parse.probabilities)

    def skip(self, parse: Parse) -> None:
        self.skipped += 1

    def figures(self, seconds: float) -> dict:
        return {
            **{key: value for counter in self.counters for key, value in counter.figures().items()},
            "parsed_sentences": self.sentences,
            "parsed_words": self.words,
            "skipped_sentences": self.skipped,
            "doubtful_words": self.doubtful,
            "sentences_per_second": self.sentences / max(seconds, 1e-9),
        }


class ConlluFile(Sink):
    """The input with predicted heads and labels, and tags if they were predicted; all else byte for byte. What an
    earlier run has written is replaced.

    Where a head is predicted and no label is, DEPREL is `_`: the label in the file belongs to another arc.

    With ``confidence``, MISC has the probability of each arc, `Prob=0.9731`, and of its label, `LabelProb=0.9871`, and
    each sentence two comments:

        # log_prob = -0.4321         of the tree, to the base e
        # entropy = 1.2345           of the distribution over trees, in nats

    The k best trees are comments too, the best first, each with its log probability and the heads of words 1, 2, 3, …:

        # kbest_1 = -0.4321 2 0 2
    """

    def __init__(self, write: Write, confidence: bool):
        self.write, self.confidence = write, confidence

    def add(self, parse: Parse) -> None:
        columns, comments = {HEAD: parse.heads, DEPREL: parse.deprels}, {}
        columns |= {TAGS[name]: tags for name, tags in (parse.predicted_tags or {}).items()}
        if self.confidence:
            of_labels = parse.label_probabilities or [None] * len(parse.heads)
            misc = zip(parse.sentence.column(MISC), parse.probabilities, of_labels, strict=True)
            columns[MISC] = [_with_items(text, {"Prob": arc, "LabelProb": label}) for text, arc, label in misc]
            comments |= {"log_prob": _decimal(parse.log_prob), "entropy": _decimal(parse.entropy)}
        for rank, (log_prob, heads) in enumerate(parse.kbest or (), 1):
            comments[f"kbest_{rank}"] = " ".join([_decimal(log_prob), *map(str, heads)])
        self.write(parse.sentence.text(columns, comments))

    def skip(self, parse: Parse) -> None:
        self.write(parse.sentence.text())

    def finish(self, figures: dict) -> None:
        """All is written."""


def _with_items(misc: str, items: dict[str, float | None]) -> str:
    """The text of MISC with items `key=value` at its end, in place of those with the same keys; none for None."""
    replaced = tuple(f"{key}=" for key in items)
    kept = [item for item in misc.split("|") if not item.startswith(replaced)] if misc not in ("_", "") else []
    return "|".join([*kept, *(f"{key}={value:.4f}" for key, value in items.items() if value is not None)])


def _decimal(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4f}"  # + 0.0: no −0.0000


class JsonFile(Sink):
    """All figures, unrounded; with ``confidence`` also what is known of each sentence, one per line."""

    def __init__(self, write: Write, confidence: bool):
        self.write, self.confidence = write, confidence
        self.separator = ""
        if confidence:
            write('{"parses": [')

    def add(self, parse: Parse) -> None:
        if not self.confidence:
            return
        record = {
            "line": parse.sentence.line,  # of the first word
            "heads": parse.heads,
            "probabilities": parse.probabilities,
            "log_prob": parse.log_prob,
            "entropy": parse.entropy,
        }
        if parse.labels is not None:
            record |= {"labels": parse.labels, "label_probabilities": parse.label_probabilities}
        if parse.kbest is not None:
            record["kbest"] = [{"log_prob": log_prob, "heads": heads} for log_prob, heads in parse.kbest]
        self.write(f"{self.separator}\n{json.dumps(record)}")
        self.separator = ","

    def finish(self, figures: dict) -> None:
        text = json.dumps(figures, indent=1, ensure_ascii=False)
        self.write(f"\n],{text[1:]}\n" if self.confidence else f"{text}\n")


class CalibrationPicture(Sink):
    """A PNG that shows how far the probabilities can be trusted. It is made of the figures alone."""

    def __init__(self, write: Write, path: str):
        self.write, self.path = write, path

    def add(self, parse: Parse) -> None:
        """The figures have counted it."""

    def finish(self, figures: dict) -> None:
        if "uas" not in figures:
            raise UserError(f"{self.path} has no heads to compare with: --calibration needs them")
        self.write(reliability_plot(figures, os.path.basename(self.path)))


# By the option that names the file. Arguments: what writes to the file, the options, the path of the input.
SINKS: dict[str, Callable[[Write, Namespace, str], Sink]] = {
    "output": lambda write, options, path: ConlluFile(write, options.confidence),
    "json": lambda write, options, path: JsonFile(write, options.confidence),
    "html": lambda write, options, path: Page(write, f"{options.paths[0]}: {path}"),
    "calibration": lambda write, options, path: CalibrationPicture(write, path),
}


class Report(Sink):
    """What is printed at the end: drawings of the first trees, and tables."""

    def __init__(self, printer: Printer, options: Namespace):
        self.printer, self.options = printer, options
        self.drawings: list[str] = []

    def add(self, parse: Parse) -> None:
        if len(self.drawings) < (self.options.draw or 0):
            self.drawings.append(draw_tree(parse, self.printer.width, self.printer.color))

    def finish(self, figures: dict) -> None:
        show, kbest = self.printer.show, self.options.kbest
        show(f"tags: {figures['tags']}\n")
        self.printer.write("".join(f"{text}\n\n" for text in self.drawings))
        if "uas" in figures:
            show(evaluation_tables(figures))
        else:
            why = "the heads in the file were kept" if self.options.constrain else "no heads in the file"
            show(f"{why}: not scored")
            if skipped := figures["skipped_sentences"]:
                show(f"{counted(skipped, 'sentence')} left as in the file: no projective tree has these heads")
            doubtful, words = figures["doubtful_words"], figures["parsed_words"]
            show(f"{doubtful:,} of {words:,} arcs have a probability below {DOUBT}")
            for column, name in TAG_ACCURACIES.items():
                if f"{column}_accuracy" in figures:
                    show(f"{name} {figures[f'{column}_accuracy']:.2f} %")
            if kbest:
                mass = 100 * figures["kbest"][-1]["mass"]
                show(f"probability of the best {counted(kbest, 'tree')}: {mass:.2f} % on average")
        speed = figures["sentences_per_second"]
        show(f"{counted(figures['parsed_sentences'], 'sentence')}, {speed:.0f} per second")
