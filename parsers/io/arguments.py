"""Types of command-line options, which check their values, and the parser of arguments of both commands."""

import argparse
import math
import re
from argparse import ArgumentParser
from collections.abc import Callable

from parsers.io.errors import UserError


class Quiet(ArgumentParser):
    """An ArgumentParser whose errors are UserErrors: one line on stderr, without the usage."""

    def error(self, message: str):
        raise UserError(f"{message} (--help lists the options)")


def number(kind: type, low: float, high: float, open_low: bool = False) -> Callable:
    """An argparse type: a number from ``low`` to ``high``, ``low`` itself excluded if ``open_low``."""

    def convert(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (low < value if open_low else low <= value) or not value <= high:
            what = "an integer" if kind is int else "a number"
            raise argparse.ArgumentTypeError(
                f"{text!r} is not {what} {'above' if open_low else 'from'} {low} to {high}"
            )
        return value

    return convert


COUNT, SIZE, SHARE = number(int, 1, 10**9), number(int, 1, 2**16), number(float, 0, 1)


def not_empty(text: str) -> str:
    """An argparse type: the name of a file or a directory. An unset shell variable makes it empty."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return text


def device_name(text: str) -> str:
    """An argparse type: a device that torch may have. Whether it is there is asked later, since torch loads slowly."""
    if not re.fullmatch("(cpu|cuda)(:[0-9]{1,3})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a supported device: cpu, cuda or cuda:1")
    return text


def help_format(prog: str) -> argparse.HelpFormatter:
    """79 columns, which fit into every terminal."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=79)
