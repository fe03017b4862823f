"""The files of a run: there as a whole or not at all, and checked before they are read."""

import json
import os
import stat
import tempfile
from pathlib import Path

from parsers.io.errors import DataError, UserError, why
from parsers.io.output import umask

UNFINISHED = ".tmp"  # how names of files end that are being written
MAX_JSON = 2**26  # bytes; as Python objects they may be twenty times as many


def write(path: Path, content: bytes) -> None:
    """Writes a file under another name, waits until it is on the disk, and gives it its name.

    A full disk or a directory that can't be written to is a UserError, and the old file is left as it was.
    """
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~umask())
        os.replace(name, path)
        sync_directory(path.parent)
    except BaseException as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UserError(f"{path} can't be written: {why(error)}") from None
        raise


def sync_directory(directory: Path) -> None:
    if os.name == "posix":  # elsewhere directories can't be opened
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_file(path: Path, most: int) -> None:
    """A pipe or a device never ends, and a file with holes can be larger than the disk: neither is read."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise DataError(str(path), None, "this is not a regular file")
    if info.st_size > most:
        raise DataError(str(path), None, "this file is too large to be part of a run")


def read_json(path: Path) -> dict:
    """A JSON object; whatever is wrong with it is a DataError."""
    try:
        check_file(path, MAX_JSON)
        content = path.read_bytes()
    except OSError as error:
        raise DataError(str(path), None, f"can't be read: {why(error)}") from None
    return parse_json(content, path)


def parse_json(content: str | bytes, path: Path) -> dict:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(str(path), None, "this is not JSON: the file is damaged") from None
    if not isinstance(value, dict):
        raise DataError(str(path), None, "expected a JSON object")
    return value


def machine_memory() -> int:
    """Bytes of this machine, or more than any where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62
