"""A machine that runs a program: registers, masks, barriers.

A register is an array with an element for each thread of the launch, and stays the same array, so instructions are
bound to their operands once. A bound instruction takes `where`: the threads that execute it, or True for all.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np

from perf.gpu.emulator.memory import Memory
from perf.gpu.emulator.program import EXIT, Fault, Instruction, Program

WARP = 32
SHARED_BASE = 0x1000  # of no importance: shared addresses begin at 0 in each program
Step = Callable[[object], None]


class Machine:
    """For one number of programs; `bind` gives an instruction's meaning on this machine."""

    def __init__(self, program: Program, bind, classes: dict[str, str], warps: int, grid: tuple, shared: int):
        self.program, self.grid, self.classes = program, grid, classes
        self.threads = WARP * warps  # of a program
        self.programs = int(np.prod(grid))
        self.size = self.programs * self.threads
        self.registers: dict[str, np.ndarray] = {}
        self.parameters: list[int] = []
        lane = np.arange(self.size)
        number = lane // self.threads
        x, y, _ = grid
        self.tid, self.lane = lane % self.threads, lane % WARP
        self.ctaid = number % x, number // x % y, number // (x * y)
        self.number = number
        self.memory: Memory
        self.shared_size = shared
        self.executed = np.zeros(len(program.blocks), np.int64)
        """How many warps have executed each block."""
        self.counts: dict[int, np.ndarray] = {}
        self.steps = [[self._guarded(i, bind(i, self)) for i in block if not i.target] for block in program.blocks]

    def register(self, name: str) -> np.ndarray:
        if name not in self.registers:
            self.registers[name] = np.zeros(self.size, self.classes[name.rstrip("0123456789")])
        return self.registers[name]

    def counter(self, instruction: Instruction) -> np.ndarray:
        """Where requests, sectors, lines and bytes of an instruction are counted."""
        return self.counts.setdefault(id(instruction), np.zeros(4, np.int64))

    def holds(self, guard: str) -> np.ndarray:
        """Conditions are joined by &."""
        first, *others = guard.split("&")
        value = self.register(first.lstrip("!"))
        value = ~value if first[0] == "!" else value
        return value & self.holds(others[0]) if others else value

    def _guarded(self, instruction: Instruction, step: Step) -> Step:
        if not instruction.guard:
            return step
        return lambda where: step(self.holds(instruction.guard) & where)

    # What instructions need of the machine.

    def barrier(self, instruction: Instruction, where) -> None:
        if where is not True:
            here = where.reshape(self.programs, -1)
            if (here.any(1) != here.all(1)).any():
                raise Fault(f"a barrier that not all threads reach, at {instruction}")
        self.memory.barrier(where)
        self.shared.barrier(where)

    def whole_warps(self, instruction: Instruction, where) -> None:
        if where is not True:
            here = where.reshape(-1, WARP)
            if (here.any(1) != here.all(1)).any():
                raise Fault(f"not all lanes of a warp reach {instruction}")

    def exchange(self, instruction: Instruction, values: np.ndarray, lanes: np.ndarray, where) -> np.ndarray:
        """The value of another lane of the warp."""
        self.whole_warps(instruction, where)
        return values[(np.arange(self.size) & ~(WARP - 1)) + (lanes & (WARP - 1)).astype(np.int64)]

    def shared_addresses(self, addresses: np.ndarray) -> np.ndarray:
        return self.shared.base + self.shared.starts[self.number] + addresses.astype(np.int64)

    # A launch.

    def launch(self, parameters: list[int], memory: Memory, limit: int, trace: list[int] | None = None) -> None:
        """At most `limit` blocks; `trace` gets those that the first warp executes."""
        self.parameters, self.memory = parameters, memory
        memory.start_launch(self.programs, self.threads)
        size = -(-self.shared_size // 8) * 8
        self.shared = Memory([size] * self.programs, [1] * self.programs, SHARED_BASE, self.programs, self.threads)
        self.shared.fill_unwritten()
        with np.errstate(all="ignore"):
            self._run(limit, trace)

    def _run(self, limit: int, trace: list[int] | None) -> None:
        program, everybody = self.program, np.ones(self.size, bool)
        waiting = [(0, EXIT, everybody)]  # block, the block that ends it, threads
        while waiting:
            block, end, threads = waiting.pop()
            where = True if threads.all() else threads
            warps = int(threads.reshape(-1, WARP).any(1).sum())
            first = bool(threads[:WARP].any())
            while block != end:
                self.executed[block] += warps
                limit -= 1
                if limit < 0:
                    raise Fault("the kernel does not end")
                if first and trace is not None:
                    trace.append(block)
                for step in self.steps[block]:
                    step(where)
                taken, after = program.taken[block], program.after[block]
                if taken == after:
                    block = taken
                    continue
                go = self.holds(program.blocks[block][-1].guard)
                going = int((go & threads).sum()) if where is not True else int(go.sum())
                if going == 0:
                    block = after
                elif going == (self.size if where is True else int(threads.sum())):
                    block = taken
                else:
                    join = program.join[block]
                    if join != end:
                        waiting.append((join, end, threads))
                    waiting += [(after, join, threads & ~go), (taken, join, threads & go)]
                    break

    def instructions(self) -> Counter:
        """How many of each op have been executed, by a warp each."""
        found: Counter = Counter()
        for block, times in zip(self.program.blocks, self.executed.tolist(), strict=True):
            for instruction in block:
                found[instruction.op] += times
        return found
