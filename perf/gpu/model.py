"""How many programs fit on a multiprocessor, and how long kernels take on an H100: a model, not a measurement.

**Occupancy.** A multiprocessor holds as many programs of W warps as all of these allow:

    registers    each warp takes 32 · registers, rounded up to 256, from its scheduler's part of the file, a quarter
    shared       each program takes what it uses and 1 KB, rounded up to 128 bytes
    warps        at most 64, so ⌊64 / W⌋ programs
    programs     at most 32

(AMD: a compute unit has four SIMDs with 512 vector registers each, taken in units of 8, at most 8 waves per SIMD, 64 KB
of shared memory.)

**Time**, for B ≤ 132 sentences, one program each. There are 132 multiprocessors at 1.755 GHz, so all programs run at
once, in one wave, each alone on its multiprocessor with its four schedulers: latency matters, and occupancy does not.
What one warp executes, for a random sentence, is known instruction by instruction (executed.py), so the time is that of
the real trace with the latencies below, not of an estimate of it. The model is when:
instructions are issued in order, one per cycle (where there are more than four warps, each has its share of the
cycles), each when

    its operands are ready    5 cycles after an arithmetic instruction, 24 after exp2 and the like or a shuffle,
                              41 after a load that hits L1, 263 after one that hits L2
    its unit is free          a scheduler's special function unit takes 8 cycles per warp (16 results per cycle and
                              multiprocessor); loads and stores share one path, 2 cycles per warp (128 bytes per
                              cycle, and rows are not aligned), or longer where L2 delivers them (24 bytes per cycle)

and a barrier takes 40 cycles. Loads of inner loops hit L1 (192 KB) in proportion to the part of the sentence's chart
that fits there (half of it is in use), and else L2; all others, of scores and of what was just written, hit L2. A
launch takes 4 µs.

Not in the model: memory beyond L2, the host, other warps' paths through the code.

All of these figures are assumptions. The cache latencies are close to those of microbenchmarks of the H100 (Luo et al.,
"Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024).
"""

import functools
import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from perf.gpu.code import Compiled
from perf.gpu.executed import Executed
from perf.gpu.machine_code import Instruction

BATCH = 128

MULTIPROCESSORS, SCHEDULERS, CLOCK = 132, 4, 1.755e9
LAUNCH = 4e-6
ARITHMETIC, SPECIAL, L1, L2, BARRIER = 5, 24, 41, 263, 40
SPECIAL_UNIT, LOAD_PATH = 8, 2
L1_BYTES, L2_BYTES_PER_CYCLE = 192 * 1024, 24

SHARED_KB = {"cuda:80": 164, "cuda:90": 228, "cuda:100": 228, "hip:gfx942": 64}


def assumptions() -> dict:
    return {
        "batch": BATCH,
        "sms": MULTIPROCESSORS,
        "clock": CLOCK / 1e9,
        "arithmetic": ARITHMETIC,
        "special": SPECIAL,
        "l1": L1,
        "l2": L2,
        "path": LOAD_PATH,
        "bandwidth": L2_BYTES_PER_CYCLE,
        "barrier": BARRIER,
        "launch": 1e6 * LAUNCH,
    }


class Occupancy(NamedTuple):
    warps: int
    most: int
    limit: str


def occupancy(facts: dict) -> Occupancy:
    """Resident warps per multiprocessor, and what limits them."""
    warps, registers, shared = facts["warps"], facts["registers"], facts["shared_memory"]
    if facts["target"].startswith("cuda"):
        most, programs = 64, 32
        by_registers = 4 * (16384 // round_up(32 * registers, 256))
        shared = round_up(shared + 1024, 128)
    else:
        most, programs = 32, 32
        by_registers = min(4 * (512 // round_up(registers, 8)), most)
    limits = {
        "registers": by_registers // warps,
        "shared": SHARED_KB[facts["target"]] * 1024 // shared if shared else programs,
        "warps": most // warps,
        "programs": programs,
    }
    limit = min(limits, key=lambda name: (limits[name], name != "warps"))
    return Occupancy(limits[limit] * warps, most, limit)


def round_up(x: int, unit: int) -> int:
    return -(-x // unit) * unit


def seconds(executed: Executed, kernel: Compiled) -> float:
    """The time of one launch over BATCH sentences."""
    assert BATCH <= MULTIPROCESSORS
    in_use = (executed.words + 1) * kernel.facts["PLANES"] * kernel.facts["PITCH"] * 4 / 2
    misses = max(0.0, 1 - L1_BYTES / in_use)
    inner = set().union(*(loop.body for loop in kernel.code.innermost_loops()))
    code = kernel.code.instructions
    steps = ((code[k], misses if k in inner else 1.0) for k in executed.trace)
    return LAUNCH + issue(steps, executed.warps) / CLOCK


def cycles(seconds: float) -> float:
    """Those of a launch, without the time that it takes to begin."""
    return (seconds - LAUNCH) * CLOCK


def issue(steps: Iterable[tuple[Instruction, float]], warps: int) -> int:
    """The cycle at which the last instruction is issued. With each one comes the share of loads that miss L1."""
    ready: dict[str, float] = {}
    free: dict[str, float] = {}
    sharing = max(1.0, warps / SCHEDULERS)
    now = 0.0
    for instruction, misses in steps:
        op = instruction.op
        reads, writes = registers(instruction)
        now = max([now + sharing, *(ready.get(r, 0) for r in reads)])
        latency = ARITHMETIC
        if op.startswith("MUFU"):
            now = max(now, free.get("special", 0))
            free["special"], latency = now + sharing * SPECIAL_UNIT, SPECIAL
        elif op.startswith(("LDG", "STG")):
            now = max(now, free.get("path", 0))
            free["path"] = now + warps * max(LOAD_PATH, misses * 128 / L2_BYTES_PER_CYCLE)
            latency = L1 + misses * (L2 - L1)
        elif op.startswith("SHFL"):
            latency = SPECIAL
        elif op.startswith("BAR"):
            now += BARRIER
        ready |= dict.fromkeys(writes, now + latency)
    return math.ceil(now)


@functools.cache
def registers(instruction: Instruction) -> tuple[set[str], set[str]]:
    """The registers that are read and written. Results come first: one or two registers, or one and a predicate."""
    op, operands, predicate = instruction
    parts = [part.strip() for part in operands.split(",")]
    if op.startswith("SHFL"):  # whether the lane exists, before the result
        parts[:2] = parts[1::-1]
    results = 0 if op.startswith(("ST", "BRA", "BAR", "EXIT")) else 1
    results += results and len(parts) > 1 and bool(re.fullmatch(r"U?P(\d|T)", parts[1])) and "SEL" not in op
    wide = re.search(r"\.(WIDE|64)\b", op)

    def names(text: str, pair: bool = False) -> set[str]:
        found = re.findall(r"\b(UR|R|UP|P)(\d+)\b(\.64)?", text)
        both = {f"{kind}{int(n) + 1}" for kind, n, double in found if (double or pair) and kind in ("R", "UR")}
        return {kind + n for kind, n, _ in found} | both

    written = names(" ".join(parts[:results]), pair=bool(wide))
    return names(" ".join([*parts[results:], predicate])), written
