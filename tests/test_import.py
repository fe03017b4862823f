"""tritree without Triton or docstrings, and what its import costs."""

import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_it_works_without_triton():
    """As on macOS and Windows: the CPU backend alone."""
    code = """
import sys
sys.modules["triton"] = None
import torch, tritree
scores = torch.zeros(3, 3, requires_grad=True)
tritree.log_partition(scores).backward()
print(tritree.viterbi(scores)[1].tolist(), tritree.TreeCRF(scores).sample().shape, "tritree.gpu" in sys.modules)
try:
    tritree.viterbi(scores, backend="triton")
except ValueError as error:
    print(error)
"""
    first, second = run(code).splitlines()
    assert first == "[-1, 0, 1] torch.Size([3]) False"
    assert second == "backend='triton' needs Triton, which is not installed: pip install triton (Linux only)"


def test_a_triton_that_is_too_old():
    """CPU tensors do not need it. CUDA tensors have no other backend to fall back to."""
    code = """
import sys, types
sys.modules["triton"] = types.ModuleType("triton")
sys.modules["triton"].__version__ = "3.3.1"
import torch, tritree
from tritree.backends import resolve_backend
print(tritree.viterbi(torch.zeros(3, 3))[1].tolist())
for device, backend in (("cpu", "triton"), ("cuda", None)):
    try:
        resolve_backend(backend, types.SimpleNamespace(device=torch.device(device)))
    except ValueError as error:
        print(error)
"""
    reason = "needs Triton 3.5 or newer, and this is 3.3.1: CUDA builds of torch bring it from 2.9 on"
    assert run(code).splitlines() == ["[-1, 0, 1]", *2 * [f"backend='triton' {reason}"]]


def test_kernels_are_imported_at_their_first_use():
    code = """
import sys, tritree
print([m for m in ("numba", "tritree.cpu", "tritree.gpu") if m in sys.modules])
"""
    assert run(code).strip() == "[]"


def test_the_tests_set_up_the_interpreter_before_triton_is_imported():
    """Triton's own functions, too, are interpreted only if the variable is set before."""
    assert run("import sys, tests.conftest; print('triton' in sys.modules)").strip() == "False"


def test_it_works_without_docstrings_and_assertions():
    """As with python -OO, but for torch and Numba, which would take long to compile."""
    code = """
import sys, torch, numba
from importlib.machinery import SourceFileLoader
SourceFileLoader.get_code = lambda self, name: compile(self.get_source(name), self.path, "exec", optimize=2)
import tritree
print(tritree.__doc__, tritree.log_partition(torch.zeros(1, 1)).item())
"""
    assert run(code) == "None 0.0\n"
