"""The vector type: every operation against numpy, on all lanes, in both widths."""

import math
import operator

import numpy as np
import pytest
from numba import njit

from tritree.cpu.simd import exp as powers
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
    """All pairs of some numbers, the awkward ones included, as two arrays of whole vectors."""
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
def test_maximum_passes_over_a_nan_on_the_left(dtype):
    a, b = specials(dtype)
    np.testing.assert_array_equal(compiled(vec_function("maximum"), 2)(a, b), np.where(a > b, a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_absolute(dtype):
    a, _ = specials(dtype)
    np.testing.assert_array_equal(compiled(vec_function("absolute", 1), 1)(a), np.abs(a))


def vec_function(name, inputs=2):
    function = getattr(vector, name, None) or getattr(powers, name)
    return njit(lambda x: function(x)) if inputs == 1 else njit(lambda x, y: function(x, y))


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
    result = compiled(vec_function("absolute", 1), 1)(array[1:])
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


exp = compiled(vec_function("exp", 1), 1)


def test_exp_is_accurate_over_its_range():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-708, 709, 40_000), rng.uniform(-1, 1, 40_000), np.arange(-700, 700)])
    x = np.concatenate([x, np.arange(-1000, 1000) * (math.log(2) / 2)])
    x = x[(x >= -708) & (x <= 709)]
    x = x[: x.size // 4 * 4]
    # Where long double is wider than double, it is the judge; elsewhere the C library's exp, itself good to 1e-16.
    expected = np.exp(x.astype(np.longdouble))
    error = np.abs(exp(x) - expected) / expected
    assert error.max() < 4e-16


def test_exp_at_the_edges():
    x = np.array([0.0, -0.0, -1e-20, -708.0, np.nextafter(-708.0, -1e9), -1e30, -INF, NAN, INF, -745.0, -5e-324, 1.0])
    result = exp(x)
    assert result[0] == result[1] == result[2] == 1
    assert result[3] >= np.finfo(np.float64).tiny  # never subnormal
    assert (result[[4, 5, 6, 9]] == 0).all()
    assert np.isnan(result[[7, 8]]).all()


def test_exp_is_at_most_one_for_what_is_not_positive():
    """What the error bound rests on."""
    x = -np.concatenate([np.geomspace(1e-20, 1, 100_000), np.linspace(0, 2, 100_000)])
    assert exp(x).max() == 1


def test_pow2():
    k = np.array([-1022.0, -1023, -1024, -1e300, -INF, NAN, 0, 1, 52, -52, 1023, 10])
    expected = np.array([2.0**-1022, 0, 0, 0, 0, 0, 1, 2, 2.0**52, 2.0**-52, 2.0**1023, 1024])
    np.testing.assert_array_equal(compiled(vec_function("pow2", 1), 1)(k), expected)


def test_exponent():
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.uniform(1, 2, 4000), rng.integers(-1022, 1024, 4000))
    function = compiled(vec_function("exponent", 1), 1)
    np.testing.assert_array_equal(function(x), np.frexp(x)[1] - 1)
    np.testing.assert_array_equal(function(np.array([0.0, 5e-324, INF, NAN])), [-1023, -1023, 1024, 1024])


split_mantissa = compiled(njit(lambda x: powers.split_exp(x)[0]), 1)
split_exponent = compiled(njit(lambda x: powers.split_exp(x)[1]), 1)


def test_split_exp_is_exp():
    x = np.random.default_rng(0).uniform(-700, 700, 40_000)
    m, k = split_mantissa(x), split_exponent(x)
    assert (k == np.rint(k)).all()
    assert m.min() >= 0.7071 and m.max() <= 1.4143
    expected = np.exp(x.astype(np.longdouble))
    assert (np.abs(np.ldexp(m.astype(np.longdouble), k.astype(int)) - expected) / expected).max() < 4e-16


@pytest.mark.parametrize("size", [1e6, 1e12, 1e15, 1e16, 1e30, 1e300])
def test_split_exp_of_huge_scores(size):
    """log m + k ln 2 is x, to the spacing of doubles at x; m stays in its range."""
    x = -size * np.random.default_rng(0).uniform(0.5, 1, 4000)
    m, k = split_mantissa(x), split_exponent(x)
    assert m.min() >= 0.7071 and m.max() <= 1.4143
    error = np.abs(np.log(m.astype(np.longdouble)) + k.astype(np.longdouble) * np.log(np.longdouble(2)) - x)
    assert (error <= 1e-15 + 4 * np.spacing(-x)).all()


def test_split_exp_of_what_is_no_number():
    x = np.array([-INF, NAN, INF, 0.0])
    np.testing.assert_array_equal(split_mantissa(x), [0, NAN, NAN, 1])
    np.testing.assert_array_equal(split_exponent(x), [-INF, 0, 0, 0])
