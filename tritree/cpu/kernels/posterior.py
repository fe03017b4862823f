"""log Z and the arc marginals."""

from tritree.cpu.chart.lanes import copy_in, copy_out, exponentiate, goal, nodes_of, words_in_lanes
from tritree.cpu.chart.layout import linear_charts, scaled_charts
from tritree.cpu.chart.numbers import MINUS_INF
from tritree.cpu.chart.trust import log_value, some_trusted
from tritree.cpu.groups import new_members, next_group
from tritree.cpu.passes.choose import inside_pass, outside_pass
from tritree.cpu.simd import vector
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import lanes


@kernel
def posterior_kernel(work, order, refused, exact, scores, lengths, single_root, log_z, marginals, progress):
    """Fills log_z and, unless it is empty, marginals, for the groups that it takes.

    Marks in `refused` the sentences whose results in Linear numbers can't be trusted. `exact` takes Scaled numbers.
    """
    members = new_members(work)
    while next_group(members, order, lengths, progress):
        nodes = nodes_of(members)
        if exact:
            posterior_of(scaled_charts(work, nodes), members, refused, scores, single_root, log_z, marginals)
        else:
            posterior_of(linear_charts(work, nodes), members, refused, scores, single_root, log_z, marginals)


@inline
def posterior_of(charts, members, refused, scores, single_root, log_z, marginals):
    cell = lanes(charts.scratch)
    copy_in(scores, members, charts, charts.p.value, MINUS_INF)
    total = exponentiate(charts)
    inside_pass(charts.C, charts, single_root)
    vector.store(charts.scratch, 0, total)
    for lane in range(cell):
        b = members.sentences[lane]
        log_z[b] = log_value(charts.C, goal(members, lane)) + charts.scratch[lane]
    if some_trusted(charts, members, refused) and marginals.size > 0:
        outside_pass(charts.C, charts, words_in_lanes(charts, members), single_root)
        copy_out(charts, charts.mu.value, members, marginals, 0.0)
