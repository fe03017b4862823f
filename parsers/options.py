"""The options of train.py, which are also what config.json holds."""

import argparse
from argparse import ArgumentParser, Namespace

from parsers import MODELS, Option
from parsers.io.arguments import COUNT, SIZE, Quiet, device_name, help_format, not_empty, number
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
COMMON = {
    "data (none: a synthetic treebank)": (
        Option("--treebank", not_empty, None, "DIR", "a UD treebank, or its name under $TRITREE_DATA"),
        Option("--train", not_empty, None, "FILE", "CoNLL-U, also .gz; as are the next three"),
        Option("--dev", not_empty, None, "FILE", "for early stopping; none: the last epoch counts"),
        Option("--test", not_empty, None, "FILE", "for the final figures"),
        Option("--unlabeled", not_empty, None, "FILE", "sentences without trees, of any size"),
        Option("--no-unlabeled", None, True, None, "learn from trees only", key="use_unlabeled"),
        Option("--labeled", number(float, 0, 1, True), 1.0, "SHARE", "of the trees kept (1.0)"),
        Option("--xpos", None, False, None, "use XPOS as another input"),
        Option("--feats", None, False, None, "use FEATS as another input"),
        Option("--embeddings", not_empty, None, "FILE", "pretrained word vectors, text, also .gz"),
        Option("--min-count", COUNT, 2, "N", "of a word that is in no tree (2)", rare=True),
        Option("--max-words", COUNT, 50_000, "N", "in the vocabulary, or those in trees (50000)", rare=True),
    ),
    "network": (
        Option("--word-size", SIZE, 100, "N", "of a word embedding (100)", rare=True),
        Option("--tag-size", SIZE, 25, "N", "of a tag embedding (25)", rare=True),
        Option("--lstm-size", SIZE, 125, "N", "per direction (125)", rare=True),
        Option("--layers", number(int, 1, 16), 2, "N", "of the bi-LSTM (2)", rare=True),
        Option("--hidden-size", SIZE, 100, "N", "of the arc scorer (100)", rare=True),
        Option("--distance", None, False, None, "let scores depend on the length of the arc", rare=True),
        Option("--dropout", number(float, 0, 0.99), 0.33, "P", "(0.33)", rare=True),
        Option("--word-dropout", number(float, 0, 1e6), 0.25, "A", "unknown: A / (A + count) (0.25)", rare=True),
    ),
    "training": (
        Option("--epochs", COUNT, 100, "N", "at most, in each stage (100)"),
        Option("--patience", COUNT, 15, "N", "epochs without a better dev score (15)"),
        Option("--stop-on", ("uas", "las"), "uas", None, "that score: heads, or heads with labels (uas)", rare=True),
        Option("--label-weight", number(float, 0, 1e6), 1.0, "W", "of the labels' loss; 0: no labels (1)", before=0.0),
        Option("--batch-size", COUNT, 4, "N", "sentences per step, all processes counted (4)"),
        Option("--unlabeled-batch-size", COUNT, 32, "N", "(32)", rare=True),
        Option("--learning-rate", number(float, 0, 10), 1e-3, "R", "of Adam (0.001)"),
        Option("--clip", number(float, 0, 1e9), 5.0, "G", "longest gradient (5)", rare=True),
        Option("--seed", number(int, 0, 2**62), 1, "N", "of everything random (1)"),
    ),
    "machine": (
        Option("--device", device_name, None, "NAME", "cpu, cuda, cuda:1 (cuda if there is one)"),
        Option("--threads", number(int, 1, 4096), None, "N", "of a process (as torch has it)"),
        Option("--fp16", None, False, None, "half precision where it is safe"),
        Option("--bf16", None, False, None, "the same with bfloat16"),
    ),
}
EXCLUSIVE = ("--fp16", "--bf16")  # of each other


def saved_options(model: str) -> list[Option]:
    """All options that config.json holds beside the model's name."""
    return [option for options in COMMON.values() for option in options] + list(MODELS[model].options)


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
    add = parser.add_argument_group("what").add_argument
    add("--model", choices=MODELS, metavar="NAME", help=", ".join(MODELS))
    add("--output", type=not_empty, metavar="RUN", help="a new directory (runs/NAME-TREEBANK-1)")
    add("--resume", type=not_empty, metavar="RUN", help="continue a run; its config.json has all options")
    add("-h", "--help", action="store_true", help="with --model: all options, its own too")
    groups = COMMON | ({f"{model} only": MODELS[model].options} if model else {})
    for title, options in groups.items():
        group = parser.add_argument_group(title)
        exclusive = group.add_mutually_exclusive_group()
        for option in options:
            add = (exclusive if option.name in EXCLUSIVE else group).add_argument
            help = argparse.SUPPRESS if option.rare and not model else option.help
            if option.is_flag:
                kind = {"action": "store_false" if option.default else "store_true"}
            else:
                kind = {"choices" if isinstance(option.type, tuple) else "type": option.type, "metavar": option.metavar}
            add(option.name, dest=option.dest, default=option.default, help=help, **kind)
    return parser


def parse(arguments: list[str]) -> Namespace:
    """The options on a command line."""
    first, _ = build_parser().parse_known_args(arguments)
    options = build_parser(first.model).parse_args(arguments)
    if options.resume and not options.help:
        for argument in arguments:
            if argument.startswith("-") and argument.partition("=")[0] != "--resume":
                why = "a resumed run goes on with the options it began with"
                raise UserError(f"{argument} would have no effect: {why}")
    if not options.help and not options.resume and not options.model:
        raise UserError(f"--model is missing: one of {', '.join(MODELS)} (--help lists the options)")
    if options.unlabeled and not options.use_unlabeled:
        raise UserError("--unlabeled and --no-unlabeled: only one of them can be meant")
    if options.model and not MODELS[options.model].uses_words:
        for name in ("xpos", "feats", "embeddings"):
            if getattr(options, name):
                raise UserError(f"--{name} would have no effect: {options.model} sees nothing but tags")
    return options


def options_to_json(options: Namespace) -> dict:
    saved = {option.dest: getattr(options, option.dest) for option in saved_options(options.model)}
    return {"model": options.model, **saved}


def options_from(saved: object, file: str) -> Namespace:
    """Options from a config.json, with the same checks as on a command line."""
    if not isinstance(saved, dict) or saved.get("model") not in list(MODELS):
        raise DataError(file, None, f"`options` names no known model: {', '.join(MODELS)}")
    arguments = [f"--model={saved['model']}"]
    for option in saved_options(saved["model"]):
        value = saved.get(option.dest, option.before)
        if value is None:
            continue
        if option.is_flag:
            if not isinstance(value, bool):
                raise DataError(file, None, f"option {option.dest} must be true or false")
            if value != option.default:
                arguments.append(option.name)
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(file, None, f"option {option.dest} must be a number or a string")
        elif not str(value).isprintable():  # it may be shown
            raise DataError(file, None, f"option {option.dest} has characters that can't be shown")
        else:
            arguments.append(f"{option.name}={value}")
    try:
        return build_parser(saved["model"]).parse_args(arguments)
    except UserError as error:
        raise DataError(file, None, f"not the options of a run: {error}") from None
