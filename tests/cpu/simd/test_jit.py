"""The machine code on disk belongs to the sources that are there."""

import importlib

import pytest
from numba.core.caching import FunctionCache

from tritree.cpu.simd import jit

KERNELS = ["max_marginals", "posterior", "relaxed", "sample", "tangent", "topk", "viterbi"]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_stamped_with_all_sources(name):
    """jit.py reaches into Numba for this; a version of Numba in which it can't any more would show here."""
    kernel = getattr(importlib.import_module(f"tritree.cpu.kernels.{name}"), name)
    assert kernel._cache._cache_file._source_stamp == jit.SOURCE_STAMP


def test_a_change_to_any_file_changes_the_stamp(tmp_path):
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("two")
    before = jit._stamp(tmp_path)
    assert jit._stamp(tmp_path) == before
    (tmp_path / "b.py").write_text("three")
    assert jit._stamp(tmp_path) != before


def test_where_nothing_can_be_kept(monkeypatch):
    """As in a directory that is not to be written to, without a home: compiled each time."""

    def no_locator(*args):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(FunctionCache, "__init__", no_locator)
    assert jit.kernel(lambda x: x + 1)(2) == 3
