"""Tests for patterns of changed paths: all matches are recorded, or none."""

import os
from pathlib import Path

import pytest

from agentkit.errors import ToolError
from agentkit.workspace.restorable import snapshot_matches
from agentkit.workspace.root import Root


@pytest.fixture
def root(tmp_path):
    """A workspace with files, caches, links and a repository."""
    for name in (
        "a/b/x.o",
        "a/y.O",
        "a/z.c",
        "node_modules/m.o",
        ".git/index",
        ".git/refs/p.q",
        "[1]",
        "é.txt",
        "q/s t.o",
    ):
        place = tmp_path / "ws" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(name)
    (tmp_path / "ws/l").symlink_to("a/b")
    (tmp_path / "ws/f").symlink_to("a/z.c")
    (tmp_path / "ws/out").symlink_to(tmp_path)
    (tmp_path / "outside").touch()
    return Root(tmp_path / "ws")


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        ("a/z.c", ["a/z.c"]),
        ("a/b", ["a/b", "a/b/x.o"]),
        ("a/*.o", ["a/y.O"]),
        ("a/*/*.o", ["a/b/x.o"]),
        ("a/?", ["a/b", "a/b/x.o"]),
        ("./**/?.o", ["a/b/x.o", "a/y.O", "node_modules/m.o"]),
        ("a/**/*", ["a/b", "a/b/x.o", "a/y.O", "a/z.c"]),
        ("[[]1]", ["[1]"]),
        ("É.txt", ["É.txt"]),
        ("new/deep/file", ["new", "new/deep", "new/deep/file"]),
        ("l/x.o", ["a/b/x.o"]),
        ("l", ["l"]),
        ("l/", ["a/b", "a/b/x.o", "l"]),
        ("f/", ["a/z.c", "f"]),
        ("f*/", ["a/z.c", "f"]),
        ("nowhere/*.o", []),
        ("/a/*.c", ["a/z.c"]),
        ("out/outside", []),
        (".git/index", [".git/index"]),
        ("**/.git/index", [".git/index"]),
    ],
)
def test_pattern_matches_paths_and_their_contents(pattern, places, root):
    """A pattern matches paths and everything below them, regardless of case or skipped folders."""
    assert sorted(snapshot_matches(root, [pattern]).places) == places


def test_pattern_of_the_whole_workspace(root):
    """The pattern `.` matches all files, and raises an error in a git repository."""
    with pytest.raises(ToolError, match="part of a git repository"):
        snapshot_matches(root, ["."])
    folder = Path(root.folder)
    (folder / ".git").rename(folder / "plain")
    assert {"plain/index", "node_modules/m.o", "l"} <= snapshot_matches(root, ["."]).places.keys()


@pytest.mark.parametrize(
    ("patterns", "why"),
    [
        (["./**/*.q"], "part of a git repository"),
        (["/**/*.o"], "unusual name"),
        (["*/x.o"], "leads the pattern to another folder"),
        (["a", "node_modules", "q", "[[]1]"], "more than 7 files"),
        (["sub/.git/index"], "not a plain folder of the workspace"),
    ],
)
def test_ambiguous_or_unstorable_content_is_rejected(patterns, why, root):
    """If a pattern is ambiguous or matches too much, nothing is recorded."""
    with pytest.raises(ToolError, match=why):
        snapshot_matches(root, patterns, max_files=7)


def test_unreadable_folder_or_attributes_are_rejected(root):
    """A folder that cannot be listed or a file with extended attributes raises an error."""
    inner = Path(root.folder, "a/b")
    inner.chmod(0o300)
    with pytest.raises(ToolError, match="cannot be listed"):
        snapshot_matches(root, ["a"])
    inner.chmod(0o700)
    try:
        os.setxattr(f"{root.folder}/a/z.c", "user.note", b"x")
    except OSError:
        pytest.skip("this file system has no attributes")
    with pytest.raises(ToolError, match="extended attributes"):
        snapshot_matches(root, ["a"])


def test_agentkit_records_are_rejected(root, monkeypatch):
    """The records of agentkit in a workspace cannot be remembered for a deletion."""
    monkeypatch.setenv("AGENTKIT_STATE", f"{root.folder}/a")
    with pytest.raises(ToolError, match="record of agentkit"):
        snapshot_matches(root, ["a"])
