"""Semirings for the rules: sums over trees, the best tree, the k best trees, a random tree, the number of trees."""

from collections.abc import Sequence

import torch
from torch import Tensor

Derivation = tuple[Tensor, Tensor]
"""A weight [B] and the heads [B, N] of the arcs so far, −1 at words without one."""


class LogSum:
    """⊕ is logsumexp, ⊗ is +. Differentiable any number of times, with −inf too."""

    def __init__(self, scores: Tensor):
        self._one = scores[:, :0, 0].sum(-1)  # zeros that depend on the scores, for N = 1 too

    def one(self) -> Tensor:
        return self._one

    def arc(self, score: Tensor, h: int, m: int) -> Tensor:
        return score

    def times(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def plus(self, terms: Sequence[Tensor]) -> Tensor:
        x = torch.stack(list(terms))
        top = x.detach().amax(0)
        top = torch.where(top == -torch.inf, 0, top)
        total = (x - top).exp().sum(0)
        # torch.logsumexp has NaN derivatives where all terms are −inf. Here no log is taken there.
        empty = total == 0
        return torch.where(empty, -torch.inf, top + torch.where(empty, 1, total).log())


class _Derivations:
    """Pairs (weight, heads). Two parts of a tree have no word in common, so their heads merge by maximum."""

    def __init__(self, scores: Tensor):
        B, N = scores.shape[:2]
        self._one = scores.new_zeros(B), scores.new_full((B, N), -1, dtype=torch.int64)

    def one(self) -> Derivation:
        return self._one

    def arc(self, score: Tensor, h: int, m: int) -> Derivation:
        heads = self._one[1].clone()
        heads[:, m] = h
        return score, heads

    def times(self, a: Derivation, b: Derivation) -> Derivation:
        return a[0] + b[0], torch.maximum(a[1], b[1])

    @staticmethod
    def _pick(terms: Sequence[Derivation], choice: Tensor) -> Tensor:
        heads = torch.stack([h for _, h in terms])
        return heads[choice, torch.arange(heads.shape[1], device=heads.device)]


class Best(_Derivations):
    """⊕ keeps the heavier of two derivations; among equals the first, so the smallest split index."""

    def plus(self, terms: Sequence[Derivation]) -> Derivation:
        weights = torch.stack([x for x, _ in terms])
        best = weights.amax(0)
        first = (weights == best).int().argmax(0)
        return best, self._pick(terms, first)


class KBest:
    """⊕ keeps the k heaviest derivations, [B, k] and [B, k, N], the heaviest first; −inf where there are fewer.

    Among equals, the one with the smaller split index comes first; then the one whose left factor, and then whose right
    factor, comes first in its own list. That is the order of terms and pairs before a stable sort.
    """

    def __init__(self, scores: Tensor, k: int):
        B, N = scores.shape[:2]
        self.k = k
        self._none = scores.new_full((B, k), -torch.inf), scores.new_full((B, k, N), -1, dtype=torch.int64)

    def one(self) -> Derivation:
        return self._only(0)

    def arc(self, score: Tensor, h: int, m: int) -> Derivation:
        weights, heads = self._only(score)
        heads[:, 0, m] = h
        return weights, heads

    def times(self, a: Derivation, b: Derivation) -> Derivation:
        pairs = a[0].unsqueeze(-1) + b[0].unsqueeze(-2)
        weights, chosen = self._heaviest(pairs.flatten(1))
        left, right = (self._pick(x[1], rank) for x, rank in ((a, chosen // self.k), (b, chosen % self.k)))
        return weights, torch.maximum(left, right)

    def plus(self, terms: Sequence[Derivation]) -> Derivation:
        weights, chosen = self._heaviest(torch.cat([x for x, _ in terms], 1))
        return weights, self._pick(torch.cat([heads for _, heads in terms], 1), chosen)

    def _only(self, weight: Tensor | float) -> Derivation:
        weights, heads = (x.clone() for x in self._none)
        weights[:, 0] = weight
        return weights, heads

    def _heaviest(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        weights, order = weights.sort(dim=1, descending=True, stable=True)
        return weights[:, : self.k], order[:, : self.k]

    @staticmethod
    def _pick(heads: Tensor, chosen: Tensor) -> Tensor:
        return heads.gather(1, chosen.unsqueeze(-1).expand(-1, -1, heads.shape[-1]))


class Draw(_Derivations):
    """⊕ adds the weights and keeps one derivation, drawn in proportion to them: Z comes with an exact sample."""

    def __init__(self, scores: Tensor, generator: torch.Generator):
        super().__init__(scores)
        self.generator = generator
        self.log_sum = LogSum(scores)

    def plus(self, terms: Sequence[Derivation]) -> Derivation:
        weights = [x for x, _ in terms]
        total = self.log_sum.plus(weights)
        possible = torch.isfinite(total)
        cumulative = torch.where(possible, torch.stack(weights) - total, 0).exp().cumsum(0)
        u = torch.rand(total.shape, generator=self.generator, dtype=total.dtype, device=total.device)
        choice = (cumulative > u * cumulative[-1]).int().argmax(0)
        return total, self._pick(terms, choice)


class Count:
    """Counts the trees, and in ``terms`` the terms of all sums: the exact cost of the rules."""

    def __init__(self) -> None:
        self.terms = 0

    def one(self) -> int:
        return 1

    def arc(self, score: Tensor, h: int, m: int) -> int:
        return 1

    def times(self, a: int, b: int) -> int:
        return a * b

    def plus(self, terms: Sequence[int]) -> int:
        self.terms += len(terms)
        return sum(terms)
