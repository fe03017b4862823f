"""perf.gpu.report: the table, and the model behind its times."""

import json

import pytest

from perf.gpu import emulator, model, report
from perf.gpu.machine_code import Instruction, from_amd, from_nvidia
from tests.gpu.compiled import MORE, has_limits, run_compiled


@has_limits
def test_report(tmp_path):
    """The limits are those of test_compile.py, which asserts them for all targets."""
    path = tmp_path / "report.json"
    shown = run_compiled("perf.gpu.report", "--arch", "sm_90", "--words", "40", "--json", str(path))
    rows = json.loads(path.read_text())["kernels"]
    assert {(row["kernel"], row["words"]) for row in rows} == {(kernel, 40) for kernel in report.NAMES.values()}
    for row in rows:
        assert row["registers"] <= 64 and row["local_memory"] == 0
        assert row["loop_barriers"] <= (3 + MORE if "walk" in row["kernel"] else 2)
        assert row["instructions_per_term"] is None or row["instructions_per_term"] <= 25.5 + MORE
        assert row["occupancy_warps"] >= 32
        # Those of the k best and of relaxed trees are compiled, and executed in the tests alone.
        is_executed = not any(name in row["kernel"] for name in ("k best", "relaxed", "its gradient"))
        assert (row["model_seconds"] is not None) == (emulator.is_supported() and is_executed)
        if row["model_seconds"] is not None:
            assert 1e-6 < row["model_seconds"] < 1e-2 and 0 < row["sectors_per_request"] < 32
            assert row["useful_lanes"] is None or 0 < row["useful_lanes"] <= 1
            # No fewer than in the loop, which is a part of them.
            assert row["executed_per_term"] is None or row["executed_per_term"] > row["instructions_per_term"]
        assert row["kernel"] in shown
    assert "MODEL" in shown and "not a measurement" in shown


def test_aims():
    row = {"words": 40, "executed_instructions": 36_001, "model_seconds": model.LAUNCH + 80_155 / model.CLOCK}
    rows = [row | {"kernel": "inside"}, row | {"kernel": "outside"}, row | {"kernel": "viterbi, walk"}]
    inside, outside = report.aims(rows, 264, model.cycles)
    assert inside.startswith("aim, inside, l = 40: at most 36,000 warp-instructions; 36,001: missed by 0 %")
    assert outside.endswith("held")
    inside, outside = report.aims(rows, 1, lambda seconds: round(model.cycles(seconds)))
    assert "71,984 cycles of the MODEL; 80,155: missed by 11 %" in inside and outside.endswith("80,155: held")
    assert report.aims(rows, 100, model.cycles) == []


def facts(**other) -> dict:
    return {"target": "cuda:90", "warps": 4, "registers": 32, "shared_memory": 0} | other


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (64, 64, "warps")),
        ({"registers": 64}, (32, 64, "registers")),
        ({"registers": 65}, (28, 64, "registers")),
        ({"warps": 1}, (32, 64, "programs")),
        ({"shared_memory": 100 * 1024}, (8, 64, "shared")),
        ({"target": "hip:gfx942", "registers": 73}, (24, 32, "registers")),
        ({"target": "hip:gfx942", "shared_memory": 32 * 1024}, (8, 32, "shared")),
    ],
)
def test_occupancy(changed, expected):
    assert model.occupancy(facts(**changed)) == expected


def test_a_warp_waits_for_operands_and_units():
    def issue(instructions, warps, misses):
        return model.issue([(instruction, misses) for instruction in instructions], warps)

    load = Instruction("LDG.E", " R1, desc[UR4][R2.64+0x10] ")
    use = Instruction("FADD", " R5, R1, R1 ")
    other = Instruction("FADD", " R6, R7, R8 ")
    assert issue([load, other, use], 1, 0.0) == 1 + model.L1
    assert issue([load, other, use], 1, 1.0) == 1 + model.L2
    assert issue([other] * 10, 4, 0.0) == 10
    assert issue([other] * 10, 8, 0.0) == 20
    exp2 = Instruction("MUFU.EX2", " R9, R10 ")
    assert issue([exp2, exp2], 1, 0.0) == 1 + model.SPECIAL_UNIT
    assert issue([Instruction("BAR.SYNC", " 0x0 ")], 1, 0.0) == 1 + model.BARRIER


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("IADD3 R32, P3, R34, R45, RZ", {"R34", "R45"}, {"R32", "P3"}),
        ("FSEL R48, R47, 1, P3", {"R47", "P3"}, {"R48"}),
        ("IMAD.WIDE R2, R4, 0x4, R6", {"R4", "R6"}, {"R2", "R3"}),
        ("STG.E desc[UR8][R2.64], R10", {"UR8", "R2", "R3", "R10"}, set()),
        ("ISETP.GT.AND P2, PT, R4, UR8, PT", {"R4", "UR8"}, {"P2"}),
        ("SHFL.IDX PT, R37, R47, R14, 0x1f", {"R47", "R14"}, {"R37"}),
    ],
)
def test_registers(text, reads, writes):
    op, operands = text.split(" ", 1)
    assert model.registers(Instruction(op, operands)) == (reads, writes)
    assert "P6" in model.registers(Instruction(op, operands, "@!P6"))[0]


NVIDIA = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E R2, desc[UR4][R2.64] ;
        /*0020*/                   FADD R3, R2, R3 ;
        /*0030*/               @P0 BRA 0x20 ;
        /*0040*/                   BAR.SYNC 0x0 ;
        /*0050*/              @!P1 BRA 0x10 ;
        /*0060*/                   EXIT ;
        /*0070*/                   BRA 0x70;
"""
# The same, with the end of the outer loop before its beginning, as the compiler often places it.
AMD = """
	s_mov_b32 s1, 0
	s_branch .LBB0_2
.LBB0_1:                                ; %latch
	s_barrier
	s_cbranch_scc1 .LBB0_4
.LBB0_2:
	global_load_dword v1, v[2:3], off
.LBB0_3:
	v_add_f32_e32 v2, v1, v2
	s_cbranch_scc0 .LBB0_3
	s_branch .LBB0_1
.LBB0_4:
	s_endpgm
"""


@pytest.mark.parametrize(
    ("code", "outer", "inner"),
    [(from_nvidia(NVIDIA), (1, {1, 2, 3, 4, 5}), (2, {2, 3})), (from_amd(AMD), (4, {2, 3, 4, 5, 6, 7}), (5, {5, 6}))],
    ids=["nvidia", "amd"],
)
def test_loops(code, outer, inner):
    assert code.outermost_loop()[:2] == outer
    assert [loop[:2] for loop in code.innermost_loops()] == [inner]
    header, body = outer
    assert header in code.reach(body)
    assert header not in code.reach(inner[1], without=code.find("BAR") | code.find("s_barrier"))
