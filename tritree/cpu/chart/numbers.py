"""The kinds of numbers. The recurrences (inside.py, outside.py, walk.py) are written once, for all of them.

    Max(value)                            max and +, for the best tree; float32 or float64 lanes
    Linear(value)                         a float64, one multiply–add per term; can underflow (see trust.py)
    Scaled(value, exponent)               value · 2^exponent: never under- or overflows, several times slower
    Dual(value, tangent)                  Linear, with its derivative along a direction
    ScaledDual(value, tangent, exponent)  (value, tangent) · 2^exponent

The same class holds a number (its fields are vectors) and a chart of numbers (its fields are pointers); load and store
convert between them. A function of numbers is declared with `generic`, and `for_kind` gives it one implementation per
kind. In compiled code the class is part of the type: Numba chooses the implementation while it compiles the caller, and
nothing is looked up at run time.

A Scaled exponent is an integer-valued float64; zero has the exponent −inf. Products with zero need no test: −inf
plus a finite number is −inf, and 2^−inf is 0. Where −inf − (−inf) occurs, pow2 turns the NaN into 0.
Scores like −1e30 give exponents so large that adding 1 changes nothing. That is harmless as long as all code rounds in
the same way: the exponent of the term a ⊗ b is e_a + e_b, rounded once, inside and outside; and a value is divided by
exactly the power of two that was added to its exponent.
"""

import functools
from collections import namedtuple

from numba.extending import overload

from tritree.cpu.simd import vector
from tritree.cpu.simd.exp import exponent, pow2
from tritree.cpu.simd.jit import inline
from tritree.cpu.simd.vector import fma, full, maximum

Max = namedtuple("Max", "value")
Linear = namedtuple("Linear", "value")
Scaled = namedtuple("Scaled", "value exponent")
Dual = namedtuple("Dual", "value tangent")
ScaledDual = namedtuple("ScaledDual", "value tangent exponent")

MINUS_INF = float("-inf")


def generic(stub):
    """Makes `stub` callable in compiled code. The kind of its first argument chooses the implementation."""
    stub.implementations = {}

    @overload(stub)
    @functools.wraps(stub)
    def pick(*types):
        return stub.implementations.get(getattr(types[0], "instance_class", None))

    return stub


def for_kind(stub, *kinds):
    """Registers the decorated function as the implementation of `stub` for these kinds."""

    def register(implementation):
        stub.implementations.update(dict.fromkeys(kinds, implementation))
        return implementation

    return register


# Charts.


@generic
def load(A, at):
    """The number at position `at` of chart A."""


@for_kind(load, Max)
def _(A, at):
    return Max(vector.load(A.value, at))


@for_kind(load, Linear)
def _(A, at):
    return Linear(vector.load(A.value, at))


@for_kind(load, Scaled)
def _(A, at):
    return Scaled(vector.load(A.value, at), vector.load(A.exponent, at))


@for_kind(load, Dual)
def _(A, at):
    return Dual(vector.load(A.value, at), vector.load(A.tangent, at))


@for_kind(load, ScaledDual)
def _(A, at):
    return ScaledDual(vector.load(A.value, at), vector.load(A.tangent, at), vector.load(A.exponent, at))


@generic
def store(A, at, x):
    """Puts the number x at position `at` of chart A."""


@for_kind(store, Max, Linear)
def _(A, at, x):
    vector.store(A.value, at, x.value)


@for_kind(store, Scaled)
def _(A, at, x):
    vector.store(A.value, at, x.value)
    vector.store(A.exponent, at, x.exponent)


@for_kind(store, Dual)
def _(A, at, x):
    vector.store(A.value, at, x.value)
    vector.store(A.tangent, at, x.tangent)


@for_kind(store, ScaledDual)
def _(A, at, x):
    vector.store(A.value, at, x.value)
    vector.store(A.tangent, at, x.tangent)
    vector.store(A.exponent, at, x.exponent)


# Arithmetic.


@generic
def one(A):
    """The 1 of A's kind: the value of an axiom."""


@for_kind(one, Max)
def _(A):
    return Max(full(A.value, 0.0))


@for_kind(one, Linear)
def _(A):
    return Linear(full(A.value, 1.0))


@for_kind(one, Scaled)
def _(A):
    return Scaled(full(A.value, 1.0), full(A.value, 0.0))


@for_kind(one, Dual)
def _(A):
    return Dual(full(A.value, 1.0), full(A.value, 0.0))


@for_kind(one, ScaledDual)
def _(A):
    return ScaledDual(full(A.value, 1.0), full(A.value, 0.0), full(A.value, 0.0))


@generic
def empty(A):
    """The sum without terms, of A's kind."""


@for_kind(empty, Max)
def _(A):
    return Max(full(A.value, MINUS_INF))


@for_kind(empty, Linear)
def _(A):
    return Linear(full(A.value, 0.0))


@for_kind(empty, Dual)
def _(A):
    return Dual(full(A.value, 0.0), full(A.value, 0.0))


@generic
def mul(x, y):
    """x ⊗ y. Also the product of a gradient x and a number y; an exponent of y is left out then (gradients.py)."""


@for_kind(mul, Max)
def _(x, y):
    return Max(x.value + y.value)


@for_kind(mul, Linear)
def _(x, y):
    return Linear(x.value * y.value)


@for_kind(mul, Scaled)
def _(x, y):
    return Scaled(x.value * y.value, x.exponent + y.exponent)


@for_kind(mul, Dual)
def _(x, y):
    return Dual(x.value * y.value, fma(x.value, y.tangent, x.tangent * y.value))


@for_kind(mul, ScaledDual)
def _(x, y):
    return ScaledDual(x.value * y.value, fma(x.value, y.tangent, x.tangent * y.value), x.exponent + y.exponent)


@generic
def add(x, y):
    """x ⊕ y. Also the sum of two gradients."""


@for_kind(add, Max)
def _(x, y):
    return Max(maximum(x.value, y.value))


@for_kind(add, Linear)
def _(x, y):
    return Linear(x.value + y.value)


@for_kind(add, Dual)
def _(x, y):
    return Dual(x.value + y.value, x.tangent + y.tangent)


@generic
def add_products(total, A, a, step_a, B, b, step_b, count):
    """total ⊕ A[a + k·step_a] ⊗ B[b + k·step_b] over k < count, in increasing order of k."""


@for_kind(add_products, Max)
def _(total, A, a, step_a, B, b, step_b, count):
    best = total.value
    for _ in range(count):
        best = maximum(vector.load(A.value, a) + vector.load(B.value, b), best)
        a += step_a
        b += step_b
    return Max(best)


@for_kind(add_products, Linear)
def _(total, A, a, step_a, B, b, step_b, count):
    value = total.value
    for _ in range(count):
        value = fma(vector.load(A.value, a), vector.load(B.value, b), value)
        a += step_a
        b += step_b
    return Linear(value)


@for_kind(add_products, Dual)
def _(total, A, a, step_a, B, b, step_b, count):
    value, tangent = total.value, total.tangent
    for _ in range(count):
        x = vector.load(A.value, a)
        y = vector.load(B.value, b)
        value = fma(x, y, value)
        tangent = fma(vector.load(A.tangent, a), y, fma(x, vector.load(B.tangent, b), tangent))
        a += step_a
        b += step_b
    return Dual(value, tangent)


@generic
def dot(A, a, step_a, B, b, step_b, count):
    """⊕ A[a + k·step_a] ⊗ B[b + k·step_b] over k < count, in increasing order of k."""


@for_kind(dot, Max, Linear, Dual)
def _(A, a, step_a, B, b, step_b, count):
    return add_products(empty(A), A, a, step_a, B, b, step_b, count)


@for_kind(dot, Scaled)
def _(A, a, step_a, B, b, step_b, count):
    top = top_exponent(A, a, step_a, B, b, step_b, count)
    total = full(A.value, 0.0)
    for _ in range(count):
        x = vector.load(A.value, a) * pow2(vector.load(A.exponent, a) + vector.load(B.exponent, b) - top)
        total = fma(x, vector.load(B.value, b), total)
        a += step_a
        b += step_b
    scale, total_exponent = normalizer(total, top)
    return Scaled(total * scale, total_exponent)


@for_kind(dot, ScaledDual)
def _(A, a, step_a, B, b, step_b, count):
    top = top_exponent(A, a, step_a, B, b, step_b, count)
    total = full(A.value, 0.0)
    tangent = full(A.value, 0.0)
    for _ in range(count):
        weight = pow2(vector.load(A.exponent, a) + vector.load(B.exponent, b) - top)
        x = vector.load(A.value, a) * weight
        y = vector.load(B.value, b)
        total = fma(x, y, total)
        tangent = fma(vector.load(A.tangent, a) * weight, y, fma(x, vector.load(B.tangent, b), tangent))
        a += step_a
        b += step_b
    scale, total_exponent = normalizer(total, top)
    return ScaledDual(total * scale, tangent * scale, total_exponent)


@inline
def top_exponent(A, a, step_a, B, b, step_b, count):
    """The largest exponent of a term. The terms are summed relative to it."""
    top = full(A.exponent, MINUS_INF)
    for _ in range(count):
        top = maximum(vector.load(A.exponent, a) + vector.load(B.exponent, b), top)
        a += step_a
        b += step_b
    return top


@inline
def normalizer(total, top):
    """(f, e): total · 2^top is (total · f) · 2^e, with 1 ≤ total · f < 2 unless e is too large for that."""
    raised = top + exponent(total)
    return pow2(top - raised), raised
