"""For each arc the best tree that has it: both passes with max and +, and the sum of what they say of the arc."""

from tritree.cpu.chart.lanes import copy_in, copy_out, enter, groups_in, new_members, words_in_lanes
from tritree.cpu.chart.layout import max_charts
from tritree.cpu.chart.numbers import MINUS_INF
from tritree.cpu.groups import finish, take
from tritree.cpu.kernels.viterbi import find_nan
from tritree.cpu.passes.choose import inside_pass, outside_pass
from tritree.cpu.simd import vector
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import lanes


@kernel
def max_marginals(work, order, scores, lengths, single_root, result, progress):
    """Fills result, for the groups that it takes."""
    members = new_members(work)
    group = take(progress)
    while group < groups_in(order, members):
        charts = max_charts(work, enter(members, order, group, lengths))
        copy_in(scores, members, charts, charts.p.value, MINUS_INF)
        nan = find_nan(charts)
        inside_pass(charts.C, charts, single_root)
        outside_pass(charts.C, charts, words_in_lanes(charts, members), single_root)
        add_to(charts, charts.mu.value, nan)
        copy_out(charts, charts.mu.value, members, result, MINUS_INF)
        finish(progress)
        group = take(progress)


@inline
def add_to(charts, chart, summand):
    """Adds a number per lane to a chart."""
    row, cell = charts.row, lanes(chart)
    for h in range(charts.nodes):
        for at in range(h * row, h * row + charts.nodes * cell, cell):
            vector.store(chart, at, vector.load(chart, at) + summand)
