"""Tests for the writing of report files."""

import pytest

from agentkit.errors import SessionError
from agentkit.evals.report import write_whole


def test_missing_folder_is_created(tmp_path):
    """The folder of a report is created if it does not exist."""
    write_whole(str(tmp_path / "folder" / "x.txt"), "one")
    assert (tmp_path / "folder" / "x.txt").read_text() == "one"


def test_unwritable_path_is_an_error(tmp_path):
    """A path that cannot be written raises an error."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(SessionError, match="cannot be written"):
        write_whole(tmp_path / "folder", "x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(SessionError, match="cannot be written"):
        write_whole(tmp_path / "file" / "x", "x")
