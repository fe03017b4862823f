"""Parses a file with a trained model: `python evaluate.py --help`. Installed, the command is `tritree-evaluate`."""

import sys

from parsers.commands.evaluate import main, run

__all__ = ["main", "run"]

if __name__ == "__main__":
    sys.exit(run())
