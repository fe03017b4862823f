"""One run in a process of its own: trains or goes on, parses the test set, and leaves RESULT in the run's directory."""

import contextlib
import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from parsers import MODELS
from parsers.commands import evaluate, train
from parsers.io.command import run_command
from parsers.io.files import write
from parsers.reproduce.lines import locked

RESULT = "result.json"
STANDARD = (
    "final", "epochs", "best_epoch", "trees", "unlabeled", "dev", "test", "total_seconds",
    *(f"{split}_{what}" for split in ("dev", "test") for what in ("uas", "las", "clas")),
)  # fmt: skip
BEFORE = ("tagger", "teachers")
DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Task:
    run: str  # the directory
    arguments: list[str]  # of train.py, without --output
    parent: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(arguments: list[str]) -> int:
    task = Task(**json.loads(arguments[0]))
    end_with(task.parent)
    # Where the parent was killed and has been started again, this waits until the run it left has ended.
    with locked(Path(f"{task.run}.lock")):
        new = not os.path.exists(task.run)
        code = train.main([*task.arguments, "--output", task.run] if new else ["--resume", task.run])
        if code == 0:
            write(Path(task.run, RESULT), json.dumps(result(task.run)).encode())
        return code


def end_with(parent: int) -> None:
    """If the parent is killed, this process gets a SIGTERM, and saves a checkpoint. Linux only."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(128 + signal.SIGTERM)


def result(path: str) -> dict:
    """What a line has beside system, options, treebank, seed, recipe and commit."""
    from parsers.data.sources import sentences
    from parsers.evaluation.inference import RunParser
    from parsers.evaluation.plots import read_history
    from parsers.reproduce.counts import Counts
    from parsers.runs.run import Run

    options, sources = Run.open(path).config()
    final = read_history(Path(path))[-1]
    text = final.get("unlabeled")
    if text is None:  # a stream is not counted in training
        reads_text = MODELS[options.model].uses_unlabeled and options.use_unlabeled
        others = sum(1 for _ in sources.sentences("train")) - final["trees"]
        text = others + sum(1 for _ in sources.sentences("unlabeled")) if reads_text and sources.unlabeled else 0
    found = {
        "sizes": {"trees": final["trees"], "text": text, "dev": final["dev"], "test": final["test"]},
        "epochs": final["epochs"],
        "best_epoch": final["best_epoch"],
        # What comes before the training, the tagger and EDP's teachers, has its own time.
        "seconds": final["total_seconds"] + sum(final.get(f"{part}_seconds", 0.0) for part in BEFORE),
        "figures": {name: value for name, value in final.items() if name not in STANDARD},
    }
    found |= {name: final[name] for name in STANDARD if name.startswith(("dev_", "test_")) and name in final}
    if final["test"]:
        # As in training, so that the counts are those of the figures: they are checked against them.
        decode = ["--decode", options.decode] if hasattr(options, "decode") else []
        parser = RunParser(path, evaluate.parse([path, "-", *decode]))
        counts = Counts()
        test = sentences(sources.test) if sources.test else sources.sentences("test")
        for parse in parser(test):
            counts.add(parse.heads, parse.gold, parse.labels, parse.gold_labels)
        found |= counts.lists()
        if not counts.labelled:
            found |= {"test_las": None, "test_clas": None}
    return found


if __name__ == "__main__":
    sys.exit(run_command("python -m parsers.reproduce", main, sys.argv[1:]))
