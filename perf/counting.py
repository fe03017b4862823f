"""How many terms the algorithms have, counted by running them.

The unit is one term of a sum over splits, in a sentence of N nodes (ROOT and N − 1 words). One sum over all spans and
their splits has T(N) = (N³ − N)/6 terms: spans i < j, splits i ≤ k < j. The paper calls such a sum l³ (a loop nest
bounded by l³), so its "4l³" and "12l³" are 4 and 12 such sums, and only the ratios mean something.

    the paper's inside     4 sums: left and right, incomplete and complete         4 l³
    the paper's outside    8: each of these hands a share to both antecedents       8 l³, with inside 12 l³
    tritree's inside       3: the two arcs between i and j share one sum
    tritree's outside      6

Sums that would end in an arc into ROOT are left out (N(N − 1)/2 terms in each sum that has them).
"""

from dataclasses import dataclass, field

import torch

from tritree import rules


def one_sum(N: int) -> int:
    return (N**3 - N) // 6


def into_root(N: int) -> int:
    return N * (N - 1) // 2


@dataclass
class Item:
    """A chart item with the pairs of items whose products are its terms."""

    terms: list[tuple["Item", "Item"]] = field(default_factory=list)


class Tape:
    """A semiring that computes nothing and remembers every product that some sum adds."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def one(self) -> Item:
        return Item()

    def arc(self, score, h: int, m: int) -> Item:
        return Item()

    def times(self, a: Item, b: Item) -> Item:
        return Item([(a, b)])

    def plus(self, terms) -> Item:
        item = Item([pair for term in terms for pair in term.terms])
        self.items.append(item)
        return item

    @property
    def inside_terms(self) -> int:
        return sum(len(item.terms) for item in self.items)

    @property
    def outside_terms(self) -> int:
        """Top-down, each term gives a share to both of its antecedents."""
        return sum(len(pair) for item in self.items for pair in item.terms)


def tritree_rules(N: int) -> Tape:
    tape = Tape()
    rules.inside(torch.empty(1, N, N), tape)
    return tape


def paper_rules(N: int) -> Tape:
    """The four statements of the paper's inside algorithm, on the charts that it writes α[s, t, L|R, I|C]."""
    tape = Tape()
    plus, times = tape.plus, tape.times
    LC = {(s, s): tape.one() for s in range(1, N)}
    RC = {(s, s): tape.one() for s in range(N)}
    LI, RI = {}, {}
    for w in range(1, N):
        for s in range(N - w):
            t = s + w
            if s > 0:
                LI[s, t] = plus([times(RC[s, u], LC[u + 1, t]) for u in range(s, t)])
            RI[s, t] = plus([times(RC[s, u], LC[u + 1, t]) for u in range(s, t)])
            if s > 0:
                LC[s, t] = plus([times(LC[s, u], LI[u, t]) for u in range(s, t)])
            RC[s, t] = plus([times(RI[s, u + 1], RC[u + 1, t]) for u in range(s, t)])
    return tape


def relaxed_terms(N: int) -> int:
    """Differentiable perturb-and-parse: a soft inside pass and the top-down contributions, then both in reverse.

    Each reverse pass is charged like its forward pass: (4 + 8) + (8 + 4).
    """
    tape = paper_rules(N)
    return 2 * (tape.inside_terms + tape.outside_terms)
