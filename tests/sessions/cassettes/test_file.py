"""Tests for writing and reading cassette files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import agentkit
from agentkit.errors import SessionError
from agentkit.events import RunResumed
from agentkit.sessions.cassettes.file import CassetteWriter, read_cassette
from agentkit.sessions.codec import encode_entry, to_line
from agentkit.sessions.store import SessionEntry

LINE = {"run": "r", "at": 1.0, "event": "run_resumed"}


@pytest.fixture
def path(tmp_path):
    """The path of a cassette."""
    return tmp_path / "deep" / "trip.cassette"


def test_header_is_written_with_the_first_entry(tmp_path):
    """The header is written together with the first entry, and finishing writes nothing more."""
    path, part = tmp_path / "new" / "run.jsonl", tmp_path / "new" / "run.jsonl.part"
    writer = CassetteWriter(path, 0.0)
    assert part.read_text("utf-8") == ""
    writer.write({"watch": "1", "up": 1, "at": 1.0})
    written = part.read_text("utf-8")
    assert len(written.splitlines()) == 2
    writer.finish(keep=True)
    assert path.read_text("utf-8") == written


def test_written_lines_are_read_back(path):
    """A cassette has a header with version and date, and its lines are read back in order."""
    writer = CassetteWriter(path, 0.0)
    writer.write(LINE)
    writer.write({**LINE, "run": "s", "note": "héllo \ud800"})
    writer.finish(keep=True)
    header, entries = read_cassette(path)
    assert header == {"cassette": 1, "agentkit": agentkit.__version__, "recorded": "1970-01-01T00:00:00+00:00"}
    assert [(entry.run, entry.event) for entry in entries] == [("r", RunResumed()), ("s", RunResumed())]
    assert list(path.parent.iterdir()) == [path]


def test_only_the_owner_can_read_it(path):
    """Only the owner can read a cassette, during recording and afterwards."""
    writer = CassetteWriter(path, 0.0)
    modes = [path.with_name("trip.cassette.part").stat().st_mode & 0o777]
    writer.finish(keep=True)
    assert [*modes, path.stat().st_mode & 0o777] == [0o600, 0o600]


def test_older_cassette_is_replaced_at_the_end(path):
    """A recording is written to a separate file and replaces the older cassette only when it is kept."""
    first = CassetteWriter(path, 0.0)
    first.finish(keep=True)
    before = path.read_bytes()
    second = CassetteWriter(path, 9.0)
    second.write(LINE)
    assert path.read_bytes() == before
    second.finish(keep=False)
    assert path.read_bytes() == before
    _, entries = read_cassette(path.with_name("trip.cassette.part"))
    assert len(entries) == 1
    third = CassetteWriter(path, 10.0)
    third.finish(keep=True)
    assert list(path.parent.iterdir()) == [path]


def test_truncated_last_line_is_ignored(path):
    """A truncated last line is ignored, and the lines before it are read."""
    writer = CassetteWriter(path, 0.0)
    writer.write(LINE)
    writer.finish(keep=True)
    path.write_bytes(path.read_bytes() + b'\n{"run":"r","at":1.')
    assert len(read_cassette(path)[1]) == 1


def test_exported_session_is_read(path):
    """The lines of an exported session are read like those of a cassette."""
    path.parent.mkdir()
    lines = [{"session": 1, "name": "trip"}, encode_entry(SessionEntry("r", 1.0, RunResumed()))]
    path.write_text("".join(f"{to_line(line)}\n" for line in lines))
    header, entries = read_cassette(path)
    assert (header["name"], entries[0].event) == ("trip", RunResumed())


def test_two_recordings_of_one_cassette_do_not_mix(path):
    """A recording does not replace the cassette if another process has started to record it."""
    first, second = CassetteWriter(path, 0.0), CassetteWriter(path, 0.0)
    with pytest.raises(SessionError, match="another process"):
        first.finish(keep=True)
    second.finish(keep=True)
    assert path.exists()


def test_deleted_recording_raises(path):
    """Finishing a recording whose file was deleted raises a SessionError."""
    writer = CassetteWriter(path, 0.0)
    path.with_name("trip.cassette.part").unlink()
    with pytest.raises(SessionError, match="cannot be written"):
        writer.finish(keep=True)


def test_folder_that_cannot_be_created_raises(tmp_path):
    """If the folder cannot be created, recording raises a SessionError."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError, match=r"cannot be written.*folder"):
        CassetteWriter(tmp_path / "file" / "trip.cassette", 0.0)


WITHOUT_METADATA = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from agentkit.errors import SessionError
from agentkit.sessions.cassettes.file import CassetteWriter, read_cassette

path = Path(sys.argv[1], "trip.cassette")
CassetteWriter(path, 0.0).finish(keep=True)
print(read_cassette(path)[0])
path.write_bytes(b'{"cassette": 9}\\n')
try:
    read_cassette(path)
except SessionError as error:
    print(error)
"""


def test_unknown_version_is_omitted(tmp_path):
    """Without package metadata, the header has no version and errors say "version unknown"."""
    (tmp_path / "agentkit").symlink_to(Path(agentkit.__file__).parent)
    command = [sys.executable, "-I", "-S", "-c", WITHOUT_METADATA, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    header, error = done.stdout.splitlines()
    assert header == "{'cassette': 1, 'recorded': '1970-01-01T00:00:00+00:00'}"
    assert "this agentkit (version unknown) reads up to 1" in error


WRITE_UNTIL_FULL = """
import resource, signal, sys
from pathlib import Path
from agentkit.errors import SessionError
from agentkit.sessions.cassettes.file import CassetteWriter, read_cassette

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
path = Path(sys.argv[1])
writer = CassetteWriter(path, 0.0)
try:
    while True:
        writer.write({"run": "r", "at": 1.0, "event": "run_resumed"})
except SessionError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
writer.finish(keep=False)
print(len(read_cassette(path.with_name("trip.cassette.part"))[1]))
"""


def test_full_disk_raises(path):
    """Writing to a full disk raises an error, and the lines written before can be read."""
    command = [sys.executable, "-c", WRITE_UNTIL_FULL, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    error, count = done.stdout.splitlines()
    assert "cannot be written" in error
    assert int(count) > 50


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a cassette"),
        (b"hello\n", "not a cassette"),
        (b"[1]\n", "not a cassette"),
        (b"\xff\xfe\n", "not a cassette"),
        (b'{"other": 1}\n', "not a cassette"),
        (b'{"cassette": 3, "agentkit": "9.9"}\n', "version 3.*agentkit 9.9.*upgrade"),
        (b'{"session": 2, "name": "x"}\n', "version 2.*reads up to 1.*by a newer agentkit; upgrade"),
        (b'{"cassette": 1}\nnonsense\n', "line 2.*not JSON"),
        (b'{"cassette": 1}\n\n{"event": "x"}\n', "line 3.*unknown"),
    ],
)
def test_invalid_cassette_is_rejected(tmp_path, content, message):
    """A file that is not a valid cassette raises an error that says what is wrong."""
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SessionError, match=message):
        read_cassette(tmp_path / "x")


def test_missing_cassette_error_explains_recording(tmp_path):
    """A missing cassette raises an error with the option that records one; so do a folder and a pipe."""
    with pytest.raises(SessionError, match=r"does not exist.*--record=once"):
        read_cassette(tmp_path / "x")
    with pytest.raises(SessionError, match="is not a file"):
        read_cassette(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SessionError, match="is not a file"):
        read_cassette(tmp_path / "pipe")
