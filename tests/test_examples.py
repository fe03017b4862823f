"""The files in examples/ run, and do what they say."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import conllu
import pytest

from parsers.data import synthetic

EXAMPLES = Path(__file__).parent.parent / "examples"
KEPT = Path(__file__).parent / "parsers/kept/finished"


def run(name: str, *arguments: str | Path) -> str:
    command = [sys.executable, "-W", "ignore", EXAMPLES / name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install '.[perf]'")


def losses(line: str) -> list[float]:
    return [float(loss) for loss in line.partition("losses ")[2].split()]


def test_biaffine():
    *epochs, result = run("biaffine.py").splitlines()
    assert len(epochs) == 5
    assert float(result.split()[-2]) > 75  # 14 before it has learnt anything


@pytest.mark.parametrize(("package", "name"), [("supar", "swap_supar.py"), ("torch_struct", "swap_torch_struct.py")])
def test_swap(package, name):
    need(package)
    theirs, ours = map(losses, run(name).splitlines())
    assert len(ours) == 10 and ours[-1] < ours[0]
    assert ours == pytest.approx(theirs, rel=5e-3)  # float32: Adam makes rounding errors of small gradients large


def test_parse_file(tmp_path):
    file = tmp_path / "a.conllu"
    file.write_text("".join(synthetic.conllu("test", count=5)), encoding="utf-8")
    before, after = conllu.parse(file.read_text(encoding="utf-8")), conllu.parse(run("parse_file.py", KEPT, file))
    assert [tokens.metadata for tokens in after] == [tokens.metadata for tokens in before]
    assert [[word["form"] for word in tokens] for tokens in after] == [[word["form"] for word in t] for t in before]
    assert all([word["head"] for word in tokens].count(0) == 1 for tokens in after)


def test_every_example_is_run():
    names = {"biaffine.py", "parse_file.py", "swap_supar.py", "swap_torch_struct.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == names
