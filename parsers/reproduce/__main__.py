"""`python -m parsers.reproduce GRID.toml`: all runs of a grid, resumable; `--tables` makes RESULTS.md of what is there.

Exit codes: 0 done; 1 a run failed, or --check found an old RESULTS.md; 2 the user's mistake; 130 after Ctrl-C.
"""

import os
import sys
from pathlib import Path

from parsers.io.arguments import Quiet, help_format, number
from parsers.io.command import run_command
from parsers.io.errors import UserError
from parsers.io.extra import check_extra
from parsers.reproduce.grid import read_grid
from parsers.reproduce.lines import locked, read_lines

NAME = "python -m parsers.reproduce"
EXAMPLES = """examples:
  %(prog)s results/grid.toml
      trains what has no line in results/runs.jsonl yet; again after Ctrl-C or a crash, it goes on
  %(prog)s results/grid.toml --tables
      RESULTS.md and its pictures, of the lines that are there
"""


def main(arguments: list[str]) -> int:
    parser = Quiet(
        prog=NAME,
        description="Trains systems over treebanks and seeds, and makes tables of the results.",
        epilog=EXAMPLES,
        formatter_class=help_format,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("grid", type=Path, metavar="GRID.toml", nargs="?", help="what is run (results/grid.toml)")
    add("--jobs", type=number(int, 1, 4096), metavar="N", help="runs at a time, one thread each (one per core)")
    add("--lines", type=Path, metavar="FILE", help="a line per finished run (runs.jsonl beside the grid)")
    add("--scratch", type=Path, metavar="DIR", default=Path("runs/reproduce"), help="for runs (runs/reproduce)")
    add("--keep", action="store_true", help="the runs, when their lines are written")
    add("--tables", action="store_true", help="make tables and pictures, run nothing")
    add("--output", type=Path, metavar="FILE", help="of --tables (RESULTS.md)")
    add("--check", action="store_true", help="with --tables: write nothing, say whether the file is up to date")
    options = parser.parse_args(arguments)
    for name in ("output", "check"):
        if getattr(options, name) and not options.tables:
            raise UserError(f"--{name} is an option of --tables")
    options.grid = options.grid or Path("results/grid.toml")
    options.lines = options.lines or options.grid.with_name("runs.jsonl")
    options.output = options.output or Path("RESULTS.md")
    check_extra()
    return make_tables(options) if options.tables else run_grid(options)


def run_grid(options) -> int:
    from parsers.reproduce.display import Display
    from parsers.reproduce.jobs import Jobs

    plans = [plan for plan in read_grid(options.grid).plans if plan.system != "udpipe"]
    for directory in (options.lines.parent, options.scratch):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{directory} can't be made: {error.strerror}") from None
    in_use = f"another {NAME} writes to {options.lines}: wait for it, or name other --lines"
    with locked(options.lines.with_name(f".{options.lines.name}.lock"), in_use):
        return Jobs(
            plans, options.lines, options.scratch.absolute(), options.jobs or cores(), options.keep, Display()
        ).run()


def cores() -> int:
    """Those that this process may use, where the system says."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_tables(options) -> int:
    from parsers.reproduce.results import check_results, write_results

    grid, lines = read_grid(options.grid), read_lines(options.lines)
    return (check_results if options.check else write_results)(grid, lines, options)


if __name__ == "__main__":
    sys.exit(run_command(NAME, main, sys.argv[1:]))
