"""How many terms the algorithms have, counted by running them.

The unit is one term of a sum over splits, in a sentence of l words, that is N = l + 1 nodes. One sum over all spans and
their splits has T(N) = (N³ − N)/6 terms: spans i < j, splits i ≤ k < j. The paper writes l³ for it, the bound of its
three nested loops. So its "4l³" means 4 T(N), about (2/3) l³ terms, and only ratios of its constants mean something.

A pass up the chart has one term for each split. A pass down gives a share to both items of each split: two terms.

    the paper, inside        up      4 sums: left and right, incomplete and complete            4 l³
    the paper, outside       down    8                                                          8 l³, both 12 l³
    DPPP, forward            up, down    4 + 8: values of all items, then contributions
    DPPP, backward           up, down    4 + 8: the same passes in reverse, where up is down    24 l³ with the forward
    tritree, inside          up      3: the two arcs between i and j share one sum
    tritree, outside         down    6                                                          9 for both
    tritree, relaxed tree    up, down; backward up, up, down: the inside pass is repeated       21

(DPPP's backward pass can also be counted as 8 + 4, each pass in reverse like the pass itself. The paper only says 24,
not how it counts.)

Sums that would end in an arc into ROOT are left out: R(N) = N(N − 1)/2 terms in each sum that has them, which are
two of the paper's four and one of tritree's three.
"""

import math

import torch

from tritree import rules


def one_sum(N: int) -> int:
    return (N**3 - N) // 6


def into_root(N: int) -> int:
    return N * (N - 1) // 2


def number_of_trees(n: int) -> int:
    return math.comb(3 * n, n) // (2 * n + 1)


class Item:
    """Its number of derivations (inside), of contexts (outside), and the pairs whose products are its terms."""

    __slots__ = ("inside", "is_sum", "outside", "terms")

    def __init__(self, inside: float = 1.0, terms: list[tuple["Item", "Item"]] = (), is_sum: bool = False):
        self.inside, self.outside, self.terms, self.is_sum = inside, 0.0, terms, is_sum


class Counting:
    """A semiring that counts trees, and the terms of its sums: `up`, and after `outside` also `down`."""

    def __init__(self) -> None:
        self.up = self.down = 0
        self.sums: list[Item] = []
        self.arcs: list[Item] = []

    def one(self) -> Item:
        return Item()

    def arc(self, score=None, h: int = 0, m: int = 0) -> Item:
        self.arcs.append(Item())
        return self.arcs[-1]

    def times(self, a: Item, b: Item) -> Item:
        return Item(a.inside * b.inside, [(a, b)])

    def plus(self, terms: list[Item]) -> Item:
        self.up += len(terms)
        self.sums.append(Item(sum(t.inside for t in terms), [pair for t in terms for pair in t.terms], is_sum=True))
        return self.sums[-1]

    def outside(self, goal: Item) -> None:
        goal.outside = 1.0
        for item in reversed(self.sums):
            for a, b in item.terms:
                self._hand(a, item.outside * b.inside)
                self._hand(b, item.outside * a.inside)
                self.down += 2

    def _hand(self, item: Item, share: float) -> None:
        """A product that is not in a sum, an arc over a span, passes the share on at once: that is no term."""
        item.outside += share
        if item.terms and not item.is_sum:
            ((a, b),) = item.terms
            self._hand(a, share * b.inside)
            self._hand(b, share * a.inside)


def tritree_rules(N: int) -> Counting:
    counting = Counting()
    goal = rules.inside(torch.empty(1, N, N), counting)[-1]
    return _checked(counting, goal, N)


def paper_rules(N: int) -> Counting:
    """The four statements of the paper's inside algorithm, on the charts that it writes α[s, t, L|R, I|C]."""
    counting = Counting()
    plus, times, arc = counting.plus, counting.times, counting.arc
    LC = {(s, s): counting.one() for s in range(1, N)}
    RC = {(s, s): counting.one() for s in range(N)}
    LI, RI = {}, {}
    for w in range(1, N):
        for s in range(N - w):
            t = s + w
            if s > 0:
                LI[s, t] = times(plus([times(RC[s, u], LC[u + 1, t]) for u in range(s, t)]), arc())
            RI[s, t] = times(plus([times(RC[s, u], LC[u + 1, t]) for u in range(s, t)]), arc())
            if s > 0:
                LC[s, t] = plus([times(LC[s, u], LI[u, t]) for u in range(s, t)])
            RC[s, t] = plus([times(RI[s, u + 1], RC[u + 1, t]) for u in range(s, t)])
    return _checked(counting, RC[0, N - 1], N)


def _checked(counting: Counting, goal: Item, N: int) -> Counting:
    """Checks that it is the algorithm that was counted: it finds all trees, and n arcs in each."""
    counting.outside(goal)
    trees = number_of_trees(N - 1)
    assert math.isclose(goal.inside, trees, rel_tol=1e-9)
    assert math.isclose(sum(arc.outside for arc in counting.arcs), (N - 1) * trees, rel_tol=1e-9)
    return counting


def paper_relaxed(N: int) -> int:
    """DPPP: up and down, forward and backward."""
    paper = paper_rules(N)
    return 2 * (paper.up + paper.down)


def tritree_relaxed(N: int) -> int:
    ours = tritree_rules(N)
    return 3 * ours.up + 2 * ours.down
