"""`pytest` runs everything on the CPU. `pytest --device cuda` runs what is marked with `on_device` on a GPU, without
Triton's interpreter: the same tests, whose tensors are then made there."""

import contextlib
import os
from pathlib import Path

# Two workers share two cores, and idle threads of torch spin. Child processes inherit the setting; tests of several
# threads set their number themselves.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

from perf.gpu import emulator
from tritree.backends import why_not_triton

# Assertions in modules that are not tests show the compared values, too.
pytest.register_assert_rewrite("tests.cases", "tests.compat", "tests.frequencies", "tests.parsers", "tests.relaxed")

GPU = Path(__file__).parent / "gpu"
EMULATED = GPU / "test_emulated.py"

# The same cases in every run; `--hypothesis-profile explore` draws more of them, and new ones each time.
settings.register_profile("ci", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile("ci")


def pytest_report_header() -> list[str]:
    if why_not_triton():
        return [f"not collected: what {why_not_triton()}"]
    return [] if emulator.is_supported() else [f"{EMULATED}: not collected, Triton is not {emulator.TRITON}"]


def pytest_ignore_collect(collection_path) -> bool | None:
    """Tests of kernels, without Triton; those in the emulator, which works with one version of Triton."""
    left_out = (
        collection_path == GPU if why_not_triton() else collection_path == EMULATED and not emulator.is_supported()
    )
    return left_out or None


def pytest_addoption(parser):
    parser.addoption("--compiled", action="store_true", help="every combination for compiled kernels")
    parser.addoption("--device", default="cpu", choices=("cpu", "cuda"), help="where tensors are made (cpu)")


def pytest_configure(config):
    if config.option.device == "cpu":
        # Read when a function is decorated, Triton's own ones included: nothing may import Triton before.
        os.environ.setdefault("TRITON_INTERPRET", "1")
        if not why_not_triton():
            from tests.interpreter import patch_once_per_launch

            patch_once_per_launch()
    elif not torch.cuda.is_available():
        pytest.exit("torch sees no GPU here: nothing is tested", returncode=0)


def pytest_collection_modifyitems(config, items):
    runs_there = runs_on_gpu if config.option.device == "cuda" else runs_on_cpu
    left_out = [item for item in items if not runs_there(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def runs_on_cpu(item) -> bool:
    needs_triton = item.get_closest_marker("needs_triton") or "triton" in parameters_of(item)
    return item.get_closest_marker("gpu_only") is None and not (needs_triton and why_not_triton())


def runs_on_gpu(item) -> bool:
    """What is marked, but for the cases of the backend for CPUs."""
    is_marked = item.get_closest_marker("on_device") and not item.get_closest_marker("cpu_only")
    return bool(is_marked) and "numba" not in parameters_of(item)


def parameters_of(item) -> set[str]:
    """Those that are names: others may not let themselves be compared."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else []
    return {value for value in values if isinstance(value, str)}


@pytest.fixture
def device(request) -> torch.device:
    """For tests that place their tensors themselves."""
    return torch.device(request.config.option.device)


@pytest.fixture(autouse=True)
def _seeded_and_placed(request):
    """Tensors are made on the device, but in tests that ask for it."""
    torch.manual_seed(0)
    name = request.config.option.device
    elsewhere = name != "cpu" and "device" not in request.fixturenames
    with torch.device(name) if elsewhere else contextlib.nullcontext():
        yield


@pytest.fixture(params=["reference", "numba", "triton"])
def backend(request):
    return request.param
