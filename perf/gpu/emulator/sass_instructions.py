"""What the instructions of sm_90 do. Each function takes an instruction and its operands, and gives a step, or None if
the instruction is of a kind that is not known."""

import functools
import re
from collections.abc import Callable

import numpy as np

from perf.gpu.emulator import arithmetic
from perf.gpu.emulator.machine import Step
from perf.gpu.emulator.program import Instruction

LOW = np.int64(0xFFFFFFFF)
SHARED = 0x400
"""Where a program's shared memory begins; what is below is the system's."""


def split_predicates(operands) -> tuple[list[str], list[str]]:
    """Results that are predicates, after the first result, and the other operands."""
    k = 1
    while re.fullmatch(r"U?P(T|\d)", operands[k]):
        k += 1
    return list(operands[1:k]), list(operands[k:])


def as_number(predicate: Callable):
    return np.asarray(predicate()).astype("i8")


def total(terms: list[Callable]):
    return sum(term() for term in terms)


def with_carries(o, result: str, carries: list[str], function: Callable) -> Step:
    """The lower 32 bits of a sum, and whether it is above them, and above twice as much."""
    put, puts = o.put(result), [o.put_predicate(p) for p in carries]

    def step(where):
        whole = np.asarray(function())
        for k, put_carry in enumerate(puts, 1):
            put_carry((whole >> 32) >= k, where)
        put((whole & LOW).astype("u4"), where)

    return step


def add3(i: Instruction, o) -> Step:
    carries, rest = split_predicates(i.operands)
    terms = [o.exact(x) for x in rest[:3]]
    if "X" in i.parts:
        terms += [functools.partial(as_number, o.predicate(x)) for x in rest[3:]]
    return with_carries(o, i.operands[0], carries, lambda: total(terms))


def multiply_add(i: Instruction, o) -> Step | None:
    unsigned = "U32" in i.parts
    d, wide = ("u4", "u8") if unsigned else ("i4", "i8")
    a, b = (o.integer(x) for x in i.operands[1:3])

    def product():
        return arithmetic.wide_product(np.asarray(a()).view(d), np.asarray(b()).view(d), wide)

    if "WIDE" in i.parts:
        c, put = o.pair(i.operands[3], wide), o.put_pair(i.operands[0])
        return lambda where: put(product() + c(), where)
    if "HI" in i.parts:
        if i.operands[3] not in ("RZ", "URZ"):
            c = o.integer(i.operands[3])
            return o.store(i.operands[0], lambda: (product() >> product().dtype.type(32)).astype("u4") + c())
        return o.store(i.operands[0], lambda: (product() >> product().dtype.type(32)).astype(d).view("u4"))
    c = o.integer(i.operands[3])
    if "X" in i.parts:
        carry = o.predicate(i.operands[4])
        return o.store(i.operands[0], lambda: a() * b() + c() + np.asarray(carry()).astype("u4"))
    return o.store(i.operands[0], lambda: a() * b() + c())


def shifted_add(i: Instruction, o) -> Step:
    """LEA: (a << shift) + b; HI: the upper word of that."""
    carries, rest = split_predicates(i.operands)
    if "HI" not in i.parts:
        a, b, by = o.integer(rest[0]), o.exact(rest[1]), int(rest[2], 16)
        return with_carries(o, i.operands[0], carries, lambda: np.asarray(a() << np.uint32(by)).astype("i8") + b())
    if "SX32" in i.parts:
        signed = o.signed(rest[0])
        wide, (b, by, *left) = (lambda: np.asarray(signed()).astype("i8")), rest[1:]
    else:
        joined = o.joined(rest[0], rest[2])
        wide, b, (by, *left) = (lambda: joined().view("i8")), rest[1], rest[3:]
    plus, shift = o.exact(b), int(by, 16)
    carry = o.predicate(left[0]) if "X" in i.parts else lambda: False
    return with_carries(
        o, i.operands[0], carries, lambda: (((wide() << shift) >> 32) & LOW) + plus() + np.asarray(carry()).astype("i8")
    )


def shift(i: Instruction, o) -> Step | None:
    low, by, high = i.operands[1:]
    way, kind, part = i.parts[1], i.parts[2], i.parts[3] if len(i.parts) > 3 else ""
    n, both = o.integer(by), o.joined(low, high)
    wide = np.uint64
    if (way, part) == ("L", "") and kind == "U32":
        a = o.integer(low)
        return o.store(i.operands[0], lambda: arithmetic.shifted(a(), n(), True))
    if (way, kind, part) == ("L", "U64", "HI"):
        return o.store(i.operands[0], lambda: ((both() << wide(n())) >> wide(32)).astype("u4"))
    if (way, part) == ("R", "HI") and kind in ("S32", "U32"):
        a = o.integer(high)
        d = "i4" if kind == "S32" else "u4"
        return o.store(i.operands[0], lambda: arithmetic.shifted(np.asarray(a()).view(d), n(), False))
    if (way, part) == ("R", "") and kind in ("S64", "U64"):
        d = "i8" if kind == "S64" else "u8"
        return o.store(i.operands[0], lambda: arithmetic.shifted(both().view(d), n(), False).astype("u8"))
    return None


def logic(i: Instruction, o) -> Step | None:
    operands = list(i.operands)
    result = operands.pop(0) if operands[0][0] == "P" else None
    target, *inputs, table = operands[:5]
    values, table, put = [o.integer(x) for x in inputs], int(table, 16), o.put(target)
    put_test = o.put_predicate(result) if result else None

    def step(where):
        x = [np.asarray(value()) for value in values]
        out = np.zeros((), "u4")
        for k in range(8):
            if table >> k & 1:
                out = out | ((x[0] if k & 4 else ~x[0]) & (x[1] if k & 2 else ~x[1]) & (x[2] if k & 1 else ~x[2]))
        put(out, where)
        if put_test is not None:
            put_test(out != 0, where)

    return step


def predicate_logic(i: Instruction, o) -> Step:
    first, second, *inputs, table, other = i.operands
    values = [o.predicate(x) for x in inputs]
    puts = [(o.put_predicate(first), int(table, 16)), (o.put_predicate(second), int(other, 16))]

    def step(where):
        x = [np.asarray(value()).astype("i8") for value in values]
        number = x[0] << 2 | x[1] << 1 | x[2]
        results = [(np.int64(t) >> number & 1).astype(bool) for _, t in puts]
        for (put, _), result in zip(puts, results, strict=True):
            put(result, where)

    return step


COMPARE = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal
}  # fmt: skip
STRICT = {"GE": np.greater, "GT": np.greater, "LE": np.less, "LT": np.less, "NE": np.not_equal}
JOIN = {"AND": np.logical_and, "OR": np.logical_or}


def compare(i: Instruction, o) -> Step:
    """The result and its opposite, each joined with a predicate."""
    how, floats = i.parts[1], i.parts[0] == "FSETP"
    read = o.single if floats else o.integer if "U32" in i.parts else o.signed
    a, b = (read(x) for x in i.operands[2:4])
    third = o.predicate(i.operands[4])
    lower = o.predicate(i.operands[5]) if "EX" in i.parts else None
    puts = [o.put_predicate(x) for x in i.operands[:2]]
    join = JOIN["OR" if "OR" in i.parts else "AND"]

    def result():
        x, y = a(), b()
        if floats:
            nan = np.isnan(x) | np.isnan(y)
            return COMPARE[how[:-1]](x, y) | nan if how not in COMPARE else COMPARE[how](x, y) & ~nan
        if lower is not None:  # the upper words; the lower ones have been compared
            return (x == y) & lower() if how == "EQ" else STRICT[how](x, y) | ((x == y) & lower())
        return COMPARE[how](x, y)

    def step(where):
        found, other = result(), third()
        puts[0](join(found, other), where)
        puts[1](join(~found, other), where)

    return step


def select(i: Instruction, o) -> Step:
    read = o.single if i.parts[0] == "FSEL" else o.integer
    a, b, p = read(i.operands[1]), read(i.operands[2]), o.predicate(i.operands[3])
    return o.store(i.operands[0], lambda: np.where(p(), a(), b()))


def extremum(i: Instruction, o) -> Step:
    """VIMNMX, VIADDMNMX (of a + b and c), FMNMX: the smaller one if the last operand holds, else the larger one."""
    floats = i.parts[0] == "FMNMX"
    if floats:
        functions = (np.minimum, np.maximum) if "NAN" in i.parts else (np.fmin, np.fmax)
        a, b = (o.single(x) for x in i.operands[1:3])
    else:
        functions = np.minimum, np.maximum
        d = "u4" if "U32" in i.parts else "i4"
        x, *y, z = (o.integer(operand) for operand in i.operands[1:-1])
        a, b = (lambda: np.asarray(x() + y[0]() if y else x()).view(d)), lambda: np.asarray(z()).view(d)
    smaller = o.predicate(i.operands[-1])
    return o.store(i.operands[0], lambda: np.where(smaller(), functions[0](a(), b()), functions[1](a(), b())))


def extremum_of_three(i: Instruction, o) -> Step:
    d = "u4" if "U32" in i.parts else "i4"
    inputs, smallest = [o.integer(x) for x in i.operands[1:4]], o.predicate(i.operands[4])

    def value():
        x = np.stack(np.broadcast_arrays(*(read() for read in inputs))).view(d)
        return np.where(smallest(), x.min(0), x.max(0))

    return o.store(i.operands[0], value)


def floats(i: Instruction, o) -> Step:
    flush = arithmetic.flushed if "FTZ" in i.parts else np.asarray
    inputs = [o.single(x) for x in i.operands[1:]]
    function = {"FADD": np.add, "FMUL": np.multiply, "FFMA": arithmetic.fused32}[i.parts[0]]
    return o.store(i.operands[0], lambda: flush(function(*(flush(x()) for x in inputs))))


def special_function(i: Instruction, o) -> Step | None:
    function = {"EX2": np.exp2, "LG2": np.log2, "RCP": np.reciprocal, "SQRT": np.sqrt}.get(i.parts[1])
    if function is None or len(i.parts) > 2:
        return None
    a = o.single(i.operands[1])
    return o.store(
        i.operands[0],
        lambda: arithmetic.flushed(np.asarray(function(arithmetic.flushed(a()).astype("f8"))).astype("f4")),
    )


def doubles(i: Instruction, o) -> Step:
    a, b = (o.pair(x, "f8") for x in i.operands[1:3])
    put = o.put_pair(i.operands[0])
    function = {"DADD": np.add, "DMUL": np.multiply}[i.parts[0]]
    return lambda where: put(function(a(), b()), where)


def to_double(i: Instruction, o) -> Step | None:
    if i.op != "F2F.F64.F32":
        return None
    a, put = o.single(i.operands[1]), o.put_pair(i.operands[0])
    return lambda where: put(np.asarray(a()).astype("f8"), where)


def to_float(i: Instruction, o) -> Step:
    a = o.signed(i.operands[1]) if "S32" in i.parts else o.integer(i.operands[1])
    up = "RP" in i.parts

    def value():
        exact = np.asarray(a())
        rounded = exact.astype("f4")
        below = rounded.astype("f8") < exact
        return np.where(below, np.nextafter(rounded, np.float32(np.inf)), rounded) if up else rounded

    return o.store(i.operands[0], value)


def from_float(i: Instruction, o) -> Step:
    a, d = o.single(i.operands[1]), "u4" if "U32" in i.parts else "i4"
    return o.store(i.operands[0], lambda: arithmetic.to_integer(np.trunc(np.asarray(a())), d))


def half_constant(i: Instruction, o) -> Step | None:
    """Two float16 numbers: a way to load a constant."""
    if i.operands[1:3] != ("-RZ", "RZ"):
        return None
    high, low = (int(np.float16(x).view("u2")) for x in i.operands[3:5])
    return o.store(i.operands[0], lambda: np.uint32(high << 16 | low))


def global_memory(i: Instruction, o) -> Step | None:
    loads, machine = i.parts[0] == "LDG", o.machine
    size = 8 if "64" in i.parts else 2 if "U16" in i.parts else 4
    value, place = i.operands if loads else i.operands[::-1]
    found = re.fullmatch(r"desc\[UR\d+\]\[(R\d+)\.64(?:\+(UR\d+))?(?:\+(-?0x[0-9a-f]+))?\]", place)
    if found is None:
        return None
    base, plus = o.pair(found[1], "u8"), o.pair(found[2] or "URZ", "u8")
    offset, counts = np.uint64(int(found[3] or "0", 16) % 2**64), machine.counter(i)

    def addresses():
        return base() + plus() + offset

    if loads:
        put = o.put_pair(value) if size == 8 else o.put(value)
        return lambda where: put(machine.memory.load(i, addresses(), where, size, 1, counts)[0], where)
    read = o.pair(value, "u8") if size == 8 else o.word(value)
    return lambda where: machine.memory.store(i, addresses(), where, size, [read()], counts)


def shared_memory(i: Instruction, o) -> Step | None:
    loads, machine = i.parts[0] == "LDS", o.machine
    value, place = i.operands if loads else i.operands[::-1]
    found = re.fullmatch(r"\[(U?R\w+)(?:\+(UR\d+))?(?:\+(-?0x[0-9a-f]+))?\]", place)
    if len(i.parts) > 1 or found is None:
        return None
    base, plus, counts = o.word(found[1]), o.word(found[2] or "URZ"), machine.counter(i)
    offset = np.uint32(int(found[3] or "0", 16) % 2**32)

    def addresses():
        at = base() + plus() + offset - np.uint32(SHARED)
        return machine.shared_addresses(np.broadcast_to(at, machine.size))

    if loads:
        put = o.put(value)
        return lambda where: put(machine.shared.load(i, addresses(), where, 4, 1, counts)[0], where)
    read = o.word(value)
    return lambda where: machine.shared.store(i, addresses(), where, 4, [read()], counts)


def reduce(i: Instruction, o) -> Step | None:
    function = {"MAX": np.maximum, "MIN": np.minimum, "SUM": np.add}.get(i.parts[1])
    if function is None:
        return None
    read = o.signed if "S32" in i.parts else o.integer
    values, put, machine = read(i.operands[1]), o.put(i.operands[0]), o.machine

    def step(where):
        machine.whole_warps(i, where)
        put(np.repeat(function.reduce(values().reshape(-1, 32), axis=1), 32), where)

    return step


def shuffle(i: Instruction, o) -> Step | None:
    if i.parts[1] not in ("BFLY", "IDX") or i.operands[0] != "PT" or i.operands[4] != "0x1f":
        return None
    _, target, value, by, _ = i.operands
    values, by, put, machine = o.word(value), o.integer(by), o.put(target), o.machine

    def step(where):
        lanes = machine.lane ^ by() if i.parts[1] == "BFLY" else np.broadcast_to(by(), machine.size)
        put(machine.exchange(i, values(), lanes, where), where)

    return step


def lowest_bits(i: Instruction, o) -> Step | None:
    """SGXT.U32: without a sign."""
    a, count = o.integer(i.operands[1]), int(i.operands[2], 16)
    return o.store(i.operands[0], lambda: a() & np.uint32((1 << count) - 1)) if "U32" in i.parts else None


def predicates_to_register(i: Instruction, o) -> Step | None:
    """Predicate k as bit k, for the bits of a mask; the other bits are those of another register."""
    target, source, other, mask = i.operands
    if i.op != "P2R" or source != "PR":
        return None
    bits = int(mask, 16)
    predicates = {k: o.predicate(f"P{k}") for k in range(7) if bits >> k & 1}
    rest = o.integer(other)

    def value():
        chosen = (np.asarray(read()).astype("u4") << np.uint32(k) for k, read in predicates.items())
        return sum(chosen, rest() & np.uint32(~bits & LOW))

    return o.store(target, value)


def special(i: Instruction, o) -> Step | None:
    names = {"SR_TID.X": o.machine.tid, "SR_LANEID": o.machine.lane, "SR_CTAID.X": o.machine.ctaid[0]}
    names |= {"SR_CTAID.Y": o.machine.ctaid[1], "SRZ": np.zeros(1, "i8")}
    names["SR_CgaCtaId"] = np.zeros(1, "i8")  # of which shared memory's address is made
    value = names.get(i.operands[1])
    if value is None:
        return None
    if i.parts[0] == "CS2R" and "32" not in i.parts:
        put = o.put_pair(i.operands[0])
        return lambda where: put(value.astype("u8"), where)
    return o.store(i.operands[0], lambda: value.astype("u4"))


def move(i: Instruction, o) -> Step:
    value, put = o.integer(i.operands[1]), o.put(i.operands[0])
    if "64" not in i.parts:
        return lambda where: put(value(), where)
    both, put_both = o.pair(i.operands[1], "u8"), o.put_pair(i.operands[0])
    return lambda where: put_both(np.asarray(both()), where)


def add2(i: Instruction, o) -> Step:
    a, b = (o.integer(x) for x in i.operands[1:3])
    return o.store(i.operands[0], lambda: a() + b())


def absolute(i: Instruction, o) -> Step:
    a = o.signed(i.operands[1])
    return o.store(i.operands[0], lambda: np.abs(a()))


def barrier(i: Instruction, o) -> Step | None:
    return (lambda where: o.machine.barrier(i, where)) if i.operands == ("0x0",) else None


def nothing(i: Instruction, o) -> Step:
    return lambda where: None


MEANINGS: dict[str, Callable] = {
    "IADD3": add3, "VIADD": add2, "IMAD": multiply_add, "LEA": shifted_add, "SHF": shift, "LOP3": logic,
    "SEL": select, "FSEL": select, "ISETP": compare, "FSETP": compare, "PLOP3": predicate_logic, "IABS": absolute,
    "VIMNMX": extremum, "VIADDMNMX": extremum, "FMNMX": extremum, "VIMNMX3": extremum_of_three,
    "FADD": floats, "FMUL": floats, "FFMA": floats, "MUFU": special_function, "DADD": doubles, "DMUL": doubles,
    "F2F": to_double, "I2FP": to_float, "I2F": to_float, "F2I": from_float, "HFMA2": half_constant,
    "LDG": global_memory, "STG": global_memory, "LDS": shared_memory, "STS": shared_memory, "BAR": barrier,
    "REDUX": reduce, "SHFL": shuffle, "SGXT": lowest_bits, "P2R": predicates_to_register,
    "S2R": special, "S2UR": special, "CS2R": special,
    "MOV": move, "R2UR": move, "LDC": move, "ULDC": move, "UMOV": move,
    "NOP": nothing, "EXIT": nothing, "WARPSYNC": nothing, "BSSY": nothing, "BSYNC": nothing,
}  # fmt: skip
MEANINGS |= {f"U{name}": MEANINGS[name] for name in ("IADD3", "LEA", "SEL", "ISETP", "IMAD", "SHF", "LOP3", "PLOP3")}
