"""Tests for RequestAuth, which accepts or rejects requests."""

import pytest

from agentkit.server.auth import HEADERS, Head, RequestAuth
from agentkit.server.http_types import HTTPError

TOKEN = "a-token-of-sixteen-or-more"


@pytest.fixture
def gate():
    """Return a RequestAuth with a known token, one extra host and the page path."""
    return RequestAuth(TOKEN, ["agent.example.com"], ["/"])


def head(method="POST", path="/v1/chat/completions", **headers):
    """Return a valid request head with the given headers replaced, or removed if None."""
    fields = {"host": "127.0.0.1:8080", "authorization": f"Bearer {TOKEN}", **headers}
    named = {name.replace("_", "-"): value for name, value in fields.items() if value is not None}
    return Head(method, path, {name: value if isinstance(value, tuple) else (value,) for name, value in named.items()})


def status(gate, **request):
    """Return the status with which a request is rejected, or None if it is accepted."""
    try:
        gate.check(head(**request))
    except HTTPError as refusal:
        return refusal.status
    return None


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "192.168.1.5:80", "Agent.Example.com"],
)
def test_own_host_names_are_accepted(gate, host):
    """Requests to localhost, IP addresses and configured names are accepted."""
    assert status(gate, host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost.",
        "agent.example.com.evil.example",
        "127.1",
        "0x7f000001",
        "2130706433",
        "user@localhost",
        "localhost:80:80",
        "localhost/evil",
        "[::1",
        "[fe80::1%25eth0]",
        "local host",
    ],
)
def test_unknown_host_names_are_rejected(gate, host):
    """A host name that is not configured is rejected, even with the token."""
    assert status(gate, host=host) == 403


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"origin": "http://127.0.0.1:8080"}, None),
        ({"origin": "http://127.0.0.1:8080", "sec_fetch_site": "same-origin"}, None),
        ({"sec_fetch_site": "none"}, None),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": "http://]"}, 403),
        ({"origin": "file://"}, 403),
        ({"origin": "http://127.0.0.1:8080@evil.example"}, 403),
        ({"origin": "http://evil.example@127.0.0.1:8080"}, 403),
        ({"origin": "http://127.0.0.1:x"}, 403),
        ({"origin": "http://a\u2100"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9090"}, 403),
        ({"origin": "http://localhost:8080"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
    ],
)
def test_other_origins_are_rejected(gate, headers, refused):
    """A request from another origin, also from another port of this machine, is rejected."""
    assert status(gate, **headers) == refused


def test_cross_site_link_can_open_the_page(gate):
    """A cross-site link may open the page itself, but a cross-site POST is rejected."""
    elsewhere = {"authorization": None, "sec_fetch_site": "cross-site"}
    assert status(gate, method="GET", path="/", **elsewhere) is None
    assert status(gate, method="POST", path="/sign-in", **elsewhere) == 403


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        TOKEN,
        "Bearer é\udcff",
    ],
)
def test_token_is_required(gate, shown):
    """Without the token only the page's own files are returned."""
    assert status(gate, authorization=shown) == 401
    assert status(gate, authorization=shown, method="GET", path="/") is None


def test_duplicate_header_is_rejected(gate):
    """A duplicate security header is rejected."""
    assert status(gate, host=("localhost", "evil.example")) == 400
    assert status(gate, authorization=(f"Bearer {TOKEN}", "Bearer x")) == 400


def test_page_paths_require_the_cookie_and_the_key(gate):
    """Page paths require the cookie and the key together, and other paths do not accept them."""
    cookie, key = gate.sign_in(TOKEN, is_secure=False)
    name_and_value = cookie.partition(";")[0]
    page = {"path": "/page/run", "authorization": None}
    assert status(gate, cookie=f"other=1; {name_and_value}", x_agentkit_key=key, **page) is None
    assert status(gate, cookie=name_and_value, **page) == 401
    assert status(gate, x_agentkit_key=key, **page) == 401
    assert status(gate, cookie=f"{name_and_value}; {name_and_value}", x_agentkit_key=key, **page) == 401
    assert status(gate, cookie=name_and_value, x_agentkit_key=key, authorization=None) == 401


def test_cookie_is_limited_to_the_page(gate):
    """The cookie is HttpOnly, SameSite=Strict and limited to `/page/`, and contains neither token nor key."""
    cookie, key = gate.sign_in(TOKEN, is_secure=False)
    assert {"HttpOnly", "SameSite=Strict", "Path=/page/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert key not in cookie
    assert "Secure" not in cookie
    assert gate.sign_in(TOKEN, is_secure=True)[0].endswith("; Secure")


@pytest.mark.parametrize("shown", ["wrong-token-that-is-long", None, 5, ["a"], ""])
def test_signing_in_requires_the_token(gate, shown):
    """Signing in with anything but the token raises an error."""
    with pytest.raises(HTTPError, match="not the token"):
        gate.sign_in(shown, is_secure=False)


def test_security_policy_blocks_everything_else():
    """The content security policy blocks other resources, frames, inline scripts and HTML built from strings."""
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert {"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} <= set(policy.split("; "))
    assert "require-trusted-types-for 'script'" in policy
