"""Parses a file with a trained model, measures the result and shows it: `python evaluate.py --help`.

Exit codes: 0 done; 2 the user's mistake, in one line; 130 after Ctrl-C; 1 a fault of ours.
"""

import argparse
import sys

from parsers.command import run_command
from parsers.errors import UserError
from parsers.options import Quiet, number

USAGE = """evaluate.py RUN FILE.conllu [options]
       evaluate.py RUN --treebank DIR [--split dev] [options]
       evaluate.py --compare RUN1 RUN2 FILE.conllu [--output arcs.tsv] [--json FILE]
       evaluate.py --curves RUN… [--output curves.png]"""
EXAMPLES = """examples:
  %(prog)s RUN FILE.conllu                                       attachment scores where there are heads
  %(prog)s RUN FILE.conllu --output parsed.conllu --confidence   predicted heads, and how sure they are
  %(prog)s RUN FILE.conllu --html trees.html --draw 3            trees to look at
  %(prog)s RUN partly.conllu --constrain --output all.conllu     heads in the file stay, _ are parsed
  cat FILE.conllu | %(prog)s RUN - --output - > parsed.conllu    in a pipe; the report goes to stderr
"""
FILES = ("output", "json", "html", "calibration")
# What goes with --compare and --curves; everything goes without them.
COMPARE = {"compare", "paths", "treebank", "split", "decode", "multi_root", "device", "output", "json"}
CURVES = {"curves", "output"}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Quiet(
        prog="evaluate.py",
        usage=USAGE,
        description="Parses sentences with the best model of a run, and scores the trees where the file has heads.",
        epilog=EXAMPLES,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=110),
        add_help=False,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("what").add_argument
    add("paths", metavar="RUN FILE", nargs="*", help="a directory that train.py made; CoNLL-U, also .gz, - is stdin")
    add("--treebank", metavar="DIR", help="in place of FILE: a directory, or a name under $TRITREE_DATA")
    add("--split", choices=("train", "dev", "test"), help="which part of the treebank (test)")
    add(
        "--compare",
        nargs=2,
        metavar=("RUN1", "RUN2"),
        help="is the second better? A paired bootstrap, and where they differ",
    )
    add("--curves", nargs="+", metavar="RUN", help="a picture of the learning curves of some runs")
    add("-h", "--help", action="help", help="show this and exit")
    add = parser.add_argument_group("trees").add_argument
    add(
        "--decode",
        choices=("viterbi", "mbr"),
        default="viterbi",
        help="the best tree (default), or the most probable arcs",
    )
    add("--multi-root", action="store_true", help="several words may hang from the root")
    add(
        "--constrain", action="store_true", help="keep the heads in the file and parse where it has _ instead of a head"
    )
    add("--device", metavar="NAME", help="cpu, cuda, cuda:1 (cuda if there is one)")
    add = parser.add_argument_group("output (- is stdout)").add_argument
    add("--output", metavar="FILE", help="the file with the predicted heads; all else stays as it is")
    add(
        "--confidence", action="store_true", help="there too: Prob=0.9731 in MISC; log_prob and entropy of the sentence"
    )
    add("--json", metavar="FILE", help="all figures, unrounded")
    add("--html", metavar="FILE", help="a page with the trees, errors and doubts, to look at in a browser")
    add("--draw", type=number(int, 1, 1000), metavar="N", help="the first N trees, in the terminal")
    add("--calibration", metavar="FILE.png", help="a picture: can the probabilities be trusted?")
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
        named = [] if options.compare else ["RUN"]
        expected = [*named, *([] if options.treebank else ["FILE"])]
        if len(options.paths) != len(expected):
            what = f"expected {' '.join(expected) or 'no FILE'}{' before --treebank' if options.treebank else ''}"
            found = " ".join(options.paths) or "nothing"
            raise UserError(f"{what}, and found {found}: name either a FILE or a --treebank (--help has examples)")
        if options.split and not options.treebank:
            raise UserError("--split is a part of a --treebank: name one")
    if options.confidence and not options.output:
        raise UserError("--confidence is written to --output: name a file")
    if options.constrain and options.calibration:
        raise UserError("--calibration compares with the heads in the file, which --constrain keeps: choose one")
    for name in FILES:
        if getattr(options, name) == "":
            raise UserError(f"--{name} has no name: name a file")
    files = [getattr(options, name) for name in FILES if getattr(options, name)]
    for path in files:
        if files.count(path) > 1:
            what = "standard output" if path == "-" else path
            raise UserError(f"{what} can't take two outputs: name different files")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    # Imported late: --help and mistakes in the options are answered at once.
    from parsers.report import Report

    report = Report(to_stderr="-" in (getattr(options, name) for name in FILES))
    if options.curves:
        from parsers.evaluating import draw_runs

        return draw_runs(options, report)
    if options.compare:
        from parsers.evaluating import compare_runs

        return compare_runs(options, report)
    from parsers.evaluating import evaluate_run

    return evaluate_run(options, report)


if __name__ == "__main__":
    sys.exit(run_command("evaluate.py", main, sys.argv[1:]))
