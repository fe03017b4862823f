"""evaluate.py: parses a file with a trained model, measures the result and shows it.

Exit codes: 0 done; 2 the user's mistake, in one line; 130 after Ctrl-C; 1 a fault of ours.
"""

import argparse
import logging
import os
import sys
from itertools import pairwise

from parsers.data.sources import find_split, find_treebank
from parsers.io.arguments import Quiet, device_name, help_format, not_empty, number
from parsers.io.command import called_as, run_command
from parsers.io.errors import UserError
from parsers.io.extra import check_extra
from parsers.io.files import check_can_be_opened, check_is_run, is_run

USAGE = """%(prog)s RUN FILE.conllu [options]
       %(prog)s RUN --treebank DIR [--split dev] [options]
       %(prog)s RUN --text FILE.txt [options]
       %(prog)s --compare RUN1 RUN2 FILE.conllu [--output arcs.tsv]
       %(prog)s --curves RUN… [--output curves.png]"""
EXAMPLES = """examples:
  %(prog)s RUN FILE.conllu
      attachment scores, where the file has heads (and labels)
  %(prog)s RUN FILE.conllu --output parsed.conllu --confidence
      predicted heads and labels, and how sure the parser is of each
  %(prog)s RUN FILE.conllu --html trees.html --draw 3
      trees to look at
  %(prog)s RUN partly.conllu --constrain --output whole.conllu
      heads in the file stay, with their labels; _ are parsed
  %(prog)s RUN --text FILE.txt --output parsed.conllu
      plain words: a sentence per line, white space between tokens
  cat FILE.conllu | %(prog)s RUN - --output - > parsed.conllu
      in a pipe; the report goes to stderr
"""
COMPARE, CURVES = ("compare",), ("curves",)  # modes in place of evaluation


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options, and as ``files`` those outputs that are wanted: option → path."""
    parser = Quiet(
        prog=called_as("evaluate.py"),
        usage=USAGE,
        description="Parses a file with the best model of a run, and scores it where it has heads.",
        epilog=EXAMPLES,
        formatter_class=help_format,
        add_help=False,
        allow_abbrev=False,
    )
    modes_of: dict[str, tuple[str, ...]] = {}
    files: list[str] = []

    def add(*names: str, modes: tuple[str, ...] = (), **settings) -> str:
        """Declares an option. All options go with evaluation; ``modes`` are the others that this one goes with."""
        name = group.add_argument(*names, **settings).dest
        modes_of[name] = modes
        return name

    def add_file(*names: str, **settings) -> None:
        files.append(add(*names, type=not_empty, **settings))

    group = parser.add_argument_group("what")
    treebank_help = "in place of FILE; also a name under $TRITREE_DATA"
    compare_help = "which is better? Paired bootstrap, differences"
    add("paths", metavar="RUN FILE", nargs="*", modes=COMPARE, help="what train.py made; CoNLL-U, also .gz, - is stdin")
    add("--treebank", type=not_empty, metavar="DIR", modes=COMPARE, help=treebank_help)
    add("--split", choices=("train", "dev", "test"), modes=COMPARE, help="which part of the treebank (test)")
    add("--text", type=not_empty, metavar="FILE", help="in place of FILE: plain words, a sentence per line")
    add("--compare", nargs=2, metavar=("RUN1", "RUN2"), modes=COMPARE, help=compare_help)
    add("--curves", nargs="+", metavar="RUN", modes=CURVES, help="a picture of their learning curves")
    add("-h", "--help", action="help", help="show this and exit")
    group = parser.add_argument_group("trees")
    decode_help = "the best tree, or the surest arcs (as trained)"
    add("--decode", choices=("viterbi", "mbr"), modes=COMPARE, help=decode_help)
    add("--multi-root", action="store_true", modes=COMPARE, help="several words may hang from the root")
    add("--constrain", action="store_true", help="keep heads in the file, and their labels; parse _")
    add("--predict-tags", action="store_true", modes=COMPARE, help="in place of the tags in the file")
    skip_help = "with --constrain: leave what has no tree as it is"
    add("--skip-impossible", action="store_true", help=skip_help)
    add("--threads", type=number(int, 1, 4096), metavar="N", modes=COMPARE, help="1, or more for large models")
    add("--device", type=device_name, metavar="NAME", modes=COMPARE, help="cpu, cuda, cuda:1 (cuda if there is one)")
    group = parser.add_argument_group("output (- is stdout)")
    output_help = "the file with predicted heads and labels"
    add_file("--output", metavar="FILE", modes=COMPARE + CURVES, help=output_help)
    confidence_help = "Prob= and LabelProb= of each arc in MISC; in --json"
    add("--confidence", action="store_true", help=confidence_help)
    add("--kbest", type=number(int, 1, 1000), metavar="K", help="the K best trees: comments; UAS of the best of them")
    add_file("--json", metavar="FILE", modes=COMPARE, help="all figures, unrounded")
    add_file("--html", metavar="FILE", help="a page of trees, errors and doubts, for a browser")
    add("--draw", type=number(int, 1, 1000), metavar="N", help="the first N trees, in the terminal")
    add_file("--calibration", metavar="FILE.png", help="a picture: can the probabilities be trusted?")
    options = parser.parse_intermixed_args(arguments)
    given = {name for name, value in vars(options).items() if value not in (None, [], parser.get_default(name))}
    mode = next((mode for mode in ("compare", "curves") if mode in given), None)
    wrong = [name for name in given if mode and mode not in modes_of[name]]
    if wrong:
        name = "FILE" if min(wrong) == "paths" else "--" + min(wrong).replace("_", "-")
        raise UserError(f"{name} does not go with --{mode}")
    options.files = {name: getattr(options, name) for name in files if name in given}
    check(options)
    return options


def check(options: argparse.Namespace) -> None:
    """Raises a UserError for options that make no sense together."""
    if not options.curves:
        expected = [*([] if options.compare else ["RUN"]), *([] if options.treebank or options.text else ["FILE"])]
        if len(options.paths) != len(expected):
            after = " after --compare RUN1 RUN2" if options.compare else ""
            after = " besides --treebank" if options.treebank else " besides --text" if options.text else after
            what = f"expected {' '.join(expected) or 'no FILE'}{after}"
            found = " ".join(options.paths) or "nothing"
            inputs = "a FILE, a --treebank or a --text"
            raise UserError(f"{what}, and found {found}: name either {inputs} (--help has examples)")
        if options.text and options.treebank:
            raise UserError("--text and --treebank: only one of them can be parsed")
        for name in ("constrain", "calibration"):
            if options.text and getattr(options, name):
                raise UserError(f"--{name} needs heads in the file, and --text has none")
        if options.split and not options.treebank:
            raise UserError("--split is a part of a --treebank: name one")
    if options.confidence and not (options.output or options.json):
        raise UserError("--confidence is written to --output and --json: name one")
    if options.kbest and options.constrain and not (options.output or options.json):
        raise UserError("--kbest with --constrain is written to --output and --json: name one")
    if options.skip_impossible and not options.constrain:
        raise UserError("--skip-impossible goes with --constrain: otherwise there is a tree for every sentence")
    if options.constrain and options.calibration:
        raise UserError("--calibration compares with the heads in the file, which --constrain keeps: choose one")
    for picture in (options.calibration, options.output if options.curves else None):
        if picture and os.path.splitext(picture)[1].lower() not in ("", ".png"):
            raise UserError(f"{picture} would be a PNG picture: name it .png")
    targets = [path if path == "-" else os.path.realpath(path) for path in options.files.values()]
    for path, target in zip(options.files.values(), targets, strict=True):
        if targets.count(target) > 1:
            what = "standard output" if path == "-" else path
            raise UserError(f"{what} can't take two outputs: name different files")


def check_order(options: argparse.Namespace) -> None:
    """A UserError where FILE stands before a RUN."""
    given = [*(options.compare or []), *options.paths]
    for file, run in pairwise(given):
        if os.path.isfile(file) and is_run(run):
            raise UserError(f"{file} is a file and {run} is a run: the run comes first")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    check_order(options)
    for run in options.curves or options.compare or options.paths[:1]:
        check_is_run(run)
    if options.treebank:
        options.paths.append(find_split(find_treebank(options.treebank), options.split or "test"))
    if options.text:
        options.paths.append(options.text)
    if not options.curves:
        check_can_be_opened(options.paths[-1])
    check_extra()
    # Imported late, since torch takes seconds: --help and mistakes in the options are answered at once.
    from parsers.evaluation.commands import compare_runs, draw_runs, evaluate_run
    from parsers.evaluation.screen import Printer

    command = draw_runs if options.curves else compare_runs if options.compare else evaluate_run
    return command(options, Printer(to_stderr="-" in options.files.values()))


def run() -> int:
    # That kernels are compiled is said while the model is loaded.
    logging.getLogger("tritree").addHandler(logging.NullHandler())
    return run_command(called_as("evaluate.py"), main, sys.argv[1:])
