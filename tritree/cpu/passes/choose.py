"""Which form of the two passes a kind of number has: tiles where the running totals of a tile fit into registers."""

from tritree.cpu.chart.numbers import Dual, Linear, Max, Scaled, ScaledDual, for_kind, generic
from tritree.cpu.passes.inside import inside
from tritree.cpu.passes.outside import outside
from tritree.cpu.passes.tiled import inside_tiled, outside_tiled


@generic
def inside_pass(C, charts, single_root):
    """Fills C, I and X of the charts from p."""


@for_kind(inside_pass, Linear, Max)
def _(C, charts, single_root):
    inside_tiled(charts, single_root)


@for_kind(inside_pass, Scaled, Dual, ScaledDual)
def _(C, charts, single_root):
    inside(charts, single_root)


@generic
def outside_pass(C, charts, n, single_root):
    """Fills gC, gX and mu of the charts. gX and mu may overwrite X and p."""


@for_kind(outside_pass, Linear, Max)
def _(C, charts, n, single_root):
    outside_tiled(charts, n, single_root)


@for_kind(outside_pass, Scaled, Dual, ScaledDual)
def _(C, charts, n, single_root):
    outside(charts, n, single_root)
