"""The machine code on disk belongs to the sources that are there."""

import importlib

import pytest

from tritree.cpu import jit

KERNELS = ["max_marginals", "posterior", "relaxed", "sample", "tangent", "topk", "viterbi"]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_stamped_with_all_sources(name):
    """jit.py reaches into Numba for this; a version of Numba in which it can't any more would show here."""
    kernel = getattr(importlib.import_module(f"tritree.cpu.{name}"), name)
    assert kernel._cache._cache_file._source_stamp == jit.SOURCE_STAMP


def test_a_change_to_any_file_changes_the_stamp(tmp_path):
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("two")
    before = jit._stamp(tmp_path)
    assert jit._stamp(tmp_path) == before
    (tmp_path / "b.py").write_text("three")
    assert jit._stamp(tmp_path) != before
