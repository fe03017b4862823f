"""Arithmetic as a GPU has it, where NumPy's differs."""

import numpy as np

SMALLEST_NORMAL = np.float32(2.0**-126)


def flushed(a):
    """Subnormal numbers as 0 (.ftz)."""
    return a * (np.abs(a) >= SMALLEST_NORMAL)


def fused32(a, b, c):
    """a · b + c. The product is exact in float64; the sum is rounded there, and once more."""
    return (np.asarray(a).astype("f8") * b + c).astype("f4")


def fused64(a, b, c):
    """a · b + c with 11 bits more than float64 has: enough for the iterations that divide and take logarithms."""
    return (np.asarray(a).astype(np.longdouble) * b + c).astype("f8")


FUSED = {"f32": fused32, "f64": fused64}


def from_bfloat(a):
    return (np.asarray(a).astype("u4") << np.uint32(16)).view("f4")


def wide(a):
    return np.asarray(a).astype("u8")


def wide_product(a, b, dtype: str):
    return np.asarray(a).astype(dtype) * np.asarray(b).astype(dtype)


def high_product(a, b, dtype: str):
    """The upper half of the product of two integers of 32 or 64 bits."""
    if dtype[1] == "4":
        return (wide_product(a, b, dtype[0] + "8") >> np.asarray(32, dtype[0] + "8")).astype(dtype)
    low = np.uint64(0xFFFFFFFF)
    a, b = np.asarray(a), np.asarray(b)
    x, y = a.view("u8"), b.view("u8")
    (x1, x0), (y1, y0) = ((z >> np.uint64(32), z & low) for z in (x, y))
    middle = x1 * y0 + (x0 * y0 >> np.uint64(32))
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> np.uint64(32)) + (other >> np.uint64(32))
    if dtype[0] == "i":
        high = high - np.where(a < 0, y, 0).astype("u8") - np.where(b < 0, x, 0).astype("u8")
    return high.view(dtype)


def shifted(a, by, left: bool):
    """Shifts by the width or more give 0, or the sign."""
    a = np.asarray(a)
    width = 8 * a.dtype.itemsize
    few = np.minimum(by, width - 1).astype(a.dtype)
    if not left and a.dtype.kind == "i":
        return a >> few
    return np.where(np.asarray(by) >= width, a.dtype.type(0), a << few if left else a >> few)


def quotient(a, b):
    """Rounded towards 0; −1 where b is 0."""
    a, b = np.asarray(a), np.asarray(b)
    q = np.abs(a.astype("f8") if a.dtype.itemsize < 8 else a) // np.where(b == 0, 1, np.abs(b))
    return np.where(b == 0, -1, np.where((a < 0) == (b < 0), q, -q)).astype(a.dtype)


def remainder(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a - quotient(a, b) * b


def to_integer(a, dtype: str):
    """A whole number as an integer: the nearest one there is, 0 for NaN."""
    info = np.iinfo(dtype)
    low, high = a.dtype.type(info.min), a.dtype.type(info.max)
    fits = (a >= low) & (a < high)
    beyond = np.where(np.isnan(a), 0, np.where(a < 0, info.min, info.max)).astype(dtype)
    return np.where(fits, np.where(fits, a, 0).astype(dtype), beyond)


def rough_reciprocal(a):
    """rcp.approx.ftz.f64: the upper word of the reciprocal of the upper word."""
    upper = np.uint64(0xFFFFFFFF00000000)
    return ((1.0 / (np.asarray(a).view("u8") & upper).view("f8")).view("u8") & upper).view("f8")
