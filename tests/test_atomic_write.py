"""Tests for writing whole files atomically."""

import stat

import pytest

from agentkit.atomic_write import write_whole


def test_file_is_private_by_default(tmp_path):
    """A file is only accessible to its owner unless a mode is given."""
    place = tmp_path / "one"
    place.write_text("old")
    place.chmod(0o644)
    write_whole(place, "twö \ud800\n")
    assert place.read_bytes().decode("utf-8", "surrogatepass") == "twö \ud800\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    write_whole(place, "three", 0o666)
    assert stat.S_IMODE(place.stat().st_mode) & 0o600 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("name", ["folder", "missing/x", "file/x"])
def test_failed_write_leaves_the_folder_unchanged(name, tmp_path):
    """A failed write leaves the folder unchanged."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match=r"Is a directory|No such file|Not a directory") as caught:
        write_whole(tmp_path / name, "x")
    assert caught.value.filename == str(tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "old"


def test_an_error_during_the_write_is_raised(tmp_path):
    """A value that is no text is a TypeError, and the file keeps its content, with no draft next to it."""
    place = tmp_path / "one"
    place.write_text("old")
    with pytest.raises(TypeError):
        write_whole(place, 42)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert place.read_text() == "old"
