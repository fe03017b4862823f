"""The best tree: the inside pass with max and +, then one walk down the chart.

The scores are not shifted: every cell is a plain sum of scores in the precision of the results. All backends compute
the same sums, so they have the same ties and find the same tree.
"""

import numpy as np

from tritree.cpu.chart.lanes import copy_in, goal, nodes_of
from tritree.cpu.chart.layout import max_charts
from tritree.cpu.chart.numbers import MINUS_INF
from tritree.cpu.groups import new_members, next_group
from tritree.cpu.passes.choose import inside_pass
from tritree.cpu.passes.walk import walk
from tritree.cpu.simd import vector
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import address, advance, full, lanes, select


@kernel
def viterbi_kernel(work, order, scores, lengths, single_root, best, heads, progress):
    """Fills best and heads, for the groups that it takes."""
    members = new_members(work)
    N = scores.shape[1]
    stack = np.empty((N, 2), np.int64)
    while next_group(members, order, lengths, progress):
        charts = best_items(work, members, scores, single_root)
        for lane in range(lanes(charts.scratch)):
            b, n = members.sentences[lane], members.words[lane]
            value = charts.C.value[goal(members, lane)] + charts.scratch[lane]
            tree = advance(address(heads), b * N)
            for m in range(N):
                tree[m] = -1
            if value > MINUS_INF:
                walk(charts, lane, n, single_root, None, stack, tree)
            best[b] = value


@inline
def best_items(work, members, scores, single_root):
    """The charts of a group after the inside pass; the lanes of `scratch` are NaN or 0, as `find_nan` says."""
    charts = max_charts(work, nodes_of(members))
    copy_in(scores, members, charts, charts.p.value, MINUS_INF)
    inside_pass(charts.C, charts, single_root)
    vector.store(charts.scratch, 0, find_nan(charts))
    return charts


@inline
def find_nan(charts):
    """NaN in the lanes that have a NaN among their scores, else 0. Maxima ignore NaN, so it is looked for here."""
    p, row, cell = charts.p.value, charts.row, lanes(charts.p.value)
    found = full(p, 0.0)
    for h in range(charts.nodes):
        for at in range(h * row, h * row + charts.nodes * cell, cell):
            s = vector.load(p, at)
            found = select(s == s, found, s)
    return found
