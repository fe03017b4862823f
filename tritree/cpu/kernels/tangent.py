"""The derivative of the marginals along a direction d: both passes, over dual numbers.

A dual number a + a′ε has its derivative with it: (a + a′ε)(b + b′ε) = ab + (ab′ + a′b)ε. The arcs are exp(s + d ε),
that is p + p d ε, and the passes end with μ + μ′ε, where μ′ is the Hessian of log Z times d.

The result is linear in d, so the passes run with d divided by its largest entry: no d is too small or too large.
"""

from tritree.cpu.chart.lanes import copy_in, copy_out, exponentiate, nodes_of, scale_by, scale_direction, words_in_lanes
from tritree.cpu.chart.layout import dual_charts, scaled_dual_charts
from tritree.cpu.chart.numbers import MINUS_INF
from tritree.cpu.chart.trust import some_trusted
from tritree.cpu.groups import new_members, next_group
from tritree.cpu.passes.choose import inside_pass, outside_pass
from tritree.cpu.simd.jit import inline, kernel


@kernel
def tangent_kernel(work, order, refused, exact, scores, lengths, single_root, direction, result, progress):
    """Fills result, for the groups that it takes. `refused` and `exact` as in posterior.py."""
    members = new_members(work)
    while next_group(members, order, lengths, progress):
        nodes = nodes_of(members)
        if exact:
            tangent_of(scaled_dual_charts(work, nodes), members, refused, scores, single_root, direction, result)
        else:
            tangent_of(dual_charts(work, nodes), members, refused, scores, single_root, direction, result)


@inline
def tangent_of(charts, members, refused, scores, single_root, direction, result):
    copy_in(scores, members, charts, charts.p.value, MINUS_INF)
    copy_in(direction, members, charts, charts.p.tangent, 0.0)
    exponentiate(charts)
    scale = scale_direction(charts)
    inside_pass(charts.C, charts, single_root)
    if some_trusted(charts, members, refused):
        outside_pass(charts.C, charts, words_in_lanes(charts, members), single_root)
        scale_by(charts, charts.mu.tangent, scale)
        copy_out(charts, charts.mu.tangent, members, result, 0.0)
