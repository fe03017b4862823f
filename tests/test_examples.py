"""The files in examples/ run, and do what they say."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str) -> str:
    command = [sys.executable, "-W", "ignore", EXAMPLES / name]
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


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"biaffine.py", "swap_supar.py", "swap_torch_struct.py"}
