"""Tests for the cassettes of trials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import recording
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.environment import Cassettes, file_name


@given(st.tuples(st.text(), st.text(), st.integers(1, 9)), st.tuples(st.text(), st.text(), st.integers(1, 9)))
def test_cassette_names_are_unique(one, other):
    """Each trial has a unique cassette name that is valid on every file system."""
    name = file_name(one)
    assert name.isascii()
    assert not set(name) & set('/\\:*?"<>| ')
    assert len(name) < 120
    assert (file_name(other) == name) is (one == other)


def test_missing_cassettes(tmp_path):
    """Nothing is recorded without a folder, and replaying a trial that was not recorded raises an error."""
    assert Cassettes(None, None).tape(("a", "b", 1)) is None
    with Cassettes(None, None).without_provider():
        assert not recording.is_replaying()
    with Cassettes(None, str(tmp_path)).without_provider():
        assert recording.is_replaying()
    with pytest.raises(SessionError, match="contains this trial"):
        Cassettes(None, str(tmp_path)).tape(("a", "b", 1))


def test_invalid_folders_are_rejected(tmp_path):
    """A missing folder for `replay` or a file for `record` raises a ConfigError."""
    with pytest.raises(ConfigError, match="does not exist"):
        Cassettes(None, str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        Cassettes(str(tmp_path / "file"), None)
    assert Cassettes(str(tmp_path / "new"), None).tape(("a", "b", 1)) is not None
