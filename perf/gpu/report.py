"""The GPU kernels without a GPU: they are compiled, the machine code is read, that of sm_90 is executed in an emulator
(perf/gpu/emulator), and a model gives its time.

python -m perf.gpu.report                       all kernels for sm_80, sm_90, sm_100 and gfx942, in a few minutes
python -m perf.gpu.report --arch sm_90          one machine
python -m perf.gpu.report --sentences 264       with the tiles that so many sentences get
python -m perf.gpu.report --json report.json    the same as a file

float32 scores. Times are predictions of perf/gpu/model.py for 128 sentences on an H100: a model, never a measurement.
It takes the instructions that a warp executed, and issues them in order, with

    132 multiprocessors at 1.755 GHz, one program each, so one wave     issue: one instruction per cycle and scheduler
    exp2: 16 per cycle and multiprocessor, 24 cycles each               arithmetic: 5 cycles
    loads: 41 cycles from L1, 263 from L2; 2 cycles of the load path per warp, 24 bytes per cycle from L2
    40 cycles per barrier, 4 µs per launch
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
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
    ("topk_kernel", None, 4): "k best trees, inside",
    ("read_kernel", None, 4): "k best trees, read",
    ("inside_kernel", 3, 10): "relaxed tree, inside",
    ("inside_kernel", 4, 20): "its gradient, inside",
    ("outside_kernel", 4, 20): "its gradient, outside",
}
OPERATIONS = {
    "log partition": ["inside"],
    "log partition and marginals": ["inside, states kept", "outside"],
    "derivative of marginals": ["tangent, inside", "tangent, outside"],
    "best tree": ["viterbi, back-pointers", "viterbi, walk"],
    "best tree with each arc": ["max-marginals, inside", "max-marginals, outside"],
    "one sample": ["inside, states kept", "sampling, walk"],
    "relaxed tree": ["relaxed tree, inside", "outside"],
    "gradient of the relaxed tree": ["its gradient, inside", "its gradient, outside"],
}
# Aims for 40 words on sm_90: warp-instructions of a sentence where there are many; where there are few, cycles of the
# model. perf/README.md says what they were before.
MANY, FEW = 264, 32
AIMS = {"inside": (36_000, 71_984), "outside": (50_000, 80_155)}
COMPILED = {
    "regis-\nters": "registers",
    "spills": "local_memory",
    "shared": "shared_memory",
    "bar-\nriers": "loop_barriers",
}
FOOTER = """\
Several figures in a cell: for sentences of {lengths} words, whose programs differ in size. Both ways of launching, one program per \
sentence and one launch per diagonal, run the same code.
spills: bytes and instructions; shared: bytes; barriers: per diagonal, or per round of a walk.
loop: in the inner loop; a term is one summand of one sum, or one candidate of the k best. ¹ Following back-pointers sums \
nothing. ² max has no exp2.
executed: for random sentences ({sentences} at once), all warps of one; instructions for each term of a warp; the share of its lanes whose term is one of \
the sentence's; 32-byte sectors per request of a warp to memory. ³ Nothing in the code marks a term, or a walk takes what it needs.
warps: resident of those possible per multiprocessor: W warps for each of min(⌊4⌊16384 / ⌈32 · registers⌉₂₅₆⌋ / W⌋, \
⌊shared memory / ⌈use + 1024⌉₁₂₈⌋, ⌊64 / W⌋, 32) programs, where ⌈x⌉ᵤ is x rounded up to a multiple of u; on gfx942 \
⌊512 / ⌈registers⌉₈⌋ ≤ 8 waves on each of 4 SIMDs. r: the registers bound it, s: the shared memory.
µs: A MODEL of an H100 with B = {batch}, not a measurement: no kernel has run on a GPU. {sms} multiprocessors at {clock:.3f} \
GHz, one program each, one wave; a warp issues what it executed in order, one per cycle, and waits {arithmetic} cycles for arithmetic, \
{special} for exp2 (16 per cycle and multiprocessor), {l1} for loads from L1, {l2} from L2 ({path} cycles of the load path per \
warp; {bandwidth} bytes per cycle from L2), {barrier} at a barrier; {launch:.0f} µs per launch. More in perf/gpu/model.py."""  # noqa: E501


def kernel_name(facts: dict) -> str:
    return NAMES[facts["kernel"], facts.get("SEMIRING", facts.get("SAMPLE")), facts["PLANES"]]


def collect(archs: list[str], lengths: list[int], sentences: int, console: Console) -> list[dict]:
    """One row per architecture, kernel and length."""
    import torch

    from perf.gpu import emulator
    from perf.gpu.code import compile_all, jobs
    from perf.gpu.model import occupancy, seconds

    executed = {}
    if "sm_90" in archs and emulator.is_supported():
        from perf.gpu.executed import execute_all

        each = track(
            execute_all(lengths, sentences), "executing", len(NAMES) * len(lengths), console=console, transient=True
        )
        executed = {(NAMES[one.key], one.words): one for one in each}

    todo = [
        (arch, l, job)
        for arch in archs
        for l in lengths
        for job in jobs(TARGETS[arch], torch.float32, l + 1, sentences)
    ]
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
        one = executed.get((row["kernel"], l)) if arch == "sm_90" else None
        row["executed_instructions"] = one and one.instructions
        row["executed_per_term"] = one.instructions / one.terms if one and one.terms else None
        row["useful_lanes"] = one and one.useful
        row["sectors_per_request"] = one and one.sectors
        row["model_seconds"] = seconds(one, kernel) if one else None
        rows.append(row)
    return rows


def figure(key: str, digits: int = 0, missing: str = "", factor: float = 1.0):
    return lambda row: f"–{missing}" if row[key] is None else f"{factor * row[key]:.{digits}f}"


def exp2(row: dict) -> str:
    return "–²" if row["exp2_per_term"] == 0 else figure("exp2_per_term", 0, "¹")(row)


def both(rows: list[dict], form) -> str:
    """The figures for all lengths, or one where they agree."""
    return ", ".join(dict.fromkeys(map(form, rows)))


def resident(row: dict) -> str:
    mark = {"registers": "r", "shared": "s"}.get(row["occupancy_limit"], "")
    return f"{row['occupancy_warps']}{mark}/{row['occupancy_most']}"


def make_table(rows: list[dict]) -> Table:
    table = new_table(
        "float32 scores;\ncompiled", (*COMPILED, "loop: instr.\n/term", "exp2\n/term", "loads\n/term", "warps")
    )
    for arch in dict.fromkeys(row["arch"] for row in rows):
        table.add_section()
        table.add_row(f"[bold]{arch}[/]")
        for name in NAMES.values():
            here = [row for row in rows if (row["arch"], row["kernel"]) == (arch, name)]
            columns = [figure(key) for key in COMPILED.values()]
            columns += [figure("instructions_per_term", 1, "¹"), exp2, figure("loads_per_term", 0, "¹"), resident]
            table.add_row(f"  {name}", *(both(here, column) for column in columns))
    return table


def executed_table(rows: list[dict]) -> Table:
    """What was executed, and the time that the model gives it."""
    lengths = list(dict.fromkeys(row["words"] for row in rows))
    columns = {
        "warp-instr.,\nthousands": figure("executed_instructions", 0, "", 1e-3),
        "instr.\n/term": figure("executed_per_term", 1, "³"),
        "lanes in\nuse, %": figure("useful_lanes", 0, "³", 100),
        "sectors\n/request": figure("sectors_per_request", 1),
    }
    heads = ("regis-\nters", "spills", *columns, *(f"MODEL\nl={l}, µs" for l in lengths))
    table = new_table("sm_90, executed\nin an emulator", heads)
    for name in NAMES.values():
        here = [row for row in rows if row["kernel"] == name]
        cells = [both(here, form) for form in (figure("registers"), figure("local_memory"), *columns.values())]
        table.add_row(f"  {name}", *cells, *map(figure("model_seconds", 0, "", 1e6), here))
    return table


def new_table(first: str, heads: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column(first, no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def operations(rows: list[dict]) -> list[str]:
    """The model's times of the functions that users call."""
    seconds = {(row["kernel"], row["words"]): row["model_seconds"] for row in rows if row["model_seconds"]}
    lengths = list(dict.fromkeys(l for _, l in seconds))
    lines = []
    for operation, kernels in OPERATIONS.items():
        if not all((kernel, l) in seconds for kernel in kernels for l in lengths):
            continue  # not executed
        times = (f"l = {l}: {1e6 * sum(seconds[kernel, l] for kernel in kernels):.0f} µs" for l in lengths)
        lines.append(f"MODEL, {operation} (" + " + ".join(kernels) + "), " + ", ".join(times))
    return lines


def aims(rows: list[dict], sentences: int, cycles: Callable[[float], float]) -> list[str]:
    """Which of them are reached, and by how much the others are missed."""
    lines = []
    for row in rows:
        if row["kernel"] not in AIMS or row["words"] != 40 or FEW < sentences < MANY or not row["model_seconds"]:
            continue
        many, few = AIMS[row["kernel"]]
        if sentences >= MANY:
            aim, reached, unit = many, row["executed_instructions"], "warp-instructions"
        else:
            aim, reached, unit = few, cycles(row["model_seconds"]), "cycles of the MODEL"
        verdict = "held" if reached <= aim else f"missed by {100 * (reached / aim - 1):.0f} % (perf/README.md says why)"
        lines.append(f"aim, {row['kernel']}, l = 40: at most {aim:,} {unit}; {reached:,.0f}: {verdict}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", choices=TARGETS, default=list(TARGETS), help="only these machines")
    parser.add_argument("--words", nargs="+", type=int, default=[40, 100], metavar="N", help="lengths of the sentences")
    parser.add_argument("--sentences", type=int, default=1, metavar="B", help="how many are executed at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    args = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET", "0") != "0":
        print("perf.gpu.report: TRITON_INTERPRET is set, so nothing would be compiled: unset it", file=sys.stderr)
        return 2
    try:
        from perf.gpu import emulator, model
    except ImportError as error:
        print(f"perf.gpu.report: Triton, which compiles the kernels, cannot be imported: {error}", file=sys.stderr)
        return 2

    rows = collect(args.arch, args.words, args.sentences, Console(stderr=True))
    assumed = model.assumptions() | {"lengths": args.words, "sentences": args.sentences}
    # At least 120 columns: in a narrower terminal the table would be cut off.
    console = Console(width=max(Console().width, 120), highlight=False)
    console.print(make_table(rows))
    ran = [row for row in rows if row["executed_instructions"]]
    if ran:
        console.print(executed_table(ran))
    elif "sm_90" in args.arch:
        console.print(f"Nothing was executed: the emulator works with Triton {emulator.TRITON}, and no other version.")
    for line in [
        *operations(rows),
        *aims(rows, args.sentences, model.cycles),
        FOOTER.format(**assumed | {"lengths": ", ".join(map(str, args.words))}),
    ]:
        console.print(line, markup=False)
    if args.json:
        args.json.write_text(json.dumps({"model": assumed, "kernels": rows}, indent=1) + "\n")
        console.print(f"written to {args.json}", markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
