"""Tests for the hosts that a login may connect to."""

import pytest

from agentkit.errors import ToolError
from agentkit.mcp.login_store import AllowedHosts

WEB, OFFICE, HERE = "https://mcp.example.com/mcp", "https://mcp.corp:9443/mcp", "http://127.0.0.1:8000/mcp"


@pytest.mark.for_each(
    ("server", "hosts", "url"),
    [
        (WEB, (), "https://login.example.org/token"),
        (WEB, (), "https://mcp.example.com:9000/token"),
        (OFFICE, (), "https://mcp.corp/token"),
        (OFFICE, ("login.corp",), "https://login.corp/token"),
        (OFFICE, ("10.0.0.0/8",), "https://10.1.2.3/token"),
        (HERE, (), "http://localhost:9000/token"),
        (HERE, (), "http://[::1]:9000/token"),
        (HERE, (), "https://login.example.org/token"),
        ("http://[::1]:8000/mcp", (), "http://[::1]:8000/token"),
    ],
)
def test_allowed_hosts(server, hosts, url):
    """Public hosts, the server's host and configured hosts are allowed, and localhost for a local server."""
    assert str(AllowedHosts(server, hosts).parse_allowed(url)) == url


@pytest.mark.for_each(
    ("server", "hosts", "url", "message"),
    [
        (WEB, (), "https://127.0.0.1/token", "this machine itself.* allow it: Login"),
        (WEB, (), "https://localhost/token", "this machine itself"),
        (WEB, (), "http://mcp.example.com/token", "unencrypted"),
        (WEB, (), "http://login.example.org/token", "unencrypted"),
        (WEB, (), "https://login.corp/token", "a name of a local network"),
        (WEB, (), "https://login.example.org:2222/token", "Port 2222 is not a web port"),
        (WEB, ("localhost",), "http://localhost/token", "unencrypted"),
        (OFFICE, (), "https://login.corp/token", "a name of a local network"),
        (OFFICE, ("169.254.169.254",), "https://169.254.169.254/", r"credentials\.$"),
        (HERE, (), "http://192.168.0.1/token", "a private network"),
        (HERE, (), "http://login.example.org/token", "unencrypted"),
    ],
)
def test_other_hosts_are_rejected(server, hosts, url, message):
    """Other hosts named by a server are rejected before they are connected to."""
    with pytest.raises(ToolError, match=message):
        AllowedHosts(server, hosts).parse_allowed(url)


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "64:ff9b::a00:1"])
def test_names_with_an_internal_address_are_rejected(address):
    """A public name that resolves to an internal address is rejected."""
    reach = AllowedHosts(WEB)
    with pytest.raises(ToolError, match=r"login\.example\.org leads to"):
        reach.check(reach.parse_allowed("https://login.example.org/token"), address)


def test_names_with_a_public_address_are_allowed():
    """A name that resolves to a public address is allowed."""
    reach = AllowedHosts(WEB)
    reach.check(reach.parse_allowed("https://login.example.org/token"), "93.184.216.34")
