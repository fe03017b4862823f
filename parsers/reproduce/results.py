"""RESULTS.md and its pictures on the disk."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from parsers.io.files import output, read_whole
from parsers.reproduce.cells import Results
from parsers.reproduce.grid import Grid
from parsers.reproduce.lines import Line
from parsers.reproduce.tables import markdown

FILES = {"systems": "treebanks.png", "shares": "shares.png", "text": "text.png"}


def write_results(grid: Grid, lines: list[Line], options: Namespace) -> int:
    from parsers.reproduce.plots import draw

    results = Results(grid, lines)
    pictures = draw(results)
    for kind, content in pictures.items():
        with output(str(options.lines.with_name(FILES[kind]))) as write:
            write(content)
    with output(str(options.output)) as write:
        write(text_of(results, options))
    print(f"{options.output} has {len(results.lines)} runs")
    return 0


def check_results(grid: Grid, lines: list[Line], options: Namespace) -> int:
    """1 unless the file is what would be written today. Pictures are asked for, not compared."""
    expected = text_of(Results(grid, lines), options)
    found = read_whole(options.output).decode(errors="replace") if options.output.exists() else ""
    if found == expected:
        return 0
    print(f"{options.output} is not what {options.lines} gives: run `{command(options)}`", file=sys.stderr)
    return 1


def text_of(results: Results, options: Namespace) -> str:
    shown = {step.table for step in results.grid.steps if results.lines_for(step.plans)}
    near = Path(os.path.relpath(options.lines.parent, options.output.parent))
    pictures = {kind: (near / file).as_posix() for kind, file in FILES.items() if kind in shown}
    return markdown(results, command(options), pictures)


def command(options: Namespace) -> str:
    """What makes the file; options that are as by default are left out."""
    parts = ["python -m parsers.reproduce", options.grid.as_posix(), "--tables"]
    if options.lines != options.grid.with_name("runs.jsonl"):
        parts.append(f"--lines {options.lines.as_posix()}")
    if options.output != Path("RESULTS.md"):
        parts.append(f"--output {options.output.as_posix()}")
    return " ".join(parts)
