"""Parses a file with a trained model, measures the result and shows it: `python evaluate.py --help`.

Exit codes: 0 done; 2 the user's mistake, in one line; 130 after Ctrl-C; 1 a fault of ours.
"""

import argparse
import os
import sys

from parsers.data.conllu import check_file
from parsers.io.arguments import Quiet, help_format, not_empty, number
from parsers.io.command import run_command
from parsers.io.errors import UserError

USAGE = """evaluate.py RUN FILE.conllu [options]
       evaluate.py RUN --treebank DIR [--split dev] [options]
       evaluate.py --compare RUN1 RUN2 FILE.conllu [--output arcs.tsv]
       evaluate.py --curves RUN… [--output curves.png]"""
EXAMPLES = """examples:
  %(prog)s RUN FILE.conllu
      attachment scores, where the file has heads
  %(prog)s RUN FILE.conllu --output parsed.conllu --confidence
      predicted heads, and how sure the parser is of each
  %(prog)s RUN FILE.conllu --html trees.html --draw 3
      trees to look at
  %(prog)s RUN partly.conllu --constrain --output whole.conllu
      heads in the file stay, _ are parsed
  cat FILE.conllu | %(prog)s RUN - --output - > parsed.conllu
      in a pipe; the report goes to stderr
"""
FILES = ("output", "json", "html", "calibration")
# What goes with --compare and --curves; everything goes without them.
COMPARE = {"compare", "paths", "treebank", "split", "decode", "multi_root", "device", "output", "json"}
CURVES = {"curves", "output"}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Quiet(
        prog="evaluate.py",
        usage=USAGE,
        description="Parses a file with the best model of a run, and scores it where it has heads.",
        epilog=EXAMPLES,
        formatter_class=help_format,
        add_help=False,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("what").add_argument
    add("paths", metavar="RUN FILE", nargs="*", help="what train.py made; CoNLL-U, also .gz, - is stdin")
    add("--treebank", type=not_empty, metavar="DIR", help="in place of FILE; also a name under $TRITREE_DATA")
    add("--split", choices=("train", "dev", "test"), help="which part of the treebank (test)")
    add("--compare", nargs=2, metavar=("RUN1", "RUN2"), help="which is better? Paired bootstrap, differences")
    add("--curves", nargs="+", metavar="RUN", help="a picture of their learning curves")
    add("-h", "--help", action="help", help="show this and exit")
    add = parser.add_argument_group("trees").add_argument
    decode_help = "the best tree (default), or the surest arcs"
    add("--decode", choices=("viterbi", "mbr"), default="viterbi", help=decode_help)
    add("--multi-root", action="store_true", help="several words may hang from the root")
    add("--constrain", action="store_true", help="keep the heads in the file; parse where it has _")
    add("--device", type=not_empty, metavar="NAME", help="cpu, cuda, cuda:1 (cuda if there is one)")
    add = parser.add_argument_group("output (- is stdout)").add_argument
    add("--output", type=not_empty, metavar="FILE", help="the file with predicted heads, all else as it is")
    add("--confidence", action="store_true", help="of each head: Prob=0.9731 in MISC, and in --json")
    add("--kbest", type=number(int, 1, 1000), metavar="K", help="the K best trees: comments; UAS of the best of them")
    add("--json", type=not_empty, metavar="FILE", help="all figures, unrounded")
    add("--html", type=not_empty, metavar="FILE", help="a page of trees, errors and doubts, for a browser")
    add("--draw", type=number(int, 1, 1000), metavar="N", help="the first N trees, in the terminal")
    add("--calibration", type=not_empty, metavar="FILE.png", help="a picture: can the probabilities be trusted?")
    options = parser.parse_intermixed_args(arguments)
    check(options, parser)
    return options


def check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Options that make no sense together."""
    given = {name for name, value in vars(options).items() if value not in (None, [], parser.get_default(name))}
    for mode, allowed in (("compare", COMPARE), ("curves", CURVES)):
        if mode in given and given - allowed:
            wrong = min(given - allowed)
            raise UserError(
                f"{'FILE' if wrong == 'paths' else '--' + wrong.replace('_', '-')} does not go with --{mode}"
            )
    if not options.curves:
        runs = [] if options.compare else ["RUN"]
        expected = [*runs, *([] if options.treebank else ["FILE"])]
        if len(options.paths) != len(expected):
            after = (
                " besides --treebank" if options.treebank else " after --compare RUN1 RUN2" if options.compare else ""
            )
            what = f"expected {' '.join(expected) or 'no FILE'}{after}"
            found = " ".join(options.paths) or "nothing"
            raise UserError(f"{what}, and found {found}: name either a FILE or a --treebank (--help has examples)")
        if options.split and not options.treebank:
            raise UserError("--split is a part of a --treebank: name one")
    if options.confidence and not (options.output or options.json):
        raise UserError("--confidence is written to --output and --json: name one")
    if options.kbest and options.constrain and not (options.output or options.json):
        raise UserError("--kbest with --constrain is written to --output and --json: name one")
    if options.constrain and options.calibration:
        raise UserError("--calibration compares with the heads in the file, which --constrain keeps: choose one")
    for picture in (options.calibration, options.output if options.curves else None):
        if picture and os.path.splitext(picture)[1].lower() not in ("", ".png"):
            raise UserError(f"{picture} would be a PNG picture: name it .png")
    files = [getattr(options, name) for name in FILES if getattr(options, name)]
    targets = [path if path == "-" else os.path.realpath(path) for path in files]
    for path, target in zip(files, targets, strict=True):
        if targets.count(target) > 1:
            what = "standard output" if path == "-" else path
            raise UserError(f"{what} can't take two outputs: name different files")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if not (options.curves or options.treebank):
        check_file(options.paths[-1])
    # Imported late: --help and mistakes in the options are answered at once.
    from parsers.evaluation.tables import Report

    report = Report(to_stderr="-" in (getattr(options, name) for name in FILES))
    if options.curves:
        from parsers.evaluation.commands import draw_runs

        return draw_runs(options, report)
    if options.compare:
        from parsers.evaluation.commands import compare_runs

        return compare_runs(options, report)
    from parsers.evaluation.commands import evaluate_run

    return evaluate_run(options, report)


if __name__ == "__main__":
    sys.exit(run_command("evaluate.py", main, sys.argv[1:]))
