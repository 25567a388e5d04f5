"""Tests for the gate of a tool server: its token and its host names."""

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp.sdk.server import MCPAuth, check_public_address

TOKEN = "tulip-tulip-tulip-4711"


@pytest.mark.for_each(
    ("headers", "is_in"),
    [
        ([(b"authorization", b"Bearer " + TOKEN.encode())], True),
        ([(b"Authorization", b"bearer " + TOKEN.encode())], True),
        ([], False),
        ([(b"authorization", b"Bearer")], False),
        ([(b"authorization", b"Basic " + TOKEN.encode())], False),
        ([(b"authorization", b"Bearer tulip")], False),
        ([(b"authorization", b"Bearer " + TOKEN.encode())] * 2, False),
        ([(b"cookie", b"Bearer " + TOKEN.encode())], False),
    ],
)
def test_token_header(headers, is_in):
    """The token must be sent once, in its header."""
    assert MCPAuth(TOKEN).is_authorized(headers) is is_in


def test_names_of_the_server():
    """A server accepts the names of this machine and additional ones, with any port."""
    assert {"localhost", "127.0.0.1:*", "tools.example.com:*"} <= {*MCPAuth(hosts=["Tools.example.com"]).hosts}
    with pytest.raises(ConfigError, match="without scheme"):
        MCPAuth(hosts=["https://tools.example.com"])


def test_public_address_requires_a_token():
    """A public address requires a token chosen by the user."""
    for host in ("127.0.0.1", "::1", "localhost"):
        check_public_address(host, None)
    check_public_address("0.0.0.0", TOKEN)
    for host in ("0.0.0.0", "::", "192.0.2.1", "box.example.com"):
        with pytest.raises(ConfigError, match="can be reached by other machines"):
            check_public_address(host, None)
