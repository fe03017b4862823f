"""Times on noisy machines: alternatives run in alternation, and the fastest rounds of each are compared.

On a CPU the clock is the processor time of this process, which what others do on the machine disturbs least. It is wall
time where threads run beside each other, and on a GPU.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """Seconds per call."""

    best: float
    median: float
    rounds: int


def _seconds(step: Callable, calls: int, wall: bool) -> float:
    on_gpu = torch.cuda.is_available()
    clock = time.perf_counter if wall or on_gpu else time.process_time
    if on_gpu:
        torch.cuda.synchronize()
    begin = clock()
    for _ in range(calls):
        step()
    if on_gpu:
        torch.cuda.synchronize()
    return (clock() - begin) / calls


def again_unless(holds: Callable[[T], bool], measure: Callable[[], T], times: int = 3) -> T:
    """What is measured, anew up to so many times while it does not hold: noise goes by, a fault stays."""
    for _ in range(times):
        if holds(found := measure()):
            break
    return found


def take_turns(
    steps: Mapping[str, Callable], seconds: float = 2.0, least_rounds: int = 5, wall: bool = False
) -> dict[str, Timing]:
    """Times the steps in alternation, each for about so many seconds, short ones in bundles of about 2 ms."""
    calls = {}
    for name, step in steps.items():
        step()  # compiles, allocates
        calls[name] = max(1, int(2e-3 / max(_seconds(step, 1, wall), 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in steps}
    spent = dict.fromkeys(steps, 0.0)
    while any(spent[n] < seconds or len(samples[n]) < least_rounds for n in steps):
        for name, step in steps.items():
            # A slow step uses up its seconds in few rounds; then the others go on without it.
            if spent[name] >= seconds and len(samples[name]) >= least_rounds:
                continue
            sample = _seconds(step, calls[name], wall)
            samples[name].append(sample)
            spent[name] += sample * calls[name]
    return {n: Timing(min(s), statistics.median(s), len(s)) for n, s in samples.items()}
