"""For each arc the score of the best tree that has it: both passes with max and +."""

from tritree.cpu.chart.lanes import copy_out, words_in_lanes
from tritree.cpu.chart.numbers import MINUS_INF
from tritree.cpu.groups import new_members, next_group
from tritree.cpu.kernels.viterbi import best_items
from tritree.cpu.passes.choose import outside_pass
from tritree.cpu.simd import vector
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import lanes


@kernel
def max_marginals_kernel(work, order, scores, lengths, single_root, result, progress):
    """Fills result, for the groups that it takes."""
    members = new_members(work)
    while next_group(members, order, lengths, progress):
        charts = best_items(work, members, scores, single_root)
        nan = vector.load(charts.scratch, 0)
        outside_pass(charts.C, charts, words_in_lanes(charts, members), single_root)
        add_to(charts, charts.mu.value, nan)
        copy_out(charts, charts.mu.value, members, result, MINUS_INF)


@inline
def add_to(charts, chart, summand):
    """Adds a number per lane to a chart."""
    row, cell = charts.row, lanes(chart)
    for h in range(charts.nodes):
        for at in range(h * row, h * row + charts.nodes * cell, cell):
            vector.store(chart, at, vector.load(chart, at) + summand)
