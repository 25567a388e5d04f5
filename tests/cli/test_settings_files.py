"""Tests for settings files: which are found, and how invalid files are reported."""

import os
from pathlib import Path

import pytest

from agentkit.cli.settings import current_folder, project_file, user_file
from agentkit.errors import ConfigError


def test_missing_user_file_has_no_values(tmp_path):
    """A missing user file has no values."""
    assert user_file(tmp_path / "config.toml").values == {}


def test_home_that_is_not_a_folder_has_no_settings():
    """A user file below a path that is not a folder has no values."""
    assert user_file(Path("/dev/null/.config/agentkit/config.toml")).values == {}


def test_removed_current_folder_raises(tmp_path, monkeypatch):
    """current_folder() raises an error if the folder was removed."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert current_folder() == gone
    gone.rmdir()
    with pytest.raises(ConfigError, match=r"The current folder no longer exists\. Change to an existing folder"):
        current_folder()


def test_nearest_project_file_is_used(tmp_path):
    """The file in the folder overrides one in a parent; pyproject.toml counts only with [tool.agentkit]."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.agentkit]\nsafety = "safe"\n')
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert project_file(inner).path == tmp_path / "pyproject.toml"
    (tmp_path / "a" / "agentkit.toml").write_text('session = "x"\n')
    assert project_file(inner).values == {"session": "x"}


@pytest.mark.parametrize("text", ["# tool.agentkit\n", "tool = 5 # tool.agentkit\n", '[tool]\nx = "tool.agentkit"\n'])
def test_pyproject_without_the_table_is_ignored(text, tmp_path):
    """A pyproject.toml that only mentions the table is ignored."""
    (tmp_path / "pyproject.toml").write_text(text)
    found = project_file(tmp_path)
    assert found is None or found.path.parent != tmp_path


def test_unrelated_invalid_pyproject_is_ignored(tmp_path):
    """An invalid pyproject.toml that does not mention agentkit is ignored."""
    (tmp_path / "pyproject.toml").write_text("= broken")
    found = project_file(tmp_path)
    assert found is None or found.path.parent != tmp_path


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can change the owner")
def test_file_of_another_user_is_ignored(tmp_path):
    """A project file that belongs to another user is ignored."""
    path = tmp_path / "agentkit.toml"
    path.write_text('session = "x"\n')
    os.chown(path, 12345, -1)
    found = project_file(tmp_path)
    assert found is None or found.path != path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('\nmodle = "x"\n', "agentkit.toml, line 2: No setting is named 'modle'. Did you mean 'model'?"),
        (
            'api_key = "sk-secret"\n',
            "line 1: 'api_key' is not a setting. Store a key with: agentkit keys set openai",
        ),
        ("model = 5\n", "line 1: model takes a string that is not blank. Got 5."),
        ('safety = "high"\n', "line 1: 'high' is not a safety level"),
        ("[limits]\n\ncosts = 1\n", "line 3: No limit is named 'costs'."),
        ("limits = { seconds = 5, cost = -1 }\n", "line 1: The limit cost takes a number above 0"),
        ("limits.cost = -1\n", "line 1: The limit cost"),
        ("model = \n", "is not valid TOML: Invalid value (at line 1"),
        ('"mo\\u0064le" = 5\n', "agentkit.toml: No setting is named 'modle'."),
    ],
)
def test_invalid_file_reports_file_and_line(text, expected, tmp_path):
    """An invalid file raises an error with the file and the line, without secret values."""
    (tmp_path / "agentkit.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        project_file(tmp_path)
    assert expected in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_file_that_is_not_utf8_raises(tmp_path):
    """A file that is not valid UTF-8 raises an error."""
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not valid TOML: 'utf-8' codec"):
        user_file(tmp_path / "config.toml")


def test_folder_in_place_of_the_file_raises(tmp_path):
    """A folder in place of the file raises an error."""
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        user_file(tmp_path)
