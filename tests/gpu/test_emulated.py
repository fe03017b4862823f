"""The kernels' compiled code, PTX for sm_80 and sm_90, computes what the CPU backend computes, and the emulator in
which it runs has nothing to complain of: no access out of bounds, no race, no load of what nobody wrote.

All pairs of an operator, a dtype, a way of launching and so on are tried; `make test-compiled` tries every combination.
"""

import itertools
import math

import pytest

from tests.cases import ALL_DTYPES, JUNK, KINDS, LAYOUTS
from tests.gpu import emulated
from tests.gpu.compiled import call_compiled
from tests.gpu.launches import SHAPES
from tests.operators import ROWS

OPERATORS = [row.name for row in ROWS if "triton" in row.backends]
MAIN = OPERATORS, ALL_DTYPES, (False, True), SHAPES
WORDS, SENTENCES, ARCHITECTURES = (20, 33), (None, 264), (80, 90)


def all_pairs(*factors):
    """Few choices of one value of each factor, such that any two values of two factors meet."""
    chosen, seen = [], set()
    for begin in itertools.product(*factors[:2]):
        row = list(begin)
        for k, values in enumerate(factors[2:], 2):
            row.append(max(values, key=lambda v: sum((j, row[j], k, v) not in seen for j in range(k))))
        seen |= pairs_of(row)
        chosen.append(tuple(row))
    missing = {
        (j, a, k, b) for j, k in itertools.combinations(range(len(factors)), 2) for a in factors[j] for b in factors[k]
    } - seen
    while missing:
        j, a, k, b = sorted(missing, key=str)[0]
        row = [values[len(chosen) % len(values)] for values in factors]
        row[j], row[k] = a, b
        missing -= pairs_of(row)
        chosen.append(tuple(row))
    return chosen


def pairs_of(row):
    return {(j, row[j], k, row[k]) for j, k in itertools.combinations(range(len(row)), 2)}


def pytest_generate_tests(metafunc):
    if "choice" in metafunc.fixturenames:
        if metafunc.config.getoption("compiled"):
            every = itertools.product(*MAIN, (1, *WORDS, 70), ARCHITECTURES)
            varying = itertools.cycle(all_pairs(KINDS, LAYOUTS, JUNK, SENTENCES))
            choices = [(*main, *other, arch) for (*main, arch), other in zip(every, varying, strict=False)]
        else:
            choices = all_pairs(*MAIN, WORDS, KINDS, LAYOUTS, JUNK, SENTENCES, ARCHITECTURES)
        metafunc.parametrize("choice", [emulated.Emulated(*choice) for choice in choices], ids=str)


def test_all_pairs_meet():
    factors = "ab", "cde", "fgh", "ij", "klmno"
    choices = all_pairs(*factors)
    for j, k in itertools.combinations(range(len(factors)), 2):
        assert {(choice[j], choice[k]) for choice in choices} == set(itertools.product(factors[j], factors[k]))
    assert len(choices) < 2 * 3 * 5


def test_results(choice):
    call_compiled(emulated.check_case, choice)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "topk"])
def test_machine_code(name):
    """What perf.gpu.report counts: the machine code of sm_90, in float32. It does not count that of topk."""
    call_compiled(emulated.check_machine_code, emulated.Emulated(name, words=33, kind="forbidden", layout="sliced"))


@pytest.mark.parametrize("name", OPERATORS)
def test_150_words(name):
    """One program per sentence with four warps and two tiles, a walk with sixteen warps."""
    call_compiled(emulated.check_case, emulated.Emulated(name, words=150))


def test_150_words_in_launches_per_diagonal():
    call_compiled(emulated.check_case, emulated.Emulated("inside_outside", shape=SHAPES[1], words=150))


def test_programs_of_one_launch_must_not_share_a_sentence():
    assert "another program of the launch" in call_compiled(emulated.wrong_launch, 2, 0)


def test_no_diagonal_is_left_out():
    assert "load of what nobody wrote" in call_compiled(emulated.wrong_launch, 1, 2)


KERNELS = [
    ("inside_outside", "inside_kernel"),
    ("inside_outside", "outside_kernel"),
    ("tangent", "inside_kernel"),
    ("tangent", "outside_kernel"),
    ("viterbi", "inside_kernel"),
    ("viterbi", "walk_kernel"),
    ("max_marginals", "outside_kernel"),
    ("sample", "walk_kernel"),
]


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_every_barrier_is_needed(name, kernel):
    case = emulated.Emulated(name, words=20)
    found = call_compiled(emulated.complaints, case, kernel, emulated.without_barrier)
    assert found
    # A round of a walk ends with a reduction, whose own barrier comes after the stores that the next round reads.
    for barrier, complaint in list(found.items())[kernel == "walk_kernel" :]:
        assert "a race" in complaint, barrier


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_another_instruction_is_noticed(name, kernel, pytestconfig):
    """Nine of ten. The others are for numbers that nobody reads, or that cancel, such as the maximum of a column."""
    # With several lanes per span, the loop takes eight terms at once: 8 words never reach that part of it.
    kind = "ties" if name == "viterbi" else "forbidden"
    case = emulated.Emulated(name, single_root=True, words=20 if name == "viterbi" else 8, kind=kind, sentences=264)
    every = 1 if pytestconfig.getoption("compiled") else 3
    found = call_compiled(emulated.complaints, case, kernel, emulated.another_instruction, every)
    missed = [instruction for instruction, complaint in found.items() if not complaint]
    assert len(found) >= 3 and len(missed) <= math.ceil(len(found) / 10), missed
