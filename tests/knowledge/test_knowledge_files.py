"""Tests for finding and reading the files of a folder."""

from pathlib import Path

import pytest

from agentkit.knowledge.knowledge import MAX_FILE_BYTES, files_below, normalise_place, read_document_file


def test_files_are_sorted(tmp_path):
    """The files of a folder are sorted, without hidden files, links and installed packages."""
    for name in ("b.md", "a/c.md", ".git/x", "node_modules/x.js", "a/.y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert list(files_below(f"{tmp_path}")) == [f"{tmp_path}/b.md", f"{tmp_path}/a/c.md"]


def test_huge_file_is_not_read(tmp_path):
    """A file that is too large is reported."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert "larger" in read_document_file(f"{tmp_path}/huge").problem


@pytest.mark.parametrize("place", ["~/x", Path("x"), "a/../x"])
def test_paths_are_stored_as_absolute(place):
    """A path is stored as an absolute path."""
    assert Path(normalise_place(place)).is_absolute()
    assert Path(normalise_place(place)).name == "x"
