"""Files are written whole or stay as they were, and what can't be read is a DataError."""

import errno
import gzip
import os
import threading

import pytest

from parsers.io.errors import DataError, UserError
from parsers.io.files import output, read_json, unzipped, write


@pytest.fixture
def linked(tmp_path):
    """A file and a symbolic link to it."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    return target, link


def test_output_through_a_link(linked):
    target, link = linked
    with output(str(link)) as put:
        put("new")
        put(b"er")
    assert link.is_symlink() and target.read_text() == "newer"


def test_a_file_of_a_run_replaces_a_link(linked):
    """Or a run directory from elsewhere could have any file overwritten."""
    target, link = linked
    write(link, b"new")
    assert not link.is_symlink() and link.read_bytes() == b"new" and target.read_text() == "old"


def test_nothing_remains_after_an_exception(tmp_path):
    old = tmp_path / "old"
    old.write_text("old")
    for path in (old, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt), output(str(path)) as put:
            put("half")
            raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["old"] and old.read_text() == "old"


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes here")
def test_a_pipe_gets_everything_at_the_end(tmp_path):
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    with pytest.raises(ZeroDivisionError), output(str(pipe)) as put:  # would wait for a reader if it opened the pipe
        put("lost")
        raise ZeroDivisionError
    reader.start()
    with output(str(pipe)) as put:
        put("all of ")
        put("it")
        assert received == []
    reader.join(60)
    assert received == [b"all of it"]


def test_permissions_are_those_of_other_new_files(tmp_path):
    with output(str(tmp_path / "output")) as put:
        put("")
    write(tmp_path / "written", b"")
    (tmp_path / "plain").touch()
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def test_what_cannot_be_written(tmp_path):
    missing = tmp_path / "no" / "x"
    with pytest.raises(UserError, match="x can't be written: No such file or directory"):
        write(missing, b"")
    with pytest.raises(UserError, match="is a directory: name a file"):
        output(str(tmp_path))


@pytest.mark.parametrize("change", [lambda data: data[:-3], lambda data: data[:-8] + bytes(8), lambda data: data[:9]])
def test_damaged_gzip_files(tmp_path, change):
    """Cut off at the end, a wrong checksum, cut off in the header."""
    path = tmp_path / "x"
    path.write_bytes(change(gzip.compress(b"some text")))
    with pytest.raises(DataError, match="this gzip file is damaged or cut off"), unzipped(str(path)) as file:
        file.read()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", pytest.param(b"[" * 100_000, id="deep"), b"\xff", b"3"])
def test_json_that_is_none(tmp_path, content):
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"f\.json"):
        read_json(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write(tmp_path / "f", b"old")
    monkeypatch.setattr("os.fsync", lambda handle: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="f can't be written: No space left on device"):
        write(tmp_path / "f", b"new")
    with pytest.raises(UserError, match="No such file or directory"):
        write(tmp_path / "nowhere" / "f", b"new")
    assert not list(tmp_path.iterdir())
