"""No kernel has a race, and without its barriers each of them has one."""

import pytest
import torch

from tests.gpu.launches import SHAPES, launched_as, run
from tests.gpu.racecheck import recording
from tritree.gpu import chart, inside


def batch(*lengths: int):
    N = max(lengths) + 1
    return torch.randn(len(lengths), N, N), torch.tensor(lengths)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["inside", "inside_outside", "tangent", "viterbi", "max_marginals", "sample"])
def test_no_races(name, shape):
    with launched_as(shape), recording() as found:
        run(name, *batch(6, 3))
    assert found.kernels and not found.hazards


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("inside", "inside_kernel"),
        ("inside_outside", "outside_kernel"),
        ("tangent", "inside_kernel"),
        ("tangent", "outside_kernel"),
        ("viterbi", "inside_kernel"),
        ("max_marginals", "outside_kernel"),
    ],
)
def test_a_sweep_needs_its_barriers(name, kernel):
    with launched_as(SHAPES[0]), recording(ignore_barrier=lambda running, k: running == kernel) as found:
        run(name, *batch(4))
    assert found.hazards.keys() == {(kernel, "load after store")}


def test_programs_of_one_launch_must_not_share_a_sentence(monkeypatch):
    def one_launch_of_two_programs(kernel, table, *args, downwards=False, **options):
        B, N, planes, pitch = table.shape
        with chart.launching(table):
            kernel[B, 2](table, *args, N, 0, N, PLANES=planes, PITCH=pitch, BLOCK=4, **options)

    monkeypatch.setattr(inside, "sweep", one_launch_of_two_programs)
    with recording() as found:
        run("inside", *batch(6))
    # The interpreter runs one program after the other, so the hazard is in the stores of the second one.
    assert found.hazards["inside_kernel", "store after load, other program"]


@pytest.mark.parametrize("name", ["viterbi", "sample"])
def test_a_walk_has_no_races_in_any_layout(name):
    """Its blocks may have more lanes than the program has threads: then a position in a block is not a thread."""
    with recording(exclusive=True) as found:
        run(name, *batch(6, 3))
    assert "walk_kernel" in found.kernels and not found.hazards


@pytest.mark.parametrize(("parity", "kind"), [(0, "load after store"), (1, "store after load")])
@pytest.mark.parametrize("name", ["viterbi", "sample"])
def test_a_walk_needs_both_barriers(name, parity, kind):
    """One before a round reads the items, one before it writes the next ones."""

    def ignore(running, k):
        return running == "walk_kernel" and k % 2 == parity

    with recording(ignore_barrier=ignore) as found:
        run(name, *batch(5))
    assert found.hazards["walk_kernel", kind]
