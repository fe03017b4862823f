"""The rules, executable over any semiring. What the kernels compute is checked against them.

A projective tree is built from two kinds of items. C[h, m]: head h and everything of its descendants on one side, out
to the farthest, m; nothing between them is left open. I[h, m]: the arc h → m is drawn, and what lies between its ends
is complete. Items with m > h face right, items with m < h face left, and the rules are the same for both.

    axiom      C[h,h] = 1

    join       X{i,j} = ⊕ i≤k<j        C[i,k] ⊗ C[j,k+1]         |\\       /|
               one sum for the two arcs between i and j          | \\     / |
                                                                 i…k   k+1…j
    attach     I[h,m] = X{h,m} ⊗ s[h,m]                            ┌──────►
                                                                   h      m

    complete   C[h,m] = ⊕ k from h to m  I[h,k] ⊗ C[k,m]         ┌────►|\\
               k ≠ h, k = m included                             |     | \\
                                                                 h     k…m
    goal       Z      = C[0,n]                                   ROOT modifies no word

With single_root, ROOT takes its one modifier at once: the join at i = 0 has only the split k = 0, because a
larger one, C[0,k] with k > 0, already holds a modifier of ROOT.

Every projective tree has exactly one derivation: complete takes the outermost modifier of h first, join splits the
words between the ends at the one place where the two sides meet. So ⊕ runs over trees, each counted once.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


class Semiring(Protocol[Value]):
    """What the rules ask of a semiring. A value stands for one item in every sentence of the batch."""

    def one(self) -> Value: ...

    def arc(self, score: Tensor, h: int, m: int) -> Value:
        """The arc h → m as a value; score is [B]."""

    def times(self, a: Value, b: Value) -> Value: ...

    def plus(self, terms: Sequence[Value]) -> Value:
        """The sum of one or more terms, which come in increasing order of the split index k."""


def inside(scores: Tensor, semiring: Semiring[Value], single_root: bool = False) -> list[Value]:
    """C[0, n] for n = 0 .. N−1: the goal of a sentence of n words, whatever follows it. Scores are [B, N, N]."""
    N = scores.shape[-1]
    one, arc, times, plus = semiring.one, semiring.arc, semiring.times, semiring.plus
    C: dict[tuple[int, int], Value] = {(h, h): one() for h in range(N)}
    I: dict[tuple[int, int], Value] = {}
    for w in range(1, N):
        for i in range(N - w):
            j = i + w
            X = plus([times(C[i, k], C[j, k + 1]) for k in join_splits(i, j, single_root)])
            for h, m in [(i, j), (j, i)]:
                if m != 0:
                    I[h, m] = times(X, arc(scores[:, h, m], h, m))
                    C[h, m] = plus([times(I[h, k], C[k, m]) for k in complete_splits(h, m)])
    return [C[0, n] for n in range(N)]


def at_length(goals: list[Tensor], lengths: Tensor) -> Tensor:
    """Of goals[n], [B, …], the goal of a sentence of n words, the one for each sentence's own n."""
    # Lengths on a GPU are not checked: they are kept in range, since a wrong index would end the process.
    return torch.stack(goals)[lengths.clamp(0, len(goals) - 1), torch.arange(lengths.shape[0], device=lengths.device)]


def join_splits(i: int, j: int, single_root: bool) -> Iterable[int]:
    return range(1) if single_root and i == 0 else range(i, j)


def complete_splits(h: int, m: int) -> Iterable[int]:
    return range(h + 1, m + 1) if h < m else range(m, h)
