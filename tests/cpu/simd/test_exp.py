"""exp and powers of two on vectors, against numpy."""

import math

import numpy as np
import pytest
from numba import njit

from tests.cpu.simd.test_vector import INF, NAN, compiled
from tritree.cpu.simd.exp import exp, exponent, pow2, split_exp

exp_of = compiled(njit(lambda x: exp(x)), 1)


def test_exp_is_accurate_over_its_range():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-708, 709, 40_000), rng.uniform(-1, 1, 40_000), np.arange(-700, 700)])
    x = np.concatenate([x, np.arange(-1000, 1000) * (math.log(2) / 2)])
    x = x[(x >= -708) & (x <= 709)]
    x = x[: x.size // 4 * 4]
    # Against long double where it is wider than double; elsewhere against the C library's exp, accurate to 1e-16.
    expected = np.exp(x.astype(np.longdouble))
    error = np.abs(exp_of(x) - expected) / expected
    assert error.max() < 4e-16


def test_exp_at_the_edges():
    x = np.array([0.0, -0.0, -1e-20, -708.0, np.nextafter(-708.0, -1e9), -1e30, -INF, NAN, INF, -745.0, -5e-324, 1.0])
    result = exp_of(x)
    assert result[0] == result[1] == result[2] == 1
    assert result[3] >= np.finfo(np.float64).tiny  # never subnormal
    assert (result[[4, 5, 6, 9]] == 0).all()
    assert np.isnan(result[[7, 8]]).all()


def test_exp_is_at_most_one_for_what_is_not_positive():
    """The error bound of trust.py assumes it."""
    x = -np.concatenate([np.geomspace(1e-20, 1, 100_000), np.linspace(0, 2, 100_000)])
    assert exp_of(x).max() == 1


def test_pow2():
    k = np.array([-1022.0, -1023, -1024, -1e300, -INF, NAN, 0, 1, 52, -52, 1023, 10])
    expected = np.array([2.0**-1022, 0, 0, 0, 0, 0, 1, 2, 2.0**52, 2.0**-52, 2.0**1023, 1024])
    np.testing.assert_array_equal(compiled(njit(lambda x: pow2(x)), 1)(k), expected)


def test_exponent():
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.uniform(1, 2, 4000), rng.integers(-1022, 1024, 4000))
    function = compiled(njit(lambda x: exponent(x)), 1)
    np.testing.assert_array_equal(function(x), np.frexp(x)[1] - 1)
    np.testing.assert_array_equal(function(np.array([0.0, 5e-324, INF, NAN])), [-1023, -1023, 1024, 1024])


split_mantissa = compiled(njit(lambda x: split_exp(x)[0]), 1)
split_exponent = compiled(njit(lambda x: split_exp(x)[1]), 1)


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
