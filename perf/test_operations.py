"""Every operation at every size by every provider, as perf.targets measures it."""

import pytest

from perf.cases import SIZES, operations
from perf.providers import compare, device, providers


@pytest.mark.parametrize(
    ("size", "operation"),
    [pytest.param(size, operation, id=f"{size.label}-{operation}") for size in SIZES for operation in operations(size)],
)
def test_operation(size, operation, benchmark, report):
    libraries = providers()
    args = (libraries, size, operation, 0.7, report.missing, device())
    for name, seconds in benchmark.pedantic(compare, args=args, rounds=1).items():
        report.add(size.label, operation, name, seconds)
