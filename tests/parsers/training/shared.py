"""Trains every system for two epochs in as many processes as torchrun starts, and prints the figures of each as JSON:

torchrun --standalone --nproc-per-node 2 -m tests.parsers.training.shared DIR
"""

import json
import sys
from pathlib import Path

from parsers import MODELS
from parsers.training import loop
from parsers.training.processes import Group
from tests.parsers.helpers import small_trainer, tiny_options
from tests.parsers.training.interruption import figures


def train_all(directory: Path, group: Group) -> dict[str, list[dict]]:
    """Every system; and with one sentence a step, of which there is none for all processes but the first."""
    results = {}
    for name, options in [*((model, [model]) for model in MODELS), ("one by one", ["ntp", "--batch-size=1"])]:
        options = tiny_options(*options, "--epochs=2")
        trainer = small_trainer(options, directory / f"{name}-{group.rank}", group, unlabeled=9)
        if not group.writes:
            trainer.run = None  # whoever would write fails
        results[name] = figures(trainer.train().history)
    return results


if __name__ == "__main__":
    loop.SAVE_SECONDS = 0.0  # after every step
    with Group("cpu") as group:
        results = train_all(Path(sys.argv[1]), group)
        if group.writes:
            print(json.dumps(results))
    names = [file.read_text() for file in Path("/proc/self/task").glob("*/comm")]
    assert not any("gloo" in name for name in names), names  # such threads may abort a process that ends
