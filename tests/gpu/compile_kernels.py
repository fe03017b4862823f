"""Compile every kernel for machines that are not here, and report on the machine code. As a script,

    python -m tests.gpu.compile_kernels [--without-barriers] cuda:90 hip:gfx942

prints JSON, with one report per kernel, variant and target. The variants are those that the launchers ask for: the five
functions run on small CPU tensors, and what they would launch is recorded instead. Launches differ in the types of
their arguments, in their constants and in their options. Sizes are no part of that, but for the pitch of the chart.
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
from pathlib import Path
from unittest import mock

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

import tritree.gpu
from tests.gpu.sass import Code
from tritree.chart import result_dtype

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
TYPES = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
SIZES = 8, 100  # a chart with rows for one warp, and one with rows for four


def jit_functions() -> dict[str, JITFunction]:
    """All of the package, by name."""
    modules = [importlib.import_module(m.name) for m in pkgutil.iter_modules(tritree.gpu.__path__, "tritree.gpu.")]
    functions = {f for module in modules for f in vars(module).values() if isinstance(f, JITFunction)}
    return {f.__name__: f for f in functions if f.fn.__module__.startswith("tritree.")}


def kernels() -> set[str]:
    """The functions that no other one calls. One that nobody launches either shows up here all the same."""
    functions = jit_functions()
    called = {name for f in functions.values() for name in f.fn.__code__.co_names}
    return set(functions) - called


def launches(backend: str, dtype: torch.dtype, N: int) -> list[tuple]:
    """What the five functions launch: kernel, signature, constants, options."""
    recorded = []

    def record(kernel, *args, grid, warmup, **options):
        constants = {name: options.pop(name) for name in kernel.arg_names if name in options}
        types = {
            name: TYPES[arg.dtype] if isinstance(arg, torch.Tensor) else "i32"
            for name, arg in zip(kernel.arg_names, args, strict=False)
        }
        launch = kernel.__name__, types | dict.fromkeys(constants, "constexpr"), constants, options
        if launch not in recorded:
            recorded.append(launch)

    version = {"cuda": None, "hip": None, backend: "any"}
    scores, lengths = torch.zeros(1, N, N, dtype=dtype), torch.tensor([N - 1])
    with mock.patch.multiple(torch.version, **version), mock.patch.object(JITFunction, "run", record):
        tritree.gpu.inside(scores, lengths, False)
        tritree.gpu.inside_outside(scores, lengths, False)
        tritree.gpu.tangent(scores, lengths, scores.to(result_dtype(dtype)), False)
        tritree.gpu.viterbi(scores, lengths, False)
        tritree.gpu.sample(scores, lengths, torch.tensor([0]), 1, False)
    return recorded


def compile_one(job: tuple) -> dict:
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
    report = {"target": target, "kernel": name, "chart": signature["chart"], "warps": options["num_warps"], **constants}
    return report | (report_cuda(binary) if backend == "cuda" else report_hip(binary))


def report_cuda(binary) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        usage, listing = (
            subprocess.run([CUOBJDUMP, option, file.name], capture_output=True, text=True, check=True).stdout
            for option in ("--dump-resource-usage", "-sass")
        )
    usage = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    code = Code(listing)
    loads, stores, barriers = code.find("LDG"), code.find("STG"), code.find("BAR.SYNC")
    header, body = code.outermost_loop()
    inner = max(code.innermost_loops(), key=lambda loop: len(loop & loads))
    return {
        "registers": usage["REG"],
        "local_memory": usage["STACK"] + usage["LOCAL"] + len(code.find("LDL") | code.find("STL")),
        "constant_loads": sum("CONSTANT" in code.op[k] for k in loads) + binary.asm["ptx"].count("ld.global.nc"),
        "loop_loads": len(body & loads),
        "loop_stores": len(body & stores),
        # Whether the next turn of the loop can begin before a store, or a store come before what was loaded earlier.
        "store_to_next_turn": header in code.reach(body & stores, without=barriers),
        "load_to_store": bool(stores & code.reach(body & loads, without=barriers)),
        "inner_instructions": len(inner),
        "inner_loads": len(inner & loads),
        "inner_exp2": len(inner & code.find("MUFU.EX2")),
    }


def report_hip(binary) -> dict:
    text = binary.asm["amdgcn"]

    def metadata(name):
        return int(re.search(rf"\.{name}:\s+(\d+)", text).group(1))

    return {
        "registers": metadata("vgpr_count"),
        "local_memory": metadata("private_segment_fixed_size") + metadata("vgpr_spill_count"),
        "barriers": len(re.findall(r"\bs_barrier\b", text)),
    }


def main(targets: list[str]) -> None:
    if "--without-barriers" in targets:
        # Enough to see that the reports depend on them.
        targets.remove("--without-barriers")
        tl.debug_barrier = tl.core.builtin(lambda _semantic=None: None)
        cases = [(target, torch.float32, SIZES[0]) for target in targets]
    else:
        cases = [*itertools.product(targets, (torch.float32, torch.float64), SIZES)]
        # Scores of 16 bits differ in one load: one target and one size will do.
        cases += [*itertools.product(targets[:1], (torch.float16, torch.bfloat16), SIZES[:1])]
    jobs = [(target, *launch) for target, dtype, N in cases for launch in launches(target.split(":")[0], dtype, N)]
    jobs = [job for k, job in enumerate(jobs) if job not in jobs[:k]]
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        reports = pool.map(compile_one, jobs, chunksize=1)
    print(json.dumps({"kernels": sorted(kernels()), "reports": reports}))


if __name__ == "__main__":
    main(sys.argv[1:])
