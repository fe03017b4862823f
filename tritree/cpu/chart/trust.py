"""When a result of the linear domain can be trusted.

Linear numbers underflow. An operation with a result below 2^−1022 may lose all of it, and does where denormals are
flushed; an arc below e^−708 counts as 0. These are absolute errors, of less than e^−708 each. How far can they change
Z and the marginals? Let n be the number of words, N = n + 1, and T = 6.75^n: there are fewer projective trees than T.
All arcs are at most 1, so

  - the inside value of an item is at most T: its derivations are parts of different trees;
  - its outside value, the factor with which an error in the item reaches Z, is at most T too: its contexts, each
    completed by the same derivation of the item, are different trees;
  - each pass has fewer than N³ operations, up to a constant factor: one for each term of a sum.

Hence Z is off by N³ T e^−708 at most. Marginals are sums of inside × outside / Z: an error of the inside pass reaches
them with a factor of T / Z at most. The outside pass carries outside / Z ≤ T / Z, and an error there reaches them with
the factor of an inside value, at most T. Both together are N³ T (1 + 1/Z) e^−708, and nothing overflows while
T / Z < e^708. The derivative along a direction with entries of at most 1 is at most n times the value: that gives N⁴,
and N⁵ covers the constant factors too. With e^−45 for the loss that remains (2^−60, with room to spare) a result is
trusted if

    n ln 6.75 + 5 ln N + 45 − 708  ≤  min(log Z, 0).

The computed Z can be used for the test, because the bound holds for its own error. Z is relative to the column maxima:
log Z ≥ 0 if all words can have their best heads at once. The bound requires log Z ≥ −610 with 20 words, −568 with 40
and −332 with 160; above 331 words no result is trusted. What is not trusted is computed again with Scaled numbers. The
choice depends on the sentence alone and is the same for all functions.
"""

import math

from tritree.cpu.chart.lanes import goal
from tritree.cpu.chart.numbers import Dual, Linear, Scaled, ScaledDual, for_kind, generic
from tritree.cpu.simd.jit import inline

LOG_TREES_PER_WORD = math.log(6.75)
LOG_UNDERFLOW = -708.0
MARGIN = 45.0


@inline
def smallest_trusted(n):
    """What min(log Z, 0) must reach for n words."""
    return n * LOG_TREES_PER_WORD + 5 * math.log(n + 1) + MARGIN + LOG_UNDERFLOW


LONGEST_TRUSTED = 0
while smallest_trusted.py_func(LONGEST_TRUSTED + 1) <= 0:
    LONGEST_TRUSTED += 1


@generic
def trusted(C, at, n):
    """Whether results are accurate, by the goal at position `at`. NaN counts as accurate: it is NaN in all numbers."""


@for_kind(trusted, Linear, Dual)
def _(C, at, n):
    Z = C.value[at]
    return Z != Z or smallest_trusted(n) <= min(math.log(Z), 0.0)


@for_kind(trusted, Scaled, ScaledDual)
def _(C, at, n):
    return True


@inline
def some_trusted(charts, members, refused):
    """Marks the sentences that are not trusted. Returns whether there are others in the group."""
    some = False
    for lane in range(members.sentences.size):
        trust = trusted(charts.C, goal(members, lane), members.words[lane])
        refused[members.sentences[lane]] = not trust
        some = some or trust
    return some


@generic
def log_value(C, at):
    """The logarithm of one number in a chart."""


@for_kind(log_value, Linear, Dual)
def _(C, at):
    return math.log(C.value[at])


@for_kind(log_value, Scaled, ScaledDual)
def _(C, at):
    return math.log(C.value[at]) + C.exponent[at] * math.log(2)
