"""Tests for logging out with missing or damaged logins."""

import asyncio

import pytest

from agentkit.mcp.connection import log_out
from agentkit.mcp.connection_target import target_of
from agentkit.mcp.login_store import Login, Logout, StoredLogin

TARGET = target_of("https://mcp.example.com/mcp")


def test_logout_without_a_login(tmp_path):
    """A logout without a stored login does nothing and creates no files."""
    assert asyncio.run(log_out(TARGET, Login(folder=tmp_path / "own"))) == Logout(was_stored=False)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("text", ["tulip", '{"version": 1}', "[" * 200_000])
def test_logout_with_an_unreadable_login(tmp_path, text):
    """A logout removes an unreadable login and reports that it could not be read."""
    login = StoredLogin(TARGET.url, tmp_path)
    login.write({})
    login.path.write_text(text)
    done = asyncio.run(log_out(TARGET, Login(folder=tmp_path)))
    assert done
    assert "cannot be read" in done.problem
    assert login.version is None
