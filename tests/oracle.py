"""All projective trees, enumerated: what every backend is compared with. It uses no charts."""

import functools
import itertools
import math

import torch
from torch import Tensor


def is_projective_tree(heads: tuple[int, ...]) -> bool:
    """heads[m − 1] is the head of word m. By definition each word between the ends of an arc descends from its head."""
    n = len(heads)

    def ancestors(m):
        path = []
        while m != 0 and len(path) <= n:
            m = heads[m - 1]
            path.append(m)
        return path if m == 0 else None

    above = [[0], *map(ancestors, range(1, n + 1))]
    if None in above:
        return False
    return all(h in above[k] for m, h in enumerate(heads, 1) for k in range(min(h, m) + 1, max(h, m)) if k != h)


@functools.cache
def projective_trees(n: int, single_root: bool = False) -> Tensor:
    """[T, n]: the heads of words 1..n in every projective tree."""
    candidates = itertools.product(*[[h for h in range(n + 1) if h != m] for m in range(1, n + 1)])
    trees = [t for t in candidates if is_projective_tree(t) and not (single_root and t.count(0) != 1)]
    return torch.tensor(trees, dtype=torch.int64).reshape(len(trees), n)


def number_of_trees(n: int, single_root: bool = False) -> int:
    """In closed form: C(3n, n) / (2n + 1), and with a single root C(3n − 2, n − 1) / n."""
    if n == 0:
        return 1
    return math.comb(3 * n - 2, n - 1) // n if single_root else math.comb(3 * n, n) // (2 * n + 1)


class Oracle:
    """One sentence: scores [N, N] (float64, may require grad) and its number of words."""

    def __init__(self, scores: Tensor, n: int, single_root: bool = False):
        self.scores, self.n, self.N = scores, n, scores.shape[-1]
        trees = projective_trees(n, single_root) if n else torch.empty(1, 0, dtype=torch.int64)
        words = torch.arange(1, n + 1)
        possible = (scores.detach()[trees, words] != -torch.inf).all(-1)
        self.trees = trees[possible]
        """The trees without a forbidden arc; forbidden arcs are thus in no formula and no gradient."""
        self.tree_scores = scores[self.trees, words].sum(-1)
        arcs = torch.zeros(len(self.trees), self.N, self.N, dtype=scores.dtype)
        arcs[torch.arange(len(self.trees))[:, None], self.trees, words] = 1
        self.arcs = arcs

    @property
    def possible(self) -> bool:
        return len(self.trees) > 0

    @property
    def log_z(self) -> Tensor:
        if not self.possible:
            return torch.tensor(-torch.inf, dtype=self.scores.dtype) + 0 * self.scores.new_zeros(())
        return self.tree_scores.logsumexp(0)

    @property
    def probabilities(self) -> Tensor:
        return self.tree_scores.softmax(0)

    @property
    def marginals(self) -> Tensor:
        return torch.einsum("t,thm->hm", self.probabilities, self.arcs)

    def tangent(self, direction: Tensor) -> Tensor:
        """The Hessian of log Z times a direction: the covariance of each arc with the direction's tree score."""
        p = self.probabilities.detach()
        along = torch.where(self.arcs > 0, direction, 0).sum((-1, -2))
        return torch.einsum("t,thm->hm", p * (along - (p * along).sum()), self.arcs)

    @property
    def best(self) -> Tensor:
        return self.tree_scores.max() if self.possible else torch.tensor(-torch.inf)

    def best_scores(self, k: int) -> Tensor:
        """[k], falling; −inf where there are fewer trees."""
        found = self.tree_scores.sort(descending=True).values[:k]
        return torch.cat([found, found.new_full((k - len(found),), -torch.inf)])

    @property
    def max_marginals(self) -> Tensor:
        with_arc = torch.where(self.arcs > 0, self.tree_scores[:, None, None], -torch.inf)
        none = self.scores.new_full((1, self.N, self.N), -torch.inf)
        return torch.cat([with_arc, none]).amax(0)

    @property
    def entropy(self) -> Tensor:
        if not self.possible:
            return self.scores.new_zeros(())
        return -(self.probabilities * self.tree_scores.log_softmax(0)).sum()

    def cross_entropy(self, other: "Oracle") -> Tensor:
        """+inf where the other forbids what this one allows, however improbable."""
        if not self.possible:
            return self.scores.new_zeros(())
        theirs = {tuple(t): log_p for t, log_p in zip(other.trees.tolist(), other.log_probs, strict=True)}
        if any(tuple(t) not in theirs for t in self.trees.tolist()):
            return self.scores.new_tensor(torch.inf)
        log_q = torch.stack([theirs[tuple(t)] for t in self.trees.tolist()])
        return -(self.probabilities * log_q).sum()

    @property
    def log_probs(self) -> Tensor:
        return self.tree_scores.log_softmax(0)

    def log_prob(self, heads: Tensor) -> Tensor:
        """heads [n]; −1 is free."""
        agree = ((self.trees == heads) | (heads < 0)).all(-1)
        if not agree.any():
            return self.scores.new_tensor(-torch.inf)
        return self.tree_scores[agree].logsumexp(0) - self.tree_scores.logsumexp(0)
