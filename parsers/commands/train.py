"""train.py: trains a dependency parser.

Exit codes: 0 done; 2 the user's mistake, in one line; 130 after Ctrl-C; 1 a fault of ours, or a loss that diverged.
"""

import os
import sys

from parsers import MODELS, load_parser
from parsers.data.sources import find_sources
from parsers.data.vocabulary import SPECIAL
from parsers.io.command import called_as, run_command
from parsers.io.errors import UserError
from parsers.io.extra import check_extra
from parsers.io.files import check_is_run
from parsers.options import build_parser, parse


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.help:
        build_parser(options.model).print_help()
        return 0
    check_extra()
    if options.resume:
        check_is_run(options.resume)
    if options.init:
        check_is_run(options.init)
        options.init = os.path.abspath(options.init)
    sources = None if options.resume else find_sources(options)
    # Imported here, because torch takes seconds: --help and mistakes in the options are answered without it.
    from parsers.runs.run import Run
    from parsers.training.processes import Group
    from parsers.training.progress import Display

    run = Run.open(options.resume) if options.resume else None
    more_epochs = options.more_epochs if run else None
    if run is not None:
        options, sources = run.config()
    with Group(options.device) as group:
        display = Display(quiet=not group.writes)
        with display.notices():
            return train(options, sources, run, more_epochs, group, display)


def train(options, sources, run, more_epochs, group, display) -> int:
    """A new run, or the rest of an existing one, or more epochs of one that is finished."""
    import torch

    from parsers.data.corpus import Corpus
    from parsers.data.dataset import Data
    from parsers.data.vectors import read_vectors
    from parsers.networks.device import training_threads
    from parsers.runs.init import Start
    from parsers.runs.run import Run, check_model_fits, free_name
    from parsers.training.loop import Diverged, Interrupted, Trainer, warm_up
    from parsers.training.tagging import columns_for, mismatches, ready_tagger, tag_corpus
    from parsers.training.teachers import Preparation, ensemble_figures

    is_new, start = run is None, None
    again = f"{called_as('python train.py')} --resume"
    with_unlabeled = options.use_unlabeled and MODELS[options.model].uses_unlabeled
    # Saved in config.json, because torch's sums depend on it: a resumed run must use the same number.
    options.threads = options.threads or training_threads(options, with_unlabeled)
    torch.set_num_threads(options.threads)
    if is_new:
        corpus = Corpus(options, sources, with_unlabeled)
        columns = columns_for(corpus.labeled, options)
        vectors = read_vectors(options.embeddings) if options.embeddings else None
        start = Start(options) if options.init else None
        vocab = corpus.vocabulary(options, with_tagger=bool(columns), start=start and start.vocab)
        check_model_fits(options, vocab, vectors)
        if start:
            start.check(options, vocab, vectors)
        if group.writes:
            name = options.output or free_name(options, sources)
            run = Run.create(name, options, sources, vocab, vectors, start.files() if start else [])
        run = Run.open(group.share(str(run) if group.writes else ""))
    elif not more_epochs and run.finished():
        display.say(f"{run} is finished already")
        return 0
    else:
        run.check_files(sources.files())
        corpus, vocab, vectors = Corpus(options, sources, with_unlabeled), run.vocab(), run.vectors()
        columns = columns_for(corpus.labeled, options)
        check_model_fits(options, vocab, vectors)
        if more_epochs:
            run.check_goes_on()
            group.share()  # all have looked
            if group.writes:
                run.go_on(more_epochs)
            group.share()
    try:
        tagger = ready_tagger(run, corpus, columns, options, vocab, group, display)
        if tagger is not None:
            tag_corpus(corpus, tagger)
        data = Data.of(options, corpus, vocab, vectors)
        data.report |= tagger.figures if tagger else {}
        torch.manual_seed(options.seed)
        model = load_parser(options.model)(options, vocab, vectors)
        if start:
            start.fill(model, vectors)
        introduce(display, options, sources, data, model, run, group.device)
        if is_new:
            for line in mismatches(corpus, sources, options, vectors, tagger):
                display.warn(f"{called_as('train.py')}: {line}")
        warm_up(group.device, display)
        ensemble = Preparation(run, data, options, vocab, vectors, group).prepare(model, display)
        trainer = Trainer(model, data, options, run, group, display)
        if ensemble:
            data.report |= ensemble_figures(trainer, ensemble)
        if not is_new:
            restored = trainer.restore()
            if options.init and not restored:
                start = Start(options)
                run.check_files(start.files())
                start.fill(model, vectors)
            where = f"resumed in epoch {trainer.state.epoch}, after {trainer.state.step} steps"
            display.say(where if restored else "no whole checkpoint yet: starting over")
        *epochs, final = trainer.train().history
    except (Interrupted, KeyboardInterrupt) as error:
        display.warn(f"stopped; continue with: {again} {run}")
        return 128 + getattr(error, "signal_number", 2)
    except BrokenPipeError:  # as with `| head -1`; steps since the last checkpoint run again when resumed
        display.warn(f"nobody reads the output any more; continue with: {again} {run}")
        raise
    except UserError as error:
        raise UserError(f"{error}; once that is mended, continue with: {again} {run}") from None
    except Diverged as error:
        display.warn(f"{run}: {error}")
        return 1
    for split in ("dev", "test"):
        if f"{split}_uas" in final:
            plain = final[f"{split}_uas_without_punctuation"]
            text = f"{split} UAS {final[f'{split}_uas']:.2f}, {plain:.2f} without punctuation"
            if f"{split}_las" in final:
                text += f"; LAS {final[f'{split}_las']:.2f}, CLAS {final[f'{split}_clas']:.2f}"
            display.say(text)
    if "tagger_test_uas" in final:
        las = f", LAS {final['tagger_test_las']:.2f}" if "tagger_test_las" in final else ""
        display.say(f"test with predicted tags: UAS {final['tagger_test_uas']:.2f}{las}")
    best = epochs[final["best_epoch"] - 1]
    epoch = f"epoch {best['epoch']}" + (f" of stage {best['stage']}" if trainer.stages > 1 else "")
    display.say(f"the model of {epoch}, metrics.jsonl and curves.png are in {run}")
    return 0


def introduce(display, options, sources, data, model, run, device) -> None:
    report = data.report
    trees = f"{report['trees']} trees"
    if report["lifted_trees"]:
        trees += f" ({report['lifted_trees']} of them made projective, lifts: {report['lifts']})"
    if not data.unlabeled:
        unlabeled = "no other sentences" + " (it learns from trees only)" * (not MODELS[options.model].uses_unlabeled)
    else:
        unlabeled = f"{report['unlabeled']} unlabelled sentences" if "unlabeled" in report else sources.unlabeled
    sizes = [trees, unlabeled, *(f"{report[split]} {split} sentences" for split in ("dev", "test"))]
    display.say(f"{options.model} on {sources.name}: {', '.join(sizes)}")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    threads = f", {options.threads} thread{'s' * (options.threads != 1)}" if device.type == "cpu" else ""
    display.say(f"{parameters:,} parameters on {device}{threads}; everything goes into {run}")
    if options.label_weight and not model.vocab.labels:
        display.say("the trees have no labels (DEPREL is empty): none are learnt or predicted")
    if set(model.vocab.pos.symbols) <= {*SPECIAL, "_"}:
        display.say("the trees have no tags (UPOS and XPOS are empty): none are learnt or read")
    if not data.dev:
        display.say("no dev set: all epochs are run, and the last one counts")
    if (options.fp16 or options.bf16) and device.type == "cpu":
        display.say(
            "half precision on a CPU is for trying it out: most products stay in float32, which is faster there"
        )
    if model.shown_loss != "loss":
        name = model.shown_loss.replace("_", " ")
        display.say(f"{name}: the part of the loss that can be compared between epochs; all of it is in metrics.jsonl")
    if data.unlabeled and model.shown_unlabeled != "unlabeled_loss":
        name = model.shown_unlabeled.removeprefix("unlabeled_")
        display.say(f"unlabelled: the {name} of the text, which can be compared between epochs")


def run() -> int:
    return run_command(called_as("train.py"), main, sys.argv[1:])
