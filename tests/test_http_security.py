"""Who may come in, by the token and the names of a server, and where it listens."""

import socket

import pytest

from agentkit.errors import ConfigError
from agentkit.http_security import checked_host, checked_token, is_local, is_same, listening, origin_of, shows

TOKEN = "tulip-tulip-tulip-4711"


@pytest.mark.parametrize("token", ["", "short", "with blanks in the token", "with-ünprintable-signs", 16 * "\n", 5])
def test_a_token_is_long_enough(token):
    """A token that could be guessed, or that no header can carry, is refused before anything is served."""
    with pytest.raises(ConfigError, match="at least 16"):
        checked_token(token)


def test_a_token_of_its_own_is_random():
    """Without a token given, each server has another, of 256 random bits."""
    assert checked_token(TOKEN) == TOKEN
    assert checked_token(None) != checked_token(None)
    assert len(checked_token(None)) == 43


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
def test_a_token_is_shown(header, is_shown):
    """The token counts behind the word for its kind, whole and alone."""
    assert shows(header, TOKEN) is is_shown


def test_texts_are_compared_whole():
    """Two texts are the same when every letter is."""
    assert is_same("ä", "ä")
    assert not is_same("ä", "a")


@pytest.mark.parametrize("host", ["", "http://x", "x:80", "[::1]", "*", ".example.com", "a b"])
def test_a_host_is_a_name(host):
    """A further host is a plain name: no scheme, no port, no pattern."""
    with pytest.raises(ConfigError, match="A host is a name"):
        checked_host(host)


def test_a_host_has_one_spelling():
    """A host is the same in whatever letters."""
    assert checked_host("Tools.Example.com") == "tools.example.com"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.8.8.8", True), ("0.0.0.0", False), ("x", False)],
)
def test_local_is_what_nobody_else_can_reach(host, is_own):
    """Only addresses of the machine to itself count as local."""
    assert is_local(host) is is_own


@pytest.mark.parametrize(
    ("host", "origin"), [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", f"http://{socket.gethostname()}:")]
)
def test_a_socket_has_an_origin(host, origin):
    """Where a socket is reached is told with its port; of all addresses the machine's name is."""
    with listening(host, 0) as listener:
        assert origin_of(listener) == f"{origin}{listener.getsockname()[1]}"


def test_an_address_that_cannot_be_had():
    """An address that is taken, or none of this machine's, is told in one sentence, with what to do."""
    with listening("127.0.0.1", 0) as taken, pytest.raises(ConfigError, match=r"Nothing can listen.*: Address already"):
        listening("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ConfigError, match="Choose another port, or 0 for one that is free"):
        listening("no.such.host.invalid", 0)
