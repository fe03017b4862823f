"""Trains a dependency parser: `python train.py --help`. Installed, the command is `tritree-train`."""

import sys

from parsers.commands.train import main, run

__all__ = ["main", "run"]

if __name__ == "__main__":
    sys.exit(run())
