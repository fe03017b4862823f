"""The vector type: every operation against numpy, on all lanes, in both widths."""

import math
import operator

import numpy as np
import pytest
from numba import njit

from tritree.cpu.simd import vector

DTYPES = [np.float32, np.float64]
NAN, INF = math.nan, math.inf


def compiled(operation, inputs):
    """A function over arrays that applies the operation to vectors loaded from them and stores the result."""
    if inputs == 1:

        @njit
        def run(out, a):
            o, x = vector.address(out), vector.address(a)
            for at in range(0, a.size, vector.lanes(x)):
                vector.store(o, at, operation(vector.load(x, at)))
    else:

        @njit
        def run(out, a, b):
            o, x, y = vector.address(out), vector.address(a), vector.address(b)
            for at in range(0, a.size, vector.lanes(x)):
                vector.store(o, at, operation(vector.load(x, at), vector.load(y, at)))

    def call(*arrays):
        out = np.empty_like(arrays[0])
        run(out, *arrays)
        return out

    return call


def specials(dtype):
    """All pairs of eight numbers, among them ±0, ±inf and NaN, as two arrays of whole vectors."""
    numbers = np.array([0.0, -0.0, 1.0, -2.5, 1e30, NAN, INF, -INF], dtype)
    a, b = np.meshgrid(numbers, numbers)
    return a.ravel(), b.ravel()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("symbol", ["add", "sub", "mul", "truediv"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic(symbol, dtype):
    function = getattr(operator, symbol)
    a, b = specials(dtype)
    np.testing.assert_array_equal(compiled(njit(lambda x, y: function(x, y)), 2)(a, b), function(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("symbol", ["lt", "le", "gt", "eq"])
def test_comparisons_choose_lanes(symbol, dtype):
    function = getattr(operator, symbol)
    a, b = specials(dtype)
    chosen = compiled(njit(lambda x, y: vector.select(function(x, y), vector.full(x, 1.0), vector.full(x, 2.0))), 2)(
        a, b
    )
    np.testing.assert_array_equal(chosen, np.where(function(a, b), 1, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_and_of_two_masks(dtype):
    a, b = specials(dtype)

    @njit
    def between(x, y):
        return vector.select((vector.full(x, 0.0) <= x) & (x < y), vector.full(x, 1.0), vector.full(x, 0.0))

    np.testing.assert_array_equal(compiled(between, 2)(a, b), (a >= 0) & (a < b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_maximum_ignores_a_nan_on_the_left(dtype):
    a, b = specials(dtype)
    np.testing.assert_array_equal(compiled(njit(lambda x, y: vector.maximum(x, y)), 2)(a, b), np.where(a > b, a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_absolute(dtype):
    a, _ = specials(dtype)
    np.testing.assert_array_equal(compiled(njit(lambda x: vector.absolute(x)), 1)(a), np.abs(a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_fma_rounds_once(dtype):
    tiny = np.finfo(dtype).eps
    a = np.full(8, 1 + tiny, dtype)
    b = np.full(8, 1 - tiny, dtype)
    result = compiled(njit(lambda x, y: vector.fma(x, y, vector.full(x, -1.0))), 2)(a, b)
    np.testing.assert_array_equal(result, np.full(8, -tiny * tiny, dtype))  # 0 if the product were rounded


@pytest.mark.parametrize("dtype", DTYPES)
def test_lanes_fill_32_bytes_and_pointers_move(dtype):
    @njit
    def lanes_and_element(array):
        pointer = vector.advance(vector.address(array), 3)
        pointer[1] = 7.0
        return vector.lanes(pointer), pointer[0]

    array = np.arange(8, dtype=dtype)
    assert lanes_and_element(array) == (32 // array.itemsize, 3.0)
    assert array[4] == 7


def test_loads_need_no_alignment():
    array = np.arange(9.0)
    result = compiled(njit(lambda x: vector.absolute(x)), 1)(array[1:])
    np.testing.assert_array_equal(result, array[1:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chart_dtype", DTYPES)
def test_blocks_go_between_sentences_and_lanes(chart_dtype, dtype):
    """chart[k, lane] is tensor[starts[lane] + offset + k], and back again."""
    cell = 32 // np.dtype(chart_dtype).itemsize
    tensor = np.arange(200, dtype=dtype)
    starts = np.random.default_rng(0).permutation(cell) * 20
    expected = np.stack([tensor[s + 3 : s + 3 + cell] for s in starts], axis=1)

    @njit
    def load(chart, tensor, starts):
        vector.load_block(vector.address(chart), 2, vector.address(tensor), vector.address(starts), 3)

    @njit
    def store(chart, tensor, starts):
        vector.store_block(vector.address(chart), 2, vector.address(tensor), vector.address(starts), 3)

    chart = np.full(cell * cell + 4, -1, chart_dtype)
    load(chart, tensor, starts)
    np.testing.assert_array_equal(chart[2:-2].reshape(cell, cell), expected)
    assert (chart[:2] == -1).all() and (chart[-2:] == -1).all()
    back = np.full_like(tensor, -1)
    store(chart, back, starts)
    touched = np.zeros(200, bool)
    for s in starts:
        touched[s + 3 : s + 3 + cell] = True
    np.testing.assert_array_equal(back, np.where(touched, tensor, -1))
