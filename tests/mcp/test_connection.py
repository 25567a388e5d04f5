"""Is a login forgotten, whatever else is wrong?"""

import asyncio

import pytest

from agentkit.mcp.connection import log_out
from agentkit.mcp.connection_target import target_of
from agentkit.mcp.login_store import Login, Logout, StoredLogin

TARGET = target_of("https://mcp.example.com/mcp")


def test_nothing_was_kept(tmp_path):
    """Where nothing is kept, a logout does nothing, and makes nothing."""
    assert asyncio.run(log_out(TARGET, Login(folder=tmp_path / "own"))) == Logout(was_kept=False)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("text", ["tulip", '{"version": 1}', "[" * 200_000])
def test_what_is_kept_cannot_be_read(tmp_path, text):
    """A login that cannot be read is forgotten all the same, and it is told that nothing else could be done."""
    kept = StoredLogin(TARGET.url, tmp_path)
    kept.write({})
    kept.path.write_text(text)
    done = asyncio.run(log_out(TARGET, Login(folder=tmp_path)))
    assert done
    assert "cannot be read" in done.trouble
    assert kept.edition is None
