"""From a batch to charts and back: the sentences of a group, scores in, marginals out.

Each modifier column m is divided by its largest arc: p[h, m] = exp(s[h, m] − c_m). Every tree has exactly one arc in
each column, so this divides Z by exp(Σ c_m) and changes no marginal. Large scores and column shifts then cost no
accuracy, and all arcs are at most 1, as the error bound (trust.py) requires.

In the lane of a shorter sentence all arcs past its end are zero. The items there are then zero too and add nothing to
any sum: the sums are, to the bit, those of the sentence alone.

Only copy_in and copy_out know the dtype of the scores.
"""

from collections import namedtuple

from tritree.cpu.chart.numbers import MINUS_INF, Dual, Linear, Max, Scaled, ScaledDual, for_kind, generic
from tritree.cpu.simd import vector
from tritree.cpu.simd.exp import exp, split_exp
from tritree.cpu.simd.jit import inline
from tritree.cpu.simd.vector import absolute, address, full, lanes, load_block, maximum, select, store_block

# The sentences of a group. Per lane: which sentence of the batch it is, how many words it has, and where it starts in a
# tensor [B, N, N]. `part` is the number of the part that was taken (groups.py), −1 before the first.
Members = namedtuple("Members", "sentences words starts part")


@inline
def nodes_of(members):
    """The number of nodes of the longest sentence, made even."""
    nodes = members.words.max() + 1
    return nodes + nodes % 2


@inline
def is_repeated(members, lane):
    """Whether the lane repeats the group's first sentence."""
    return lane > 0 and members.sentences[lane] == members.sentences[0]


@inline
def goal(members, lane):
    """The position of C[0, n] in a lane's own chart."""
    return members.words[lane] * members.words.size + lane


@inline
def shared_block(members, N, cell):
    """How many nodes all sentences of the group have, or 0 if too few for a block. Also sets `starts`.

    Within these nodes, square blocks are copied by vector instructions. The last block overlaps the one before.
    """
    shared = N
    for lane in range(cell):
        members.starts[lane] = members.sentences[lane] * N * N
        shared = min(shared, members.words[lane] + 1)
    return shared if shared >= cell else 0


@inline
def copy_in(tensor, members, charts, chart, dead):
    """tensor[b, h, m] to chart[h, m, lane] where the arc is live; `dead` where it is not."""
    nodes, row, N = charts.nodes, charts.row, tensor.shape[1]
    source, cell = address(tensor), lanes(chart)
    shared = shared_block(members, N, cell)
    for h in range(shared):
        for m in range(0, shared, cell):
            m = min(m, shared - cell)
            load_block(chart, h * row + m * cell, source, address(members.starts), h * N + m)
    for lane in range(cell):
        start, n = members.starts[lane], members.words[lane]
        for h in range(nodes):
            words = n if h <= n else 0
            at = h * row + lane
            for m in range(shared if h < shared else 0, words + 1):
                chart[at + m * cell] = source[start + h * N + m]
            for m in range(words + 1, nodes):
                chart[at + m * cell] = dead
            chart[at] = dead
            chart[at + h * cell] = dead


@inline
def copy_out(charts, chart, members, tensor, dead):
    """chart[h, m, lane] to tensor[b, h, m] where the arc is live; `dead` where it is not."""
    N, row, cell = tensor.shape[1], charts.row, lanes(chart)
    target = address(tensor)
    shared = shared_block(members, N, cell)
    for h in range(shared):
        for m in range(0, shared, cell):
            m = min(m, shared - cell)
            store_block(chart, h * row + m * cell, target, address(members.starts), h * N + m)
    for lane in range(cell):
        start, n = members.starts[lane], members.words[lane]
        for h in range(N):
            words = n if h <= n else 0
            at = h * row + lane
            out = start + h * N
            for m in range(shared if h < shared else 0, words + 1):
                target[out + m] = chart[at + m * cell]
            for m in range(words + 1, N):
                target[out + m] = dead
            target[out] = dead
            target[out + h] = dead


@generic
def store_exp(p, at, x):
    """Stores the arc of score x at position `at` of p."""


@for_kind(store_exp, Max)
def _(p, at, x):
    """The arcs of max and + are the scores themselves."""
    vector.store(p.value, at, x)


@for_kind(store_exp, Linear, Dual)
def _(p, at, x):
    vector.store(p.value, at, exp(x))


@for_kind(store_exp, Scaled, ScaledDual)
def _(p, at, x):
    m, k = split_exp(x)
    vector.store(p.value, at, m)
    vector.store(p.exponent, at, k)


@inline
def exponentiate(charts):
    """Turns the scores in p.value into arcs, relative to their column's maximum c_m. Returns Σ c_m, in lanes.

    c_m is 0 where all arcs of column m are forbidden. Two columns are done at a time: they share cache lines.
    """
    p, nodes, row = charts.p, charts.nodes, charts.row
    cell = lanes(p.value)
    zero, minus_inf = full(p.value, 0.0), full(p.value, MINUS_INF)
    total = zero
    for m in range(0, nodes * cell, 2 * cell):
        c = d = minus_inf
        for at in range(m, m + nodes * row, row):
            c, d = maximum(vector.load(p.value, at), c), maximum(vector.load(p.value, at + cell), d)
        c, d = select(c == minus_inf, zero, c), select(d == minus_inf, zero, d)
        for at in range(m, m + nodes * row, row):
            store_exp(p, at, vector.load(p.value, at) - c)
            store_exp(p, at + cell, vector.load(p.value, at + cell) - d)
        total = total + c + d
    return total


@inline
def scale_direction(charts):
    """Turns the direction in p.tangent into the derivative of p along it, divided by the direction's largest entry.

    Returns that entry, in lanes. The direction of an arc of weight 0 counts as 0, whatever it is.
    """
    p, nodes, row = charts.p, charts.nodes, charts.row
    cell = lanes(p.value)
    zero = full(p.value, 0.0)
    largest = zero
    for h in range(nodes):
        for at in range(h * row, h * row + nodes * cell, cell):
            d = select(vector.load(p.value, at) == zero, zero, vector.load(p.tangent, at))
            vector.store(p.tangent, at, d)
            largest = maximum(absolute(d), largest)
    divisor = select(largest == zero, full(p.value, 1.0), largest)
    for h in range(nodes):
        for at in range(h * row, h * row + nodes * cell, cell):
            vector.store(p.tangent, at, vector.load(p.value, at) * (vector.load(p.tangent, at) / divisor))
    return largest


@inline
def scale_by(charts, chart, factor):
    """Multiplies a chart by a number per lane."""
    row, cell = charts.row, lanes(chart)
    for h in range(charts.nodes):
        for at in range(h * row, h * row + charts.nodes * cell, cell):
            vector.store(chart, at, vector.load(chart, at) * factor)


@inline
def words_in_lanes(charts, members):
    """The number of words of each lane, as a vector."""
    for lane in range(members.words.size):
        charts.scratch[lane] = members.words[lane]
    return vector.load(charts.scratch, 0)
