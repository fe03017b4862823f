"""The tiled passes against the plain loops, in every field of every chart."""

import functools

import numpy as np
import pytest
from numba import njit

from tritree.cpu.chart.layout import linear_charts, max_charts, padded, workspace_size
from tritree.cpu.chart.numbers import Linear, Max
from tritree.cpu.passes.inside import inside
from tritree.cpu.passes.outside import outside
from tritree.cpu.passes.tiled import inside_tiled, outside_tiled
from tritree.cpu.simd import vector


def passes(charts_of):
    """Both passes, or the first alone, over charts of one kind."""

    @njit
    def run(work, nodes, words, single_root, tiled, both):
        charts = charts_of(work, nodes)
        n = vector.load(vector.address(words), 0)
        if tiled:
            inside_tiled(charts, single_root)
            if both:
                outside_tiled(charts, n, single_root)
        else:
            inside(charts, single_root)
            if both:
                outside(charts, n, single_root)

    return run


RUN = {Linear: passes(linear_charts), Max: passes(max_charts)}


def workspace(kind, nodes, words, dtype, arcs):
    """A workspace with arcs in p, none past the end of a lane's sentence, and NaN in all other fields."""
    cell, N = words.size, padded.py_func(nodes)
    work = np.full(workspace_size(kind, nodes, cell), np.nan, dtype)
    fields = work[N * cell :].reshape(-1, N, N, cell)
    h, m = np.ogrid[:nodes, :nodes]
    live = (np.maximum(h, m)[..., None] <= words) & ((h != m) & (m > 0))[..., None]
    zero = -np.inf if kind is Max else 0.0
    fields[0, :nodes, :nodes] = np.where(live, arcs, zero)
    return work, fields


def compare(kind, nodes, words, dtype, arcs, single_root, assert_same):
    """The inside pass alone, because the outside pass overwrites its charts; then both."""
    for both in (False, True):
        charts = []
        for tiled in (False, True):
            work, fields = workspace(kind, nodes, words, dtype, arcs)
            RUN[kind](work, nodes, words, single_root, tiled, both)
            charts.append(fields[:, :nodes, :nodes])
        plain, tiled = charts
        off_diagonal, above = ~np.eye(nodes, dtype=bool), np.triu(np.ones((nodes, nodes), bool), 1)
        p_or_mu, C, I, X_or_gX, gC = range(5)
        compared = [(p_or_mu, off_diagonal), (C, off_diagonal), (I, off_diagonal), (X_or_gX, above)]
        if both:
            compared.append((gC, off_diagonal))
            if single_root:  # the tiled pass overwrites C[0,j]
                compared[1] = (C, off_diagonal & (np.arange(nodes) > 0)[:, None])
        for field, cells in compared:
            assert not np.isnan(plain[field][cells]).any()  # NaN would be equal to NaN
            assert_same(tiled[field][cells], plain[field][cells], err_msg=str(field))


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("nodes", [2, 4, 6, 8, 10, 12, 14, 16, 18, 22, 24, 34])
def test_linear(nodes, single_root):
    rng = np.random.default_rng(nodes)
    words = np.array([nodes - 1, nodes - 1, max(nodes - 3, 0), nodes // 2], np.float64)
    arcs = rng.uniform(0, 1, (nodes, nodes, 4)) ** 3
    close = functools.partial(np.testing.assert_allclose, rtol=1e-13, atol=0)
    compare(Linear, nodes, words, np.float64, arcs, single_root, close)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("nodes", [2, 4, 6, 8, 14, 16, 22, 34])
def test_max_is_the_same_to_the_bit(nodes, dtype, single_root):
    rng = np.random.default_rng(nodes)
    cell = 32 // np.dtype(dtype).itemsize
    words = np.linspace(nodes // 2, nodes - 1, cell).round().astype(dtype)
    arcs = rng.standard_normal((nodes, nodes, cell))
    compare(Max, nodes, words, dtype, arcs, single_root, np.testing.assert_array_equal)
