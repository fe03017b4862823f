import os

# Read when a kernel is decorated, so before tritree.gpu is imported: the Triton kernels then run on CPU tensors.
os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

# The same cases in every run; `--hypothesis-profile explore` looks further, with new ones each time.
settings.register_profile("ci", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(params=["reference", "numba", "triton"])
def backend(request):
    return request.param
