import pytest

from tests.compat.libraries import Supar, TorchStruct


@pytest.fixture(params=[Supar, TorchStruct])
def library(request):
    return request.param
