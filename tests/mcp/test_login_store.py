"""Tests for stored logins: their files, permissions and locks."""

import asyncio
import os
import stat

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp.login_store import StoredLogin

URL = "https://mcp.example.com/mcp?key=tulip"


def test_login_round_trip(tmp_path):
    """A login is found by its normalized address, and its file does not contain the address's query."""
    login = StoredLogin(URL, tmp_path / "own")
    assert login.read() is None
    login.write({"tokens": {"access_token": "rose"}})
    assert StoredLogin("HTTPS://MCP.example.com/mcp?key=tulip", tmp_path / "own").read()["tokens"] == {
        "access_token": "rose"
    }
    assert StoredLogin("https://mcp.example.com/mcp", tmp_path / "own").read() is None
    assert "tulip" not in login.path.read_text()
    assert stat.S_IMODE(login.path.stat().st_mode) == 0o600


def test_forgetting(tmp_path):
    """Forgetting a login removes it, and forgetting it again does nothing."""
    login = StoredLogin(URL, tmp_path)
    login.write({})
    assert (login.forget(), login.forget(), login.read()) == (True, False, None)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_file_readable_by_others(tmp_path, mode):
    """A login file that other users can read raises a ConfigError."""
    login = StoredLogin(URL, tmp_path)
    login.write({})
    login.path.chmod(mode)
    with pytest.raises(ConfigError, match="other users can read it"):
        login.read()


def test_file_of_another_user(tmp_path):
    """A login file that belongs to another user raises a ConfigError."""
    if os.geteuid() != 0:
        pytest.skip("Only root can change the owner of a file.")
    login = StoredLogin(URL, tmp_path)
    login.write({})
    os.chown(login.path, 12_345, 12_345)
    with pytest.raises(ConfigError, match="another user"):
        login.read()


def test_path_that_is_not_a_regular_file(tmp_path):
    """A pipe or a file that is too long raises a ConfigError without blocking."""
    login = StoredLogin(URL, tmp_path)
    os.mkfifo(login.path, 0o600)
    with pytest.raises(ConfigError, match="it is not a regular file"):
        login.read()
    login.path.unlink()
    login.write({"tokens": "x" * 2_000_000})
    with pytest.raises(ConfigError, match="or too long"):
        login.read()


@pytest.mark.parametrize("made", ["link", "pipe", "folder"])
def test_invalid_lock_file(tmp_path, made):
    """A link, pipe or folder in place of the lock raises an error and is not followed."""
    other, lock = tmp_path / "other", StoredLogin(URL, tmp_path).path.with_suffix(".lock")
    other.write_text("tulip")
    {"link": lambda: lock.symlink_to(other), "pipe": lambda: os.mkfifo(lock), "folder": lock.mkdir}[made]()

    async def renew():
        async with StoredLogin(URL, tmp_path).locked():
            return True

    with pytest.raises(ConfigError, match="cannot be renewed"):
        asyncio.run(renew())
    assert other.read_text() == "tulip"


def test_link_is_not_followed(tmp_path):
    """A link in place of a login file is not followed."""
    login, other = StoredLogin(URL, tmp_path), StoredLogin(URL, tmp_path / "other")
    other.write({})
    login.path.symlink_to(other.path)
    with pytest.raises(ConfigError, match="OSError"):
        login.read()


@pytest.mark.parametrize("text", ["", "tulip", "[]", "{}", '{"version": 2}', "[" * 200_000, '"\\ud800'])
def test_file_with_unexpected_content(tmp_path, text):
    """A login file with unexpected content raises an error that does not quote it."""
    login = StoredLogin(URL, tmp_path)
    login.path.write_text(text)
    login.path.chmod(0o600)
    with pytest.raises(ConfigError, match="delete it and log in again") as caught:
        login.read()
    assert "tulip" not in str(caught.value)


def test_unwritable_folder_raises_an_error(tmp_path):
    """A login that cannot be stored raises a ConfigError."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be stored in"):
        StoredLogin(URL, tmp_path / "file").write({})


def test_renewal_waits_for_another_one(tmp_path):
    """A renewal waits for another one in progress."""
    order = []

    async def renew(name):
        async with StoredLogin(URL, tmp_path).locked():
            order.append(name)
            await asyncio.sleep(0.1)
            order.append(name)

    async def both():
        await asyncio.gather(renew("one"), renew("two"))

    asyncio.run(both())
    assert order[0] == order[1] != order[2] == order[3]
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_lock_wait_is_limited(tmp_path):
    """A renewal that has waited too long proceeds without the lock."""

    async def both():
        async with StoredLogin(URL, tmp_path).locked(), StoredLogin(URL, tmp_path).locked(most_waits=2):
            return True

    assert asyncio.run(both())
