"""PTX, as Triton's compiler writes it, as a program, and what its instructions do."""

import re
from collections.abc import Callable, Iterator

import numpy as np

from perf.gpu.emulator import arithmetic
from perf.gpu.emulator.machine import Machine, Step
from perf.gpu.emulator.program import Fault, Instruction, Program

DTYPES = {
    "pred": "?", "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2", "bf16": "u2",
    "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8",
}  # fmt: skip
FLOATS = "f16", "bf16", "f32", "f64"


class Ptx:
    """A kernel's PTX, whose text may have been changed by hand."""

    def __init__(self, text: str):
        self.warps = int(re.search(r"\.reqntid (\d+)", text).group(1)) // 32
        body = text[text.index("\n{", text.index(".entry")) :]
        body = body[: body.index("\n}") if "\n}" in body else None]
        classes = re.findall(r"\.reg \.(\w+)\s+%(\w+)<", body)
        self.classes = {f"%{name}": DTYPES[kind] for kind, name in classes} | {"tmp": "u4"}
        self.program = Program(read(body))

    def machine(self, grid: tuple, shared: int) -> Machine:
        return Machine(self.program, bind, self.classes, self.warps, grid, shared)


def read(body: str) -> Iterator[Instruction | str]:
    """Instructions, and labels of blocks: other labels are for a debugger."""
    place = "?"
    for line in body.split("\n"):
        if (location := re.match(r"\s*\.loc\b.*// (\S+?:\d+)", line)) is not None:
            place = location.group(1)
        line = re.sub(r"//.*", "", line).strip()
        line = re.sub(r"^\{ \.reg \.b32 tmp; (.*) \}$", r"\1", line)
        if re.fullmatch(r"\$L__BB\w+:", line):
            yield line[:-1]
        elif line and line[0] not in ".{}($":
            for statement in filter(None, map(str.strip, line.split(";"))):
                yield instruction(statement, place)


def instruction(statement: str, place: str) -> Instruction:
    found = re.fullmatch(r"(?:@(!?%p\d+)\s+)?([a-z][\w.:]*)\s*(.*)", statement)
    if found is None:
        raise Fault(f"unknown instruction {statement!r} at {place}")
    guard, op, rest = found.groups()
    operands = tuple(x.strip() for x in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,])+", rest))
    return Instruction(
        op, operands, guard or "", place, operands[0] if op.startswith("bra") else "", op in ("ret", "exit")
    )


def bind(i: Instruction, machine: Machine) -> Step:
    """What an instruction does on a machine."""
    if i.ends:
        return lambda where: None
    meaning = MEANINGS.get(i.parts[0])
    step = meaning(i, machine) if meaning is not None else None
    if step is None:
        raise Fault(f"unknown instruction at {i}")
    return step


# Operands.


def source(machine: Machine, operand: str, dtype: str):
    """A register's array or a number, as of this dtype."""
    if operand.startswith(("%tid", "%ctaid", "%nctaid", "%ntid", "%laneid")):
        return special(machine, operand).astype(dtype)
    if operand[0] == "%" or operand == "tmp":
        register = machine.register(operand)
        if register.dtype.itemsize == np.dtype(dtype).itemsize:
            return register.view(dtype)
        # A wider register, of which an instruction takes the lower part.
        return register.view(f"{dtype}").reshape(machine.size, -1)[:, 0]
    if operand == "global_smem":
        return np.dtype(dtype).type(0)
    if operand[:2] in ("0f", "0d"):
        bits = np.array(int(operand[2:], 16), "u4" if operand[1] == "f" else "u8")
        return bits.view(dtype)[()]
    if operand[:2] == "0x" and len(operand) == 6 and dtype == "f2":
        return np.array(int(operand, 16), "u2").view(dtype)[()]
    width = 8 * np.dtype(dtype).itemsize
    return np.array(int(operand, 0) % 2**width, f"u{width // 8}").view(dtype)[()]


def special(machine: Machine, name: str) -> np.ndarray:
    kind, _, axis = name[1:].partition(".")
    k = "xyz".index(axis or "x")
    values = {
        "tid": (machine.tid, 0, 0),
        "ntid": (machine.threads, 1, 1),
        "ctaid": machine.ctaid,
        "nctaid": machine.grid,
        "laneid": (machine.lane,),
    }
    return np.asarray(values[kind][k])


def into(machine: Machine, operand: str, dtype: str) -> Callable:
    """A function that puts values of this dtype into a register. A wider register gets the sign or zeros."""
    if operand == "_":
        return lambda values, where: None
    register = machine.register(operand)
    if register.dtype.itemsize == np.dtype(dtype).itemsize:
        view = register.view(dtype)
    else:
        view = register.view(dtype[0] + str(register.dtype.itemsize)) if dtype[0] in "ui" else register
    return lambda values, where: np.copyto(view, values, where=where, casting="unsafe")


def applied(function, out: np.ndarray, *inputs) -> Step:
    """out = function(inputs)."""
    if isinstance(function, np.ufunc):
        return lambda where: function(*inputs, out=out, where=where)
    return lambda where: np.copyto(out, function(*inputs), where=where, casting="unsafe")


def elementwise(function, dtype: str | None = None):
    """The meaning of an instruction whose operands all are of its type."""

    def meaning(i: Instruction, machine: Machine) -> Step | None:
        kind = i.parts[-1]
        d = dtype or DTYPES.get(kind)
        if d is None or kind == "bf16":
            return None
        out = machine.register(i.operands[0]).view(d)
        inputs = [source(machine, x, d) for x in i.operands[1:]]
        if "ftz" in i.parts and kind == "f32":
            return applied(lambda *a: arithmetic.flushed(function(*map(arithmetic.flushed, a))), out, *inputs)
        return applied(function, out, *inputs)

    return meaning


def by_type(**functions):
    """Another meaning for floats, signed and unsigned integers."""

    def meaning(i: Instruction, machine: Machine) -> Step | None:
        kind = "f" if i.parts[-1] in FLOATS else i.parts[-1][0]
        kind = kind if kind in functions else "u" if kind in "bs" else kind
        return functions[kind](i, machine) if kind in functions else None

    return meaning


# Instructions.


def multiply(i: Instruction, machine: Machine) -> Step | None:
    """mul and mad: lo, hi, wide, or of floats."""
    kind, sort = i.parts[-1], i.parts[1]
    if kind in FLOATS:
        return elementwise(np.multiply)(i, machine)
    d = DTYPES[kind]
    if sort == "lo":
        return elementwise(lambda a, b, c=None: a * b if c is None else a * b + c, d)(i, machine)
    a, b = (source(machine, x, d) for x in i.operands[1:3])
    wide = d[0] + str(2 * np.dtype(d).itemsize)
    if sort == "wide" and d[1] in "24":
        plus = source(machine, i.operands[3], wide) if i.parts[0] == "mad" else None
        out = machine.register(i.operands[0]).view(wide)
        return applied(lambda: arithmetic.wide_product(a, b, wide) + (0 if plus is None else plus), out)
    if sort == "hi" and i.parts[0] == "mul":
        out = machine.register(i.operands[0]).view(d)
        return applied(lambda: arithmetic.high_product(a, b, d), out)
    return None


def fused(i: Instruction, machine: Machine) -> Step | None:
    return elementwise(arithmetic.FUSED[i.parts[-1]])(i, machine) if i.parts[-1] in arithmetic.FUSED else None


def extremum(of_floats, of_floats_with_nan, of_integers):
    def meaning(i: Instruction, machine: Machine) -> Step | None:
        if i.parts[-1] in FLOATS:
            return elementwise(of_floats_with_nan if "NaN" in i.parts else of_floats)(i, machine)
        return elementwise(of_integers)(i, machine)

    return meaning


def shift(left: bool):
    def meaning(i: Instruction, machine: Machine) -> Step:
        d = DTYPES[i.parts[-1]]
        a, by = source(machine, i.operands[1], d), source(machine, i.operands[2], "u4")
        return applied(lambda: arithmetic.shifted(a, by, left), machine.register(i.operands[0]).view(d))

    return meaning


def bit_field(i: Instruction, machine: Machine) -> Step | None:
    """`count` bits from bit `first` on, without a sign."""
    if i.parts[-1] != "u32":
        return None
    a, first, count = (source(machine, x, "u4") for x in i.operands[1:])
    register = machine.register(i.operands[0])
    return applied(lambda: (a >> first) & ((np.uint32(1) << count) - np.uint32(1)), register)


def bits(function):
    def meaning(i: Instruction, machine: Machine) -> Step:
        kind = DTYPES[i.parts[-1]]
        kind = kind if kind == "?" else "u" + kind[1:]
        return elementwise(function, kind)(i, machine)

    return meaning


def select(i: Instruction, machine: Machine) -> Step:
    d = "u" + DTYPES[i.parts[-1]][1:]
    a, b = (source(machine, x, d) for x in i.operands[1:3])
    return applied(np.where, machine.register(i.operands[0]).view(d), source(machine, i.operands[3], "?"), a, b)


COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
OPPOSITES = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def compare(i: Instruction, machine: Machine) -> Step | None:
    how, kind = i.parts[1], i.parts[-1]
    if len(i.parts) != 3 + ("ftz" in i.parts) or "|" in i.operands[0]:
        return None
    inputs = [source(machine, x, DTYPES[kind]) for x in i.operands[1:]]
    out = machine.register(i.operands[0])
    if kind not in FLOATS:
        return applied(COMPARISONS[how], out, *inputs)
    read = arithmetic.from_bfloat if kind == "bf16" else arithmetic.flushed if "ftz" in i.parts else np.asarray
    return applied(lambda a, b: float_comparison(how, read(a), read(b)), out, *inputs)


def float_comparison(how: str, a, b):
    """With NaN a comparison is false or, if its name ends in u, true."""
    nan = np.isnan(a) | np.isnan(b)
    if how in ("nan", "num"):
        return nan if how == "nan" else ~nan
    unordered = how not in COMPARISONS
    result = COMPARISONS[how[:-1] if unordered else how](a, b)
    return result | nan if unordered else result & ~nan


def convert(i: Instruction, machine: Machine) -> Step | None:
    *how, to, of = i.parts[1:]
    a, d = source(machine, i.operands[1], DTYPES[of]), DTYPES[to]
    put = into(machine, i.operands[0], d)
    if of == "bf16" and to == "f32":
        return lambda where: put(arithmetic.from_bfloat(a), where)
    if "bf16" in (to, of):
        return None
    if of not in FLOATS or to in FLOATS:
        if how not in ([], ["rn"]) and not (of not in FLOATS and to not in FLOATS):
            return None
        return lambda where: put(np.asarray(a).astype(d), where)
    rounding = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
    if how and how[0] in rounding:
        return lambda where: put(arithmetic.to_integer(rounding[how[0]](a), d), where)
    return None


def move(i: Instruction, machine: Machine) -> Step | None:
    out, of = i.operands
    d = DTYPES[i.parts[-1]]
    if of[0] == "{":
        low, high = (source(machine, x.strip(), "u4") for x in of.strip("{}").split(","))
        return applied(lambda: arithmetic.wide(low) | arithmetic.wide(high) << np.uint64(32), machine.register(out))
    if out[0] == "{":
        whole = source(machine, of, "u8")
        low, high = (into(machine, x.strip(), "u4") for x in out.strip("{}").split(","))

        def halves(where):
            low(whole & np.uint64(0xFFFFFFFF), where)
            high(whole >> np.uint64(32), where)

        return halves
    d = d if d == "?" else "u" + d[1:]
    value, register = source(machine, of, d), machine.register(out).view(d)
    return lambda where: np.copyto(register, value, where=where)


def memory_access(i: Instruction, machine: Machine) -> Step | None:
    loads, space = i.parts[0] == "ld", i.parts[1]
    names, place = i.operands if loads else i.operands[::-1]
    d = DTYPES[i.parts[-1]]
    names = [x.strip() for x in names.strip("{}").split(",")]
    if space == "param":
        number, put = int(re.search(r"_param_(\d+)\]", place).group(1)), into(machine, names[0], d)
        return lambda where: put(np.array(machine.parameters[number] & 2**64 - 1, "u8").astype(d), where)
    base, offset = re.fullmatch(r"\[\s*([%\w]+)(?:\s*\+\s*(-?\d+))?\s*\]", place).groups()
    width = {"global": "u8", "shared": "u4"}.get(space)
    if width is None or "volatile" in i.parts or "nc" in i.parts:
        return None
    register, plus = source(machine, base, width), np.dtype(width).type(int(offset or 0) % 2 ** (8 * int(width[1])))
    size, counts = np.dtype(d).itemsize, machine.counter(i)
    raw = f"u{size}"

    def addresses():
        at = register + plus
        return machine.shared_addresses(np.broadcast_to(at, machine.size)) if space == "shared" else at

    def memory():
        return machine.shared if space == "shared" else machine.memory

    if loads:
        puts = [into(machine, name, raw) for name in names]

        def load(where):
            values = memory().load(i, addresses(), where, size, len(names), counts)
            for put, value in zip(puts, values, strict=True):
                put(value, where)

        return load
    values = [source(machine, name, raw) for name in names]
    return lambda where: memory().store(i, addresses(), where, size, values, counts)


def barrier(i: Instruction, machine: Machine) -> Step | None:
    if i.op == "bar.warp.sync":
        return lambda where: machine.whole_warps(i, where)
    return (lambda where: machine.barrier(i, where)) if i.op == "bar.sync" and i.operands == ("0",) else None


def shuffle(i: Instruction, machine: Machine) -> Step | None:
    out, a, b, clamp, members = i.operands
    if clamp != "31" or members not in ("-1", "0xffffffff") or "|" in out or i.parts[2] not in ("bfly", "idx"):
        return None
    values, by = source(machine, a, "u4"), source(machine, b, "u4")
    register = machine.register(out)

    def step(where):
        lanes = machine.lane ^ by if i.parts[2] == "bfly" else np.broadcast_to(by, machine.size)
        np.copyto(register, machine.exchange(i, values, lanes, where), where=where)

    return step


def reduce(i: Instruction, machine: Machine) -> Step | None:
    d = DTYPES[i.parts[-1]]
    function = {"max": np.maximum, "min": np.minimum, "add": np.add, "or": np.bitwise_or, "and": np.bitwise_and}
    values, members = source(machine, i.operands[1], d), source(machine, i.operands[2], "u4")
    register = machine.register(i.operands[0]).view(d)

    def step(where):
        machine.whole_warps(i, where)
        if (np.broadcast_to(members, machine.size)[where] != 0xFFFFFFFF).any():
            raise Fault(f"a reduction over a part of a warp at {i}")
        whole = function[i.parts[2]].reduce(values.reshape(-1, 32), axis=1)
        np.copyto(register, np.repeat(whole, 32), where=where)

    return step


def approximate(i: Instruction, machine: Machine) -> Step | None:
    """ex2, lg2, rcp, sqrt of float32, and the reciprocal that a division of float64 begins with."""
    if i.op == "rcp.approx.ftz.f64":
        return elementwise(arithmetic.rough_reciprocal)(i, machine)
    functions = {"ex2": np.exp2, "lg2": np.log2, "rcp": np.reciprocal, "sqrt": np.sqrt}
    if i.parts[-1] != "f32":
        return None
    return elementwise(lambda a: functions[i.parts[0]](np.asarray(a).astype("f8")).astype("f4"))(i, machine)


MEANINGS: dict[str, Callable[[Instruction, Machine], Step | None]] = {
    "add": elementwise(np.add), "sub": elementwise(np.subtract), "mul": multiply, "mad": multiply, "fma": fused,
    "neg": elementwise(np.negative), "abs": elementwise(np.abs), "not": bits(np.invert),
    "min": extremum(np.fmin, np.minimum, np.minimum), "max": extremum(np.fmax, np.maximum, np.maximum),
    "div": by_type(f=elementwise(np.divide), s=elementwise(arithmetic.quotient), u=elementwise(np.floor_divide)),
    "rem": by_type(s=elementwise(arithmetic.remainder), u=elementwise(np.remainder)),
    "and": bits(np.bitwise_and), "or": bits(np.bitwise_or), "xor": bits(np.bitwise_xor),
    "shl": shift(left=True), "shr": shift(left=False), "bfe": bit_field,
    "selp": select, "setp": compare, "cvt": convert, "mov": move,
    "ld": memory_access, "st": memory_access, "bar": barrier, "shfl": shuffle, "redux": reduce,
    "ex2": approximate, "lg2": approximate, "rcp": approximate, "sqrt": approximate,
    "bra": lambda i, machine: lambda where: None,
}  # fmt: skip
