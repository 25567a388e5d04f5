"""Tests for the list of trusted project files."""

import os
from pathlib import Path

import pytest

from agentkit.cli.settings import is_trusted, project_file, trust
from agentkit.errors import ConfigError


def test_trust_ends_when_the_file_changes(tmp_path):
    """A changed file is no longer trusted; its trusted content remains trusted."""
    path = tmp_path / "agentkit.toml"
    path.write_text('session = "x"\n')
    first = project_file(tmp_path)
    assert not is_trusted(first)
    trust(first)
    assert is_trusted(first)
    path.write_text('session = "y"\n')
    assert not is_trusted(project_file(tmp_path))
    assert is_trusted(first)


@pytest.mark.parametrize("text", ["no JSON", "[]"])
def test_damaged_trust_list_trusts_nothing(text, tmp_path):
    """A damaged list of trusted files trusts no file, and is replaced."""
    (tmp_path / "agentkit.toml").write_text('session = "x"\n')
    state = Path(os.environ["AGENTKIT_STATE"])
    state.mkdir(parents=True, exist_ok=True)
    (state / "trusted.json").write_text(text)
    file = project_file(tmp_path)
    assert not is_trusted(file)
    trust(file)
    assert is_trusted(file)


def test_unwritable_trust_list_raises(tmp_path, monkeypatch):
    """trust() raises an error if the list cannot be written."""
    (tmp_path / "agentkit.toml").write_text('session = "x"\n')
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path / "agentkit.toml"))
    with pytest.raises(ConfigError, match="cannot be written"):
        trust(project_file(tmp_path))
