"""Types of command-line options, and a parser of arguments whose errors are one line."""

import argparse
import math
from argparse import ArgumentParser
from collections.abc import Callable

from parsers.io.errors import UserError


class Quiet(ArgumentParser):
    """Errors are UserErrors, so that they are reported like all others: in one line."""

    def error(self, message: str):
        raise UserError(f"{message} (--help lists the options)")


def number(kind: type, low: float, high: float, open_low: bool = False) -> Callable:
    """An argparse type: a number in a range."""

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


def not_empty(text: str) -> str:
    """An argparse type: the name of a file, a directory or a device. A shell variable may be empty."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return text


COUNT, SIZE, SHARE = number(int, 1, 10**9), number(int, 1, 2**16), number(float, 0, 1)


def help_format(prog: str) -> argparse.HelpFormatter:
    """As wide as any terminal."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=79)
