"""The k best trees of each sentence, and the score of an oracle that always chooses the best of them."""

from collections.abc import Iterator

import numpy as np
import torch

from parsers.evaluation.parse import Parse, Trees
from tritree import TreeCRF


def best_trees(crf: TreeCRF, k: int) -> Iterator[Trees]:
    """The k most probable trees of each sentence in a batch; fewer where there are fewer."""
    scores, heads = crf.topk(k)
    # log_prob of the best tree plus the difference of the scores: score − log_partition would round too coarsely.
    arcs = crf.scores.double().gather(1, heads.clamp(0))
    weights = torch.where(heads >= 0, arcs, 0).sum(-1)
    log_probs = crf.log_prob(heads[:, 0]).unsqueeze(1) + (weights - weights[:, :1])
    log_probs = log_probs.clamp(max=0).cummin(1).values  # rounding must not change the order
    found = (scores > -torch.inf).sum(1)
    # 16 bits are enough for MAX_WORDS, and save memory: a window of sentences can have millions of heads.
    columns = (log_probs, heads.to(torch.int16), found, crf.lengths)
    for values, trees, count, words in zip(*(column.cpu().numpy() for column in columns), strict=True):
        yield Trees(values[:count].copy(), trees[:count, 1 : words + 1].copy())


class Oracle:
    """For the first 1, 2, 5, 10, … k trees: the right heads in the best of them, and their probability."""

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
        """UAS in percent, over the words whose head is known, and the mean probability of a sentence's trees."""
        rows = zip(self.sizes.tolist(), (self.mass / self.sentences).tolist(), self.correct.tolist(), strict=True)
        return {
            "kbest": [
                {"trees": size, "mass": mass, **({"oracle_uas": 100 * (correct / self.words)} if self.words else {})}
                for size, mass, correct in rows
            ]
        }
