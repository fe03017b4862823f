"""The machine code on disk belongs to the sources of today."""

import importlib
import sys
from pathlib import Path

import pytest
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from tritree.cpu import backend
from tritree.cpu.simd import jit

KERNELS = {name: value for name, value in vars(backend).items() if isinstance(value, Dispatcher)}
PRIVATE = {"_cache": Dispatcher, "_cache_file": FunctionCache, "_source_stamp": IndexDataCacheFile}


def test_all_kernels_are_cached_with_the_stamp_of_all_sources():
    assert jit._stamp(Path(backend.__file__).parent) == jit.SOURCE_STAMP
    assert {"posterior_kernel", "relaxed_gradient_kernel", "longest_first"} <= KERNELS.keys()
    for name, kernel in KERNELS.items():
        assert kernel._cache._cache_file._source_stamp == jit.SOURCE_STAMP, name


def test_a_change_to_any_file_below_changes_the_stamp(tmp_path):
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "b.py").write_text("two")
    before = jit._stamp(tmp_path)
    assert jit._stamp(tmp_path) == before
    (tmp_path / "room" / "b.py").write_text("three")
    assert jit._stamp(tmp_path) != before


KERNEL = """
from numba import njit
from stamped_helper import number
from tritree.cpu.simd.jit import kernel

@{decorator}
def call():
    return number()
"""
HELPER = """
from tritree.cpu.simd.jit import inline

@inline
def number():
    return {number}
"""


def results(decorator, folder, monkeypatch):
    """What a kernel returns before and after a change to a file that it imports, imported anew each time."""
    found = []
    monkeypatch.syspath_prepend(folder)
    (folder / "stamped_kernel.py").write_text(KERNEL.format(decorator=decorator))
    for number in (1, 2222):
        (folder / "stamped_helper.py").write_text(HELPER.format(number=number))
        monkeypatch.setattr(jit, "SOURCE_STAMP", jit._stamp(folder))
        found.append(importlib.import_module("stamped_kernel").call())
        for name in ("stamped_kernel", "stamped_helper"):
            del sys.modules[name]
    return found


def test_a_changed_import_is_compiled_anew(tmp_path, monkeypatch):
    assert results("kernel", tmp_path, monkeypatch) == [1, 2222]


def test_without_the_stamp_it_would_not_be(tmp_path, monkeypatch):
    assert results("njit(cache=True)", tmp_path, monkeypatch) == [1, 1]


def test_compiling_is_said_once_and_only_if_it_happens(tmp_path, monkeypatch, caplog):
    """By the logger, in a process: not for a second kernel, not for what is in the cache, not for others' functions."""
    monkeypatch.setattr(jit.NOTICE, "said", False, raising=False)
    njit(lambda x: x)(1)
    assert not caplog.records
    results("kernel", tmp_path, monkeypatch)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tritree", "WARNING") and "half a minute, once" in record.getMessage()
    monkeypatch.setattr(jit.NOTICE, "said", False)
    assert importlib.import_module("stamped_kernel").call() == 2222
    assert len(caplog.records) == 1
    del sys.modules["stamped_kernel"], sys.modules["stamped_helper"]


class OnlyForNumba:
    """An attribute that code outside Numba does not find, as if a later release had renamed it."""

    def __init__(self, name):
        self.name = name

    def __set__(self, owner, value):
        owner.__dict__[self.name] = value

    def __get__(self, owner, kind=None):
        if owner is None or not sys._getframe(1).f_globals["__name__"].startswith("numba."):
            raise AttributeError(self.name)
        return owner.__dict__[self.name]


@pytest.mark.parametrize("name", PRIVATE)
def test_without_a_private_name_of_numba_nothing_is_cached(name, tmp_path, monkeypatch):
    monkeypatch.setattr(PRIVATE[name], name, OnlyForNumba(name), raising=False)
    assert results("kernel", tmp_path, monkeypatch) == [1, 2222]
    assert not list(tmp_path.rglob("*.nbi"))


def test_without_a_directory_for_the_cache(monkeypatch):
    """As where neither the sources' directory nor the user's can be written to: compiled in each process."""

    def no_locator(*args):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(FunctionCache, "__init__", no_locator)
    assert jit.kernel(lambda x: x + 1)(2) == 3
