"""`make matrix`: the tests of tritree, without those of the parsers, with old and new versions of what it needs.

Each set of versions gets an environment of its own in .matrix/, which is kept; `make clean` removes it. Builds of torch
for CUDA take gigabytes, so this is for a machine with time, not for CI. Prints the table of docs/trust.md. Exit code 1
if a test failed.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
SETS = {
    "oldest": ["torch==2.7.*", "numba==0.61.*", "numpy==1.26.*"],
    "oldest with GPU kernels": ["torch==2.9.*", "numpy==2.3.*"],  # Triton 3.5's interpreter fails with NumPy 2.4
    "pinned": ["-c", "constraints.txt"],
    "newest": ["--upgrade"],
}
SHOWN = ("torch", "triton", "numba", "numpy")
COUNTED = ("passed", "failed", "skipped")
VERSIONS = f"""
import importlib.metadata, json, platform
print(json.dumps([platform.python_version(), *map(importlib.metadata.version, {SHOWN})]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", choices=SETS, metavar="NAME", action="append", help=", ".join(SETS))
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="of the environments (this one)")
    options = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=120)
    failed = False
    table = Table("versions", "Python", *SHOWN, *COUNTED, "minutes")
    for name in options.only or SETS:
        python = environment(name, options.python)
        began = time.monotonic()
        console.print(f"{name}: testing")
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-n", "2", "tests", "--ignore=tests/parsers"],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        counts = {what: count for count, what in re.findall(r"(\d+) (passed|failed|skipped)", done.stdout[-200:])}
        versions = json.loads(subprocess.run([python, "-c", VERSIONS], stdout=subprocess.PIPE, check=True).stdout)
        minutes = f"{(time.monotonic() - began) / 60:.0f}"
        table.add_row(name, *versions, *(counts.get(what, "0") for what in COUNTED), minutes)
        if done.returncode:
            failed = True
            console.print(done.stdout, markup=False)
    console.print(table)
    return int(failed)


def environment(name: str, python: str) -> Path:
    """The Python of an environment with these versions; made now if it is not there or not whole."""
    directory = ROOT / ".matrix" / name.replace(" ", "-")
    done = directory / "done"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        subprocess.run([python, "-m", "venv", directory], check=True)
        install = [directory / "bin/python", "-m", "pip", "install", "--quiet", *SETS[name], "-e", ".[test]"]
        subprocess.run(install, cwd=ROOT, check=True)
        done.touch()
    return directory / "bin/python"


if __name__ == "__main__":
    sys.exit(main())
