"""Small models on small data."""

from argparse import Namespace
from pathlib import Path

import torch

from parsers import MODELS, load_parser
from parsers.data import synthetic
from parsers.data.batches import Batch
from parsers.data.dataset import Data
from parsers.data.examples import Indexer
from parsers.data.sources import Sources
from parsers.data.vocabulary import Vocabulary
from parsers.options import parse
from parsers.runs.run import Run
from parsers.system import Parser
from parsers.training.loop import Trainer
from parsers.training.processes import Group
from parsers.training.progress import Display

TINY = ["--word-size=8", "--tag-size=4", "--lstm-size=6", "--hidden-size=5", "--layers=2"]
NO_LABELS = "--label-weight=0"  # for tests of a system's own loss
SMALL = ["--word-size=24", "--tag-size=12", "--lstm-size=32", "--hidden-size=32", "--layers=1", "--learning-rate=0.01"]


def tiny_options(model: str, *arguments: str) -> Namespace:
    return parse([f"--model={model}", *TINY, *arguments])


class SmallCorpus:
    """Some sentences of the synthetic treebank; the dev set is the training trees."""

    def __init__(self, count: int = 20, unlabeled: int = 0):
        self.labeled = synthetic.sentences("train", count=count)
        self.dev, self.test, self.retagged = self.labeled, [], []
        self.unlabeled = synthetic.sentences("unlabeled", count=unlabeled) if unlabeled else []


def small_data(options: Namespace, count: int = 20, unlabeled: int = 0) -> tuple[Data, Vocabulary]:
    """With unlabelled sentences only if the system uses them, as in train.py."""
    corpus = SmallCorpus(count, unlabeled if MODELS[options.model].uses_unlabeled else 0)
    parts = {"with_labels": options.label_weight > 0, "with_characters": options.char_filters > 0}
    vocab = Vocabulary.build(corpus.labeled, corpus.unlabeled, **parts)
    return Data.of(options, corpus, vocab), vocab


def build(options: Namespace, vocab: Vocabulary) -> Parser:
    torch.manual_seed(options.seed)
    return load_parser(options.model)(options, vocab)


def one_batch(data: Data, size: int = 4) -> Batch:
    return next(data.batches(data.labeled[:size], size))


def examples_of(sentences, vocab):
    index = Indexer(vocab)
    return [index(sentence, sentence.heads) for sentence in sentences]


def small_trainer(options: Namespace, directory: Path, group: Group | None = None, **sizes: int) -> Trainer:
    """In a new run directory, or in an existing one."""
    data, vocab = small_data(options, **sizes)
    if directory.exists():
        run = Run.open(str(directory))
    else:
        run = Run.create(str(directory), options, Sources("synthetic"), vocab, None)
    return Trainer(build(options, vocab), data, options, run, group or Group("cpu"), Display(quiet=True))
