"""The machine code of sm_90, executed (perf/gpu/emulator): what each kernel does for a sentence, and in which order."""

import itertools
import multiprocessing
import os
from collections.abc import Iterator
from typing import NamedTuple

import torch

from perf.cases import uniform
from perf.gpu.code import dump
from perf.gpu.emulator.launcher import Device, Launch, emulated
from perf.gpu.emulator.memory import REQUESTS, SECTORS
from perf.gpu.emulator.sass import Sass
from tritree.gpu import backend
from tritree.gpu.semiring import MAX


class Executed(NamedTuple):
    key: tuple
    """Kernel, semiring or kind of walk, planes of the chart."""
    words: int
    warps: int
    instructions: int
    """Of all warps, per sentence."""
    terms: int
    """How many terms of sums the warps computed: a term is an exp2 or, inside, a maximum. 0: nothing marks a term."""
    useful: float | None
    """Which share of their lanes had a term that the sentence needs. None: unknown."""
    sectors: float
    """32-byte sectors per request of a warp to memory."""
    trace: list[int]
    """What the first warp executed: numbers of instructions in the listing."""


def key(launch: Launch) -> tuple:
    constants = launch.constants
    return launch.kernel, constants.get("SEMIRING", constants.get("SAMPLE")), constants["PLANES"]


def useful_terms(kernel: str, n: int) -> int:
    """Terms of the sums of a sentence of n words: three sums for each span."""
    if kernel == "inside_kernel":
        return 3 * sum((n + 1 - w) * w for w in range(1, n + 1))
    # What a span gathers from each wider one, and what its own two sums give to their last terms.
    return sum((n + 1 - w) * (3 * (n - w) + 2) for w in range(1, n + 1))


def machine_code(binary, ptx: str) -> Sass:
    return Sass(dump(binary, "-sass"), ptx)


def execute(task: tuple[str, int, int]) -> list[Executed]:
    """The kernels that a function of the backend launches for B random sentences of n words."""
    name, n, B = task
    scores, lengths = uniform(B, n).batch()
    others = {"tangent": [scores.sin()], "sample": [torch.tensor([1]), 1]}.get(name, [])
    device = Device(90, code=machine_code)
    device.traces = []
    with emulated(device):
        getattr(backend, name)(scores, lengths, *others, False)
    return [figures(launch, n, trace) for launch, trace in zip(device.launches, device.traces, strict=True)]


def figures(launch: Launch, n: int, trace: list[int]) -> Executed:
    machine, ops = launch.machine, launch.machine.instructions()
    B = machine.grid[0]
    blocks = machine.program.blocks
    executed = list(zip(blocks, machine.executed.tolist(), strict=True))
    if key(launch)[:2] == ("inside_kernel", MAX.value):
        terms = ops["FMNMX.NAN"] // B
    elif launch.kernel == "inside_kernel":  # 2^−|x−m|; log2 has another 2^x
        terms = (
            sum(times for block, times in executed for i in block if i.op == "MUFU.EX2" and "|" in i.operands[1]) // B
        )
    else:
        terms = ops["MUFU.EX2"] // B
    counts = sum(machine.counter(i) for block in blocks for i in block if i.parts[0] in ("LDG", "STG"))
    number = itertools.count()
    numbers = [[next(number) for _ in block] for block in blocks]
    return Executed(
        key(launch),
        n,
        machine.threads // 32,
        ops.total() // B,
        terms,
        useful_terms(launch.kernel, n) / (32 * terms) if terms and launch.kernel != "walk_kernel" else None,
        float(counts[SECTORS] / counts[REQUESTS]),
        [k for block in trace for k in numbers[block]],
    )


def execute_all(lengths: list[int], sentences: int) -> Iterator[Executed]:
    """All kernels for so many sentences of each of these lengths."""
    names = "inside", "inside_outside", "tangent", "viterbi", "max_marginals", "sample"
    tasks = [(name, n, sentences) for n in sorted(lengths, reverse=True) for name in names]
    seen = set()
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for found in pool.imap_unordered(execute, tasks):
            for one in found:
                if (one.key, one.words) not in seen:
                    seen.add((one.key, one.words))
                    yield one
