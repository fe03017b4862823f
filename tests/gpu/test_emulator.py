"""The emulator itself, on kernels of a few lines: what it complains of, how it counts, and its arithmetic."""

import math

import numpy as np
import pytest

from perf.gpu.emulator.memory import BASE, BYTES, LINES, REQUESTS, SECTORS, Memory
from perf.gpu.emulator.program import Fault, Instruction, Program
from perf.gpu.emulator.ptx import Ptx
from perf.gpu.emulator.sass import Sass

THREADS = 64
HEAD = f"""
.visible .entry kernel(.param .u64 kernel_param_0)
.reqntid {THREADS}
{{
    .reg .pred %p<9>;
    .reg .b32 %r<99>;
    .reg .b64 %rd<99>;
    ld.param.b64 %rd0, [kernel_param_0];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %rd1, %r0, 4, %rd0;       // of this thread
    add.s32 %r1, %r0, 1;
    rem.s32 %r1, %r1, {THREADS};
    mad.wide.u32 %rd2, %r1, 4, %rd0;       // of the next thread
    setp.lt.s32 %p1, %r0, 7;
"""


def run(body: str, programs: int = 1, cells: int = THREADS, limit: int = 10**4):
    """The numbers in memory after a kernel, and its machine."""
    kernel = Ptx(HEAD + body + "\n    ret;\n}")
    machine = kernel.machine((programs, 1, 1), shared=256)
    memory = Memory([4 * THREADS], [4], BASE, programs, THREADS)
    memory.fill_unwritten()
    memory.cells(0)[cells:] = False
    machine.launch([memory.address(0)], memory, limit)
    return memory.region(0).view("i4"), machine


STORE = "st.global.b32 [ %rd1 + 0 ], { %r0 };\n"
LOAD_NEXT = "ld.global.b32 { %r2 }, [ %rd2 + 0 ];\n"
LOAD_SHARED = "mov.b32 %r5, global_smem; ld.shared.b32 %r6, [%r5];\n"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (LOAD_NEXT, "nobody wrote"),
        (LOAD_SHARED, "nobody wrote"),
        ("st.global.b32 [ %rd1 + 4 ], { %r0 };", "store, out of bounds"),
        ("st.global.b32 [ %rd1 + -4 ], { %r0 };", "store, out of bounds"),
        ("st.global.b32 [ %rd1 + 2 ], { %r0 };", "misaligned"),
        ("st.global.v2.b32 [ %rd1 + 0 ], { %r0, %r1 };", "misaligned"),
        ("st.shared.b32 [%r0], %r0;", "misaligned"),
        ("mov.b32 %r5, global_smem; st.shared.b32 [%r5+256], %r0;", "out of bounds"),
        (STORE + LOAD_NEXT, "load, a race: another thread"),
        (STORE + "st.global.b32 [ %rd2 + 0 ], { %r0 };", "store, a race: another thread"),
        (STORE + "bar.sync 0;\n" + LOAD_NEXT + "st.global.b32 [ %rd1 + 0 ], { %r0 };", "store, a race: another thread"),
        ("st.global.b32 [ %rd0 + 0 ], { %r0 };", "different values"),
        ("@%p1 bar.sync 0;", "a barrier that not all threads reach"),
        ("@%p1 bra $L__BB0_1;\n bar.sync 0;\n$L__BB0_1:", "a barrier that not all threads reach"),
        ("@%p1 shfl.sync.idx.b32 %r5, %r0, 0, 31, -1;", "not all lanes"),
        ("$L__BB0_1:\n bra $L__BB0_1;", "does not end"),
        ("vote.sync.any.pred %p2, %p1, -1;", "unknown instruction"),
        ("add.f16x2 %r5, %r0, %r0;", "unknown instruction"),
    ],
)
def test_complaints(body, complaint):
    with pytest.raises(Fault, match=complaint):
        run(body)


def test_programs_share_nothing():
    run(STORE)
    with pytest.raises(Fault, match="another program of the launch"):
        run(STORE, programs=2)
    with pytest.raises(Fault, match="another program of the launch"):
        run("mov.u32 %r5, %ctaid.x; setp.eq.b32 %p2, %r5, 0; @%p2 " + STORE + "@!%p2 " + LOAD_NEXT, programs=2)
    shared = "mov.b32 %r5, global_smem; mad.lo.s32 %r5, %r0, 4, %r5; st.shared.b32 [%r5], %r0;"
    run(shared, programs=2)


def test_elements_that_are_no_part_of_a_tensor():
    with pytest.raises(Fault, match="out of bounds"):
        run(STORE, cells=THREADS - 1)


def test_what_is_ordered():
    """By a barrier, or by being one thread; and threads may store the same number at once."""
    found, _ = run(STORE + "bar.sync 0;\n" + LOAD_NEXT + "bar.sync 0;\n st.global.b32 [ %rd1 + 0 ], { %r2 };")
    assert found.tolist() == [*range(1, THREADS), 0]
    found, _ = run(STORE + "ld.global.b32 { %r2 }, [ %rd1 + 0 ]; st.global.b32 [ %rd1 + 0 ], { %r2 };")
    assert found.tolist() == list(range(THREADS))
    run("mov.u32 %r5, 3; st.global.b32 [ %rd0 + 0 ], { %r5 };")


LOOP = """
    mov.u32 %r2, 0;
$L__BB0_1:
    add.s32 %r2, %r2, 1;
    setp.le.s32 %p2, %r2, %r0;
    @%p2 bra $L__BB0_1;
    st.global.b32 [ %rd1 + 0 ], { %r2 };
"""


def test_threads_that_part_meet_again():
    """Thread t goes t + 1 times through the loop; a warp as often as its last thread, and on as one."""
    found, machine = run(LOOP)
    assert found.tolist() == list(range(1, THREADS + 1))
    ops = machine.instructions()
    assert ops["bra"] == 32 + 64 and ops["st.global.b32"] == 2


def test_requests_and_sectors():
    _, machine = run("@%p1 " + STORE + "mul.lo.s32 %r5, %r0, 4; cvt.u64.u32 %rd3, %r5;")
    (counts,) = machine.counts.values()
    assert [counts[k] for k in (REQUESTS, SECTORS, LINES, BYTES)] == [1, 1, 1, 28]
    _, machine = run(STORE)
    (counts,) = machine.counts.values()
    assert [counts[k] for k in (REQUESTS, SECTORS, LINES, BYTES)] == [2, 8, 2, 256]


def single(x: float) -> str:
    return f"0f{np.float32(x).view('u4'):08X}"


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("shl.b32 %r5, 1, 32", 0),
        ("shr.s32 %r5, -8, 40", -1),
        ("mul.hi.u32 %r5, -1, 16", 15),
        ("mul.hi.s32 %r5, -1, 16", -1),
        ("div.s32 %r5, -7, 2", -3),
        ("rem.s32 %r5, -7, 2", -1),
        ("min.u32 %r5, -1, 3", 3),
        ("min.s32 %r5, -1, 3", -1),
        ("mul.wide.s32 %rd5, -3, 5; cvt.u32.u64 %r5, %rd5", -15),
        ("mul.wide.u32 %rd5, -3, 5; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r5, %rd5", 4),
        ("cvt.s64.s32 %rd5, %r9; mov.b64 {%r4, %r5}, %rd5", 0),
        ("mov.b64 %rd5, {%r9, %r8}; mov.b64 {_, %r5}, %rd5", 7),
        (f"cvt.rzi.s32.f32 %r5, {single(-2.7)}", -2),
        (f"cvt.rzi.s32.f32 %r5, {single(1e20)}", 2**31 - 1),
        ("redux.sync.add.s32 %r5, %r6, %r7", 64),
        ("shfl.sync.idx.b32 %r5, %r0, 7, 31, -1", [7] * 32 + [39] * 32),
        ("shfl.sync.bfly.b32 %r5, %r0, 1, 31, -1", [t ^ 1 for t in range(THREADS)]),
    ],
)
def test_integers(instruction, expected):
    found, _ = run(f"mov.u32 %r6, 2; mov.u32 %r7, -1; mov.u32 %r8, 7; mov.u32 %r9, 9; {instruction};\n"
                   "st.global.b32 [ %rd1 + 0 ], { %r5 };")  # fmt: skip
    assert found.tolist() == (expected if isinstance(expected, list) else [expected] * THREADS)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (f"fma.rn.f32 %r5, {single(3)}, {single(4)}, {single(5)}", 17),
        (f"ex2.approx.ftz.f32 %r5, {single(-150)}", 0),
        (f"ex2.approx.ftz.f32 %r5, {single(-math.inf)}", 0),
        (f"add.ftz.f32 %r5, {single(1e-39)}, {single(0)}", 0),
        (f"max.f32 %r5, {single(math.nan)}, {single(1)}", 1),
        (f"max.NaN.f32 %r5, {single(math.nan)}, {single(1)}", math.nan),
        (f"setp.ne.f32 %p2, {single(math.nan)}, {single(1)}; selp.f32 %r5, {single(2)}, {single(3)}, %p2", 3),
        (f"setp.neu.f32 %p2, {single(math.nan)}, {single(1)}; selp.f32 %r5, {single(2)}, {single(3)}, %p2", 2),
        (f"setp.geu.f32 %p2, {single(math.nan)}, {single(1)}; selp.f32 %r5, {single(2)}, {single(3)}, %p2", 2),
    ],
)
def test_floats(instruction, expected):
    found, _ = run(f"{instruction};\n st.global.b32 [ %rd1 + 0 ], {{ %r5 }};")
    np.testing.assert_array_equal(found.view("f4"), np.full(THREADS, expected, "f4"))


def test_where_paths_meet():
    """0 → 1 or 2 → 3, with a way out at 1."""
    program = Program(
        [Instruction("bra", guard="p", target="2"), Instruction("exit", guard="q", ends=True),
         Instruction("bra", target="3"), "2", Instruction("add"), "3", Instruction("exit", ends=True)]
    )  # fmt: skip
    assert program.taken == [3, -1, 4, 4, -1] and program.after == [1, 2, 4, 4, -1]
    assert program.join == [-1, -1, 4, 4, -1]


SASS = """
        /*0000*/                   ULDC.64 UR4, c[0x0][0x208] ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   S2R R0, SR_TID.X ;
        /*0030*/                   ISETP.GT.AND P0, PT, R0, 0x3, PT ;
        /*0040*/                   IMAD.WIDE R4, R0, 0x4, R2 ;
        /*0050*/                   I2FP.F32.S32 R6, R0 ;
        /*0060*/                   MOV R7, 0x3f800000 ;
        /*0070*/               @P0 BRA 0xa0 ;
        /*0080*/                   MUFU.EX2 R7, R6 ;
        /*0090*/                   FFMA R7, R7, 2, -R6 ;
        /*00a0*/                   STG.E desc[UR4][R4.64], R7 ;
        /*00b0*/                   EXIT ;
"""


def test_machine_code():
    machine = Sass(SASS, HEAD).machine((1, 1, 1), shared=0)
    memory = Memory([4 * THREADS], [4], BASE, 1, THREADS)
    memory.fill_unwritten()
    trace = []
    machine.launch([memory.address(0)], memory, 100, trace)
    expected = [2 * 2.0**t - t if t <= 3 else 1 for t in range(THREADS)]
    assert memory.region(0).view("f4").tolist() == expected
    assert trace == [0, 1, 2] and machine.instructions()["MUFU.EX2"] == 1 and machine.instructions()["EXIT"] == 2
