"""Files that a command writes for its user: there as a whole when all went well, not at all otherwise."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from parsers.io.errors import UserError, why

Write = Callable[[str | bytes], None]
HELD = 2**20  # bytes that are kept in memory on their way into a pipe; more go through a temporary file


@contextlib.contextmanager
def output(path: str | None) -> Iterator[Write]:
    """A function that writes to a file; "-" is standard output, None is nowhere. Line ends stay as they are.

    If the block is left by an exception, nothing remains of the file, and one of the same name that was there before
    stays. A pipe or a device gets everything at the end, or nothing.
    """
    if path is None:
        yield lambda content: None
    elif path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        if path != "-" and os.path.isdir(path):
            raise UserError(f"{path} is a directory: name a file")
        with _delivered(path) as write:
            yield write
    else:
        with _replaced(path) as write:
            yield write


@contextlib.contextmanager
def _delivered(path: str) -> Iterator[Write]:
    """To something that can't be taken back."""
    name = "standard output" if path == "-" else path
    with tempfile.SpooledTemporaryFile(HELD) as held:
        yield _writer(held, "the directory for temporary files")
        with writing(name):
            held.seek(0)
            if path == "-":
                shutil.copyfileobj(held, sys.stdout.buffer)
                sys.stdout.buffer.flush()
            else:
                with open(path, "wb", buffering=0) as file:
                    while block := held.read(HELD):
                        file.write(block)


@contextlib.contextmanager
def _replaced(path: str) -> Iterator[Write]:
    """To a file that has another name until it is whole."""
    target = Path(os.path.realpath(path))  # a link stays a link
    temporary = None
    try:
        with writing(path):
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
            file = os.fdopen(handle, "wb")
        try:
            yield _writer(file, path)
            with writing(path):
                file.flush()
        finally:
            with contextlib.suppress(OSError):  # on a full disk, closing fails once more
                file.close()
        with writing(path):
            os.chmod(temporary, 0o666 & ~umask())
            os.replace(temporary, target)
            temporary = None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _writer(file, name: str) -> Write:
    def write(content: str | bytes) -> None:
        with writing(name):
            file.write(content.encode() if isinstance(content, str) else content)

    return write


@contextlib.contextmanager
def writing(name: str) -> Iterator[None]:
    """A full disk, a directory that can't be written to: the user has to see to it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{name} can't be written: {why(error)}") from None


def umask() -> int:
    """The permissions that new files shall not have; there is no other way to read it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
