"""The options of train.py, which are also what config.json holds."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from parsers import MODELS, load_parser
from parsers.io.arguments import COUNT, SIZE, Quiet, help_format, not_empty, number
from parsers.io.errors import DataError, UserError

EXAMPLES = """More options, of the network and of each system: %(prog)s --model NAME --help

examples:
  %(prog)s --model ntp
      a built-in synthetic treebank, minutes on two cores
  %(prog)s --model ntp --treebank DIR --labeled 0.1 --output RUN
      a tenth of the trees of a UD treebank, DIR/*-ud-{train,dev,test}.conllu
  %(prog)s --model lap --train F --dev F --unlabeled F
      trees, and sentences without trees, from .conllu or .conllu.gz files
  %(prog)s --resume RUN
      after Ctrl-C, a crash or a power cut
  torchrun --nproc-per-node 2 %(prog)s …
      two processes share each batch
"""
NOT_SAVED = ("resume", "output", "help")  # everything else goes into config.json


def build_parser(model: str | None = None) -> ArgumentParser:
    """All options; those of one system only if it is named. Without a name, --help shows the most common ones alone."""
    parser = Quiet(
        prog="train.py",
        usage="train.py --model NAME [options]\n       train.py --resume RUN",
        description=None if model else "Trains a dependency parser.",
        epilog=None if model else EXAMPLES,
        formatter_class=help_format,
        add_help=False,
        allow_abbrev=False,
    )

    def group_of(title: str) -> tuple[Callable, Callable]:
        """To add common options, and rare ones."""
        add = parser.add_argument_group(title).add_argument

        def add_rare(*names: str, help: str, **settings) -> None:
            add(*names, help=help if model else argparse.SUPPRESS, **settings)

        return add, add_rare

    add, _ = group_of("what")
    add("--model", choices=MODELS, metavar="NAME", help=", ".join(MODELS))
    add("--output", type=not_empty, metavar="RUN", help="a new directory (runs/NAME-TREEBANK-1)")
    add("--resume", type=not_empty, metavar="RUN", help="continue a run; its config.json has all options")
    add("-h", "--help", action="store_true", help="with --model: all options, its own too")

    add, rare = group_of("data (none: a synthetic treebank)")
    add("--treebank", type=not_empty, metavar="DIR", help="a UD treebank, or its name under $TRITREE_DATA")
    add("--train", type=not_empty, metavar="FILE", help="CoNLL-U, also .gz; as are the next three")
    add("--dev", type=not_empty, metavar="FILE", help="for early stopping; none: the last epoch counts")
    add("--test", type=not_empty, metavar="FILE", help="for the final figures")
    add("--unlabeled", type=not_empty, metavar="FILE", help="sentences without trees, of any size")
    add("--no-unlabeled", dest="use_unlabeled", action="store_false", help="learn from trees only")
    add("--labeled", type=number(float, 0, 1, True), default=1.0, metavar="SHARE", help="of the trees kept (1.0)")
    add("--xpos", action="store_true", help="use XPOS as another input")
    add("--feats", action="store_true", help="use FEATS as another input")
    add("--embeddings", type=not_empty, metavar="FILE", help="pretrained word vectors, text, also .gz")
    rare("--min-count", type=COUNT, default=2, metavar="N", help="of a word that is in no tree (2)")
    rare("--max-words", type=COUNT, default=50_000, metavar="N", help="in the vocabulary, or those in trees (50000)")

    _, rare = group_of("network")
    rare("--word-size", type=SIZE, default=100, metavar="N", help="of a word embedding (100)")
    rare("--tag-size", type=SIZE, default=25, metavar="N", help="of a tag embedding (25)")
    rare("--lstm-size", type=SIZE, default=125, metavar="N", help="per direction (125)")
    rare("--layers", type=number(int, 1, 16), default=2, metavar="N", help="of the bi-LSTM (2)")
    rare("--hidden-size", type=SIZE, default=100, metavar="N", help="of the arc scorer (100)")
    rare("--distance", action="store_true", help="let scores depend on the length of the arc")
    rare("--dropout", type=number(float, 0, 0.99), default=0.33, metavar="P", help="(0.33)")
    rate = number(float, 0, 1e6)
    rare("--word-dropout", type=rate, default=0.25, metavar="A", help="unknown: A / (A + count) (0.25)")

    add, rare = group_of("training")
    add("--epochs", type=COUNT, default=100, metavar="N", help="at most, in each stage (100)")
    add("--patience", type=COUNT, default=15, metavar="N", help="epochs without a better dev UAS (15)")
    add("--batch-size", type=COUNT, default=4, metavar="N", help="sentences per step, all processes counted (4)")
    rare("--unlabeled-batch-size", type=COUNT, default=32, metavar="N", help="(32)")
    add("--learning-rate", type=number(float, 0, 10), default=1e-3, metavar="R", help="of Adam (0.001)")
    rare("--clip", type=number(float, 0, 1e9), default=5.0, metavar="G", help="longest gradient (5)")
    add("--seed", type=number(int, 0, 2**62), default=1, metavar="N", help="of everything random (1)")

    group = parser.add_argument_group("machine")
    group.add_argument("--device", type=not_empty, metavar="NAME", help="cpu, cuda, cuda:1 (cuda if there is one)")
    group.add_argument("--threads", type=number(int, 1, 4096), metavar="N", help="of a process (as torch has it)")
    precision = group.add_mutually_exclusive_group()
    precision.add_argument("--fp16", action="store_true", help="half precision where it is safe")
    precision.add_argument("--bf16", action="store_true", help="the same with bfloat16")

    if model is not None:
        load_parser(model).add_options(parser.add_argument_group(f"{model} only"))
    return parser


def parse(arguments: list[str]) -> Namespace:
    """The options on a command line."""
    first, _ = build_parser().parse_known_args(arguments)
    options = build_parser(first.model).parse_args(arguments)
    if options.resume and not options.help:
        for argument in arguments:
            if argument.startswith("-") and argument.partition("=")[0] != "--resume":
                raise UserError(
                    f"{argument} would have no effect: a resumed run goes on with the options it began with"
                )
    if not options.help and not options.resume and not options.model:
        raise UserError(f"--model is missing: one of {', '.join(MODELS)} (--help lists the options)")
    if options.unlabeled and not options.use_unlabeled:
        raise UserError("--unlabeled and --no-unlabeled: only one of them can be meant")
    if options.model and not load_parser(options.model).uses_words:
        for name in ("xpos", "feats", "embeddings"):
            if getattr(options, name):
                raise UserError(f"--{name} would have no effect: {options.model} sees nothing but tags")
    return options


def options_to_json(options: Namespace) -> dict:
    return {key: value for key, value in vars(options).items() if key not in NOT_SAVED}


def options_from(saved: object, file: str) -> Namespace:
    """Options from a config.json, with the same checks as on a command line."""
    if not isinstance(saved, dict) or saved.get("model") not in list(MODELS):
        raise DataError(file, None, f"`options` names no known model: {', '.join(MODELS)}")
    parser = build_parser(saved["model"])
    arguments = []
    for action in parser._actions:
        value = saved.get(action.dest)
        if action.dest in NOT_SAVED or value is None:
            continue
        if action.nargs == 0:
            if not isinstance(value, bool):
                raise DataError(file, None, f"option {action.dest} must be true or false")
            if value == action.const:
                arguments.append(action.option_strings[-1])
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(file, None, f"option {action.dest} must be a number or a string")
        elif not str(value).isprintable():  # it may be shown
            raise DataError(file, None, f"option {action.dest} has characters that can't be shown")
        else:
            arguments.append(f"{action.option_strings[-1]}={value}")
    try:
        return parser.parse_args(arguments)
    except UserError as error:
        raise DataError(file, None, f"not the options of a run: {error}") from None
