"""The peak of additional memory of log partition, then backward, as in a training step.

    python -m perf.memory 16 160      bytes for B = 16, l = 160

Linux keeps the high-water mark of a process's resident memory and can reset it. It includes the memory of torch and the
workspaces of NumPy and Numba. The measurement runs in a new process: freed memory that is used again would hide a part.
"""

import argparse
import re
import subprocess
import sys


def peak_bytes(B: int, l: int) -> int:
    command = [sys.executable, "-m", "perf.memory", str(B), str(l)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", file.read()).group(1))


def _measure(B: int, l: int) -> int:
    import torch

    import tritree
    from perf.cases import uniform

    torch.set_num_threads(1)

    def step(size):
        scores, lengths = size.batch()
        scores = (scores / 8).requires_grad_()  # mild, as in test_growth.py
        yield
        tritree.log_partition(scores, lengths).sum().backward()
        yield

    for _ in step(uniform(2, 4)):
        pass  # loads the kernels
    large = step(uniform(B, l))
    next(large)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = _status("VmRSS")
    next(large)
    return _status("VmHWM") - before


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m perf.memory", description=__doc__.split("\n")[0])
    parser.add_argument("B", type=int, help="sentences")
    parser.add_argument("l", type=int, help="words of each")
    print(_measure(**vars(parser.parse_args())))
