"""Cassettes of trials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import recording
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.environment import Cassettes, file_name


@given(st.tuples(st.text(), st.text(), st.integers(1, 9)), st.tuples(st.text(), st.text(), st.integers(1, 9)))
def test_names_of_cassettes(one, other):
    """Each trial has a cassette of a name that every file system takes, and that no other trial has."""
    name = file_name(one)
    assert name.isascii()
    assert not set(name) & set('/\\:*?"<>| ')
    assert len(name) < 120
    assert (file_name(other) == name) is (one == other)


def test_no_cassettes(tmp_path):
    """Without a folder nothing is recorded, and a replay needs what was."""
    assert Cassettes(None, None).tape(("a", "b", 1)) is None
    with Cassettes(None, None).without_world():
        assert not recording.is_replaying()
    with Cassettes(None, str(tmp_path)).without_world():
        assert recording.is_replaying()
    with pytest.raises(SessionError, match="contains this trial"):
        Cassettes(None, str(tmp_path)).tape(("a", "b", 1))


def test_what_is_no_folder(tmp_path):
    """A missing folder for replay, and a file for recording, are refused before any trial."""
    with pytest.raises(ConfigError, match="does not exist"):
        Cassettes(None, str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        Cassettes(str(tmp_path / "file"), None)
    assert Cassettes(str(tmp_path / "new"), None).tape(("a", "b", 1)) is not None
