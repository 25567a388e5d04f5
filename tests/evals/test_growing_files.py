"""Tests for append-only files of whole lines."""

import fcntl
import os
import stat

import pytest

from agentkit.errors import SessionError
from agentkit.evals.checkpoint import AppendOnlyFile

BEGINS = b'{"ours"'


@pytest.fixture
def place(tmp_path):
    """Return a path for a file."""
    return tmp_path / "file.jsonl"


def opened(place):
    """Return a file with the expected first line."""
    return AppendOnlyFile(place, BEGINS, "a test")


def test_lines(place):
    """A file of lines is private and contains the added lines in order."""
    for count in range(3):
        file = opened(place)
        assert (len(file.lines), file.is_foreign) == (count, False)
        file.repair()
        file.add('{"ours": "ä"}')
        file.close()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "is_foreign", "lines"),
    [
        ("", False, []),
        ('{"ou', False, []),
        ('{"ours": 1, "x": ', False, []),
        ('{"ours": 1}\n{"cut', False, [b'{"ours": 1}']),
        ('{"theirs": 1}', True, []),
        ("my notes", True, []),
        ("my notes\nof last week", True, [b"my notes"]),
    ],
)
def test_existing_content_is_read(place, content, is_foreign, lines):
    """A file with another beginning is foreign and unchanged; an incomplete last line is removed by `repair`."""
    place.write_text(content)
    file = opened(place)
    assert (file.is_foreign, file.lines, place.read_text()) == (is_foreign, lines, content)
    file.repair()
    file.close()
    assert place.read_bytes() == b"".join(line + b"\n" for line in lines)


def test_existing_file_becomes_private(place):
    """`repair` restricts the permissions of an existing file to its owner."""
    place.touch(0o644)
    place.chmod(0o644)
    file = opened(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o644
    file.repair()
    file.close()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_path_that_is_not_a_regular_file_is_rejected(tmp_path):
    """A folder, pipe or device raises a SessionError."""
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/full"):
        with pytest.raises(SessionError, match="is not a file in which a test can be stored"):
            opened(place)
    with pytest.raises(SessionError, match="cannot be written: Is a directory"):
        opened(tmp_path)


def test_only_one_writer_at_a_time(place):
    """Only one run at a time can open a file for writing."""
    file = opened(place)
    with pytest.raises(SessionError, match="Another run writes to"):
        opened(place)
    file.close()
    opened(place).close()


def test_file_that_cannot_be_shortened():
    """An incomplete line that cannot be removed raises a SessionError."""
    sealed = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    os.write(sealed, b'{"ours": 1}\n{"cut')
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    file = opened(f"/proc/self/fd/{sealed}")
    with pytest.raises(SessionError, match="cannot be written: Operation not permitted"):
        file.repair()
    with pytest.raises(SessionError, match="cannot be written: Operation not permitted"):
        file.add("{}")
    file.close()
    os.close(sealed)
