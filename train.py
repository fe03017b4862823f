"""Trains a dependency parser: `python train.py --help`.

Exit codes: 0 done; 2 the user's mistake, in one line; 130 after Ctrl-C; 1 a fault of ours, or a loss that diverged.
"""

import sys

from parsers import MODELS, load_parser
from parsers.data.sources import find_sources
from parsers.io.command import run_command
from parsers.io.errors import UserError
from parsers.io.files import check_is_run
from parsers.options import build_parser, parse


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.help:
        build_parser(options.model).print_help()
        return 0
    if options.resume:
        check_is_run(options.resume)
    sources = None if options.resume else find_sources(options)
    # Imported here, because torch takes seconds: --help and mistakes in the options are answered without it.
    from parsers.runs.run import Run
    from parsers.training.processes import Group
    from parsers.training.progress import Display

    run = Run.open(options.resume) if options.resume else None
    if run is not None:
        options, sources = run.config()
    with Group(options.device) as group:
        return train(options, sources, run, group, Display(quiet=not group.writes))


def train(options, sources, run, group, display) -> int:
    """A new run, or the rest of an existing one."""
    import torch

    from parsers.data.corpus import Corpus
    from parsers.data.dataset import Data
    from parsers.data.vectors import read_vectors
    from parsers.runs.run import Run, check_model_fits, free_name
    from parsers.training.loop import Diverged, Interrupted, Trainer, warm_up

    is_new = run is None
    # Saved in config.json, because torch's sums depend on it: a resumed run must use the same number.
    options.threads = options.threads or torch.get_num_threads()
    torch.set_num_threads(options.threads)
    with_unlabeled = options.use_unlabeled and MODELS[options.model].uses_unlabeled
    if is_new:
        corpus = Corpus(options, sources, with_unlabeled)
        vocab = corpus.vocabulary(options)
        vectors = read_vectors(options.embeddings) if options.embeddings else None
        check_model_fits(options, vocab, vectors)
        if group.writes:
            run = Run.create(options.output or free_name(options, sources), options, sources, vocab, vectors)
        run = Run.open(group.share(str(run.directory) if group.writes else ""))
    elif run.finished():
        display.say(f"{run} is finished already")
        return 0
    else:
        run.check_files(sources)
        corpus, vocab, vectors = Corpus(options, sources, with_unlabeled), run.vocab(), run.vectors()
        check_model_fits(options, vocab, vectors)
    data = Data.of(options, corpus, vocab, vectors)

    torch.manual_seed(options.seed)
    model = load_parser(options.model)(options, vocab, vectors)
    trainer = Trainer(model, data, options, run, group, display)
    try:
        introduce(display, options, sources, data, model, run)
        if not is_new:
            restored = trainer.restore()
            where = f"resumed in epoch {trainer.state.epoch}, after {trainer.state.step} steps"
            display.say(where if restored else "no whole checkpoint yet: starting over")
        warm_up(group.device, display)
        *epochs, final = trainer.train().history
    except (Interrupted, KeyboardInterrupt) as error:
        display.warn(f"stopped; continue with: python train.py --resume {run}")
        return 128 + getattr(error, "signal_number", 2)
    except BrokenPipeError:  # as with `| head -1`; steps since the last checkpoint run again when resumed
        display.warn(f"nobody reads the output any more; continue with: python train.py --resume {run}")
        raise
    except UserError as error:
        raise UserError(f"{error}; once that is mended, continue with: python train.py --resume {run}") from None
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
    best = epochs[final["best_epoch"] - 1]
    epoch = f"epoch {best['epoch']}" + (f" of stage {best['stage']}" if trainer.stages > 1 else "")
    display.say(f"the model of {epoch}, metrics.jsonl and curves.png are in {run}")
    return 0


def introduce(display, options, sources, data, model, run) -> None:
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
    display.say(f"{parameters:,} parameters on {data.device}; everything goes into {run}")
    if options.label_weight and not model.vocab.labels:
        display.say("the trees have no labels (DEPREL is empty): none are learnt or predicted")
    if not data.dev:
        display.say("no dev set: all epochs are run, and the last one counts")
    if (options.fp16 or options.bf16) and data.device.type == "cpu":
        display.say("half precision on a CPU is for trying it out, mostly slower; the LSTM stays in float32")


if __name__ == "__main__":
    sys.exit(run_command("train.py", main, sys.argv[1:]))
