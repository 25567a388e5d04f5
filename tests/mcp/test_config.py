"""Tests for configuration files of MCP servers."""

import json
import sys
from pathlib import Path

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp import connect_file, read_servers

PLAIN = str(Path(__file__).parents[0] / "plain_server.py")


@pytest.fixture
def file(tmp_path):
    """Write a configuration file with these servers; return its path."""

    def write(**servers):
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return path

    return write


def targets(path, **options):
    """Return the targets of the servers in a file."""
    return {name: server.target for name, server in read_servers(path, **options).servers.items()}


def test_commands(file, tmp_path):
    """A command is started with its arguments, its folder, and only harmless or listed variables."""
    (tmp_path / ".env").write_text("CITY=Hue\nKEY=rose\n")
    fields = {"command": "uvx", "args": ["mcp-server-time", "a b"], "env": {"KEY": "tulip", "PORT": 80}}
    more = {"cwd": "${workspaceFolder}", "envFile": "${workspaceFolder}/.env", "type": "stdio"}
    found = targets(file(**{"My clock.": {**fields, **more}}))["My clock."]
    assert (found.name, found.words, found.folder) == ("My_clock", ("uvx", "mcp-server-time", "a b"), str(tmp_path))
    own = {name: found.environment[name] for name in ("KEY", "PORT", "CITY")}
    assert own == {"KEY": "tulip", "PORT": "80", "CITY": "Hue"}
    assert "AGENTKIT_STATE" not in found.environment


@pytest.mark.parametrize("entry", [{"url": "U"}, {"serverUrl": "U"}, {"httpUrl": "U"}, {"type": "http", "url": "U"}])
def test_addresses(file, entry):
    """A URL is requested with the headers in the file."""
    url = "https://mcp.example.com/mcp"
    fields = {key: url if value == "U" else value for key, value in entry.items()}
    found = targets(file(far={**fields, "headers": {"X-Key": "${KEY:-tulip}"}}))["far"]
    assert (found.url, found.headers, found.name) == (url, {"x-key": "tulip"}, "far")


def test_connect_file(file, tmp_path):
    """The tools of all servers in a file form one toolset with the given levels."""
    plain = {"command": sys.executable, "args": ["-S", PLAIN, str(tmp_path)]}
    path = file(one=plain, two=plain, off={"command": "none", "disabled": True})
    tools = connect_file(path, level={"one": "safe", "two": {"echo": "network"}})
    assert tools.find("one_echo").level.name == "SAFE"
    assert tools.find("two_echo").level.name == "NETWORK"
    for each in ("one", "two"):
        tools.find(f"{each}_echo").server.close()
    assert {server._levels.name for server in read_servers(path, only="one", level="safe").servers.values()} == {"SAFE"}


def test_ignored_settings_are_reported(file):
    """Ignored settings and disabled servers are reported."""
    path = file(
        one={"url": "https://a.com", "alwaysAllow": ["x"], "timeout": 3}, two={"disabled": True, "command": "x"}
    )
    found = read_servers(path)
    assert (list(found.servers), found.left_out) == (
        ["one"],
        ("one: alwaysAllow, timeout are ignored.", "two is disabled."),
    )
    assert read_servers(path, only=["one"]).left_out == found.left_out[:1]


def test_sse_server_is_ignored(file):
    """A server over SSE is ignored and reported, and the other servers are used."""
    path = file(old={"type": "sse", "url": "https://a.com/sse"}, new={"url": "https://b.com/mcp"})
    found = read_servers(path)
    assert [*found.servers] == ["new"]
    assert found.left_out == (
        'old: the older HTTP transport "sse" is not supported. Use "http"; the address then usually ends in /mcp.',
    )
    assert [*read_servers(path, level={"old": "safe", "new": "safe"}).servers] == ["new"]
    with pytest.raises(ConfigError, match='old: the older HTTP transport "sse" is not supported'):
        read_servers(path, only="old")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"command": "x", "disabledTools": ["tulip"]}, "'disabledTools' is unknown, and could be a restriction"),
        ({"command": "x", "headers": {}}, "'headers' is unknown"),
        ({"url": "https://a.com", "env": {}}, "'env' is unknown"),
        ({"url": "https://a.com", "\u202e": 1}, r"'\\u202e' is unknown"),
        ({"type": "ws", "url": "wss://a.com"}, "type is unknown"),
        ({"type": 3, "url": "https://a.com"}, "type is unknown"),
        ({}, "neither a command nor a url"),
        ({"type": "http"}, "neither a command nor a url"),
        ({"cmd": "x"}, r"'cmd' is unknown, and could be a restriction\. Known keys: args, command, cwd"),
        ({"comand": "x"}, r"Did you mean 'command'\? Known keys: args, command"),
        ({"url": "https://a.com", "header": {}}, r"Did you mean 'headers'\?"),
        ({"command": ["x"]}, "'command' must be a string"),
        ({"command": "x", "args": "tulip"}, "'args' must be a list"),
        ({"command": "x", "env": ["tulip"]}, "'env' must be an object"),
        ({"command": "x", "env": {"KEY": ["tulip"]}}, "values of 'env' must be"),
        ({"command": "x", "envFile": "/nowhere/.env"}, "cannot be read"),
        ({"url": "https://a.com", "headers": {"X-Key": "tulip\n"}}, "takes a single line of ASCII text"),
        ({"url": "http://a.com", "headers": {"X-Key": "tulip"}}, "unencrypted"),
        ({"url": "https:///x?key=tulip"}, "not a server address"),
        ({"url": "${NOWHERE}"}, "not set"),
    ],
)
def test_invalid_entries(file, entry, message):
    """An invalid entry raises an error with the file and the server's name, and no value is quoted."""
    path = file(odd=entry)
    with pytest.raises(ConfigError, match=message) as caught:
        read_servers(path)
    assert str(caught.value).startswith(f"{path}: the server 'odd': ")
    assert "tulip" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("http://a.com/mcp?key=${BELL_TOKEN}", True),
        ("http://${BELL_TOKEN}.a.com/mcp", True),
        ("https://a.com/mcp?key=${BELL_TOKEN}", False),
        ("http://127.0.0.1:9/mcp?key=${BELL_TOKEN}", False),
        ("http://${BELL_PLACE}/mcp", False),
    ],
)
def test_secret_in_a_url(file, monkeypatch, url, is_refused):
    """A file cannot send a secret to a readable place, also not as part of a URL."""
    monkeypatch.setenv("BELL_TOKEN", "tulip-4711-rose")
    monkeypatch.setenv("BELL_PLACE", "bells.a.com")
    path = file(odd={"url": url})
    if not is_refused:
        assert len(targets(path)) == 1
        return
    with pytest.raises(ConfigError, match="would be sent unencrypted") as caught:
        read_servers(path)
    assert "tulip" not in str(caught.value)


@pytest.mark.parametrize("options", [{"only": ["two"]}, {"level": {"two": "safe"}}])
def test_unlisted_server(file, options):
    """Naming an unlisted server raises an error that lists the servers."""
    with pytest.raises(ConfigError, match=r"lists no server 'two'\. Its servers: one"):
        read_servers(file(one={"command": "x"}), **options)


def test_servers_with_the_same_short_name(file):
    """Two servers with the same short name raise a ConfigError."""
    with pytest.raises(ConfigError, match="same short name"):
        read_servers(file(**{"a b": {"command": "x"}, "a.b": {"command": "y"}}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "not UTF-8 text"),
        (b" " * 1_000_000, "JSON"),
        (b" " * 1_000_001, "more than 1,000,000 bytes"),
        (None, "read"),
    ],
)
def test_unreadable_files(tmp_path, content, message):
    """A file that is missing, too long or not text raises a ConfigError."""
    path = tmp_path / "mcp.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_servers(path)
