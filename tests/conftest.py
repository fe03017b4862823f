import os

# Two workers share two cores, and idle threads of torch spin. Child processes inherit the setting; tests of several
# threads set their number themselves.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Read when a kernel is decorated, so before tritree.gpu is imported: the Triton kernels then run on CPU tensors.
os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

# Assertions in modules that are not tests show the compared values, too.
pytest.register_assert_rewrite("tests.cases", "tests.compat", "tests.frequencies", "tests.parsers", "tests.relaxed")

# The same cases in every run; `--hypothesis-profile explore` draws more of them, and new ones each time.
settings.register_profile("ci", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(params=["reference", "numba", "triton"])
def backend(request):
    return request.param
