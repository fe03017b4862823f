"""Measures what large data cost: memory and sentences per second.

    python -m tests.parsers.load stream --sentences 1_000_000   GAP's counting pass over a file of unlabelled sentences
    python -m tests.parsers.load types --types 50_000           train.py --model gap --theta words, so many word types

`stream` ends with an error if memory grows after the first tenth of the file, `types` if a run takes 2 GiB.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

import train
from parsers import load_parser
from parsers.data import synthetic
from parsers.data.corpus import Corpus
from parsers.data.dataset import Data
from parsers.data.sources import Sources
from parsers.data.vocabulary import Vocabulary
from parsers.options import parse
from parsers.system import Context
from parsers.training.processes import Group

SIZES = ["--word-size=16", "--tag-size=8", "--lstm-size=16", "--hidden-size=16", "--layers=1"]
MEBIBYTE = 2**20


def resident() -> float:
    """MiB that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MEBIBYTE


def peak() -> float:
    """The most MiB it ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def random_sentences(count: int, types: int, rng: random.Random) -> Iterator[str]:
    """Sentences of 3 to 15 words without heads; some words are frequent, most are rare."""
    tags = ("NOUN", "VERB", "ADJ", "ADP", "DET", "PRON")
    for _ in range(count):
        words = (f"w{int(types * rng.random() ** 3)}" for _ in range(rng.randint(3, 15)))
        lines = (f"{i}\t{word}\t_\t{rng.choice(tags)}\t_\t_\t_\t_\t_\t_\n" for i, word in enumerate(words, 1))
        yield "".join(lines) + "\n"


def trees_with_types(types: int, words: int, rng: random.Random) -> Iterator[str]:
    """Chains in which every type occurs."""
    names = [f"w{number}" for number in range(types)]
    rng.shuffle(names)
    for start in range(0, types, words):
        some = names[start : start + words]
        lines = (f"{i}\t{word}\t_\tNOUN\t_\t_\t{i - 1}\t_\t_\t_\n" for i, word in enumerate(some, 1))
        yield "".join(lines) + "\n"


def stream(sentences: int, directory: Path) -> int:
    """The counting pass over a generated file; the number of the words in it."""
    path, trees = directory / "large.conllu", directory / "train.conllu"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(random_sentences(sentences, 50_000, random.Random(1)))
    trees.write_text("".join(synthetic.conllu("train", count=100)), encoding="utf-8")
    print(f"{sentences:,} sentences, {path.stat().st_size / MEBIBYTE:.0f} MiB")
    options = parse(["--model=gap", "--theta=words", f"--train={trees}", f"--unlabeled={path}", *SIZES])
    corpus = Corpus(options, Sources("load", train=str(trees), unlabeled=str(path)), with_unlabeled=True)
    began = time.monotonic()
    vocab: Vocabulary = corpus.vocabulary(options)
    seconds = time.monotonic() - began
    print(f"vocabulary: {sentences / seconds:.0f} sentences/s, {len(vocab.words):,} words, {resident():.0f} MiB")
    data = Data.of(options, corpus, vocab)
    model = load_parser("gap")(options, vocab)
    context = Context(data, Group("cpu"), options, stage=1, epoch=2, epochs=2)  # σ < 1: all arcs count
    seen, early, original = 0, 0.0, data.unlabeled_batches

    def watched():
        nonlocal seen, early
        shown = time.monotonic()
        for batch in original():
            yield batch
            seen += batch.size
            if seen <= sentences / 10:
                early = max(early, resident())
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                print(f"{seen:,} sentences, {resident():.0f} MiB", flush=True)

    data.unlabeled_batches = watched
    began = time.monotonic()
    with torch.no_grad():
        model.begin_stage(context)
        model.begin_epoch(context)
        model.eval()
        figures = model.end_epoch(context)
    seconds = time.monotonic() - began
    print(f"counted: {seen / seconds:.0f} sentences/s, at most {peak():.0f} MiB, {early:.0f} in the first tenth")
    print(f"{len(model.theta.keys):,} pairs in Θ; {figures}")
    assert seen == sentences
    growth = resident() - early
    # What may grow is the counts, up to a limit: keys, sums, and those that wait, while they are sorted.
    assert growth < 400, f"memory grew by {growth:.0f} MiB"
    return seen


def types(count: int, directory: Path) -> float:
    """Trains on a treebank in which so many word types occur; the peak in MiB."""
    trees = directory / "train.conllu"
    trees.write_text("".join(trees_with_types(count, 20, random.Random(1))), encoding="utf-8")
    before = peak()
    arguments = ["--model=gap", "--theta=words", "--rare=0", f"--train={trees}", f"--dev={trees}"]
    arguments += [
        "--labeled=0.5",
        "--epochs=1",
        "--min-count=1",
        "--max-words=1000000",
        f"--output={directory / 'run'}",
    ]
    assert train.main(arguments) == 0
    print(f"{count:,} types: at most {peak():.0f} MiB ({before:.0f} before the training)")
    assert peak() < 2048
    return peak()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parsers.load", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("stream", "types"))
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--types", type=int, default=50_000)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        if options.what == "stream":
            stream(options.sentences, Path(directory))
        else:
            types(options.types, Path(directory))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
