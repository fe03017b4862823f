"""The examples in the README, in docs/ and in `help(tritree)` run."""

import doctest
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tritree

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = [
    pytest.param(snippet, id=f"{path.name}-{number}")
    for path in sorted((README.parent / "docs").glob("*.md"))
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S), 1)
]


def test_readme():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(example, names)
    assert names["log_z"].shape == (2,) and names["trees"].shape == (10, 2, 6)
    assert names["parsed"][0, [1, 4]].tolist() == [2, 3]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_docs(snippet):
    """Each on its own, in a new process: some of them change other packages."""
    for package in re.findall(r"^(?:import|from) (\w+)", snippet, re.M):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install '.[perf]'")
    subprocess.run([sys.executable, "-c", snippet], check=True)


def test_files_in_the_readme_exist():
    for cell in re.findall(r"^\| (`.*?) \|", README.read_text(encoding="utf-8"), re.M):
        folder = ""
        for name in re.findall(r"`([\w/]+\.py|[\w/]+/)`", cell):
            path = Path(name) if "/" in name else Path(folder) / name
            folder = str(path.parent)
            assert (README.parent / path).exists(), name


def test_help():
    assert doctest.testmod(tritree).failed == 0
    for name in tritree.__all__:
        assert "Args:" in getattr(tritree, name).__doc__
