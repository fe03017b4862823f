"""What evaluate.py does: parse and score a file, compare two runs, draw the learning curves of several."""

import json
import sys
import time
from argparse import Namespace
from contextlib import ExitStack
from itertools import tee

from parsers.data.conllu import read
from parsers.data.text import read_text
from parsers.evaluation.comparison import HEADER, Comparison
from parsers.evaluation.inference import RunParser
from parsers.evaluation.plots import comparison_plot, read_history, summarize
from parsers.evaluation.screen import Printer, progress
from parsers.evaluation.sinks import SINKS, Evaluation, Report
from parsers.evaluation.tables import MOST_ARCS, comparison_tables, runs_table
from parsers.io.command import called_as
from parsers.io.errors import UserError
from parsers.io.files import output
from parsers.runs.run import Run


def evaluate_run(options: Namespace, printer: Printer) -> int:
    path = options.paths[-1]
    evaluation, report = Evaluation(options.kbest), Report(printer, options)
    with ExitStack() as stack:
        # All files are opened first: what can't be written is known before a long file has been parsed.
        files = [SINKS[name](stack.enter_context(output(file)), options, path) for name, file in options.files.items()]
        parser = RunParser(options.paths[0], options)
        watch = stack.enter_context(progress(None if options.text else path))
        began = time.monotonic()
        for parse in watch(parser(read_text(path) if options.text else read(path))):
            for sink in (evaluation, *files, report):
                if parse.is_impossible:
                    sink.skip(parse)
                else:
                    sink.add(parse)
        figures = parser.tags.figures() | evaluation.figures(time.monotonic() - began)
        if options.kbest and not ("uas" in figures or options.output or options.json):
            raise UserError(f"{path} has no heads to compare with: --kbest needs them, or --output, or --json")
        for sink in files:
            sink.finish(figures)
    warn(path, parser)
    report.finish(figures)  # only when all files are written
    return 0


def warn(path: str, *parsers: RunParser) -> None:
    """Says what makes the file unlike the training data: once if it is the same for all runs."""
    lines = {parser.path: parser.warning(path) for parser in parsers}
    if len(set(lines.values())) == 1:
        lines = {"": next(iter(lines.values()))}
    for run, line in lines.items():
        if line:
            print(f"{called_as('evaluate.py')}: {run}{', ' * bool(run)}{line}", file=sys.stderr)


def compare_runs(options: Namespace, printer: Printer) -> int:
    path = options.paths[-1]
    comparison, shown = Comparison(), []
    with ExitStack() as stack:
        write, write_json = (stack.enter_context(output(file)) for file in (options.output, options.json))
        first, second = (RunParser(run, options) for run in options.compare)
        watch = stack.enter_context(progress(path))
        write("\t".join(HEADER) + "\n")
        # The two stay within a window of each other: no more than what one of them has read ahead is kept.
        one, other = tee(read(path))
        for parses in zip(watch(first(one)), second(other), strict=True):
            for row in comparison.add(*parses):
                write("\t".join(row) + "\n")
                if len(shown) < MOST_ARCS:
                    shown.append(row)
        figures = {"runs": options.compare, "tags": [parser.tags.whose() for parser in (first, second)]}
        figures |= comparison.figures()
        for scores, parser in zip(figures["scores"], (first, second), strict=True):
            scores |= parser.tags.scores.figures()
        write_json(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    warn(path, first, second)
    printer.show(comparison_tables(figures, shown, options.output))
    return 0


def draw_runs(options: Namespace, printer: Printer) -> int:
    path = options.output or "curves.png"
    with output(path) as write:
        histories = {name: read_history(Run.open(name).directory) for name in options.curves}
        write(comparison_plot(histories))
    printer.show(runs_table({name: summarize(history) for name, history in histories.items()}))
    if path != "-":
        printer.show(f"\nthe curves are in {path}")
    return 0
