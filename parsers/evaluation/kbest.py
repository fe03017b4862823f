"""The k best trees of each sentence. In CoNLL-U they are comments, the best first:

    # kbest_1 = -0.4321 2 0 2      log probability of the tree, to the base e, and the heads of words 1, 2, 3

What an earlier run has written of this is replaced. Where heads are known, the oracle says how good a parser could be
that chooses the right one of these trees.
"""

from collections.abc import Iterator

import numpy as np
import torch

from parsers.evaluation.comments import decimal, with_comments
from parsers.evaluation.parse import Parse, Trees
from tritree import TreeCRF


def best_trees(crf: TreeCRF, k: int) -> Iterator[Trees]:
    """The k most probable trees of each sentence in a batch; fewer where there are fewer."""
    scores, heads = crf.topk(k)
    # To log_prob of the first is added what the scores differ by: log_partition is too coarse to be subtracted.
    arcs = crf.scores.double().gather(1, heads.clamp(0))
    weights = torch.where(heads >= 0, arcs, 0).sum(-1)
    log_probs = crf.log_prob(heads[:, 0]).unsqueeze(1) + (weights - weights[:, :1])
    log_probs = log_probs.clamp(max=0).cummin(1).values  # trees that differ by rounding alone stay in their order
    found = (scores > -torch.inf).sum(1)
    # A window of sentences can have millions of heads; 16 bits are enough for MAX_WORDS.
    columns = (log_probs, heads.to(torch.int16), found, crf.lengths)
    for values, trees, count, words in zip(*(column.cpu().numpy() for column in columns), strict=True):
        yield Trees(values[:count].copy(), trees[:count, 1 : words + 1].copy())


def with_kbest(text: str, trees: Trees) -> str:
    """The text of a sentence with a comment for each of the trees."""
    comments = {
        f"kbest_{rank}": " ".join([decimal(log_prob), *map(str, heads)])
        for rank, (log_prob, heads) in enumerate(_rows(trees), 1)
    }
    return with_comments(text, "kbest_[0-9]+", comments)


def kbest_record(trees: Trees) -> list[dict]:
    """The same for JSON, unrounded."""
    return [{"log_prob": log_prob, "heads": heads} for log_prob, heads in _rows(trees)]


def _rows(trees: Trees) -> Iterator[tuple[float, list[int]]]:
    return zip(trees.log_probs.tolist(), trees.heads.tolist(), strict=True)


class Oracle:
    """Of the first 1, 2, 5, 10, … k trees: how many heads are right in the best of them, and how probable they are."""

    def __init__(self, k: int):
        round_numbers = [digit * 10**power for power in range(len(str(k))) for digit in (1, 2, 5)]
        self.sizes = np.array([size for size in round_numbers if size < k] + [k])
        self.mass = np.zeros(len(self.sizes))
        self.correct = np.zeros(len(self.sizes), dtype=np.int64)
        self.sentences = self.words = 0

    def add(self, parse: Parse) -> None:
        trees = parse.kbest
        last = np.minimum(self.sizes, len(trees.log_probs)) - 1
        self.mass += np.minimum(np.exp(trees.log_probs).cumsum(), 1)[last]
        self.sentences += 1
        if parse.gold is not None:
            gold = np.array(parse.gold)
            known = gold >= 0
            right = (trees.heads == gold)[:, known].sum(1)
            self.correct += np.maximum.accumulate(right)[last]
            self.words += int(known.sum())

    def figures(self) -> dict:
        """Unrounded; UAS in percent, over the words whose head is known, and the mean mass of a sentence's trees."""
        rows = zip(self.sizes.tolist(), (self.mass / self.sentences).tolist(), self.correct.tolist(), strict=True)
        return {
            "kbest": [
                {"trees": size, "mass": mass, **({"oracle_uas": 100 * (correct / self.words)} if self.words else {})}
                for size, mass, correct in rows
            ]
        }
