"""Does the gate let in who may come in, and nobody else?"""

import pytest

from agentkit.server.auth import HEADERS, Head, RequestAuth
from agentkit.server.http_types import HTTPError

TOKEN = "a-token-of-sixteen-or-more"


@pytest.fixture
def gate():
    """A gate with a known token, a host of its own and a page."""
    return RequestAuth(TOKEN, ["agent.example.com"], ["/"])


def head(method="POST", path="/v1/chat/completions", **headers):
    """A request's head: well-behaved, but for what is given."""
    said = {"host": "127.0.0.1:8080", "authorization": f"Bearer {TOKEN}", **headers}
    named = {name.replace("_", "-"): value for name, value in said.items() if value is not None}
    return Head(method, path, {name: value if isinstance(value, tuple) else (value,) for name, value in named.items()})


def status(gate, **request):
    """With which status a request is refused; None when it is let in."""
    try:
        gate.check(head(**request))
    except HTTPError as refusal:
        return refusal.status
    return None


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "192.168.1.5:80", "Agent.Example.com"],
)
def test_own_names_are_let_in(gate, host):
    """The server answers to localhost, to addresses in numbers, and to the names that it was given."""
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
def test_strangers_names_are_refused(gate, host):
    """A name that is not ours is refused, even with the token: a stranger's name server may have led it here."""
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
def test_other_origins_are_refused(gate, headers, refused):
    """A page of another origin, also on another port of this machine, is refused whatever it knows."""
    assert status(gate, **headers) == refused


def test_a_link_to_the_page_may_stand_anywhere(gate):
    """The page itself can be opened from a link elsewhere, as it holds no secret; nothing else can."""
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
def test_the_token_is_needed(gate, shown):
    """Without the whole token nothing but the page's own files is shown."""
    assert status(gate, authorization=shown) == 401
    assert status(gate, authorization=shown, method="GET", path="/") is None


def test_a_header_that_is_there_twice_is_refused(gate):
    """Two values for a header that decides are refused, as others may read the one that we do not."""
    assert status(gate, host=("localhost", "evil.example")) == 400
    assert status(gate, authorization=(f"Bearer {TOKEN}", "Bearer x")) == 400


def test_the_page_needs_cookie_and_key(gate):
    """Who has signed in is let in to the page's own addresses, with the cookie and the key together."""
    cookie, key = gate.sign_in(TOKEN, is_secure=False)
    name_and_value = cookie.partition(";")[0]
    page = {"path": "/page/run", "authorization": None}
    assert status(gate, cookie=f"other=1; {name_and_value}", x_agentkit_key=key, **page) is None
    assert status(gate, cookie=name_and_value, **page) == 401
    assert status(gate, x_agentkit_key=key, **page) == 401
    assert status(gate, cookie=f"{name_and_value}; {name_and_value}", x_agentkit_key=key, **page) == 401
    assert status(gate, cookie=name_and_value, x_agentkit_key=key, authorization=None) == 401


def test_the_cookie_is_for_the_page_alone(gate):
    """The cookie is no script's and no other site's, goes to the page's addresses only, and is not the token."""
    cookie, key = gate.sign_in(TOKEN, is_secure=False)
    assert {"HttpOnly", "SameSite=Strict", "Path=/page/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert key not in cookie
    assert "Secure" not in cookie
    assert gate.sign_in(TOKEN, is_secure=True)[0].endswith("; Secure")


@pytest.mark.parametrize("shown", ["wrong-token-that-is-long", None, 5, ["a"], ""])
def test_signing_in_takes_the_token(gate, shown):
    """Nobody signs in with anything but the token."""
    with pytest.raises(HTTPError, match="not the token"):
        gate.sign_in(shown, is_secure=False)


def test_browsers_are_told_to_load_nothing_else():
    """Every reply forbids scripts but our files', frames, other resources, sniffing, and HTML made of text."""
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert {"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} <= set(policy.split("; "))
    assert "require-trusted-types-for 'script'" in policy
