"""Compiled kernels, run in the emulator and compared with the CPU backend. The functions here run in a process where
Triton compiles (compiled.py)."""

import functools
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import torch

from perf.gpu.emulator.launcher import Device, emulated
from perf.gpu.emulator.program import Fault
from perf.gpu.executed import machine_code
from tests.cases import assert_close, make_case
from tests.gpu.launches import SHAPES, launched_as
from tests.operators import ROWS, flat
from tritree.conventions import result_dtype
from tritree.cpu import backend as cpu
from tritree.gpu import backend as gpu
from tritree.gpu import inside

OPERATORS = {row.name: row for row in ROWS if "triton" in row.backends}
LENGTHS = {1: (1, 0), 8: (8,), 20: (20, 7, 19, 0, 3), 33: (33, 31, 8), 70: (70, 64), 150: (150,)}
"""By the longest: batches whose charts have rows for one, one, one, two, four and eight warps."""


class Emulated(NamedTuple):
    operator: str
    dtype: torch.dtype = torch.float32
    single_root: bool = False
    shape: str = SHAPES[0]
    words: int = 20
    kind: str = "normal"
    layout: str = "contiguous"
    junk: float = torch.nan
    sentences: int | None = None
    """Launched as if there were so many."""
    arch: int = 90

    def __str__(self) -> str:
        return "-".join(str(x).removeprefix("torch.").replace(" ", "_") for x in self)


@functools.cache
def device(arch: int) -> Device:
    """One for all cases: what was compiled is kept."""
    return Device(arch)


def check_case(case: Emulated, on: Device | None = None) -> None:
    """The results are those of the CPU backend."""
    row, lengths = OPERATORS[case.operator], LENGTHS[case.words]
    # Where scores are large, the last bits decide which term of a sum is drawn.
    kind = "normal" if row.random and case.kind == "large" else case.kind
    batch = make_case(
        kind, lengths[0] + 1, lengths, case.single_root, case.dtype, case.layout, case.junk, seed=case.words
    )
    others = row.arguments(batch.scores, case.single_root)
    arguments = batch.scores, batch.lengths, *(x.detach() if isinstance(x, torch.Tensor) else x for x in others)
    expected = flat(getattr(cpu, row.name)(*arguments))
    with launched_as(case.shape, None, case.sentences), emulated(on or device(case.arch)):
        actual = flat(getattr(gpu, row.name)(*arguments))
    # Rounding costs a few units for each word, and one for each unit of the largest score.
    units = 8 + 4 * lengths[0] + batch.magnitude
    if row.name == "relaxed_gradient":  # a temperature of 1/2 doubles exponents, and their derivatives once more
        units /= others[-1] ** 2
    tolerance = units * torch.finfo(result_dtype(case.dtype)).eps
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        if ours.is_floating_point():
            assert_close(ours, theirs, tolerance)
        else:
            assert torch.equal(ours, theirs), f"{ours} instead of {theirs}"


def check_machine_code(case: Emulated) -> None:
    """The same for what ptxas makes of the PTX."""
    check_case(case, Device(90, code=machine_code))


def complaints(case: Emulated, kernel: str, changed: Callable[[str], str | None], every: int = 1) -> dict[str, str]:
    """For each instruction of a kernel that `changed` changes, or every third of them and so on: what is wrong then, or
    nothing if it is not noticed."""
    texts: dict[str, str] = {}
    check_case(case, Device(case.arch, change=texts.setdefault))
    lines = texts[kernel].split("\n")
    changes = [(k, new) for k, line in enumerate(lines) if (new := changed(line)) is not None]
    found = {}
    for k, new in changes[::every]:
        text = "\n".join([*lines[:k], new, *lines[k + 1 :]])
        place = f"{k}: {lines[k].strip()}"
        try:
            check_case(
                case, Device(case.arch, lambda name, ptx, text=text: text if name == kernel else ptx, limit=20_000)
            )
            found[place] = ""
        except (AssertionError, Fault) as error:
            found[place] = f"{type(error).__name__}: {error}"
    return found


def wrong_launch(programs: int, first: int) -> str:
    """The complaint if so many programs share a sentence, or the diagonals before `first` are left out."""

    def sweep(kernel, table, *args, most_lanes, **options):
        B, N, planes, pitch = table.shape
        kernel[B, programs](
            table, *args, N, first, N, PLANES=planes, PITCH=pitch, BLOCK=32, LANES=1, num_warps=1, **options
        )

    with mock.patch.object(inside, "sweep", sweep):
        try:
            check_case(Emulated("inside", words=33))
        except Fault as fault:
            return str(fault)
    return ""


def without_barrier(line: str) -> str | None:
    return "" if "bar.sync" in line else None


CHANGES = {"ex2.": "lg2.", "sub.f32": "add.f32", " + 0 ]": " + 4 ]", "setp.eq": "setp.ne"}


def another_instruction(line: str) -> str | None:
    """Another function, sign, address or comparison."""
    return next((line.replace(old, new) for old, new in CHANGES.items() if old in line), None)
