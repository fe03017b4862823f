"""How a command ends: 0 done, 2 the user's mistake (one line on stderr), 130 after Ctrl-C, 1 a fault of ours."""

import io
import os
import sys
from collections.abc import Callable

from parsers.io.errors import UserError


def run_command(name: str, main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Runs ``main`` and returns the exit code. A fault of ours goes through, as a traceback."""
    for stream in (sys.stdout, sys.stderr):  # "…" is in a help text, and any letter in a file's name
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
        # Whoever read our output has enough of it. What is left in the buffer must not raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
