"""Is a cassette written safely, and read only when it is one?"""

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
    """Where a cassette will be."""
    return tmp_path / "deep" / "trip.cassette"


def test_the_header_is_written_with_the_first_entry(tmp_path):
    """A recording writes once for each answer: its header waits for the first, and the end writes nothing more."""
    path, part = tmp_path / "new" / "run.jsonl", tmp_path / "new" / "run.jsonl.part"
    writer = CassetteWriter(path, 0.0)
    assert part.read_text("utf-8") == ""
    writer.write({"watch": "1", "up": 1, "at": 1.0})
    written = part.read_text("utf-8")
    assert len(written.splitlines()) == 2
    writer.finish(keep=True)
    assert path.read_text("utf-8") == written


def test_lines_come_back(path):
    """A header says what the file is and who wrote it when; every line comes back in its order."""
    writer = CassetteWriter(path, 0.0)
    writer.write(LINE)
    writer.write({**LINE, "run": "s", "note": "héllo \ud800"})
    writer.finish(keep=True)
    header, entries = read_cassette(path)
    assert header == {"cassette": 1, "agentkit": agentkit.__version__, "recorded": "1970-01-01T00:00:00+00:00"}
    assert [(entry.run, entry.milestone) for entry in entries] == [("r", RunResumed()), ("s", RunResumed())]
    assert list(path.parent.iterdir()) == [path]


def test_only_the_owner_can_read_it(path):
    """A cassette is its owner's alone, while it is written and later."""
    writer = CassetteWriter(path, 0.0)
    modes = [path.with_name("trip.cassette.part").stat().st_mode & 0o777]
    writer.finish(keep=True)
    assert [*modes, path.stat().st_mode & 0o777] == [0o600, 0o600]


def test_an_older_cassette_stays_until_the_end(path):
    """What is recorded is beside the older cassette until it is kept, and stays there when it is not."""
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


def test_a_line_that_was_cut_off_is_passed_over(path):
    """What a crash left of the last line is passed over; what was there before is read."""
    writer = CassetteWriter(path, 0.0)
    writer.write(LINE)
    writer.finish(keep=True)
    path.write_bytes(path.read_bytes() + b'\n{"run":"r","at":1.')
    assert len(read_cassette(path)[1]) == 1


def test_an_exported_session_is_read_too(path):
    """The lines of an exported session are those of a run in a cassette."""
    path.parent.mkdir()
    lines = [{"session": 1, "name": "trip"}, encode_entry(SessionEntry("r", 1.0, RunResumed()))]
    path.write_text("".join(f"{to_line(line)}\n" for line in lines))
    header, entries = read_cassette(path)
    assert (header["name"], entries[0].milestone) == ("trip", RunResumed())


def test_two_recordings_of_one_cassette_do_not_mix(path):
    """When another process has begun to record the same cassette, the first recording is not put in its place."""
    first, second = CassetteWriter(path, 0.0), CassetteWriter(path, 0.0)
    with pytest.raises(SessionError, match="another process"):
        first.finish(keep=True)
    second.finish(keep=True)
    assert path.exists()


def test_a_vanished_recording_is_an_error(path):
    """A recording that was deleted meanwhile cannot be kept, and says so."""
    writer = CassetteWriter(path, 0.0)
    path.with_name("trip.cassette.part").unlink()
    with pytest.raises(SessionError, match="cannot be written"):
        writer.finish(keep=True)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    """Where no folder can be made, nothing is recorded, and the error names the cassette."""
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


def test_a_version_that_is_not_known_is_not_told(tmp_path):
    """From a source tree that was not installed, a cassette does not say who wrote it, and no error has a gap."""
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


def test_a_full_disk_is_an_error(path):
    """What cannot be written is an error at once, and what was written before can be read."""
    command = [sys.executable, "-c", WRITE_UNTIL_FULL, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    error, count = done.stdout.splitlines()
    assert "cannot be written" in error
    assert int(count) > 50


@pytest.mark.parametrize(
    ("content", "said"),
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
def test_what_is_no_cassette_is_refused(tmp_path, content, said):
    """A file that is no cassette, of a later version, or damaged is refused with what is wrong, and where."""
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SessionError, match=said):
        read_cassette(tmp_path / "x")


def test_where_there_is_none_it_says_how_to_get_one(tmp_path):
    """When there is no cassette, the error says how to record one; a folder and a pipe are none."""
    with pytest.raises(SessionError, match=r"does not exist.*--record=once"):
        read_cassette(tmp_path / "x")
    with pytest.raises(SessionError, match="is not a file"):
        read_cassette(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SessionError, match="is not a file"):
        read_cassette(tmp_path / "pipe")
