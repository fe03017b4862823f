"""The machine code of the kernels, for GPUs that this machine need not have.

All kernels in all variants that the launchers produce: the semirings with their charts, the best trees and samples,
float32 and float64, one warp and four, for NVIDIA's sm_80, sm_90 and sm_100 and AMD's gfx942; 16-bit scores on the
first of them.
"""

import json

import pytest

from tests.gpu.compiled import MORE, has_limits, run_compiled
from tritree.gpu.semiring import DUAL, LOG, MAX, MEAN, MEANS

TARGETS = ["cuda:80", "cuda:90", "cuda:100", "hip:gfx942"]


def compile_kernels(*arguments: str, **environment: str) -> dict:
    return json.loads(run_compiled("perf.gpu.code", *arguments, **environment))


@pytest.fixture(scope="module")
def compiled() -> dict:
    return compile_kernels(*TARGETS)


@pytest.fixture(scope="module")
def reports(compiled) -> list[dict]:
    return compiled["reports"]


@pytest.fixture(scope="module")
def nvidia(reports) -> list[dict]:
    return [r for r in reports if r["target"].startswith("cuda")]


def test_every_kernel_is_here(compiled, reports):
    for target in TARGETS:
        assert {r["kernel"] for r in reports if r["target"] == target} == set(compiled["kernels"])
        for kernel in compiled["kernels"]:
            variants = [r for r in reports if (r["target"], r["kernel"]) == (target, kernel)]
            assert {(r["chart"], r["PITCH"]) for r in variants} == {
                (chart, pitch) for chart in ("*fp32", "*fp64") for pitch in (32, 128)
            }


@has_limits
def test_nothing_is_spilled(reports):
    assert [r for r in reports if r["local_memory"]] == []


def test_registers(nvidia):
    limit = {"*fp32": 64, "*fp64": 128}
    assert [r for r in nvidia if r["registers"] > limit[r["chart"]]] == []


def test_no_load_may_be_cached_as_constant(nvidia):
    assert [r for r in nvidia if r["constant_loads"]] == []


def test_a_barrier_on_every_path_to_the_next_diagonal_or_round(nvidia):
    """But none where each lane reads a tree of its own."""
    assert all(r["loop_loads"] and r["loop_stores"] for r in nvidia)
    assert {r["kernel"] for r in nvidia if r["store_to_next_turn"]} == {"read_kernel"}


def test_a_barrier_on_every_path_from_reading_items_to_writing_them(nvidia):
    walks = [r for r in nvidia if r["kernel"] == "walk_kernel"]
    assert walks and not any(r["load_to_store"] for r in walks)


def test_a_missing_barrier_would_be_seen(tmp_path):
    # The compiler's cache does not see that barriers are removed, so another directory is used.
    compiled = compile_kernels("--without-barriers", "cuda:90", TRITON_CACHE_DIR=str(tmp_path))
    assert {r["kernel"] for r in compiled["reports"]} == set(compiled["kernels"])
    sweeps = [r for r in compiled["reports"] if r["kernel"] != "walk_kernel"]
    assert all(r["store_to_next_turn"] for r in sweeps)
    # A walk still has the barrier of its reduction, after the stores.
    walks = [r for r in compiled["reports"] if r["kernel"] == "walk_kernel"]
    assert all(r["load_to_store"] for r in walks)


def test_barriers_on_amd(reports):
    """A program of one wave needs none, and the compiler removes them."""
    amd = [r for r in reports if r["target"].startswith("hip")]
    assert amd and all(r["loop_barriers"] for r in amd if r["warps"] > 1)


@has_limits
def test_at_most_two_barriers_per_diagonal(nvidia):
    """And three per round of a walk: two for the items, one to find the widest."""
    for r in nvidia:
        assert r["loop_barriers"] <= (3 + MORE if r["kernel"] == "walk_kernel" else 2), r


# Per term: loads, which the recurrences determine, and the limit for all instructions.
COST = {
    ("inside_kernel", LOG.value): (2, 10.5),
    ("inside_kernel", DUAL.value): (4, 17),
    ("inside_kernel", MAX.value): (2, 8),
    ("outside_kernel", LOG.value): (3, 14),
    ("outside_kernel", DUAL.value): (5, 18.9),
    ("outside_kernel", MAX.value): (3, 16),
    ("walk_kernel", True): (2, 18.9),
    ("topk_kernel", None): (2, 22),
    ("inside_kernel", MEAN.value): (2, 19),
    ("inside_kernel", MEANS.value): (4, 25.5),
    ("outside_kernel", MEANS.value): (6, 21),
}


@has_limits
def test_cost_of_a_term(nvidia):
    seen = set()
    for r in nvidia:
        case = r["kernel"], r.get("SEMIRING", r.get("SAMPLE"))
        if case in COST and r["chart"] == "*fp32":
            loads, instructions = COST[case]
            assert r["inner_loads"] == loads * r["inner_terms"], r
            assert r["inner_instructions"] <= (instructions + MORE) * r["inner_terms"], r
            seen.add(case)
    assert seen == COST.keys()
