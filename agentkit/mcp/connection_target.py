"""The target of a connection: a command, a URL or an in-process server (pure)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.http_security import is_local

_URL = re.compile(r"https?://", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w-]+(\.[\w-]+)*(:\d+|(?<=\w)\.[a-z]{2,}(?=/))(/|$)", re.IGNORECASE)
"""Matches an address that lacks its scheme: a host with a port, or a domain with a path."""
_UNREACHABLE = re.compile(r"All connection attempts failed|\[Errno -\d+\]|getaddrinfo|nodename nor servname")
"""Matches connection and name resolution errors of various systems."""
_NO_NAME_CHARS = re.compile(r"[^a-z0-9]+")
_GENERIC = re.compile(r"(?:^|[-_])(?:mcp|server|http|com|www|api|sse)(?=$|[-_])")
_MAX_NAME_CHARS = 24
_LAUNCHERS = frozenset({"uvx", "npx", "uv", "pipx", "docker", "node", "deno", "bunx", "python", "python3", "env"})
_LAUNCHER_WORDS = frozenset({"run", "exec", "tool", "x"})
_PASSED_VARIABLES = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER")
"""Variables passed to every server; none of them contains a secret."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server to connect to: one of a command, a URL, or an SDK object in this process.

    `identity` identifies it across processes, `name` is a short name, `environment` has all variables of its process,
    `headers` are sent with each request, and `login` has the login settings, None if login is not allowed.
    """

    name: str
    identity: str
    words: tuple[str, ...] = ()
    url: str = ""
    program: Any = None
    folder: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    login: Any = field(default=None, repr=False)


def target_of(
    server: Any,
    name: str | None = None,
    *,
    folder: str | None = None,
    environment: Mapping[str, str] | None = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Target:
    """Parse the target of a server. Raises ConfigError if it is invalid, or if it would expose secrets."""
    if is_url(server):
        return _remote(server, name, _read_headers(token, headers))
    for option, given in {"token": token, "headers": headers}.items():
        if given:
            text = f"{option}= requires a server with a URL; a command gets secrets with environment=."
            raise ConfigError(text)
    if isinstance(server, str | list | tuple):
        return _local(_words(server), name, folder, environment or {})
    default_name = str(getattr(server, "name", None) or type(server).__name__)
    return Target(_check_name(name) or short_name([default_name]), f"in-process: {default_name}", program=server)


def variables(requested: Mapping[str, str] | Iterable[str], host: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a server's process: a few harmless variables, and those in `requested`.

    `requested` names variables of this process, or gives values. Raises ConfigError for a name that is not set.
    """
    passed = {name: value for name, value in host.items() if name in _PASSED_VARIABLES or name.startswith("LC_")}
    if isinstance(requested, Mapping):
        return {**passed, **requested}
    if isinstance(requested, str):
        raise ConfigError(f"environment= takes a list of names or a dictionary; got the text {requested!r}.")
    names = list(requested)
    missing = [name for name in names if name not in host]
    if missing:
        raise ConfigError(f"environment= names {missing[0]!r}, but it is not set.")
    return {**passed, **{name: host[name] for name in names}}


def short_name(words: Sequence[str]) -> str:
    """Derive a short name of lower-case letters and digits: `time` for `uvx mcp-server-time`."""
    for word in words:
        plain = _NO_NAME_CHARS.sub("_", word.rpartition("/")[2].partition("@")[0].removesuffix(".py").lower())
        short = _GENERIC.sub("", plain).strip("_-")
        if short:
            return short[:_MAX_NAME_CHARS].strip("_")
    return "mcp"


def is_url(server: Any) -> bool:
    """Whether a server is given as an HTTP address."""
    return isinstance(server, str) and _URL.match(server) is not None


def is_encrypted(url: str) -> bool:
    """Whether the connection is encrypted, or does not leave this machine."""
    parts = urlsplit(url)
    return parts.scheme.lower() == "https" or is_local(parts.hostname or "")


def advice(target: Target, failure: str) -> str:
    """Return a hint for a connection failure, or an empty string."""
    if target.url:
        return _url_advice(target.url, failure)
    word = target.words[0] if target.words else ""
    if not word or not re.search(rf"\[Errno \d+\] [^:]+: {re.escape(repr(word))}", failure):
        return ""
    if word.endswith(".py"):
        return f"Python starts such a file: [sys.executable, {word!r}] in a program, 'python {word}' at a shell."
    if word.endswith(".json"):
        return (
            f"To connect to the servers of a file, use connect_file({word!r}), or --config {word} on the command line."
        )
    if _ADDRESS.match(word):
        return "A URL must begin with https:// or http://."
    return f"The program {word!r} cannot be started. Is it installed, and in the PATH?"


def _url_advice(url: str, failure: str) -> str:
    if _UNREACHABLE.search(failure):
        return "Is it running? Check the address and the network."
    is_bare = urlsplit(url).path in ("", "/")
    return f"Most servers answer at {url.rstrip('/')}/mcp." if is_bare and "Not Found" in failure else ""


def _read_headers(token: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers with lower-case names. Raises ConfigError for headers that the protocol sets."""
    from agentkit.llm.endpoint import read_headers

    sent = {name.lower(): value for name, value in read_headers(headers).items()}
    taken = [name for name in sent if name == "accept" or name.startswith("mcp-")]
    if taken:
        raise ConfigError(f"headers= cannot set {taken[0]!r}, which the protocol sets.")
    if token is not None and "authorization" in sent:
        raise ConfigError("Both token= and headers= set Authorization. Pass one of them.")
    return sent if token is None else {**sent, **read_headers({"authorization": f"Bearer {token}"})}


def _remote(url: str, name: str | None, headers: Mapping[str, str]) -> Target:
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None or parts.fragment:
        shown = re.sub(r"//[^/@]*@", "//", url.partition("?")[0])  # without user name, password and query
        raise ConfigError(f"{shown!r} is not a server address: it needs a host, and no user name or password.")
    if headers and not is_encrypted(url):
        what = "token" if "authorization" in headers else "headers"
        raise ConfigError(f"The {what} would be sent unencrypted to {parts.hostname}. Use https://.")
    host = parts.hostname.split(".")
    if ":" in parts.hostname or host[-1].isdigit():  # an IP address
        default_name = "localhost" if is_local(parts.hostname) else f"host_{parts.hostname}"
    else:
        default_name = host[-2] if len(host) > 1 else host[0]
    return Target(_check_name(name) or short_name([default_name]), url, url=url, headers=headers)


def _local(words: tuple[str, ...], name: str | None, folder: str | None, environment: Mapping[str, str]) -> Target:
    arguments = [word for word in words[1:] if not word.startswith("-") and word not in _LAUNCHER_WORDS]
    uses_launcher = words[0].rpartition("/")[2] in _LAUNCHERS
    short = _check_name(name) or short_name([*arguments, words[0]] if uses_launcher else words)
    return Target(short, shlex.join(words), words, folder=folder, environment=environment)


def _words(server: Any) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(server)) if isinstance(server, str) else tuple(server)
    except ValueError as error:
        raise ConfigError(f"{server!r} is not a command: {error}.") from None
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise ConfigError(
            "MCPServer() takes a command such as 'uvx mcp-server-time', a list of its words, a URL, "
            f"or a server object of the mcp package; got {server!r}."
        )
    return words


def _check_name(name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[a-zA-Z0-9_-]{1,24}", name):
        raise ConfigError(
            f"name= takes 1 to 24 letters, digits, '_' and '-', because tools are named after it. Got {name!r}."
        )
    return name
