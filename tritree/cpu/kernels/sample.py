"""Exact samples: the inside pass, then one walk down the chart for each tree."""

import numpy as np

from tritree.cpu.chart.lanes import copy_in, exponentiate, goal, is_repeated, nodes_of
from tritree.cpu.chart.layout import linear_charts, scaled_charts
from tritree.cpu.chart.numbers import MINUS_INF
from tritree.cpu.chart.trust import some_trusted
from tritree.cpu.groups import new_members, next_group
from tritree.cpu.passes.choose import inside_pass
from tritree.cpu.passes.walk import Stream, walk
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import address, advance, lanes


@kernel
def sample_kernel(work, order, refused, exact, scores, lengths, single_root, seed, heads, pieces, progress):
    """Fills heads, for the pieces of a group's samples that it takes. `refused` and `exact` as in posterior.py."""
    members = new_members(work)
    stack = np.empty((scores.shape[1], 2), np.int64)
    low, high = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    key = np.uint32(low), np.uint32(high)
    num_samples = heads.shape[0]
    while next_group(members, order, lengths, progress, pieces):
        piece, nodes = members.part[0] % pieces, nodes_of(members)
        begin, end = num_samples * piece // pieces, num_samples * (piece + 1) // pieces
        if exact:
            charts = scaled_charts(work, nodes)
            sample_of(charts, members, refused, scores, single_root, key, begin, end, stack, heads)
        else:
            charts = linear_charts(work, nodes)
            sample_of(charts, members, refused, scores, single_root, key, begin, end, stack, heads)


@inline
def sample_of(charts, members, refused, scores, single_root, key, begin, end, stack, heads):
    C, cell = charts.C, lanes(charts.scratch)
    _, B, N = heads.shape
    copy_in(scores, members, charts, charts.p.value, MINUS_INF)
    exponentiate(charts)
    inside_pass(charts.C, charts, single_root)
    some_trusted(charts, members, refused)
    for lane in range(cell):
        b, n = members.sentences[lane], members.words[lane]
        if refused[b] or is_repeated(members, lane):
            continue
        for s in range(begin, end):
            tree = advance(address(heads), (s * B + b) * N)
            for m in range(N):
                tree[m] = -1
            if C.value[goal(members, lane)] > 0.0:
                walk(charts, lane, n, single_root, Stream(key, b, s), stack, tree)
