"""Is a whole file put in its place?"""

import stat

import pytest

from agentkit.errors import SessionError
from agentkit.evals.keeping.writing import write_whole


def test_a_file_is_written_for_its_owner(tmp_path):
    """A file takes the place of an older one, and only its owner can read it."""
    place = tmp_path / "folder" / "x.txt"
    write_whole(place, "one")
    write_whole(str(place), "twö \ud800")
    assert place.read_text("utf-8", "surrogatepass") == "twö \ud800"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert [path.name for path in place.parent.iterdir()] == ["x.txt"]


def test_a_file_that_cannot_be_written(tmp_path):
    """What is in the way stays as it is, and nothing is left beside it."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(SessionError, match="cannot be written"):
        write_whole(tmp_path / "folder", "x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(SessionError, match="cannot be written"):
        write_whole(tmp_path / "file" / "x", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
