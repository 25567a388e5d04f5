"""Tests for reading and editing files in a workspace."""

import pickle
import time
from pathlib import Path

import pytest

from agentkit.errors import Blocked, ConfigError, ToolError
from agentkit.workspace.journal import Journal
from agentkit.workspace.root import MAX_WRITTEN_BYTES, DirectoryEntry
from agentkit.workspace.search import Query
from agentkit.workspace.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    """A workspace with one file."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("one\ntwo\nthree\n")
    return Workspace(tmp_path / "ws")


def test_default_is_the_current_folder(tmp_path):
    """A workspace without a folder uses the current folder of the process at each call."""
    workspace = Workspace()
    assert workspace.folder == str(Path.cwd())
    assert workspace.folder == Workspace(".").folder
    with pytest.raises(Blocked):
        workspace.read(str(tmp_path / "a"))
    with pytest.raises(ConfigError):
        Workspace(tmp_path / "missing")


def test_file_is_read_by_lines(workspace):
    """Reading returns lines, sizes and the encoding."""
    reading = workspace.read("a.txt", 2, 1)
    assert (reading.lines.content, reading.lines.next_offset) == ("two\n", 3)
    assert (reading.size, reading.encoding) == (14, "utf-8")


def test_file_is_written_with_its_folders(workspace, tmp_path):
    """Writing creates missing folders and returns the previous state."""
    written = workspace.write("x/y/b.txt", "é")
    assert (written.path, written.size, written.before.kind) == ("x/y/b.txt", 2, "absent")
    assert (tmp_path / "ws/x/y/b.txt").read_text() == "é"
    assert workspace.list("x/y") == [DirectoryEntry("b.txt", "file")]


@pytest.mark.parametrize(
    ("content", "problem"), [("x" * (MAX_WRITTEN_BYTES + 1), "10,000,000 can be written"), ("\ud800", "surrogates")]
)
def test_invalid_content_is_rejected(content, problem, workspace):
    """Content that is too long or contains lone surrogates is not written."""
    with pytest.raises(ToolError, match=problem):
        workspace.write("b.txt", content)


def test_read_only_file_is_not_replaced(workspace, tmp_path):
    """A read-only file is not changed, even by root."""
    (tmp_path / "ws/a.txt").chmod(0o444)
    with pytest.raises(ToolError, match="is read-only"):
        workspace.write("a.txt", "x")


def test_identical_content_is_not_a_change(workspace, tmp_path):
    """Writing identical content is not a change."""
    before = (tmp_path / "ws/a.txt").stat()
    assert workspace.write("a.txt", "one\ntwo\nthree\n").diff == ""
    assert (tmp_path / "ws/a.txt").stat().st_ino == before.st_ino
    assert workspace.record.changes == ()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("two", "2", "one\n2\nthree\n"),
        ("one\ntwo\n", "", "three\n"),
        ("three\n", "three\nfour\n", "one\ntwo\nthree\nfour\n"),
    ],
)
def test_piece_of_a_file_is_replaced(old, new, text, workspace, tmp_path):
    """Editing replaces the single occurrence of the old text."""
    edited = workspace.edit("a.txt", old, new)
    assert (tmp_path / "ws/a.txt").read_text() == text
    assert edited.diff.startswith("diff --git a/a.txt b/a.txt")


def test_editing_preserves_encoding_and_line_endings(workspace, tmp_path):
    """An edited file keeps its encoding, byte order mark and line endings."""
    place = tmp_path / "ws/w.txt"
    place.write_bytes("\ufeffmột\r\nhai\r\nba\r\n".encode("utf-16-le"))
    workspace.edit("w.txt", "một\nhai\n", "1\n2\n")
    assert place.read_bytes() == "\ufeff1\r\n2\r\nba\r\n".encode("utf-16-le")


@pytest.mark.parametrize(
    ("text", "old", "problem"),
    [
        ("a\nb\na\n", "a", r"occurs 2 times in 'f' \(lines 1, 3\)"),
        ("a\n" * 50, "a", r"occurs 50 times in 'f' \(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more\)"),
        ("def main():\n    pass\n", "def mian():", "closest lines are:\n1: def main"),
        (
            "if a:\n\tgo()\n",
            "if a:\n    go()",
            "Closest are lines 1 to 2, identical except for blanks:\nif a:\n\tgo\\(\\)$",
        ),
        ("one \ntwo\n", "one\ntwo", "identical except for blanks:\none \ntwo$"),
        ("end", "end\n", "Closest is line 1, identical except for blanks:\nend$"),
        ("if a:\n  x\nif a:\n  y\n", "if a:\n  y\n  z", "Closest are lines 3 to 4:\nif a:\n  y$"),
        ("def f():\n  x\n", "3\tdef f():\n4\t  x", "begin with numbers, which are not in the file"),
        ("x\n" * 60, "x\n" * 61, "Closest are lines 1 to 50:\n"),
        ("abc\n", "xyz", "No line is similar to its first line"),
        ("abc\n", "\n\n", "No line is similar"),
        ("abc\n", "", "old_text is empty"),
        ("a\r\n", "a\nb", "does not occur"),
    ],
)
def test_ambiguous_edit_is_explained(text, old, problem, workspace, tmp_path):
    """If the old text does not occur exactly once, the error helps to correct it."""
    (tmp_path / "ws/f").write_text(text)
    with pytest.raises(ToolError, match=problem):
        workspace.edit("f", old, "new")
    assert (tmp_path / "ws/f").read_bytes() == text.encode()


def test_path_is_located(workspace):
    """A path is described by its name and its real location."""
    Path(workspace.folder, "l").symlink_to("a.txt")
    assert workspace.locate("./l") == ("l", "a.txt")


def test_failed_write_leaves_no_folders(small_disk):
    """If a file does not fit on the disk, the folders created for it are removed."""
    workspace = Workspace(small_disk)
    with pytest.raises(ToolError, match="disk is full"):
        workspace.write("x/y/b.txt", "b" * 200_000)
    assert list(small_disk.iterdir()) == []


def test_large_file_is_not_edited(workspace, tmp_path):
    """A file too large to be written is not edited."""
    (tmp_path / "ws/f").write_bytes(b"x" * (MAX_WRITTEN_BYTES + 1))
    with pytest.raises(ToolError, match="can be edited"):
        workspace.edit("f", "x", "y")


def test_direct_changes_are_undone_together(workspace, tmp_path):
    """Changes without a run have separate records."""
    workspace.write("a.txt", "new")
    workspace.write("b.txt", "b")
    assert "+new" in workspace.changes
    assert str(workspace.undo()) == "Restored 'a.txt' and removed 'b.txt'."
    assert [place.name for place in (tmp_path / "ws").iterdir()] == ["a.txt"]


def test_undo_without_changes(workspace):
    """Undoing a run without changes is not an error."""
    assert str(workspace.undo()) == "Nothing to undo."


def test_many_undone_files_are_not_all_named(workspace):
    """The summary of an undo is bounded."""
    for number in range(13):
        workspace.write(f"{number:02}.txt", "x")
    assert str(workspace.undo()).endswith("'09.txt', 3 more.")


@pytest.mark.parametrize("fixed", [True, False])
def test_dry_run_changes_nothing(fixed, workspace, tmp_path):
    """A dry run returns the changes without modifying the disk or the journal."""
    journal = Journal(tmp_path / "j")
    workspace = Workspace(tmp_path / "ws" if fixed else None, journal=journal)
    name = "a.txt" if fixed else "pyproject.toml"
    content = (tmp_path / "ws/a.txt").read_text() if fixed else workspace.read(name).lines.content
    run = workspace.for_run("r", "try", dry_run=True)
    run.edit(name, content, "new\n")
    run.write("made/by/dry-run.txt", "b\n")
    assert run.read(name).lines.content == "new\n"
    assert [match.path for match in run.search(Query("b", "made")).matches] == ["made/by/dry-run.txt"]
    assert "+new" in run.changes
    assert workspace.read(name).lines.content == content
    assert journal.runs() == []
    assert not (tmp_path / "ws/made").exists()
    with pytest.raises(ToolError, match="dry run"), run.observing("run_shell"):
        raise AssertionError
    run.undo()
    assert run.read(name).lines.content == content
    assert run.changes


def test_dry_workspace(tmp_path, workspace):
    """Changes in a dry workspace are visible in it but not written to the disk."""
    dry = Workspace(tmp_path / "ws", dry_run=True)
    dry.write("b.txt", "b")
    assert dry.for_run().list() == [DirectoryEntry("a.txt", "file")]
    assert dry.list() == [DirectoryEntry("a.txt", "file"), DirectoryEntry("b.txt", "file")]
    assert [place.name for place in (tmp_path / "ws").iterdir()] == ["a.txt"]


def test_check_may_reject_a_path(workspace, tmp_path):
    """An exception raised by the check prevents any access to the resolved path."""

    def refuse(place):
        raise Blocked(f"not {place}")

    for act in (
        lambda: workspace.read("a.txt", check=refuse),
        lambda: workspace.write("./a.txt", "x", check=refuse),
        lambda: workspace.edit("a.txt", "one", "1", check=refuse),
    ):
        with pytest.raises(Blocked, match=r"not a.txt"):
            act()
    assert (tmp_path / "ws/a.txt").read_text() == "one\ntwo\nthree\n"


def test_file_too_large_to_restore_is_not_replaced(workspace, tmp_path):
    """A file that is too large to be restored is not overwritten, which is reported."""
    with (tmp_path / "ws/big").open("wb") as file:
        file.truncate(51_000_000)
    with pytest.raises(ToolError, match="51,000,000 bytes, too many to store"):
        workspace.write("big", "x")
    assert (tmp_path / "ws/big").stat().st_size == 51_000_000
    assert workspace.changes == ""


def test_search_for_similar_lines_is_bounded(workspace, tmp_path):
    """Similar long lines are found in bounded time, without blocking other calls."""
    lines = ["".join(chr(97 + (number * index) % 7) for index in range(200)) for number in range(1_000, 6_000)]
    (tmp_path / "ws/long").write_text("\n".join(lines))
    began = time.monotonic()
    with pytest.raises(ToolError, match="does not occur in"):
        workspace.edit("long", lines[3] + "!", "x")
    assert time.monotonic() - began < 5


def test_secrets_are_redacted_but_not_edited(workspace, tmp_path):
    """Secrets are hidden in reads, diffs and errors, and unchanged by an edit next to them."""
    token = f"ghp_{'a1' * 20}"
    key = "-----BEGIN PRIVATE KEY-----\nMIIBVgIBADAN\nBgkqhkiG9w0B\n-----END PRIVATE KEY-----"
    (tmp_path / "ws/k").write_text(f"{key}\ntoken {token}\nlast\n")
    assert "BgkqhkiG9w0B" not in workspace.read("k", 3, 1).lines.content
    assert workspace.read("k", 6).lines.content == "last\n"
    with pytest.raises(ToolError) as caught:
        workspace.edit("k", f"token {token[:-1]}2", "x")
    assert token not in str(caught.value)
    diff = workspace.edit("k", "last", "first").diff
    assert "-last\n+first" in diff
    assert token not in diff
    assert (tmp_path / "ws/k").read_text() == f"{key}\ntoken {token}\nfirst\n"


def test_dry_run_does_not_write_over_a_folder(tmp_path):
    """A change that would fail on the disk also fails in a dry run."""
    (tmp_path / "s").mkdir()
    with pytest.raises(ToolError, match="is a folder"):
        Workspace(tmp_path, dry_run=True).write("s", "x")


def test_occurrences_are_counted(workspace, tmp_path):
    """Occurrences are counted in the text of a file, and a binary or missing file has none."""
    (tmp_path / "ws/b").write_bytes(b"\0\1")
    assert [workspace.count(path, "t") for path in ("a.txt", "b", "missing")] == [2, 0, 0]
    assert workspace.name("x/../a.txt") == "a.txt"


def test_pickled_workspace_is_the_same_folder(tmp_path):
    """A copy in another process works on the files of the same folder."""
    workspace = Workspace(tmp_path)
    other = pickle.loads(pickle.dumps(workspace))
    other.write("a.txt", "Hello.")
    assert (other.folder, workspace.read("a.txt").lines.content) == (workspace.folder, "Hello.")


def test_workspace_is_one_folder_or_the_current_one(tmp_path, monkeypatch):
    """`is_fixed` is true for a workspace with a folder, and false for one that uses the current folder."""
    monkeypatch.chdir(tmp_path)
    assert Workspace(tmp_path).is_fixed
    assert Workspace(tmp_path).for_run("one").is_fixed
    assert not Workspace().is_fixed
