"""Tests for the target of a server: commands, URLs, objects, tokens and variables."""

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp.connection_target import advice, short_name, target_of, variables


@pytest.mark.parametrize(
    ("server", "words", "name"),
    [
        ("uvx mcp-server-time", ("uvx", "mcp-server-time"), "time"),
        ("uvx mcp-server-git --repository '/a b'", ("uvx", "mcp-server-git", "--repository", "/a b"), "git"),
        ("npx -y @scope/server-filesystem /srv", ("npx", "-y", "@scope/server-filesystem", "/srv"), "filesystem"),
        (["python", "-m", "my_server"], ("python", "-m", "my_server"), "my"),
        (("/opt/tools/weather.py",), ("/opt/tools/weather.py",), "weather"),
        ("uv run server.py", ("uv", "run", "server.py"), "uv"),
        ("mcp", ("mcp",), "mcp"),
    ],
)
def test_commands(server, words, name):
    """A command is a string or a list, and the name of the server is derived from it."""
    target = target_of(server)
    assert (target.words, target.name) == (words, name)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://mcp.example.com/mcp", "example"),
        ("HTTP://127.0.0.1:8000/mcp", "localhost"),
        ("https://10.0.0.5/mcp", "host_10_0_0_5"),
        ("https://[2001:db8::1]/mcp", "host_2001_db8_1"),
        ("http://localhost:8000", "localhost"),
    ],
)
def test_addresses(url, name):
    """A URL is a target, and the name of the server is derived from its domain."""
    target = target_of(url)
    assert (target.url, target.identity, target.name, target.words) == (url, url, name, ())


def test_objects():
    """Another object is an in-process server, with its own name."""

    class Own:
        name = "My Own Server"

    target = target_of(Own())
    assert (target.name, target.identity) == ("my_own", "in-process: My Own Server")
    assert target_of(3).identity == "in-process: int"


def test_token_is_sent_only_to_its_server():
    """A token is sent in a header of the URL's requests, and is in no repr."""
    target = target_of("https://example.com/mcp", token="tulip-tulip-tulip")
    assert target.headers == {"authorization": "Bearer tulip-tulip-tulip"}
    assert "tulip" not in repr(target)
    assert target_of("http://[::1]:8000/mcp", token="tulip-tulip-tulip").headers


def test_headers_are_not_in_the_repr():
    """Custom headers are sent along with the token, and the repr shows neither."""
    target = target_of("https://example.com/mcp", token="tulip-tulip-tulip", headers={"X-Key": " tulip "})
    assert target.headers == {"authorization": "Bearer tulip-tulip-tulip", "x-key": "tulip"}
    assert "tulip" not in repr(target)


def test_explicit_name():
    """An explicit name overrides the derived one."""
    assert target_of("uvx mcp-server-time", "clock").name == "clock"
    assert target_of("https://example.com", "clock").name == "clock"
    assert target_of(object(), "clock").name == "clock"


@pytest.mark.for_each(
    ("server", "options", "message"),
    [
        ("", {}, "takes a command"),
        ([], {}, "takes a command"),
        (["", "a"], {}, "takes a command"),
        (["a\0b"], {}, "takes a command"),
        ([1], {}, "takes a command"),
        ("say 'hello", {}, "is not a command"),
        ("https:///nowhere", {}, "not a server address"),
        ("https://me:tulip@example.com", {}, "'https://example.com' is not a server address"),
        ("https://example.com#here", {}, "not a server address"),
        ("http://example.com", {"token": "x"}, "unencrypted"),
        ("http://example.com", {"headers": {"X-Key": "x"}}, "headers would be sent unencrypted"),
        ("uvx a", {"token": "x"}, "requires a server with a URL"),
        ("uvx a", {"headers": {"X-Key": "x"}}, "requires a server with a URL"),
        ("https://a.com", {"headers": {"authorization": "x"}, "token": "x"}, "Pass one of them"),
        ("https://a.com", {"headers": {"Accept": "text/html"}}, "'accept', which the protocol sets"),
        ("https://a.com", {"headers": {"Mcp-Session-Id": "x"}}, "'mcp-session-id', which the protocol sets"),
        ("https://a.com", {"headers": {"Host": "b.com"}}, "cannot set 'Host'"),
        ("https://a.com", {"headers": {"X-Key": "a\r\nb"}}, "takes a single line of ASCII text"),
        ("https://a.com", {"headers": {"X Key": "a"}}, "invalid name"),
        ("https://a.com", {"headers": "X-Key: a"}, "takes names and texts"),
        ("https://a.com", {"token": "tulip\r\nX-Key: a"}, "takes a single line of ASCII text"),
        ("uvx a", {"name": "two words"}, "1 to 24 letters"),
    ],
)
def test_invalid_server_is_rejected(server, options, message):
    """An invalid server or an option that would expose a secret raises a ConfigError."""
    with pytest.raises(ConfigError, match=message):
        target_of(server, options.pop("name", None), **options)


MISSING = "The server does not answer as an MCP server: Connection closed. "
MISSING += "It wrote: [Errno 2] No such file or directory: {!r}"


@pytest.mark.for_each(
    ("server", "failure", "expected"),
    [
        ("shop.py --all", MISSING.format("shop.py"), "[sys.executable, 'shop.py'] in a program, 'python shop.py' at a"),
        ("./shop.py", "It wrote: [Errno 13] Permission denied: './shop.py'", "Python starts such a file"),
        ("mcp.json", MISSING.format("mcp.json"), "connect_file('mcp.json'), or --config mcp.json"),
        ("127.0.0.1:8000/mcp", MISSING.format("127.0.0.1:8000/mcp"), "A URL must begin with https://"),
        ("example.com/mcp", MISSING.format("example.com/mcp"), "A URL must begin with https://"),
        ("localhost:8000", MISSING.format("localhost:8000"), "A URL must begin with https://"),
        ("dockr run x", MISSING.format("dockr"), "The program 'dockr' cannot be started."),
        ("bin/serve x", MISSING.format("bin/serve"), "The program 'bin/serve' cannot be started."),
        (
            "https://example.com/",
            "The server does not answer as an MCP server: Not Found.",
            "answer at https://example.com/mcp.",
        ),
        (
            "http://127.0.0.1:9/mcp",
            "All connection attempts failed",
            "Is it running? Check the address and the network.",
        ),
        ("https://no.example/mcp", "[Errno -3] Temporary failure in name resolution", "Is it running?"),
    ],
)
def test_advice(server, failure, expected):
    """The advice for an unreachable server names the probable mistake."""
    assert expected in advice(target_of(server), failure)


@pytest.mark.parametrize(
    ("server", "failure"),
    [
        ("python shop.py", MISSING.format("shop.py")),
        ("uvx a", "was not ready"),
        ("https://example.com/mcp", "Not Found"),
        ("https://example.com", "The server does not answer as an MCP server: Bad Gateway."),
        (object(), MISSING.format("x")),
    ],
)
def test_no_advice_for_unknown_causes(server, failure):
    """A failure with an unknown cause gets no advice."""
    assert advice(target_of(server), failure) == ""


def test_environment_of_a_server():
    """A server receives a few harmless variables and the listed ones, and no API key."""
    host = {"PATH": "/bin", "LC_ALL": "C", "OPENAI_API_KEY": "secret", "CITY": "Hanoi"}
    assert variables((), host) == {"PATH": "/bin", "LC_ALL": "C"}
    assert variables(["CITY"], host) == {"PATH": "/bin", "LC_ALL": "C", "CITY": "Hanoi"}
    assert variables({"PATH": "/own"}, host) == {"PATH": "/own", "LC_ALL": "C"}


def test_invalid_variables_are_rejected():
    """Unset variables, and a string instead of a list, are rejected."""
    with pytest.raises(ConfigError, match="'TOWN', but it is not set"):
        variables(["TOWN"], {})
    with pytest.raises(ConfigError, match="list of names"):
        variables("CITY", {"CITY": "Hanoi"})


def test_default_name():
    """A server without a usable word in its command is named mcp."""
    assert short_name(["mcp-server", "--"]) == "mcp"
