"""Which code made a result."""

import subprocess
from pathlib import Path

import parsers

ROOT = Path(parsers.__file__).parents[1]
CODE = ("parsers", "tritree")  # below ROOT


def commit() -> str | None:
    """The commit of the code, with "-dirty" where it was changed since; None where there is no git."""
    try:
        _git("ls-files", "--error-unmatch", "parsers/__init__.py")  # not somebody else's repository
        changed = _git("status", "--porcelain", "--", *CODE)
        return _git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
