"""Tests for the storage of notes and their contents."""

import stat

import pytest

from agentkit.errors import ToolError
from agentkit.workspace.journal_store import CallStore, FileJournalStore, InMemoryJournalStore

NOTES = [({"a": 1}, (b"one\n", None)), ({"b": "\udcff é"}, ()), ({"c": []}, (b"", b"\0\n{}"))]


@pytest.fixture
def store(tmp_path):
    """A store in a file."""
    return FileJournalStore(tmp_path / "notes")


def test_notes_are_read_as_they_were_added(store):
    """Notes and contents are read in order, whatever bytes they contain."""
    store.add(NOTES[:1], durable=True)
    store.add(NOTES[1:])
    assert list(store.read()) == NOTES
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_missing_file_has_no_notes(store):
    """Reading, mending or removing a missing file has no effect."""
    store.repair()
    store.remove()
    assert list(store.read()) == []


def test_missing_folder_has_no_notes(tmp_path):
    """If the folder cannot exist, as below /dev/null, nothing is read or mended."""
    (tmp_path / "home").touch()
    store = FileJournalStore(tmp_path / "home" / "notes")
    store.repair()
    assert list(store.read()) == []


def test_truncated_note_is_ignored(store):
    """A note truncated at any position is ignored, and new notes can be added after the earlier ones."""
    store.add(NOTES)
    content = store.path.read_bytes()
    for length in range(len(content)):
        store.path.write_bytes(content[:length])
        read = list(store.read())
        assert read == NOTES[: len(read)]
        assert len(read) < len(NOTES)
        store.repair()
        store.add([({"new": True}, ())])
        assert list(store.read()) == [*read, ({"new": True}, ())]


@pytest.mark.parametrize(
    "garbage", [b"[]\n\n", b"1\n\n", b'{"sizes": 3}\n\n', b"{}\n\n", b"\xff\n", b'{"sizes": ["a"]}\n\n']
)
def test_garbage_ends_the_notes(garbage, store):
    """Reading ends at an invalid note."""
    store.add(NOTES)
    with store.path.open("ab") as file:
        file.write(garbage)
    assert list(store.read()) == NOTES


def test_note_that_cannot_be_written_is_an_error(tmp_path):
    """If notes cannot be written, nothing is done, with the reason in the error."""
    with pytest.raises(ToolError, match=r"journal cannot be written \(Is a directory\), so nothing was done"):
        FileJournalStore(tmp_path).add(NOTES)


def test_full_disk_leaves_notes_unchanged(small_disk):
    """A note that does not fit on the disk is not written in part."""
    store = FileJournalStore(small_disk / "notes")
    store.add(NOTES)
    with pytest.raises(ToolError, match="No space left"):
        store.add([({}, (b"x" * 100_000,))])
    store.add(NOTES)
    assert list(store.read()) == NOTES * 2


def test_direct_call_is_recorded_in_memory_if_its_file_cannot_be_written(tmp_path):
    """The notes of a direct call are in memory if the file cannot be written, and the store reports the problem."""
    store = CallStore(tmp_path, lambda: None)
    store.add(NOTES[:1])
    store.add(NOTES[1:])
    assert list(store.read()) == NOTES
    assert store.problem == "The journal cannot be written (Is a directory)"
    assert list(tmp_path.iterdir()) == []


def test_direct_call_whose_file_is_begun_needs_the_file(small_disk):
    """If the file of a direct call has notes already, a note that does not fit is an error and is not in memory."""
    store = CallStore(small_disk / "notes", lambda: None)
    store.add(NOTES)
    with pytest.raises(ToolError, match="No space left"):
        store.add([({}, (b"x" * 100_000,))])
    assert (list(store.read()), store.problem) == (NOTES, "")


def test_memory_is_bounded():
    """In memory, contents beyond the limit are dropped, and their notes are not."""
    store = InMemoryJournalStore(max_bytes=5)
    store.add([({"a": 1}, (b"12345", b"")), ({"b": 1}, (b"1", None))], durable=True)
    assert list(store.read()) == [({"a": 1}, (b"12345", b"")), ({"b": 1}, (None, None))]


@pytest.mark.parametrize(
    "line",
    [
        *('{"a": 1, "sizes": [99999999999999]}', f'{{"a": 1, "sizes": [{10**22}]}}', "[" * 200_000, '{"a": 1}', "[]"),
        *('{"sizes": [-1]}', '{"sizes": [true]}', '{"sizes": [1.5]}', '{"sizes": {}}', '{"sizes": ["1"]}', "9" * 5_000),
    ],
)
def test_malformed_note_stops_reading(line, tmp_path):
    """Reading stops at a malformed note and returns the notes before it."""
    store = FileJournalStore(tmp_path / "f")
    store.add([({"first": 1}, (b"content",))])
    with store.path.open("a") as file:
        file.write(f"{line}\n\n")
    assert list(store.read()) == [({"first": 1}, (b"content",))]


def test_folder_is_not_a_store(tmp_path):
    """A folder in place of the journal file raises an error."""
    with pytest.raises(ToolError, match="cannot be read"):
        list(FileJournalStore(tmp_path).read())
