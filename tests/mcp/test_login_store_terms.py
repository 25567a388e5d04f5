"""Tests for the settings of a login, which are rejected if they would expose a secret."""

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp import ClientCredentials, Login, MCPServer
from agentkit.mcp.connection_target import target_of
from agentkit.mcp.login_store import command, with_login

URL = "https://mcp.example.com/mcp"
PROGRAM = ClientCredentials("us", "tulip-secret", "https://login.example.com")


def test_login_settings():
    """A function or None becomes a Login; other login settings are used unchanged."""
    assert with_login(target_of(URL), print).login == Login(print)
    assert with_login(target_of(URL), None).login == Login()
    assert with_login(target_of(URL), PROGRAM).login is PROGRAM
    known = Login(print, client_metadata_url="https://example.com/us.json")
    assert with_login(target_of(URL), known).login is known


@pytest.mark.parametrize(
    ("server", "options"),
    [
        ("uvx a", {}),
        (object(), {}),
        ("http://mcp.example.com/mcp", {}),
        (URL, {"token": "tulip-tulip-tulip"}),
        (URL, {"headers": {"Authorization": "Basic dHVsaXA="}}),
    ],
)
def test_cases_without_a_login(server, options):
    """No login is attempted with other credentials or over an unencrypted connection."""
    assert with_login(target_of(server, "a", **options), None).login is None


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        ("uvx a", {"login": print}, "requires a server with a URL"),
        (URL, {"login": print, "token": "tulip-tulip-tulip"}, "Pass one of them"),
        (URL, {"login": print, "headers": {"authorization": "Basic tulip"}}, "Pass one of them"),
        ("http://mcp.example.com/mcp", {"login": print}, "unencrypted"),
        (URL, {"login": "https://login.example.com"}, "takes a function"),
    ],
)
def test_invalid_logins(server, options, message):
    """A login that is insecure or conflicts with other credentials raises a ConfigError."""
    with pytest.raises(ConfigError, match=message):
        MCPServer(server, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"client_secret": "tulip"}, "requires client_id= and issuer="),
        ({"client_secret": "tulip", "client_id": "us"}, "requires client_id= and issuer="),
        ({"client_metadata_url": "http://example.com/us.json"}, "takes an https address"),
        ({"client_metadata_url": "https://example.com/"}, "takes an https address"),
    ],
)
def test_invalid_login_settings(options, message):
    """A secret without its issuer, or an invalid metadata URL, raises a ConfigError."""
    with pytest.raises(ConfigError, match=message):
        Login(**options)


def test_secrets_are_not_shown():
    """Secrets do not appear in representations, nor an address's query in the login command."""
    login = Login(client_id="us", client_secret="tulip-secret", issuer="https://login.example.com")
    assert "tulip" not in f"{login} {PROGRAM} {with_login(target_of(URL), PROGRAM)}"
    assert command(target_of(f"{URL}?key=tulip")) == f"agentkit mcp login {URL}"
