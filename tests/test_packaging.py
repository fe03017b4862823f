"""`pip install .` brings what the library imports, and the extra `parsers` what the parsers add to that."""

import ast
import importlib
import re
import sys
import tomllib
from pathlib import Path

import tritree
from parsers.io.extra import EXTRA

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OURS = {"tritree", "parsers"}
BROUGHT = {"llvmlite"}  # by numba, which pins it


def third_party(folder: str) -> set[str]:
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - OURS - BROUGHT


def test_the_extra_is_what_the_parsers_look_for():
    assert set(EXTRA) == names(PROJECT["optional-dependencies"]["parsers"])


def test_commands_and_version():
    """The commands are the functions that train.py and evaluate.py call; the version has one place."""
    for name, target in PROJECT["scripts"].items():
        module, _, function = target.partition(":")
        script = importlib.import_module(name.removeprefix("tritree-"))
        assert getattr(importlib.import_module(module), function) is script.run
    assert PROJECT["dynamic"] == ["version"] and re.fullmatch(r"\d+\.\d+\.\d+", tritree.__version__)


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def test_the_library_brings_what_it_imports_and_no_more():
    assert third_party("tritree") == names(PROJECT["dependencies"])


def test_the_extra_has_what_the_parsers_import():
    assert third_party("parsers") <= names([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["parsers"]])
