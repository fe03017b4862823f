"""The examples in the README and in `help(tritree)` run."""

import doctest
import re
from pathlib import Path

import tritree

README = Path(__file__).parent.parent / "README.md"


def test_readme():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(example, names)
    assert names["log_z"].shape == (2,) and names["trees"].shape == (10, 2, 6)
    assert names["parsed"][0, [1, 4]].tolist() == [2, 3]


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
