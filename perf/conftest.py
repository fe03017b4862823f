"""Collects the results of all benchmarks and shows them in one table at the end."""

import warnings

import pytest
import torch

from perf.report import Report

REPORT = pytest.StashKey[Report]()


def pytest_configure(config):
    config.stash[REPORT] = Report()
    # The peers' warnings are not ours, and our table replaces that of pytest-benchmark.
    config.addinivalue_line("filterwarnings", "ignore")
    config.option.benchmark_quiet = True


@pytest.fixture(scope="session")
def report(request) -> Report:
    return request.config.stash[REPORT]


@pytest.fixture(autouse=True)
def _one_thread():
    """All libraries on one thread, so that ratios compare work and not cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(before)


def pytest_terminal_summary(terminalreporter, config):
    text = config.stash[REPORT].render(terminalreporter._tw.fullwidth)
    if text:
        terminalreporter.write_line("")
        terminalreporter.write(text)
