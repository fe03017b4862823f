"""Trains every system for two epochs in as many processes as torchrun starts, and prints the figures of each as JSON:

torchrun --standalone --nproc-per-node 2 -m tests.parsers.shared DIR
"""

import json
import sys
from pathlib import Path

from parsers import MODELS
from parsers.parallel import Group
from tests.parsers.helpers import small_trainer, tiny_options
from tests.parsers.interruption import figures


def train_all(directory: Path, group: Group) -> dict[str, list[dict]]:
    results = {}
    for model in MODELS:
        trainer = small_trainer(
            tiny_options(model, "--epochs=2"), directory / f"{model}-{group.rank}", group, unlabeled=9
        )
        if not group.writes:
            trainer.run = None  # whoever would write fails
        results[model] = figures(trainer.train().history)
    return results


if __name__ == "__main__":
    with Group("cpu") as group:
        results = train_all(Path(sys.argv[1]), group)
        if group.writes:
            print(json.dumps(results))
