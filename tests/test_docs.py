"""The README, docs/ and `help(tritree)`: examples run, and links, files, modules and options exist."""

import doctest
import functools
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tritree

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PYTHON = ROOT / "docs" / "python.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "perf" / "README.md", *DOCS]
NAMES = {path.name for folder in ("tritree", "parsers", "tests", "perf") for path in (ROOT / folder).rglob("*.py")}


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text(page), re.S | re.M)
    return [code for name, code in fenced if name == language]


def each_page(pages: list[Path]):
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


def test_readme():
    (example,) = blocks(README, "python")
    names = {}
    exec(example, names)
    assert names["log_z"].shape == (2,) and names["trees"].shape == (10, 2, 6)
    assert names["parsed"][0, [1, 4]].tolist() == [2, 3]


@pytest.mark.parametrize(
    "snippet",
    [
        pytest.param(snippet, id=f"{page.name}-{number}")
        for page in DOCS
        if page != PYTHON
        for number, snippet in enumerate(blocks(page, "python"), 1)
    ],
)
def test_docs(snippet):
    """Each on its own, in a new process: some of them change other packages."""
    for package in re.findall(r"^(?:import|from) (\w+)", snippet, re.M):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install '.[perf]'")
    subprocess.run([sys.executable, "-c", snippet], check=True)


def test_python_page(tmp_path):
    """All of it in one process, beside a small run."""
    small = ["--labeled=0.2", "--epochs=1", "--word-size=8", "--lstm-size=8"]
    train = [ROOT / "train.py", "--model=ntp", "--output=runs/ntp", *small]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for command in (train, ["-c", "".join(blocks(PYTHON, "python"))]):
        subprocess.run([sys.executable, *command], check=True, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page(PAGES)
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@each_page(PAGES)
def test_files_that_are_named(page):
    """Files with their folder, or by their name alone where a table has the folder before."""
    for name in re.findall(r"`(\w[\w/]*(?:\.py|\.md|\.txt|\.toml|/))`", text(page)):
        assert (ROOT / name).exists() or name in NAMES, name


@functools.cache
def help_of(*command: str) -> str:
    return subprocess.run(
        [sys.executable, *command, "--help"], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout


@each_page(PAGES)
def test_commands(page):
    """Each `python -m` names a module, and each option of train.py and evaluate.py is one of theirs."""
    code = "\n".join([*blocks(page, ""), *re.findall(r"`([^`\n]+)`", text(page))])
    for module in re.findall(r"python -m ([\w.]+)", code):
        assert importlib.util.find_spec(module), module
    for line in code.splitlines():
        command, _, _ = line.partition("#")
        options = re.findall(r"--[\w-]+", command)
        if "train.py" in command:
            model = re.search(r"--model (\w+)", command)
            name = model[1] if model and model[1].islower() else "gap"
            known = help_of("train.py", "--model", name) + "--nproc-per-node"  # torchrun's
        elif "evaluate.py" in command:
            known = help_of("evaluate.py")
        else:
            continue
        assert all(option in known for option in options), line


def test_pictures_are_small():
    for path in (ROOT / "docs").glob("*.png"):
        assert path.stat().st_size < 100_000, path.name


def test_every_page_is_in_the_index():
    for index, prefix in ((README, "docs/"), (ROOT / "docs" / "README.md", "")):
        for page in DOCS:
            assert page.name == "README.md" or f"]({prefix}{page.name})" in text(index), (index, page.name)


def test_help():
    assert doctest.testmod(tritree).failed == 0
    for name in tritree.__all__:
        assert "Args:" in getattr(tritree, name).__doc__


def test_the_ratios_in_the_readme_are_those_of_the_table():
    speed = (ROOT / "docs/costs.md").read_text().partition("## Speed")[2].partition("## Terms")[0]
    table = re.findall(r"^\| .* \| \d+ \| (\d+) \| (\d+) \|$", speed, re.M)
    ratios = [int(ratio) for row in table for ratio in row]
    assert len(ratios) == 12 and f"{min(ratios)} to {max(ratios)}" in (ROOT / "README.md").read_text()
