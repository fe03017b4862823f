"""The machine code of sm_90 (SASS), as cuobjdump prints it, as a program; its registers and operands.

There is no manual: what an instruction does has been read from much of it, and one that is not known here is a Fault.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np

from perf.gpu.emulator import sass_instructions
from perf.gpu.emulator.machine import Machine, Step
from perf.gpu.emulator.program import Fault, Instruction, Program

# /*0a10*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")
PARAMETERS, THREADS, PROGRAMS = 0x210, 0x0, 0xC  # where they are in the bank of constants
CLASSES = {"R": "u4", "UR": "u4", "P": "?", "UP": "?"}


class Sass:
    """A kernel's machine code. `ptx` says which parameters it has."""

    def __init__(self, listing: str, ptx: str):
        self.warps = int(re.search(r"\.reqntid (\d+)", ptx).group(1)) // 32
        self.program = Program(read(listing))
        self.offsets, end = [], PARAMETERS
        for bits in re.findall(r"\.param \.u(\d+)", ptx[: ptx.index(".reqntid")]):
            size = int(bits) // 8
            end = -(-end // size) * size
            self.offsets.append((end, size))
            end += size

    def machine(self, grid: tuple, shared: int) -> Machine:
        return Machine(self.program, self.bind, CLASSES, self.warps, grid, shared)

    def bind(self, i: Instruction, machine: Machine) -> Step:
        meaning = sass_instructions.MEANINGS.get(i.parts[0])
        step = meaning(i, Operands(machine, self.offsets)) if meaning is not None else None
        if step is None:
            raise Fault(f"unknown instruction at {i}")
        return step


def read(listing: str) -> Iterator[Instruction | str]:
    found = LINE.findall(listing)
    targets = {o.split(",")[-1].strip() for _, _, op, o in found if op.startswith("BRA")}
    for address, guard, op, rest in found:
        operands = tuple(x.strip().replace(".reuse", "") for x in rest.split(",")) if rest.strip() else ()
        address = hex(int(address, 16))
        if address in targets:
            yield address
        target = ""
        if op.startswith("BRA"):
            *conditions, target = operands
            # There may be a second condition, an operand.
            guard = "&".join(filter(None, [guard, *conditions]))
        yield Instruction(op, operands, guard, f"SASS:{address}", target, op == "EXIT")


class Operands:
    """Operands as functions without arguments, whose results are arrays of all threads or numbers."""

    def __init__(self, machine: Machine, offsets: list[tuple[int, int]]):
        self.machine, self.offsets = machine, offsets

    def bank(self, offset: int) -> int:
        """32 bits of constants: of a parameter, the number of threads or of programs."""
        for (start, size), value in zip(self.offsets, self.machine.parameters, strict=True):
            if start <= offset < start + size:
                return value >> 8 * (offset - start) & 0xFFFFFFFF
        return {THREADS: self.machine.threads, PROGRAMS: self.machine.grid[0], PROGRAMS + 4: self.machine.grid[1]}.get(
            offset, 0
        )

    def word(self, x: str, plus: int = 0) -> Callable:
        """32 bits without a sign, or those `plus` registers further."""
        if x in ("RZ", "URZ"):
            return lambda: np.uint32(0)
        if (found := re.fullmatch(r"(U?R)(\d+)(?:\.64)?", x)) is not None:
            register = self.machine.register(f"{found[1]}{int(found[2]) + plus}")
            return lambda: register
        if (found := re.fullmatch(r"c\[0x0\]\[0x([0-9a-f]+)\]", x)) is not None:
            return lambda: np.uint32(self.bank(int(found[1], 16) + 4 * plus))
        if re.fullmatch(r"-?0x[0-9a-f]+", x):
            number = np.uint32(int(x, 16) >> 32 * plus & 0xFFFFFFFF)
            return lambda: number
        raise Fault(f"unknown operand {x}")

    def integer(self, x: str) -> Callable:
        if re.match(r"-(U?R|c)", x):
            value = self.word(x[1:])
            return lambda: np.uint32(0) - value()
        if x[0] == "~":
            inverted = self.word(x[1:])
            return lambda: ~inverted()
        return self.word(x)

    def signed(self, x: str) -> Callable:
        value = self.integer(x)
        return lambda: np.asarray(value()).view("i4")

    def exact(self, x: str) -> Callable:
        """In 64 bits, for sums with a carry: −x is ~x + 1, which may be 2³²."""
        if re.match(r"-(U?R|c)", x):
            inverted = self.word(x[1:])
            return lambda: np.asarray(~inverted()).astype("i8") + 1
        value = self.integer(x)
        return lambda: np.asarray(value()).astype("i8")

    def single(self, x: str) -> Callable:
        """float32."""
        if re.fullmatch(r"[-+]?(\d[\d.e+-]*|INF|QNAN)", x) and "0x" not in x:
            number = np.float32(x.replace("QNAN", "nan"))
            return lambda: number
        magnitude, negative = "|" in x, x[0] == "-"
        value = self.word(x.strip("-|"))

        def read():
            a = np.asarray(value()).view("f4")
            a = np.abs(a) if magnitude else a
            return -a if negative else a

        return read

    def pair(self, x: str, dtype: str) -> Callable:
        """64 bits in two registers."""
        if dtype == "f8" and re.fullmatch(r"[-+]?\d[\d.e+-]*", x) and "0x" not in x:
            number = np.float64(x)
            return lambda: number
        if x in ("RZ", "URZ"):
            return lambda: np.dtype(dtype).type(0)
        negative = x[0] == "-" and "R" in x
        x = x.lstrip("-") if negative else x
        low, high = self.word(x), self.word(x, 1) if "0x" not in x[:3] else self.word("RZ")

        def read():
            both = np.asarray(low()).astype("u8") | np.asarray(high()).astype("u8") << np.uint64(32)
            return -both.view(dtype) if negative else both.view(dtype)

        return read

    def joined(self, low: str, high: str) -> Callable:
        a, b = self.word(low), self.word(high)
        return lambda: np.asarray(a()).astype("u8") | np.asarray(b()).astype("u8") << np.uint64(32)

    def predicate(self, x: str) -> Callable:
        negated, name = x[0] == "!", x.lstrip("!")
        if name in ("PT", "UPT"):
            return lambda: np.bool_(not negated)
        register = self.machine.register(name)
        return (lambda: ~register) if negated else lambda: register

    # Results.

    def put(self, x: str, plus: int = 0) -> Callable:
        """A function (values, where) that puts 32 bits into a register."""
        if x in ("RZ", "URZ"):
            return lambda values, where: None
        found = re.fullmatch(r"(U?R)(\d+)", x)
        register = self.machine.register(f"{found[1]}{int(found[2]) + plus}")

        def put(values, where):
            values = np.asarray(values)
            view = values.view("u4") if values.dtype.itemsize == 4 else values.astype("u4")
            np.copyto(register, view, where=where)

        return put

    def put_pair(self, x: str) -> Callable:
        low, high = self.put(x), self.put(x, 1)

        def put(values, where):
            values = np.asarray(values).view("u8")
            low(values & np.uint64(0xFFFFFFFF), where)
            high(values >> np.uint64(32), where)

        return put

    def put_predicate(self, x: str) -> Callable:
        if x in ("PT", "UPT"):
            return lambda values, where: None
        register = self.machine.register(x)
        return lambda values, where: np.copyto(register, values, where=where)

    def store(self, x: str, function: Callable) -> Step:
        put = self.put(x)
        return lambda where: put(function(), where)
