"""The GPU kernels without a GPU: they are compiled, their machine code is read, and a model gives their time.

python -m perf.gpu.report                       all kernels for sm_80, sm_90, sm_100 and gfx942, in a minute or two
python -m perf.gpu.report --arch sm_90          one machine
python -m perf.gpu.report --json report.json    the same as a file

float32 scores. Times are predictions of perf/gpu/model.py for 128 sentences on an H100: a model, never a measurement.
It simulates one warp on the machine code, issuing in order, with

    132 multiprocessors at 1.755 GHz, one program each, so one wave     issue: one instruction per cycle and scheduler
    exp2: 16 per cycle and multiprocessor, 24 cycles each               arithmetic: 5 cycles
    loads: 41 cycles from L1, 263 from L2; 2 cycles of the load path per warp, 24 bytes per cycle from L2
    40 cycles per barrier, 4 µs per launch
"""

import argparse
import json
import os
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

TARGETS = {"sm_80": "cuda:80", "sm_90": "cuda:90", "sm_100": "cuda:100", "gfx942": "hip:gfx942"}
# By kernel, semiring or kind of walk, and planes of the chart.
NAMES = {
    ("inside_kernel", 0, 4): "inside",
    ("inside_kernel", 0, 10): "inside, states kept",
    ("outside_kernel", 0, 10): "outside",
    ("inside_kernel", 1, 17): "tangent, inside",
    ("outside_kernel", 1, 17): "tangent, outside",
    ("inside_kernel", 2, 7): "viterbi, back-pointers",
    ("walk_kernel", False, 7): "viterbi, walk",
    ("inside_kernel", 2, 10): "max-marginals, inside",
    ("outside_kernel", 2, 10): "max-marginals, outside",
    ("walk_kernel", True, 10): "sampling, walk",
}
OPERATIONS = {
    "log partition": ["inside"],
    "log partition and marginals": ["inside, states kept", "outside"],
    "derivative of marginals": ["tangent, inside", "tangent, outside"],
    "best tree": ["viterbi, back-pointers", "viterbi, walk"],
    "best tree with each arc": ["max-marginals, inside", "max-marginals, outside"],
    "one sample": ["inside, states kept", "sampling, walk"],
}
FOOTER = """\
Two figures in a cell: for {lengths[0]} words and for {lengths[1]}, whose programs differ in size. Both ways of launching, one program per \
sentence and one launch per diagonal, run the same code.
spills: bytes and instructions; shared: bytes; barriers: per diagonal, or per round of a walk.
per term: in the inner loop; a term is one summand of one sum. ¹ Following back-pointers sums nothing. ² max has no exp2.
warps: resident of those possible per multiprocessor: W warps for each of min(⌊4⌊16384 / ⌈32 · registers⌉₂₅₆⌋ / W⌋, \
⌊shared memory / ⌈use + 1024⌉₁₂₈⌋, ⌊64 / W⌋, 32) programs, where ⌈x⌉ᵤ is x rounded up to a multiple of u; on gfx942 \
⌊512 / ⌈registers⌉₈⌋ ≤ 8 waves on each of 4 SIMDs. r: the registers bound it, s: the shared memory.
µs: A MODEL of an H100 with B = {batch}, not a measurement: no kernel has run on a GPU. {sms} multiprocessors at {clock:.3f} \
GHz, one program each, one wave; a warp issues in order, one instruction per cycle, and waits {arithmetic} cycles for arithmetic, \
{special} for exp2 (16 per cycle and multiprocessor), {l1} for loads from L1, {l2} from L2 ({path} cycles of the load path per \
warp; {bandwidth} bytes per cycle from L2), {barrier} at a barrier; {launch:.0f} µs per launch. More in perf/gpu/model.py.
³ The model is one of an H100, so of sm_90 code."""  # noqa: E501


def kernel_name(facts: dict) -> str:
    return NAMES[facts["kernel"], facts.get("SEMIRING", facts.get("SAMPLE")), facts["PLANES"]]


def collect(archs: list[str], console: Console) -> list[dict]:
    """One row per architecture, kernel and length."""
    import torch

    from perf.gpu.code import compile_all, jobs
    from perf.gpu.model import LENGTHS, occupancy, seconds

    todo = [(arch, l, job) for arch in archs for l in LENGTHS for job in jobs(TARGETS[arch], torch.float32, l + 1)]
    compiled = compile_all([job for *_, job in todo])
    rows = []
    for kernel in track(compiled, "compiling", len(todo), console=console, transient=True):
        arch, l, _ = todo[len(rows)]
        facts = kernel.facts
        terms = facts["inner_terms"]
        row = {"arch": arch, "kernel": kernel_name(facts), "words": l}
        row |= {key: facts[key] for key in ("warps", "registers", "local_memory", "shared_memory", "loop_barriers")}
        for key in ("inner_instructions", "inner_exp2", "inner_loads"):
            row[key.replace("inner_", "") + "_per_term"] = facts[key] / terms if terms else None
        row |= {f"occupancy_{key}": value for key, value in occupancy(facts)._asdict().items()}
        row["model_seconds"] = seconds(kernel, l) if arch == "sm_90" else None
        rows.append(row)
    return rows


def both(rows: list[dict], form) -> str:
    """The figures for all lengths, or one where they agree."""
    return ", ".join(dict.fromkeys(map(form, rows)))


def figure(key: str, digits: int = 0, missing: str = "", factor: float = 1.0):
    return lambda row: f"–{missing}" if row[key] is None else f"{factor * row[key]:.{digits}f}"


def exp2(row: dict) -> str:
    return "–²" if row["exp2_per_term"] == 0 else figure("exp2_per_term", 0, "¹")(row)


def resident(row: dict) -> str:
    mark = {"registers": "r", "shared": "s"}.get(row["occupancy_limit"], "")
    return f"{row['occupancy_warps']}{mark}/{row['occupancy_most']}"


def make_table(rows: list[dict]) -> Table:
    lengths = list(dict.fromkeys(row["words"] for row in rows))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("float32 scores;\ncompiled, not run", no_wrap=True)
    per_term = (f"{what}\n/term" for what in ("instr.", "exp2", "loads"))
    times = (f"MODEL\nl={l}, µs" for l in lengths)
    for head in ("regis-\nters", "spills", "shared", "bar-\nriers", *per_term, "warps", *times):
        table.add_column(head, justify="right", no_wrap=True)
    for arch in dict.fromkeys(row["arch"] for row in rows):
        table.add_section()
        table.add_row(f"[bold]{arch}[/]")
        for name in NAMES.values():
            here = [row for row in rows if (row["arch"], row["kernel"]) == (arch, name)]
            columns = [figure(key) for key in ("registers", "local_memory", "shared_memory", "loop_barriers")]
            columns += [figure("instructions_per_term", 1, "¹"), exp2, figure("loads_per_term", 0, "¹"), resident]
            model = map(figure("model_seconds", 0, "³", 1e6), here)
            table.add_row(f"  {name}", *(both(here, column) for column in columns), *model)
    return table


def operations(rows: list[dict]) -> list[str]:
    """The model's times of the functions that users call."""
    seconds = {(row["kernel"], row["words"]): row["model_seconds"] for row in rows if row["model_seconds"]}
    lengths = list(dict.fromkeys(l for _, l in seconds))
    lines = []
    for operation, kernels in OPERATIONS.items() if seconds else ():
        times = (f"l = {l}: {1e6 * sum(seconds[kernel, l] for kernel in kernels):.0f} µs" for l in lengths)
        lines.append(f"MODEL, {operation} (" + " + ".join(kernels) + "), " + ", ".join(times))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", choices=TARGETS, default=list(TARGETS), help="only these machines")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    args = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET", "0") != "0":
        print("perf.gpu.report: TRITON_INTERPRET is set, so nothing would be compiled: unset it", file=sys.stderr)
        return 2
    try:
        from perf.gpu import model
    except ImportError as error:
        print(f"perf.gpu.report: Triton, which compiles the kernels, cannot be imported: {error}", file=sys.stderr)
        return 2

    rows = collect(args.arch, Console(stderr=True))
    assumed = model.assumptions()
    # At least 120 columns: in a narrower terminal the table would be cut off.
    console = Console(width=max(Console().width, 120), highlight=False)
    console.print(make_table(rows))
    for line in [*operations(rows), FOOTER.format(**assumed)]:
        console.print(line, markup=False)
    if args.json:
        args.json.write_text(json.dumps({"model": assumed, "kernels": rows}, indent=1) + "\n")
        console.print(f"written to {args.json}", markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
