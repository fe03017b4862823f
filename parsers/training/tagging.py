"""The training of a tagger, on the CPU: a minute for 300 sentences.

It depends on the sentences, the columns and the seed, and on nothing else. It is not interrupted and resumed: a run
that is killed meanwhile trains its tagger again, before its parser. The parser's results do not depend on it where all
sentences have tags.
"""

import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from parsers import MODELS
from parsers.data.batches import bucketed
from parsers.data.conllu import Sentence
from parsers.data.corpus import Corpus, Stream
from parsers.data.examples import Indexer
from parsers.data.noise import Noise, seed_of
from parsers.data.sources import Sources
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import Vocabulary, normalize
from parsers.evaluation.mismatch import Mismatch
from parsers.evaluation.tags import TagScores
from parsers.networks.device import one_thread
from parsers.networks.tagger import COLUMNS, Sizes, TaggerBatch, TaggerNetwork, TaggerSymbols
from parsers.runs.run import Run
from parsers.runs.tagger import MAX_CELLS, Tagger, has_tagger, replaced
from parsers.training.processes import Group
from parsers.training.progress import WARM, Display

PASSES, MIN_STEPS, MAX_STEPS = 30, 600, 3000
BATCHES, MAX_BATCH = 36, 32  # sentences are divided into this many batches, or into more of at most 32 sentences
LEARNING_RATE = 0.003  # at the beginning; then it falls to 0
WORD_DROPOUT = 1.0  # α: a word that occurs n times is unknown with probability α / (α + n)
DROPOUT = 0.4
SMOOTHING = 0.1  # of the labels
CLIP = 5.0
SIZES = Sizes()
SAMPLE = 1000  # unlabelled sentences of a file that are compared with the trees


def columns_for(trees: list[Sentence], options: Namespace) -> tuple[str, ...]:
    """What the run's tagger predicts: the tag, and XPOS and FEATS if they are inputs; nothing with --no-tagger, or if
    the trees have no tags."""
    found = tagged_columns(trees)
    tag = next((column for column in ("upos", "xpos") if column in found), None)
    if not options.tagger or tag is None:
        return ()
    return tuple(column for column in found if column == tag or getattr(options, column, False))


def ready_tagger(
    run: Run,
    corpus: Corpus,
    columns: tuple[str, ...],
    options: Namespace,
    vocab: Vocabulary,
    group: Group,
    display: Display,
) -> Tagger | None:
    """The tagger of a run, trained now unless the run has it; None without columns. Process 0 trains, others wait."""
    if not columns:
        return None
    if group.writes and not has_tagger(run.directory):
        began = time.monotonic()

        def show(done: int, steps: int) -> None:
            if display.due():
                left = (time.monotonic() - began) / done * (steps - done)
                display.update("tagger", done, steps, left if done > WARM else None)

        with display.bar():
            trees, dev = corpus.labeled, corpus.dev
            tagger = train_tagger(trees, dev, columns, options.seed, vocab.normalize, SIZES, display.say, show)
            tagger.save(run.directory)
    group.share()
    return run.tagger(vocab)


def tag_corpus(corpus: Corpus, tagger: Tagger) -> None:
    """Gives all words a tag that have none, but for those of the trees. A stream is tagged in each pass. The test set
    is there a second time, with predicted tags only."""
    corpus.retagged = [replaced(sentence, tags) for sentence, tags in tagger.pairs(corpus.test)]
    corpus.dev, corpus.test = list(tagger.tagged(corpus.dev)), list(tagger.tagged(corpus.test))
    unlabeled = corpus.unlabeled
    if isinstance(unlabeled, list):
        corpus.unlabeled = list(tagger.tagged(unlabeled))
    else:
        corpus.unlabeled = Stream(lambda: tagger.tagged(unlabeled))


def mismatches(
    corpus: Corpus, sources: Sources, options: Namespace, vectors: Vectors | None, tagger: Tagger | None
) -> Iterator[str]:
    """What makes dev, test and unlabelled sentences unlike the trees, a line for each; after ``tag_corpus``.

    Of a file of unlabelled sentences the beginning is looked at.
    """
    trees = Vocabulary.build(corpus.labeled)
    num_words = len(trees.words) if MODELS[options.model].uses_words else None
    unlabeled = islice(sources.sentences("unlabeled"), SAMPLE) if corpus.unlabeled else []
    splits = {
        "the dev set": corpus.dev,
        "the test set": corpus.test,
        "the unlabelled sentences": tagger.tagged(unlabeled) if tagger else unlabeled,
    }
    for name, sentences in splits.items():
        mismatch = Mismatch(Indexer(trees, vectors), options, num_words)
        for sentence in sentences:
            mismatch(sentence)
        if line := mismatch.line(name):
            yield line


def tagged_columns(trees: list[Sentence], columns: Sequence[str] = COLUMNS) -> tuple[str, ...]:
    """Those of the columns that are not empty."""
    return tuple(
        column for column in columns if any(tag != "_" for sentence in trees for tag in getattr(sentence, column))
    )


def train_tagger(
    trees: list[Sentence],
    dev: list[Sentence] = (),
    columns: Sequence[str] = ("upos",),
    seed: int = 1,
    normalize: Callable[[str], str] = normalize,
    sizes: Sizes = SIZES,
    say: Callable[[str], None] = lambda text: None,
    show: Callable[[int, int], None] = lambda done, steps: None,
) -> Tagger:
    """A tagger that learns from ``trees`` to fill ``columns``; its accuracy on ``dev`` is in its figures.

    ``show`` gets the number of steps done, and of all."""
    empty = set(columns) - set(tagged_columns(trees, columns))
    if empty or not columns:
        raise ValueError(f"no word has a tag in {', '.join(sorted(empty)) or 'any column'}")
    began = time.monotonic()
    with one_thread():  # with more, tensors as small as these take longer: 12 s instead of 7
        tagger = _trained(trees, columns, seed, normalize, sizes, show)
    found = accuracy(tagger, dev)
    tagger.figures |= {f"tagger_{column}_accuracy": share for column, share in found.items()}
    tagger.figures["tagger_seconds"] = time.monotonic() - began
    shares = "".join(f", {column.upper()} {share:.1f} % of dev" for column, share in found.items())
    say(f"tagger: {len(trees)} sentences in {tagger.figures['tagger_seconds']:.0f} s{shares}")
    return tagger


def _trained(
    trees: list[Sentence],
    columns: Sequence[str],
    seed: int,
    normalize: Callable[[str], str],
    sizes: Sizes,
    show: Callable[[int, int], None],
) -> Tagger:
    symbols, counts = TaggerSymbols.of(trees, columns, normalize)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_of("tagger", seed))
        network = TaggerNetwork(symbols, sizes)
    drop = WORD_DROPOUT / (WORD_DROPOUT + torch.tensor([0, *counts]))
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    size = min(MAX_BATCH, -(-len(trees) // BATCHES))
    per_pass = sum(1 for _ in bucketed(trees, size, MAX_CELLS**2))
    steps = min(max(PASSES * per_pass, MIN_STEPS), MAX_STEPS)
    for step, sentences in enumerate(islice(_forever(trees, size, seed), steps)):
        noise = Noise(("tagger", seed, step), len(sentences), slice(None), torch.device("cpu"))
        batch = TaggerBatch.of([sentence.forms for sentence in sentences], symbols)
        scores = network(batch, drop, DROPOUT, noise)
        loss = sum(_loss(scores[column], sentences, column, symbols) for column in columns)
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / steps)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        show(step + 1, steps)
    return Tagger(symbols, sizes, network.requires_grad_(False), {})


def _loss(scores: Tensor, sentences: list[Sentence], column: str, symbols: TaggerSymbols) -> Tensor:
    """−log P of the right tag, the mean over the words that have one; scores [B, N, tags]."""
    gold = torch.full(scores.shape[:2], -1)
    for row, sentence in zip(gold, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(symbols.numbers(column, getattr(sentence, column)))
    scores, gold = scores.flatten(0, 1), gold.flatten()
    total = cross_entropy(scores, gold, ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum")
    return total / (gold >= 0).sum().clamp_min(1)


def _forever(trees: list[Sentence], size: int, seed: int) -> Iterator[list[Sentence]]:
    number = 0
    while True:
        number += 1
        yield from bucketed(trees, size, MAX_CELLS**2, ("tagger", seed, "pass", number))


def accuracy(tagger: Tagger, sentences: list[Sentence]) -> dict[str, float]:
    """The percentage of tags that are predicted, of each column; columns that are empty are left out."""
    scores = TagScores()
    for sentence, tags in tagger.pairs(sentences):
        scores.add(sentence, tags)
    figures = scores.figures()
    return {column: figures[f"{column}_accuracy"] for column in tagger.columns if f"{column}_accuracy" in figures}
