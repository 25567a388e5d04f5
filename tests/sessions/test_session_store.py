"""Tests for the names of sessions."""

import pytest

from agentkit.errors import SessionError
from agentkit.sessions.store import validate_session_name


@pytest.mark.parametrize("name", ["trip", "Chuyến đi Đà Nẵng", "日本\u3000旅行", "👨‍👩‍👧 trip", "a/b:c", "x" * 200])
def test_valid_names(name):
    """The name of a session is any text of up to 200 characters."""
    assert validate_session_name(name) == name


@pytest.mark.for_each(
    "name", ["", "  ", "a\nb", "a\0b", "a\x1b[31m", "a\u2028b", "\ud800", "x" * 201, None, 1, b"trip"]
)
def test_invalid_names_are_rejected(name):
    """A name that is empty, too long, not a string or has control characters raises a SessionError."""
    with pytest.raises(SessionError, match="1 to 200 characters"):
        validate_session_name(name)
