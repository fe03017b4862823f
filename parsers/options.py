"""The options of train.py, which are also what config.json holds."""

import argparse
from argparse import ArgumentParser, Namespace

from parsers import MODELS, Option
from parsers.io.arguments import COUNT, SHARE, SIZE, Quiet, device_name, help_format, not_empty, number
from parsers.io.command import called_as
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
SIZE_OR_NONE = number(int, 0, 2**16)
COMMON = {
    "data (none: a synthetic treebank)": (
        Option("--treebank", not_empty, None, "DIR", "a UD treebank, or its name under $TRITREE_DATA"),
        Option("--train", not_empty, None, "FILE", "CoNLL-U, also .gz; as are the next three"),
        Option("--dev", not_empty, None, "FILE", "for early stopping; none: the last epoch counts"),
        Option("--test", not_empty, None, "FILE", "for the final figures"),
        Option("--unlabeled", not_empty, None, "FILE", "sentences without trees; .txt: one per line"),
        Option("--no-unlabeled", None, True, None, "learn from trees only", key="use_unlabeled"),
        Option("--labeled", number(float, 0, 1, True), 1.0, "SHARE", "of the trees kept (1.0)"),
        Option("--xpos", None, False, None, "use XPOS as another input"),
        Option("--feats", None, False, None, "use FEATS as another input"),
        Option("--no-tagger", None, True, None, "don't learn to tag", key="tagger", before=False, rare=True),
        Option("--embeddings", not_empty, None, "FILE", "pretrained word vectors, text, also .gz"),
        Option("--min-count", COUNT, 2, "N", "of a word that is in no tree (2)", rare=True),
        Option("--max-words", COUNT, 50_000, "N", "in the vocabulary, or those in trees (50000)", rare=True),
    ),
    "network": (
        Option("--word-size", SIZE, 100, "N", "of a word embedding (100)", rare=True),
        Option("--tag-size", SIZE, 25, "N", "of a tag embedding (25)", rare=True),
        Option("--lstm-size", SIZE, 125, "N", "per direction (125)", rare=True),
        Option("--char-filters", SIZE_OR_NONE, 0, "N", "that read the characters of a word; 0: none (0)", rare=True),
        Option(
            "--encoder-words", ("trees", "all"), "trees", "OF", "known words: of trees, or of all (trees)", rare=True
        ),
        Option("--layers", number(int, 1, 16), 2, "N", "of the bi-LSTM (2)", rare=True),
        Option("--scorer", ("tanh", "biaffine"), "tanh", "KIND", "of arcs: tanh or biaffine (tanh)", rare=True),
        Option("--hidden-size", SIZE, 100, "N", "of the arc scorer (100)", rare=True),
        Option("--label-size", SIZE_OR_NONE, 50, "N", "of the labels' network; 0: hidden size (50)", 0, rare=True),
        Option("--distance", None, False, None, "let scores depend on the length of the arc", rare=True),
        Option("--dropout", number(float, 0, 0.99), 0.33, "P", "(0.33)", rare=True),
        Option("--dropout-mask", ("element", "sentence"), "element", "PER", "element or sentence (element)", rare=True),
        Option("--word-dropout", number(float, 0, 1e6), 0.25, "A", "unknown: A / (A + count) (0.25)", rare=True),
        Option("--tag-dropout", SHARE, 0.0, "P", "of tags, XPOS and FEATS, all at once (0)", rare=True),
        Option("--decode", ("viterbi", "mbr"), "viterbi", "HOW", "mbr: the surest arcs (viterbi)", rare=True),
    ),
    "training": (
        Option("--epochs", COUNT, 100, "N", "at most, in each stage (100)"),
        Option("--patience", COUNT, 15, "N", "epochs without a better dev score (15)"),
        Option("--stop-on", ("uas", "las"), "uas", None, "that score: heads, or heads with labels (uas)", rare=True),
        Option("--label-weight", number(float, 0, 1e6), 1.0, "W", "of the labels' loss; 0: no labels (1)", before=0.0),
        Option("--batch-size", COUNT, 4, "N", "sentences per step, all processes counted (4)"),
        Option("--unlabeled-batch-size", COUNT, 32, "N", "(32)", rare=True),
        Option("--learning-rate", number(float, 0, 10), 1e-3, "R", "of Adam (0.001)"),
        Option("--beta2", number(float, 0, 0.9999999), 0.999, "B", "of Adam (0.999)", rare=True),
        Option("--ema", number(float, 0, 0.9999999), 0.0, "D", "decay of the averaged weights; 0: none (0)", rare=True),
        Option("--clip", number(float, 0, 1e9), 5.0, "G", "longest gradient (5)", rare=True),
        Option("--seed", number(int, 0, 2**62), 1, "N", "of everything random (1)"),
        Option("--init", not_empty, None, "RUN", "start from its weights; words are added", rare=True),
        Option("--paper", None, False, None, "the system as in the paper, without labels", rare=True),
    ),
    "machine": (
        Option("--device", device_name, None, "NAME", "cpu, cuda, cuda:1 (cuda if there is one)"),
        Option("--threads", number(int, 1, 4096), None, "N", "of a process (1, or more for large models)"),
        Option("--fp16", None, False, None, "half precision where it is safe"),
        Option("--bf16", None, False, None, "the same with bfloat16"),
    ),
}
EXCLUSIVE = ("--fp16", "--bf16")  # of each other
PAPER = {"label_weight": 0.0}  # what --paper sets for all systems


def saved_options(model: str) -> list[Option]:
    """All options that config.json holds beside the model's name."""
    return [option for options in COMMON.values() for option in options] + list(MODELS[model].options)


def changed_defaults(model: str, paper: bool) -> dict[str, object]:
    """The defaults of a system that differ from those in the table of options."""
    row = MODELS[model]
    return row.defaults | (PAPER | row.paper if paper and row.paper is not None else {})


def build_parser(model: str | None = None, paper: bool = False) -> ArgumentParser:
    """All options; those of one system only if it is named. Without a name, --help shows the most common ones alone.

    ``paper``: the defaults are those of --paper.
    """
    changed = changed_defaults(model, paper) if model else {}
    parser = Quiet(
        prog=called_as("train.py"),
        usage="%(prog)s --model NAME [options]\n       %(prog)s --resume RUN [--epochs N]",
        description=None if model else "Trains a dependency parser.",
        epilog=None if model else EXAMPLES,
        formatter_class=help_format,
        add_help=False,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("what").add_argument
    add("--model", choices=MODELS, metavar="NAME", help=", ".join(MODELS))
    add("--output", type=not_empty, metavar="RUN", help="a new directory (runs/NAME-TREEBANK-1)")
    add("--resume", type=not_empty, metavar="RUN", help="continue a run; if finished, with --epochs N more")
    add("-h", "--help", action="store_true", help="with --model: all options, its own too")
    groups = COMMON | ({f"{model} only": MODELS[model].options} if model else {})
    for title, options in groups.items():
        group = parser.add_argument_group(title)
        exclusive = group.add_mutually_exclusive_group()
        for option in options:
            add = (exclusive if option.name in EXCLUSIVE else group).add_argument
            default = changed.get(option.dest, option.default)
            help = argparse.SUPPRESS if option.rare and not model else _with_default(option, default)
            if option.is_flag and option.dest in changed:
                kind = {"action": argparse.BooleanOptionalAction}
            elif option.is_flag:
                kind = {"action": "store_false" if option.default else "store_true"}
            else:
                kind = {"choices" if isinstance(option.type, tuple) else "type": option.type, "metavar": option.metavar}
            add(option.name, dest=option.dest, default=default, help=help, **kind)
    return parser


def _with_default(option: Option, default: object) -> str:
    """The help text, whose end is the default in brackets: that of the system at hand."""
    if default == option.default or option.is_flag:
        return option.help
    return f"{option.help.rpartition(' (')[0]} ({default})".lstrip()


def parse(arguments: list[str]) -> Namespace:
    """The options on a command line."""
    first, _ = build_parser().parse_known_args(arguments)
    options = build_parser(first.model, first.paper).parse_args(arguments)
    if options.resume and not options.help:
        names = {argument.partition("=")[0] for argument in arguments if argument.startswith("-")}
        if others := sorted(names - {"--resume", "--epochs"}):
            why = "a resumed run goes on with the options it began with"
            raise UserError(f"{others[0]} would have no effect: {why}")
        options.more_epochs = options.epochs if "--epochs" in names else None
    if not options.help and not options.resume and not options.model:
        raise UserError(f"--model is missing: one of {', '.join(MODELS)} (--help lists the options)")
    if options.unlabeled and not options.use_unlabeled:
        raise UserError("--unlabeled and --no-unlabeled: only one of them can be meant")
    if getattr(options, "taught_on", "text") == "trees" and (options.unlabeled or not options.use_unlabeled):
        other = "--unlabeled" if options.unlabeled else "--no-unlabeled"
        raise UserError(f"--taught-on trees and {other}: only one of them can be meant")
    if options.stop_on == "las" and not options.label_weight:
        raise UserError("--stop-on las compares labels, and with --label-weight 0 there are none")
    if options.model and options.paper and MODELS[options.model].paper is None:
        raise UserError(f"--paper would have no effect: {options.model} is not in the paper")
    if options.model and not MODELS[options.model].uses_words:
        for name in ("xpos", "feats", "embeddings", "char_filters"):
            if getattr(options, name):
                shown = name.replace("_", "-")
                raise UserError(f"--{shown} would have no effect: {options.model} sees nothing but tags")
    return options


def options_to_json(options: Namespace) -> dict:
    saved = {option.dest: getattr(options, option.dest) for option in saved_options(options.model)}
    return {"model": options.model, **saved}


def options_from(saved: object, file: str) -> Namespace:
    """Options from a config.json, with the same checks as on a command line."""
    if not isinstance(saved, dict) or saved.get("model") not in list(MODELS):
        raise DataError(file, None, f"`options` names no known model: {', '.join(MODELS)}")
    paper = saved.get("paper") is True
    parser, changed = build_parser(saved["model"], paper), changed_defaults(saved["model"], paper)
    arguments = [f"--model={saved['model']}"]
    for option in saved_options(saved["model"]):
        value = saved.get(option.dest, option.before)
        if value is None:
            continue
        if option.is_flag:
            if not isinstance(value, bool):
                raise DataError(file, None, f"option {option.dest} must be true or false")
            if value != parser.get_default(option.dest):
                negated = option.dest in changed and not value
                arguments.append(f"--no-{option.name[2:]}" if negated else option.name)
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(file, None, f"option {option.dest} must be a number or a string")
        elif not str(value).isprintable():  # it may be shown
            raise DataError(file, None, f"option {option.dest} has characters that can't be shown")
        else:
            arguments.append(f"{option.name}={value}")
    try:
        return parser.parse_args(arguments)
    except UserError as error:
        raise DataError(file, None, f"not the options of a run: {error}") from None
