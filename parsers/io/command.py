"""How a command ends: 0 done, 2 the user's mistake (one line on stderr), 130 after Ctrl-C, 1 a fault of ours."""

import io
import os
import sys
from collections.abc import Callable

from parsers.io.errors import UserError


def run_command(name: str, main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Runs ``main`` and returns the exit code. Other exceptions than those below are ours and give a traceback."""
    for stream in (sys.stdout, sys.stderr):  # help texts and names of files may have letters that a terminal has not
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return main(arguments)
    except UserError as error:
        if os.environ.get("RANK", "0") == "0":  # under torchrun all processes find the same mistake
            print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader closed the pipe. Python flushes the rest at exit, and would raise again: let it go to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def called_as(script: str) -> str:
    """The command as the user knows it: `train.py` or `python train.py`, or, installed, `tritree-train`."""
    name = os.path.basename(sys.argv[0])
    return name if name.startswith("tritree-") else script
