"""Every operation at every size by every provider, timed only if its answer is right."""

import functools

import pytest

from perf.cases import OPERATIONS, SIZES, operations
from perf.providers import check, device, expected, providers

PROVIDERS = providers()


@functools.cache
def right_answer(size, operation):
    return expected(operation, *size.batch())


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
@pytest.mark.parametrize(
    ("size", "operation"),
    [pytest.param(size, operation, id=f"{size.label}-{operation}") for size in SIZES for operation in operations(size)],
)
def test_operation(size, operation, provider, benchmark, report):
    if provider.missing:
        report.missing.add(provider.missing)
        pytest.skip(provider.missing)
    step = provider.steps(*size.batch(device()))[operation]
    try:
        check(operation, provider.answer(operation, step()), right_answer(size, operation))
    except AssertionError:
        if provider is PROVIDERS[0]:
            raise
        wrong = f"{provider.name}, {size.label}, {OPERATIONS[operation]}: a wrong answer, so no time"
        report.missing.add(wrong)
        pytest.skip(wrong)
    benchmark.group = f"{size.label} {operation}"
    benchmark._max_time, benchmark._min_rounds = 0.7, 3
    benchmark(step)
    if benchmark.stats:
        report.add(size.label, operation, provider.name, benchmark.stats.stats.min)
