"""Tests for the security of HTTP servers: tokens, host names and addresses."""

import socket

import pytest

from agentkit.errors import ConfigError
from agentkit.http_security import (
    constant_time_equal,
    has_token,
    is_local,
    open_listener,
    origin_of,
    validate_host,
    validate_token,
)

TOKEN = "tulip-tulip-tulip-4711"


@pytest.mark.parametrize("token", ["", "short", "with blanks in the token", "with-ünprintable-signs", 16 * "\n", 5])
def test_invalid_token_is_rejected(token):
    """A token that is too short or invalid in a header raises an error."""
    with pytest.raises(ConfigError, match="at least 16"):
        validate_token(token)


def test_missing_token_is_generated():
    """Without a token, a random one of 256 bits is generated."""
    assert validate_token(TOKEN) == TOKEN
    assert validate_token(None) != validate_token(None)
    assert len(validate_token(None)) == 43


@pytest.mark.for_each(
    ("header", "is_shown"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        ("Bearer", False),
        (f"Bearer {TOKEN}5", False),
        ("Bearer ümlaut \ud800", False),
        ("", False),
    ],
)
def test_token_is_shown(header, is_shown):
    """The token is accepted after its scheme, and only if it is complete."""
    assert has_token(header, TOKEN) is is_shown


def test_texts_are_compared_whole():
    """Two texts are equal only if every character is."""
    assert constant_time_equal("ä", "ä")
    assert not constant_time_equal("ä", "a")


@pytest.mark.parametrize("host", ["", "http://x", "x:80", "[::1]", "*", ".example.com", "a b"])
def test_host_is_a_name(host):
    """An additional host must be a plain name without scheme, port or pattern."""
    with pytest.raises(ConfigError, match="A host is a name"):
        validate_host(host)


def test_host_is_case_insensitive():
    """A host name is case-insensitive."""
    assert validate_host("Tools.Example.com") == "tools.example.com"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.8.8.8", True), ("0.0.0.0", False), ("x", False)],
)
def test_only_loopback_addresses_are_local(host, is_own):
    """Only loopback addresses are local."""
    assert is_local(host) is is_own


@pytest.mark.parametrize(
    ("host", "origin"), [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", f"http://{socket.gethostname()}:")]
)
def test_origin_of_a_socket(host, origin):
    """The origin of a socket contains its port, and the machine's name for a wildcard address."""
    with open_listener(host, 0) as listener:
        assert origin_of(listener) == f"{origin}{listener.getsockname()[1]}"


def test_unavailable_address_is_rejected():
    """An address that is in use or unknown raises a ConfigError."""
    with (
        open_listener("127.0.0.1", 0) as taken,
        pytest.raises(ConfigError, match=r"Nothing can listen.*: Address already"),
    ):
        open_listener("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ConfigError, match="Choose another port, or 0 for one that is free"):
        open_listener("no.such.host.invalid", 0)
