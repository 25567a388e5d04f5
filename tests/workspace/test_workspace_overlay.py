"""Tests for the overlay of dry runs."""

import pytest

from agentkit.errors import Blocked, ToolError
from agentkit.workspace.root import DirectoryEntry
from agentkit.workspace.workspace import Overlay


@pytest.fixture
def overlay(tmp_path):
    """An overlay over a folder with two files."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "sub/b").write_text("b")
    return Overlay(str(tmp_path))


def disk(folder):
    """Return the files and folders on the disk."""
    return {str(place.relative_to(folder)): place.is_file() and place.read_text() for place in folder.rglob("*")}


def test_changes_are_visible_but_not_written(overlay, tmp_path):
    """Changes in an overlay are visible to every read, and the disk is not changed."""
    before = disk(tmp_path)
    places = []
    overlay.write("a", b"new")
    overlay.make_folder("d")
    overlay.write("d/c", b"c")
    overlay.remove("sub/b")
    assert disk(tmp_path) == before
    assert overlay.read("./a", check=places.append).content == b"new"
    assert overlay.read("d/c", 0).size == 1
    assert overlay.inspect("a").mode == 0o640
    assert overlay.inspect("d/c").mode == 0o644
    assert overlay.entries("sub") == ("sub", [])
    assert overlay.entries("d") == ("d", [DirectoryEntry("c", "file")])
    assert overlay.entries(".")[1] == [
        DirectoryEntry("a", "file"),
        DirectoryEntry("d", "folder"),
        DirectoryEntry("sub", "folder"),
    ]
    assert list(overlay.files()) == [("a", 3), ("d/c", 1)]
    assert list(overlay.files("d")) == [("d/c", 1)]
    assert list(overlay.files(skip={"d"})) == [("a", 3)]
    assert overlay.missing_folders("d/e/f") == ("d/e/f", ["d/e"])
    assert places == ["a"]


def test_removed_file_does_not_exist(overlay):
    """A removed file or folder can be neither read nor listed."""
    overlay.remove("a")
    with pytest.raises(ToolError, match="File 'a' does not exist"):
        overlay.read("a")
    with pytest.raises(ToolError, match="Folder 'a' does not exist"):
        overlay.entries("a")


def test_unchanged_files_are_read_from_the_disk(overlay):
    """Unchanged files are read from the disk, and paths outside the root are blocked."""
    assert overlay.read("sub/b").content == b"b"
    assert overlay.inspect("a").content == b"a"
    with pytest.raises(Blocked):
        overlay.read("../x")


def test_kinds_are_as_on_the_disk(overlay, tmp_path):
    """A folder cannot be written, a file has no children, and nothing is created twice, as on the disk."""
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(ToolError, match="'sub' is a folder"):
        overlay.write("sub", b"x")
    with pytest.raises(Blocked, match="symbolic link"):
        overlay.write("link", b"x")
    overlay.write("new", b"x")
    with pytest.raises(ToolError, match="not a folder"):
        overlay.missing_folders("new/y")
    with pytest.raises(ToolError, match="already exists"):
        overlay.make_folder("new")
    with pytest.raises(ToolError, match="name a file"):
        overlay.read("new/.")
