"""Which documents are at a place, and what is in them?"""

from pathlib import Path

import pytest

from agentkit.knowledge.knowledge import MAX_FILE_BYTES, files_below, found_in_file, spelled


def test_files_stand_in_order(tmp_path):
    """The files of a folder come in order, without hidden ones, links and installed packages."""
    for name in ("b.md", "a/c.md", ".git/x", "node_modules/x.js", "a/.y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert list(files_below(f"{tmp_path}")) == [f"{tmp_path}/b.md", f"{tmp_path}/a/c.md"]


def test_a_huge_file_is_not_read(tmp_path):
    """A file that is too large is told."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert "larger" in found_in_file(f"{tmp_path}/huge").fault


@pytest.mark.parametrize("place", ["~/x", Path("x"), "a/../x"])
def test_places_are_spelled_from_the_root(place):
    """A path is remembered from the root on, so that it means the same from everywhere."""
    assert Path(spelled(place)).is_absolute()
    assert Path(spelled(place)).name == "x"
