"""Files: written whole or not at all, and checked before they are read. The system's errors become UserErrors."""

import contextlib
import gzip
import json
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from parsers.io.errors import DataError, UserError, why

UNFINISHED = ".tmp"  # suffix of a file that is being written
MAX_JSON = 2**26  # bytes; as Python objects they can take twenty times as much memory
SPOOLED = 2**20  # bytes for a pipe or a device that are held in memory; more go into a temporary file

Write = Callable[[str | bytes], None]


def write(path: Path, content: bytes) -> None:
    """Replaces a file of a run and waits until it is on the disk.

    A full disk or a directory that can't be written to is a UserError, and the old file stays.
    """
    with _replaced(path, str(path), durable=True) as put:
        put(content)


def output(path: str | None) -> AbstractContextManager[Write]:
    """A function that writes a file for the user; "-" is standard output, None discards. Line ends stay as they are.

    If the block raises, nothing remains of a new file, and an old one stays as it was. A symbolic link stays a link:
    the file that it points to is replaced. A pipe or a device gets everything at the end of the block.
    """
    if path is None:
        return contextlib.nullcontext(lambda content: None)
    if path == "-":
        return _delivered(path, "standard output")
    if os.path.isdir(path):
        raise UserError(f"{path} is a directory: name a file")
    if os.path.exists(path) and not os.path.isfile(path):
        return _delivered(path, path)
    return _replaced(Path(os.path.realpath(path)), path)


@contextlib.contextmanager
def _replaced(path: Path, name: str, durable: bool = False) -> Iterator[Write]:
    """Writes under a temporary name in the same directory, which is renamed to ``path`` at the end of the block."""
    temporary = None
    try:
        with writing(name):
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=UNFINISHED)
            file = os.fdopen(handle, "wb")
        try:
            yield _writer(file, name)
            with writing(name):
                file.flush()
                if durable:
                    os.fsync(handle)
        finally:
            with contextlib.suppress(OSError):  # on a full disk, closing fails once more
                file.close()
        with writing(name):
            os.chmod(temporary, 0o666 & ~umask())
            os.replace(temporary, path)
            temporary = None
            if durable:
                _sync_directory(path.parent)
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextlib.contextmanager
def _delivered(path: str, name: str) -> Iterator[Write]:
    """Collects what is written, and sends it at the end of the block: what is in a pipe can't be taken back."""
    with tempfile.SpooledTemporaryFile(SPOOLED) as spool:
        yield _writer(spool, "the directory for temporary files")
        with writing(name):
            spool.seek(0)
            if path == "-":
                shutil.copyfileobj(spool, sys.stdout.buffer)
                sys.stdout.buffer.flush()
            else:
                with open(path, "wb", buffering=0) as file:
                    shutil.copyfileobj(spool, file, SPOOLED)


def _writer(file: BinaryIO, name: str) -> Write:
    def put(content: str | bytes) -> None:
        with writing(name):
            file.write(content.encode() if isinstance(content, str) else content)

    return put


def _sync_directory(directory: Path) -> None:
    if os.name == "posix":  # elsewhere directories can't be opened
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def writing(name: str) -> Iterator[None]:
    """Turns the system's errors (a full disk, no permission) into UserErrors; a closed pipe stays BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{name} can't be written: {why(error)}") from None


@contextlib.contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """Turns the system's errors, and those of gzip, into DataErrors."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(str(name), None, "this gzip file is damaged or cut off: make it again") from None
    except OSError as error:
        raise DataError(str(name), None, f"can't be read: {why(error)}") from None


@contextlib.contextmanager
def unzipped(path: str) -> Iterator[BinaryIO]:
    """An open file; the content of a gzip file, whatever its name. Errors while it is read are DataErrors too."""
    with reading(path), open(path, "rb") as file:
        yield gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file


def check_can_be_opened(path: str) -> None:
    """A DataError if an input is missing or can't be opened. A pipe is not touched: it can be opened only once."""
    with reading(path):
        if path != "-" and stat.S_IFMT(os.stat(path).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
            open(path, "rb").close()


def check_regular(path: Path, most: int) -> None:
    """A DataError unless this is a regular file of at most so many bytes.

    A pipe or a device may never end, and a sparse file can be larger than the disk.
    """
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise DataError(str(path), None, "this is not a regular file")
    if info.st_size > most:
        raise DataError(str(path), None, "this file is too large to be part of a run")


def is_run(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "config.json"))


def check_is_run(path: str) -> None:
    """A UserError unless this is a run directory."""
    if not os.path.isdir(path):
        raise UserError(f"{path} is not a directory: name a run, a directory that train.py made")
    if not is_run(path):
        raise UserError(f"{path} is not a run: it has no config.json; name a directory that train.py made")


def read_whole(path: Path) -> bytes:
    """The content of a regular file of at most MAX_JSON bytes; a DataError if it is something else."""
    with reading(path):
        check_regular(path, MAX_JSON)
        return path.read_bytes()


def read_json(path: Path) -> dict:
    """A JSON object; a DataError if the file can't be read or holds something else."""
    return parse_json(read_whole(path), path)


def parse_json(content: str | bytes, path: Path, line: int | None = None) -> dict:
    """The same for what stands in a file, or in a line of it."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(str(path), line, "this is not JSON: the file is damaged") from None
    if not isinstance(value, dict):
        raise DataError(str(path), line, "expected a JSON object")
    return value


def umask() -> int:
    """The permissions that new files shall not have. The system returns the mask only when it is set."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def machine_memory() -> int:
    """Bytes of memory; 2**62 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62
