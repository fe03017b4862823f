"""Compiles every kernel for GPUs that this machine need not have, and reads the machine code. As a script,

    python -m perf.gpu.code [--without-barriers] cuda:90 hip:gfx942

prints JSON with the facts about each kernel, variant and target. The variants are those that the launchers need: the
backend's functions run on small CPU tensors, and their launches are recorded instead of executed. Launches differ in
the types of their arguments, in their constants and in their options. Sizes do not matter, except for the pitch of the
chart, and for how many spans a tile has, and lanes a span. Nor does the launch shape, one program per sentence or one
launch per diagonal: both run the same code.
"""

import importlib
import itertools
import json
import multiprocessing
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

import tritree.gpu
from perf.gpu.machine_code import Code, from_amd, from_nvidia
from tritree.conventions import result_dtype
from tritree.gpu import backend

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
TYPES = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
SIZES = 8, 100  # a chart with rows for one warp and four lanes per span, and one with rows for four warps

Job = tuple[str, str, dict, dict, dict]  # target, kernel, signature, constants, options


class Compiled(NamedTuple):
    facts: dict
    code: Code


def jit_functions() -> dict[str, JITFunction]:
    """All Triton functions of tritree.gpu, by name."""
    modules = [importlib.import_module(m.name) for m in pkgutil.iter_modules(tritree.gpu.__path__, "tritree.gpu.")]
    functions = {f for module in modules for f in vars(module).values() if isinstance(f, JITFunction)}
    return {f.__name__: f for f in functions if f.fn.__module__.startswith("tritree.")}


def kernels() -> set[str]:
    """The functions that no other one calls: kernels, and functions that are not used at all."""
    functions = jit_functions()
    called = {name for f in functions.values() for name in f.fn.__code__.co_names}
    return set(functions) - called


def jobs(target: str, dtype: torch.dtype, N: int, B: int = 1) -> list[Job]:
    """What the backend's functions launch on a target for B sentences."""
    recorded = []

    def record(kernel, *args, grid, warmup, **options):
        constants = {name: options.pop(name) for name in kernel.arg_names if name in options}
        types = {
            name: TYPES[arg.dtype] if isinstance(arg, torch.Tensor) else "i32"
            for name, arg in zip(kernel.arg_names, args, strict=False)
        }
        job = target, kernel.__name__, types | dict.fromkeys(constants, "constexpr"), constants, options
        if job not in recorded:
            recorded.append(job)

    version = {"cuda": None, "hip": None, target.split(":")[0]: "any"}
    scores, lengths = torch.zeros(1, N, N, dtype=dtype).expand(B, N, N), torch.tensor([N - 1]).expand(B)
    with mock.patch.multiple(torch.version, **version), mock.patch.object(JITFunction, "run", record):
        backend.inside(scores, lengths, False)
        backend.inside_outside(scores, lengths, False)
        backend.tangent(scores, lengths, scores.to(result_dtype(dtype)), False)
        backend.viterbi(scores, lengths, False)
        backend.max_marginals(scores, lengths, False)
        backend.sample(scores, lengths, torch.tensor([0]), 1, False)
        backend.topk(scores, lengths, 8, False)
        backend.relaxed(scores, lengths, 1.0)
        backend.relaxed_gradient(scores, lengths, scores.to(result_dtype(dtype)), 1.0)
    return recorded


def compile_all(jobs: list[Job]) -> Iterator[Compiled]:
    """Yields the results in the order of the jobs, as they become available."""
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        yield from pool.imap(compile_one, jobs)


def compile_one(job: Job) -> Compiled:
    target, name, signature, constants, options = job
    backend, arch = target.split(":")
    kernel = jit_functions()[name]
    aligned = [p for p in kernel.params if signature[p.name][0] == "*" and not p.do_not_specialize_on_alignment]
    source = ASTSource(
        fn=kernel,
        signature={name: signature[name] for name in kernel.arg_names},
        constexprs=constants,
        attrs={(p.num,): [["tt.divisibility", 16]] for p in aligned},
    )
    gpu = GPUTarget("cuda", int(arch), 32) if backend == "cuda" else GPUTarget("hip", arch, 64)
    binary = triton.compile(source, target=gpu, options=options)
    launch = {"target": target, "kernel": name, "chart": signature["chart"], "warps": options["num_warps"], **constants}
    return look_at(binary, launch)


def look_at(binary, launch: dict) -> Compiled:
    if launch["target"].startswith("cuda"):
        code, resources = nvidia(binary)
        load, store, barrier, exp2 = "LDG", "STG", "BAR.SYNC", "MUFU.EX2"
    else:
        code, resources = amd(binary)
        load, store, barrier, exp2 = "global_load", "global_store", "s_barrier", "v_exp_f32"
    loads, stores, barriers = code.find(load), code.find(store), code.find(barrier)
    header, body, _ = code.outermost_loop()
    inner = max(code.innermost_loops(), key=lambda loop: (len(loop.body & loads), -loop.header))
    inner_loads, inner_exp2 = len(inner.body & loads), len(inner.body & code.find(exp2))
    numbers = 3 if launch["kernel"] == "outside_kernel" else 2
    # Walks along back-pointers go through no sum.
    has_terms = launch.get("SAMPLE", launch["kernel"] != "read_kernel")
    facts = {
        **resources,
        "shared_memory": binary.metadata.shared,
        "loop_loads": len(body & loads),
        "loop_stores": len(body & stores),
        "loop_barriers": len(body & barriers),
        # Whether a path without a barrier leads from a store to the next turn of the loop, or from a load to a store.
        "store_to_next_turn": header in code.reach(body & stores, without=barriers),
        "load_to_store": bool(stores & code.reach(body & loads, without=barriers)),
        # A term has one exp2 or, where there is none (max, candidates), one load for each of its numbers.
        "inner_terms": (inner_exp2 or inner_loads // numbers) if has_terms else 0,
        "inner_instructions": len(inner.body),
        "inner_loads": inner_loads,
        "inner_exp2": inner_exp2,
    }
    return Compiled(launch | facts, code)


def dump(binary, option: str) -> str:
    """What cuobjdump says of a kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        return subprocess.run([CUOBJDUMP, option, file.name], capture_output=True, text=True, check=True).stdout


def nvidia(binary) -> tuple[Code, dict]:
    usage, listing = dump(binary, "--dump-resource-usage"), dump(binary, "-sass")
    usage = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    code = from_nvidia(listing)
    constant = sum("CONSTANT" in code.instructions[k].op for k in code.find("LDG"))
    return code, {
        "registers": usage["REG"],
        "local_memory": usage["STACK"] + usage["LOCAL"] + len(code.find("LDL") | code.find("STL")),
        "constant_loads": constant + binary.asm["ptx"].count("ld.global.nc"),
    }


def amd(binary) -> tuple[Code, dict]:
    text = binary.asm["amdgcn"]

    def metadata(name):
        return int(re.search(rf"\.{name}:\s+(\d+)", text).group(1))

    return from_amd(text), {
        "registers": metadata("vgpr_count"),
        "local_memory": metadata("private_segment_fixed_size") + metadata("vgpr_spill_count"),
    }


def main(targets: list[str]) -> None:
    if "--without-barriers" in targets:
        # One size is enough to show that the facts depend on barriers.
        targets.remove("--without-barriers")
        tl.debug_barrier = tl.core.builtin(lambda _semantic=None: None)
        cases = [(target, torch.float32, SIZES[0]) for target in targets]
    else:
        cases = [*itertools.product(targets, (torch.float32, torch.float64), SIZES)]
        # Scores of 16 bits differ in one load: one target and one size are enough.
        cases += [*itertools.product(targets[:1], (torch.float16, torch.bfloat16), SIZES[:1])]
    todo = [job for case in cases for job in jobs(*case)]
    todo = [job for k, job in enumerate(todo) if job not in todo[:k]]
    print(json.dumps({"kernels": sorted(kernels()), "reports": [c.facts for c in compile_all(todo)]}))


if __name__ == "__main__":
    main(sys.argv[1:])
