"""Parsing a stream of sentences: in batches of similar length, yielded in the order of the file, in bounded memory."""

import math
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

import torch
from torch import Tensor

import tritree
from parsers.data.batches import EVALUATION_BATCH, MAX_CELLS, Batch, bucketed, collate
from parsers.data.conllu import Sentence
from parsers.data.examples import Example, Indexer
from parsers.data.sources import check_length
from parsers.evaluation.kbest import best_trees
from parsers.evaluation.mismatch import Mismatch
from parsers.evaluation.parse import Parse
from parsers.evaluation.screen import waiting
from parsers.evaluation.tables import counted
from parsers.evaluation.tags import TagReader
from parsers.io.command import called_as
from parsers.io.errors import DataError, UserError
from parsers.networks.device import choose_device, num_threads
from parsers.runs.run import Run
from parsers.system import Parser

WINDOW = 1024  # sentences that are held at a time
TOP = 5  # heads of a word that are kept with their probabilities
NEGLIGIBLE = 0.0005  # heads less probable than this are not kept
ONE_WORD = Sentence("", 1, ["a"], ["_"], ["_"], ["_"], [-1], ["_"], [], [])


class RunParser:
    """The best model of a run, with evaluate.py's options on how to parse."""

    def __init__(self, path: str, options: Namespace):
        self.path, self.single_root, self.constrain = path, not options.multi_root, options.constrain
        self.skip_impossible = options.skip_impossible
        self.settings = {
            "single_root": self.single_root,
            "decode": options.decode,
            "constrain": options.constrain,
            "top_heads": options.html is not None,
            "kbest": options.kbest,
        }
        with waiting("loading the model (and compiling for half a minute, the first time)"):
            run = Run.open(path)
            config, _ = run.config()
            torch.set_num_threads(options.threads or num_threads(config, EVALUATION_BATCH))
            self.model, vocab, vectors = run.load_model(config, choose_device(options.device, 0))
            self.tags = TagReader(run.tagger(vocab), options.predict_tags)
            if options.predict_tags and self.tags.tagger is None:
                why = "it was trained without one, or without tags"
                raise UserError(f"{run} has no tagger, which --predict-tags needs: {why}")
            indexer = Indexer(vocab, vectors)
            # Compiles the kernels, or loads them, before the clock starts.
            list(parse_sentences(self.model, indexer, [ONE_WORD], **self.settings))
            self.mismatch = Mismatch.of(self.model, indexer)

    def _parse(self, sentences: Iterable[Sentence]) -> Iterator[Parse]:
        """Parses with the tags that the parser reads; each gets the sentence that is shown."""
        pending: deque = deque()

        def read() -> Iterator[Sentence]:
            for sentence, *others in self.tags(sentences):
                pending.append(others)
                yield sentence

        for parse in parse_sentences(self.model, self.mismatch, read(), **self.settings):
            parse.sentence, parse.predicted_tags = pending.popleft()
            yield parse

    def warning(self, file: str) -> str | None:
        """What makes the sentences parsed so far unlike the training data, in one line."""
        line, tags = self.mismatch.line(file), self.tags
        if tags.tagger and not tags.predict and (self.mismatch.unknown_tags or self.mismatch.lacks_inputs()):
            line += "; --predict-tags replaces what the file has"
        return line

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[Parse]:
        """The parses. If --constrain leaves some sentences without a tree, a UserError after the last sentence; with
        --skip-impossible, they come without heads."""
        impossible = 0
        for parse in self._parse(sentences):
            if math.isfinite(parse.log_prob):
                yield parse
            elif self.constrain and parse.heads[0] < 0:
                impossible += 1
                name = called_as("evaluate.py")
                left = "; left as it is" if self.skip_impossible else ""
                print(f"{name}: {no_tree(parse.sentence, self.single_root)}{left}", file=sys.stderr)
                if self.skip_impossible:
                    yield parse
            else:
                raise UserError(f"{self.path}: the scores of its model are not numbers: train it again")
        if impossible and not self.skip_impossible:
            what = f"{counted(impossible, 'sentence')} can't be parsed as the file says"
            raise UserError(f"{what}; nothing was written (--skip-impossible leaves them as they are)")


def no_tree(sentence: Sentence, single_root: bool) -> DataError:
    """Why no projective tree has the heads in the file, and where."""
    word, what, remedy = conflict(sentence.heads, single_root)
    return DataError(sentence.file, sentence.line_of(word), f"{what}: {remedy}")


def conflict(heads: list[int], single_root: bool) -> tuple[int, str, str]:
    """A word whose head is in the way of all trees with these heads (−1: free), why, and what could be done."""
    roots = [word for word, head in enumerate(heads, 1) if head == 0]
    spans = [(min(head, word), max(head, word), word) for word, head in enumerate(heads, 1) if head >= 0]
    crossing = next(((v, w) for a, b, v in spans for c, d, w in spans if a < c < b < d), None)
    if crossing:
        first, word = sorted(crossing)
        return word, f"the arcs to words {first} and {word} cross, which no projective tree has", "replace one by _"
    if single_root and len(roots) > 1:
        return roots[1], f"words {roots[0]} and {roots[1]} both hang from the root", "--multi-root allows it"
    return 1, "no projective tree has these heads", "replace one of them by _"


def parse_sentences(
    model: Parser,
    indexer: Indexer,
    sentences: Iterable[Sentence],
    single_root: bool = True,
    *,
    decode: str | None = None,
    constrain: bool = False,
    top_heads: bool = False,
    kbest: int | None = None,
) -> Iterator[Parse]:
    """Each sentence with its tree.

    Args:
        decode: "viterbi" for the most probable tree, "mbr" for the one with the largest sum of arc probabilities; by
            default what the run was trained with.
        constrain: keep the heads in the file. Where no tree has them, all heads are −1 and ``log_prob`` is −inf.
        top_heads: fill ``Parse.top_heads``, which is empty otherwise.
        kbest: how many trees ``Parse.kbest`` gets; it is None otherwise.
    """
    device = next(model.parameters()).device
    sentences, decode = iter(sentences), decode or model.options.decode
    model.eval()
    while window := list(islice(sentences, WINDOW)):
        for sentence in window:
            check_length(sentence)
        examples = [indexer(sentence, keep=True) for sentence in window]
        found: dict[int, Parse] = {}
        for chosen in bucketed(examples, EVALUATION_BATCH, MAX_CELLS):
            batch = collate(chosen, device=device)
            parses = _parse_batch(model, batch, single_root, decode, constrain, top_heads, kbest)
            found.update(zip(map(id, chosen), parses, strict=True))
        for example in examples:
            yield found[id(example)]


@torch.no_grad()
def _parse_batch(
    model: Parser, batch: Batch, single_root: bool, decode: str, constrain: bool, top_heads: bool, kbest: int | None
) -> Iterator[Parse]:
    known = _given_heads(batch) if constrain else None
    scores, states = model(batch)
    if known is not None:
        scores = tritree.constrain(scores, known)
    trees = tritree.TreeCRF(scores, batch.lengths, single_root=single_root, validate_args=False)
    heads = trees.mbr if decode == "mbr" else trees.mode
    log_prob = torch.where(trees.log_partition == -torch.inf, -torch.inf, trees.log_prob(heads))
    arcs = trees.marginals.gather(1, heads.clamp(0).unsqueeze(1)).squeeze(1).clamp(0, 1)
    top = _top_heads(trees.marginals, batch.examples) if top_heads else [[] for _ in batch.examples]
    several = best_trees(trees, kbest) if kbest else [None] * len(batch.examples)
    columns = (heads, arcs, log_prob, trees.entropy())
    labelled = _labels(model, states, batch, heads, constrain)
    rows = zip(batch.examples, top, several, labelled, *(column.tolist() for column in columns), strict=True)
    for example, likely, best, (labels, label_probabilities), tree, probabilities, tree_log_prob, entropy in rows:
        words = slice(1, len(example) + 1)
        gold = None if constrain or max(example.gold) < 0 else example.gold
        numbers = (min(tree_log_prob, 0.0), max(entropy, 0.0))
        gold_labels = None if gold is None else _known_labels(example.sentence)
        arcs_of_words = (tree[words], gold, probabilities[words], likely)
        yield Parse(example.sentence, *arcs_of_words, *numbers, best, labels, gold_labels, label_probabilities)


def _labels(
    model: Parser, states: Tensor | None, batch: Batch, heads: Tensor, constrain: bool
) -> Iterator[tuple[list[str] | None, list[float] | None]]:
    """The labels of each sentence's words and their probabilities. Where heads are kept, so are their labels."""
    found = model.named_labels(states, batch, heads)
    if found is None:
        yield from [(None, None)] * len(batch.examples)
        return
    for example, (labels, certain) in zip(batch.examples, found, strict=True):
        for i, (head, label) in enumerate(zip(example.gold, example.gold_labels, strict=True)):
            if constrain and head >= 0 and label != "_":
                labels[i], certain[i] = label, 1.0
        yield labels, certain


def _known_labels(sentence: Sentence) -> list[str] | None:
    """The labels in the file; `_` for words without a head; None if there are none."""
    labels = [label if head >= 0 else "_" for head, label in zip(sentence.heads, sentence.deprels, strict=True)]
    return None if set(labels) == {"_"} else labels


def _given_heads(batch: Batch) -> Tensor:
    heads = torch.full(batch.words.shape, -1)
    for row, example in zip(heads, batch.examples, strict=True):
        row[1 : len(example) + 1] = torch.tensor(example.gold)
    return heads.to(batch.device)


def _top_heads(marginals: Tensor, examples: list[Example]) -> list[list[list[tuple[int, float]]]]:
    values, indices = marginals.clamp(0, 1).topk(min(TOP, marginals.shape[1]), dim=1)  # [B, TOP, N]
    values, indices = values.transpose(1, 2).tolist(), indices.transpose(1, 2).tolist()
    return [
        [
            [(head, value) for head, value in zip(heads[word], probabilities[word], strict=True) if value >= NEGLIGIBLE]
            for word in range(1, len(example) + 1)
        ]
        for example, heads, probabilities in zip(examples, indices, values, strict=True)
    ]
