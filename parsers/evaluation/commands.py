"""What evaluate.py does: parse and score a file, compare two runs, draw the curves of several."""

import json
import math
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path

from parsers.data.conllu import Sentence, read
from parsers.data.corpus import find_split, find_treebank
from parsers.data.examples import Indexer
from parsers.data.vocabulary import is_punctuation
from parsers.evaluation.breakdown import Breakdown
from parsers.evaluation.calibration import Calibration, reliability_plot
from parsers.evaluation.comparison import HEADER, Comparison
from parsers.evaluation.confidence import confidence_record, with_confidence
from parsers.evaluation.inference import parse_sentences
from parsers.evaluation.kbest import Oracle, kbest_record, with_kbest
from parsers.evaluation.metrics import Scores
from parsers.evaluation.parse import Parse
from parsers.evaluation.plots import comparison_plot, read_history, summarize
from parsers.evaluation.tables import (
    MOST_ARCS,
    Report,
    comparison_tables,
    counted,
    evaluation_tables,
    progress,
    runs_table,
    waiting,
)
from parsers.io.errors import DataError, UserError
from parsers.io.output import output
from parsers.networks.device import choose_device
from parsers.runs.run import Run

DOUBT = 0.9
ONE_WORD = Sentence("", 1, ["a"], ["_"], ["_"], ["_"], [-1], [], [])


def find_file(options: Namespace) -> str:
    if options.treebank:
        return find_split(find_treebank(options.treebank), options.split or "test")
    return options.paths[-1]


class RunParser:
    """The best model of a run, and how the options want it to parse."""

    def __init__(self, path: str, options: Namespace):
        self.path, self.single_root = path, not options.multi_root
        self.how = {
            "decode": options.decode,
            "constrain": options.constrain,
            "top_heads": options.html is not None,
            "kbest": options.kbest,
        }
        with waiting("loading the model (and compiling for half a minute, the first time)"):
            run = Run.open(path)
            self.model, vocab, vectors = run.load_model(run.config()[0], choose_device(options.device, 0))
            self.encoding = Indexer(vocab, vectors)
            list(self._parse([ONE_WORD]))  # has the kernels ready before the clock runs

    def _parse(self, sentences: Iterable[Sentence]) -> Iterator[Parse]:
        return parse_sentences(self.model, self.encoding, sentences, self.single_root, **self.how)

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[Parse]:
        """Parses; an error after the last sentence if --constrain left no tree for some."""
        impossible = 0
        for parse in self._parse(sentences):
            if math.isfinite(parse.log_prob):
                yield parse
            elif self.how["constrain"] and parse.heads[0] < 0:
                impossible += 1
                print(f"evaluate.py: {no_tree(parse.sentence, self.single_root)}", file=sys.stderr)
            else:
                raise UserError(f"{self.path}: the scores of its model are not numbers: train it again")
        if impossible:
            raise UserError(f"{counted(impossible, 'sentence')} can't be parsed as the file says; nothing was written")


def no_tree(sentence: Sentence, single_root: bool) -> DataError:
    """Why no projective tree has the heads in the file, and where."""
    heads = dict(enumerate(sentence.heads, 1))
    roots = [word for word, head in heads.items() if head == 0]
    spans = [(min(head, word), max(head, word), word) for word, head in heads.items() if head >= 0]
    crossing = next(((v, w) for a, b, v in spans for c, d, w in spans if a < c < b < d), None)
    word, reason = 1, "no projective tree has the heads in the file: replace one of them by _"
    if crossing:
        word = max(crossing)
        reason = f"the arcs to words {min(crossing)} and {word} cross, which no projective tree has: replace one by _"
    elif single_root and len(roots) > 1:
        word, reason = roots[1], f"words {roots[0]} and {roots[1]} both hang from the root: --multi-root allows it"
    line = sentence.line + sentence.rows[word - 1] - sentence.rows[0]
    return DataError(sentence.file, line, reason)


@dataclass
class Evaluation:
    """All that is kept of a file."""

    oracle: Oracle | None = None
    breakdown: Breakdown = field(default_factory=Breakdown)
    calibration: Calibration = field(default_factory=Calibration)
    sentences: int = 0
    words: int = 0
    doubtful: int = 0  # words whose arc has a probability below DOUBT

    def add(self, parse: Parse) -> None:
        self.breakdown.add(parse)
        self.calibration.add(parse)
        if self.oracle:
            self.oracle.add(parse)
        self.sentences += 1
        self.words += len(parse.heads)
        self.doubtful += sum(probability < DOUBT for probability in parse.probabilities)

    def figures(self, seconds: float) -> dict:
        return {
            **self.breakdown.figures(),
            **self.calibration.figures(),
            **(self.oracle.figures() if self.oracle else {}),
            "parsed_sentences": self.sentences,
            "parsed_words": self.words,
            "doubtful_words": self.doubtful,
            "sentences_per_second": self.sentences / max(seconds, 1e-9),
        }


def evaluate_run(options: Namespace, report: Report) -> int:
    path = find_file(options)
    evaluation, drawings = Evaluation(Oracle(options.kbest) if options.kbest else None), []
    with ExitStack() as stack:
        # All files are opened first: what can't be written is known before a long file has been parsed.
        write, write_json, write_html, write_plot = (
            stack.enter_context(output(file))
            for file in (options.output, options.json, options.html, options.calibration)
        )
        parser = RunParser(options.paths[0], options)
        watch = stack.enter_context(progress(path))
        began = time.monotonic()

        def results() -> Iterator[Parse]:
            for parse in watch(parser(read(path))):
                if options.constrain:
                    parse.gold = None  # it was given, not found
                evaluation.add(parse)
                if options.output:
                    write(annotated(parse, options.confidence))
                if options.json and options.confidence:
                    before = '{"parses": [' if evaluation.sentences == 1 else ","
                    write_json(f"{before}\n{json.dumps(record(parse))}")
                if options.draw and len(drawings) < options.draw:
                    drawings.append(draw(parse, report))
                yield parse

        if options.html:
            from parsers.evaluation.page import write_page

            write_page(results(), write_html, f"{options.paths[0]}: {path}")
        else:
            for _ in results():
                pass
        figures = evaluation.figures(time.monotonic() - began)
        is_scored = "uas" in figures
        if options.calibration:
            if not is_scored:
                raise UserError(f"{path} has no heads to compare with: --calibration needs them")
            write_plot(reliability_plot(figures, os.path.basename(path)))
        if options.kbest and not (is_scored or options.output or options.json):
            raise UserError(f"{path} has no heads to compare with: --kbest needs them, or --output, or --json")
        text = json.dumps(figures, indent=1, ensure_ascii=False)
        write_json(f"\n],{text[1:]}\n" if options.confidence else f"{text}\n")

    report.write("".join(f"{text}\n\n" for text in drawings))
    if is_scored:
        report.show(evaluation_tables(figures))
    else:
        report.show(
            "the heads in the file were kept: not scored" if options.constrain else "no heads in the file: not scored"
        )
        report.show(f"{evaluation.doubtful:,} of {evaluation.words:,} arcs have a probability below {DOUBT}")
        if options.kbest:
            mass = 100 * figures["kbest"][-1]["mass"]
            report.show(f"probability of the best {counted(options.kbest, 'tree')}: {mass:.2f} % on average")
    report.show(f"{counted(evaluation.sentences, 'sentence')}, {figures['sentences_per_second']:.0f} per second")
    return 0


def annotated(parse: Parse, confidence: bool) -> str:
    """The sentence as it stands in the file, with what was found out about it."""
    text = with_confidence(parse) if confidence else parse.sentence.text(parse.heads)
    return with_kbest(text, parse.kbest) if parse.kbest else text


def record(parse: Parse) -> dict:
    """The same for JSON."""
    trees = {"kbest": kbest_record(parse.kbest)} if parse.kbest else {}
    return {**confidence_record(parse), **trees}


def draw(parse: Parse, report: Report) -> str:
    from parsers.evaluation.terminal import draw_tree

    return draw_tree(parse, report.width, report.color).rstrip("\n")


def compare_runs(options: Namespace, report: Report) -> int:
    path = find_file(options)
    comparison, scores, sentences = Comparison(), (Scores(), Scores()), 0
    rows: list[list[str]] = []
    with ExitStack() as stack:
        write, write_json = (stack.enter_context(output(file)) for file in (options.output, options.json))
        first, second = (RunParser(run, options) for run in options.compare)
        watch = stack.enter_context(progress(path))
        write("\t".join(HEADER) + "\n")
        # The two stay within a window of each other: no more than what one of them has read ahead is kept.
        one, other = tee(read(path))
        for parses in zip(watch(first(one)), second(other), strict=True):
            sentences += 1
            sentence = parses[0].sentence
            punctuation = list(map(is_punctuation, sentence.upos, sentence.xpos))
            for score, parse in zip(scores, parses, strict=True):
                score.add(parse.heads, sentence.heads, punctuation)
            for difference in comparison.add(*parses):
                row = difference.row()
                write("\t".join(row) + "\n")
                if len(rows) < MOST_ARCS:
                    rows.append(row)
        figures = {**comparison.figures(), "scores": [score.summary() for score in scores], "sentences": sentences}
        write_json(json.dumps({"runs": options.compare, **figures}, indent=1, ensure_ascii=False) + "\n")
    report.show(comparison_tables(figures, options.compare, rows))
    return 0


def draw_runs(options: Namespace, report: Report) -> int:
    path = options.output or "curves.png"
    with output(path) as write:
        histories = {name: read_history(Run.open(name).directory) for name in options.curves}
        write(comparison_plot(histories))
    report.show(runs_table({name: summarize(history) for name, history in histories.items()}))
    if path != "-":
        report.show(f"\nthe curves are in {Path(path)}")
    return 0
