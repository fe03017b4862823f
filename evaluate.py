"""Parses a file with a trained model and measures the result: `python evaluate.py --help`.

Exit codes: 0 done; 2 the user's mistake, in one line; 130 after Ctrl-C; 1 a fault of ours.
"""

import argparse
import json
import sys
import time

from parsers.command import run_command
from parsers.errors import UserError
from parsers.options import Quiet

EXAMPLES = """examples:
  %(prog)s RUN FILE.conllu                          attachment scores of the run's best model
  %(prog)s RUN --treebank DIR --split dev           the same for a part of a treebank
  %(prog)s RUN FILE.conllu --output parsed.conllu   writes the predicted heads; all else stays as it is
  cat FILE.conllu | %(prog)s RUN - --output -       in a pipe; the report goes to stderr
"""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Quiet(
        prog="evaluate.py",
        description="Parses sentences with the best model of a run, and scores the trees where the file has heads.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="a directory that train.py made")
    parser.add_argument("file", metavar="FILE", nargs="?", help="CoNLL-U, also .gz; - is standard input")
    parser.add_argument("--treebank", metavar="DIR", help="instead of FILE: a directory, or a name under $TRITREE_DATA")
    parser.add_argument("--split", choices=("train", "dev", "test"), default="test", help="which part of it (test)")
    parser.add_argument("--output", metavar="FILE", help="write the sentences with the predicted heads; - is stdout")
    parser.add_argument("--json", metavar="FILE", help="write the figures, unrounded")
    parser.add_argument("--multi-root", action="store_true", help="several words may hang from the root")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1 (cuda if there is one)")
    options = parser.parse_args(arguments)
    if (options.file is None) == (options.treebank is None):
        raise UserError("name either a FILE or a --treebank (--help lists the options)")
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    # Imported late: --help and mistakes in the options are answered at once.
    from parsers.batches import Encoding
    from parsers.conllu import read
    from parsers.data import find_split, find_treebank
    from parsers.evaluation import parse_sentences
    from parsers.metrics import Scores, is_punctuation
    from parsers.output import output
    from parsers.parallel import choose_device
    from parsers.run import Run

    path = options.file or find_split(find_treebank(options.treebank), options.split)
    run = Run.open(options.run)
    model, vocab, vectors = run.load_model(run.config()[0], choose_device(options.device, 0))
    scores, sentences, began = Scores(), 0, time.monotonic()
    with output(options.output) as write:
        parsed = read(path, keep_lines=options.output is not None)
        for sentence, heads in parse_sentences(model, Encoding(vocab, vectors), parsed, not options.multi_root):
            scores.add(heads, sentence.heads, list(map(is_punctuation, sentence.upos, sentence.xpos)))
            sentences += 1
            if options.output:
                write(sentence.text(heads))
    seconds = time.monotonic() - began

    report = sys.stderr if options.output == "-" or options.json == "-" else sys.stdout
    figures = {**scores.summary(), **vars(scores), "parsed_sentences": sentences}
    figures["sentences_per_second"] = sentences / max(seconds, 1e-9)
    if scores.words:
        print(
            f"UAS {scores.uas:.2f}  without punctuation {scores.uas_without_punctuation:.2f}  "
            f"complete matches {scores.complete_matches:.2f}  ({scores.words} words)",
            file=report,
        )
    else:
        print("no heads in the file: not scored", file=report)
    print(f"{sentences} sentences, {figures['sentences_per_second']:.0f} per second", file=report)
    if options.json:
        with output(options.json) as write:
            write(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command("evaluate.py", main, sys.argv[1:]))
