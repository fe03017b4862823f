import pytest


@pytest.fixture(params=["reference", "numba"])
def backend(request):
    """There is no Triton kernel for relaxed trees."""
    return request.param
