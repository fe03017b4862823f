"""Times on noisy machines: alternatives run in alternation, and the fastest rounds of each are compared."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds per call."""

    best: float
    median: float
    rounds: int


def _seconds(step: Callable, calls: int) -> float:
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        step()
    if on_gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def take_turns(steps: Mapping[str, Callable], seconds: float = 2.0, least_rounds: int = 5) -> dict[str, Timing]:
    """Times the steps in alternation, each for about so many seconds, short ones in bundles of about 2 ms."""
    calls = {}
    for name, step in steps.items():
        step()  # compiles, allocates
        calls[name] = max(1, int(2e-3 / max(_seconds(step, 1), 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in steps}
    spent = dict.fromkeys(steps, 0.0)
    while any(spent[n] < seconds or len(samples[n]) < least_rounds for n in steps):
        for name, step in steps.items():
            # A slow step uses up its seconds in few rounds; then the others go on without it.
            if spent[name] >= seconds and len(samples[name]) >= least_rounds:
                continue
            sample = _seconds(step, calls[name])
            samples[name].append(sample)
            spent[name] += sample * calls[name]
    return {n: Timing(min(s), statistics.median(s), len(s)) for n, s in samples.items()}
