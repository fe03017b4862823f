"""Scores into charts, and marginals back.

Each modifier column m is divided by its largest arc: p[h, m] = exp(s[h, m] − c_m). Every tree has exactly one arc in
each column, so this divides Z by exp(Σ c_m) and changes no marginal. Large scores and column shifts then cost no
accuracy, and all arcs are at most 1, which is what the error bound (bound.py) rests on.

In the lane of a shorter sentence all arcs past its end are zero. Its items there are then zero too, and add nothing to
any sum: the sums are, to the bit, those of the sentence alone. A group that is not full repeats its first sentence,
whose results are then computed and written more than once; so no lane is special.

Only copy_in and copy_out know the dtype of the scores.
"""

from collections import namedtuple

import numpy as np

from tritree.cpu import vec
from tritree.cpu.jit import inline
from tritree.cpu.kinds import MINUS_INF, Dual, Linear, Scaled, ScaledDual, for_kind, generic
from tritree.cpu.vec import absolute, address, advance, exp, full, lanes, maximum, select, split_exp

INF = float("inf")

# Per lane: which sentence of the batch it is, and how many words that has.
Members = namedtuple("Members", "sentences words")


@inline
def new_members(work):
    cell = lanes(address(work))
    return Members(np.empty(cell, np.int64), np.empty(cell, np.int64))


@inline
def enter(members, order, group, lengths):
    """Takes the sentences of a group, which follow each other in `order`. Returns the nodes of the longest, made even."""
    cell = members.sentences.size
    nodes = 1
    for lane in range(cell):
        at = group * cell + lane
        b = order[at] if at < order.size else order[group * cell]
        members.sentences[lane] = b
        members.words[lane] = lengths[b]
        nodes = max(nodes, lengths[b] + 1)
    return nodes + nodes % 2


@inline
def goal(members, lane):
    """The position of C[0, n] in a lane's own chart."""
    return members.words[lane] * members.words.size + lane


@inline
def copy_in(tensor, members, charts, chart, dead):
    """tensor[b, h, m] to chart[h, m, lane] where the arc is live; `dead` where it is not."""
    nodes, row, N = charts.nodes, charts.row, tensor.shape[1]
    cell = lanes(chart)
    for lane in range(cell):
        source = advance(address(tensor), members.sentences[lane] * N * N)
        n = members.words[lane]
        for h in range(nodes):
            words = n if h <= n else 0
            at = h * row + lane
            chart[at] = dead
            for m in range(1, words + 1):
                chart[at + m * cell] = source[h * N + m]
            for m in range(words + 1, nodes):
                chart[at + m * cell] = dead
            chart[at + h * cell] = dead


@inline
def copy_out(charts, chart, members, lane, scale, tensor):
    """chart[h, m, lane] · scale to tensor[b, h, m] where the arc is live; 0 where it is not."""
    b, n = members.sentences[lane], members.words[lane]
    N, row, cell = tensor.shape[1], charts.row, lanes(chart)
    target = advance(address(tensor), b * N * N)
    for h in range(N):
        words = n if h <= n else 0
        at = h * row + lane
        target[h * N] = 0.0
        for m in range(1, words + 1):
            target[h * N + m] = chart[at + m * cell] * scale
        for m in range(words + 1, N):
            target[h * N + m] = 0.0
        target[h * N + h] = 0.0


@generic
def store_exp(p, at, x):
    """Puts the arc of score x at position `at` of p."""


@for_kind(store_exp, Linear, Dual)
def _(p, at, x):
    vec.store(p.value, at, exp(x))


@for_kind(store_exp, Scaled, ScaledDual)
def _(p, at, x):
    m, k = split_exp(x)
    vec.store(p.value, at, m)
    vec.store(p.exponent, at, k)


@inline
def exponentiate(charts):
    """The scores that stand in p.value become arcs, relative to their column's maximum. Returns Σ c_m, in lanes.

    c_m is the maximum of the finite arcs of column m, and 0 where there is none.
    """
    p, c, nodes, row = charts.p, charts.scratch, charts.nodes, charts.row
    cell = lanes(c)
    zero, inf, minus_inf = full(c, 0.0), full(c, INF), full(c, MINUS_INF)
    for m in range(nodes):
        vec.store(c, m * cell, minus_inf)
    for h in range(nodes):
        for m in range(nodes):
            s = vec.load(p.value, h * row + m * cell)
            finite = select(s < inf, s, minus_inf)
            vec.store(c, m * cell, maximum(finite, vec.load(c, m * cell)))
    total = zero
    for m in range(nodes):
        top = vec.load(c, m * cell)
        top = select(top == minus_inf, zero, top)
        vec.store(c, m * cell, top)
        total = total + top
    for h in range(nodes):
        for m in range(nodes):
            at = h * row + m * cell
            store_exp(p, at, vec.load(p.value, at) - vec.load(c, m * cell))
    return total


@inline
def scale_direction(charts):
    """p.tangent, which holds the direction, becomes the derivative of p along it, divided by its largest entry.

    Returns that entry, in lanes. An arc of weight 0 does not move: its direction counts as 0, whatever it holds.
    """
    p, nodes, row = charts.p, charts.nodes, charts.row
    cell = lanes(p.value)
    zero = full(p.value, 0.0)
    largest = zero
    for h in range(nodes):
        for at in range(h * row, h * row + nodes * cell, cell):
            d = select(vec.load(p.value, at) == zero, zero, vec.load(p.tangent, at))
            vec.store(p.tangent, at, d)
            largest = maximum(absolute(d), largest)
    divisor = select(largest == zero, full(p.value, 1.0), largest)
    for h in range(nodes):
        for at in range(h * row, h * row + nodes * cell, cell):
            vec.store(p.tangent, at, vec.load(p.value, at) * (vec.load(p.tangent, at) / divisor))
    return largest


@inline
def words_in_lanes(charts, members):
    """The numbers of words as a vector."""
    for lane in range(members.words.size):
        charts.scratch[lane] = members.words[lane]
    return vec.load(charts.scratch, 0)
