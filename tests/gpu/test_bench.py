"""perf.gpu.bench without a GPU: its message, and everything but the GPU, which is replaced by the CPU."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from perf.cases import uniform
from perf.gpu import bench
from perf.providers import Supar, TorchStruct, Tritree


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu():
    command = [sys.executable, "-m", "perf.gpu.bench"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=os.environ)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("perf.gpu.bench: no GPU")


class Event:
    """A CUDA event that reads the host's clock."""

    def __init__(self, enable_timing: bool):
        assert enable_timing

    def record(self):
        self.time = time.perf_counter()

    def elapsed_time(self, end: "Event") -> float:
        return 1e3 * (end.time - self.time)


@pytest.fixture
def fake_gpu(monkeypatch):
    """The CPU in place of a GPU."""
    monkeypatch.setattr(bench.Gpu, "device", "cpu")
    monkeypatch.setattr(bench, "GPU_SIZES", (uniform(2, 4), uniform(1, 6)))
    monkeypatch.setattr(bench, "providers", lambda: [Tritree("numba"), Supar(), TorchStruct()])
    functions = {
        "is_available": lambda: True,
        "get_device_name": lambda: "a CPU",
        "synchronize": lambda: None,
        "reset_peak_memory_stats": lambda: None,
        "memory_allocated": lambda: 1000,
        "max_memory_allocated": lambda: 3000,
        "Event": Event,
    }
    for name, function in functions.items():
        monkeypatch.setattr(torch.cuda, name, function)


def run(monkeypatch, path) -> tuple[int, list[dict]]:
    monkeypatch.setattr(sys, "argv", ["bench", "--output", str(path), "--seconds", "0.001"])
    code = bench.main()
    results = json.loads(path.read_text())
    assert results["machine"]["gpu"] == "a CPU"
    return code, results["results"]


def test_the_whole_way(fake_gpu, monkeypatch, tmp_path, capsys):
    code, lines = run(monkeypatch, tmp_path / "new" / "results.json")
    ours = [line for line in lines if line["provider"] == "tritree-numba"]
    assert code == 0 and len(ours) == 2 * len(bench.OPERATIONS)
    for line in ours:
        assert 0 < line["min_seconds"] <= line["median_seconds"] and line["calls"] >= 10 and line["peak_bytes"] == 2000
    output = capsys.readouterr().out
    assert "B=2 l=4" in output and "best tree" in output and "results.json" in output


def test_no_time_for_a_wrong_answer(fake_gpu, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Tritree, "answer", lambda self, operation, result: torch.zeros(2))
    code, lines = run(monkeypatch, tmp_path / "results.json")
    ours = [line for line in lines if line["provider"] == "tritree-numba"]
    assert code == 1 and not any("median_seconds" in line for line in ours)
    assert "a wrong answer" in capsys.readouterr().out
