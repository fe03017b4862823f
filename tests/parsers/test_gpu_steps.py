"""No system has tensors on two devices in a step, or waits for the GPU. There is none: pretended_gpu.py says how."""

from tests.parsers.pretended_gpu import STEPS
from tests.parsers.processes import run


def test_a_step_of_every_system():
    done = run("-m", "tests.parsers.pretended_gpu")
    assert done.stdout.splitlines() == [f"{system} {kind}" for system, kind in STEPS]
