"""What do files of settings say, and which are found?"""

import os
from pathlib import Path

import pytest

from agentkit.cli.settings import current_folder, project_file, user_file
from agentkit.errors import ConfigError


def test_no_file_says_nothing(tmp_path):
    """A user file that is not there sets nothing."""
    assert user_file(tmp_path / "config.toml").values == {}


def test_home_that_is_no_folder_says_nothing():
    """A service whose home is /dev/null has no settings of its own."""
    assert user_file(Path("/dev/null/.config/agentkit/config.toml")).values == {}


def test_folder_that_was_removed_is_told(tmp_path, monkeypatch):
    """A command in a folder that is gone says so."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert current_folder() == gone
    gone.rmdir()
    with pytest.raises(ConfigError, match=r"The current folder no longer exists\. Change to an existing folder"):
        current_folder()


def test_the_nearest_project_file_counts(tmp_path):
    """The file in the folder comes before one above; a pyproject.toml counts when it has [tool.agentkit]."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.agentkit]\nsafety = "safe"\n')
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert project_file(inner).path == tmp_path / "pyproject.toml"
    (tmp_path / "a" / "agentkit.toml").write_text('session = "x"\n')
    assert project_file(inner).values == {"session": "x"}


@pytest.mark.parametrize("text", ["# tool.agentkit\n", "tool = 5 # tool.agentkit\n", '[tool]\nx = "tool.agentkit"\n'])
def test_a_pyproject_without_our_table_is_passed_over(text, tmp_path):
    """A pyproject.toml that only mentions the table says nothing."""
    (tmp_path / "pyproject.toml").write_text(text)
    found = project_file(tmp_path)
    assert found is None or found.path.parent != tmp_path


def test_a_broken_pyproject_of_somebody_else_is_no_concern(tmp_path):
    """A pyproject.toml that cannot be read and does not mention us stops nobody."""
    (tmp_path / "pyproject.toml").write_text("= broken")
    found = project_file(tmp_path)
    assert found is None or found.path.parent != tmp_path


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_none(tmp_path):
    """Who may write into a folder above decides nothing: a file that belongs to another user does not count."""
    path = tmp_path / "agentkit.toml"
    path.write_text('session = "x"\n')
    os.chown(path, 12345, -1)
    found = project_file(tmp_path)
    assert found is None or found.path != path


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_a_wrong_file_names_file_and_line(text, said, tmp_path):
    """A mistake in a file is told with the file, the line, and the closest key; a secret's value is not shown."""
    (tmp_path / "agentkit.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        project_file(tmp_path)
    assert said in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_a_file_that_is_not_text_is_told(tmp_path):
    """A file that is not UTF-8 is no TOML."""
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not valid TOML: 'utf-8' codec"):
        user_file(tmp_path / "config.toml")


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path):
    """What cannot be read is an error that says why."""
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        user_file(tmp_path)
