"""How is a server of a file reached? As the file says, if all that it says is understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentkit import config
from agentkit.errors import ConfigError
from agentkit.keeping import usable
from agentkit.levels import SafetyLevel
from agentkit.mcp.client import MCPServer, connect
from agentkit.mcp.listed.notation import Places, entries, settings
from agentkit.mcp.target import is_sealed
from agentkit.slotted import dataclass
from agentkit.tooling.toolset import Toolset
from agentkit.wording import suggestion

Level = SafetyLevel | str
_OfTools = Level | Mapping[str, Level]

_COMMAND = frozenset(("args", "command", "cwd", "env", "envFile"))
_URLS = ("url", "serverUrl", "httpUrl")
_URL = frozenset(("headers", *_URLS))
_BOTH = frozenset(("disabled", "type"))
_LEFT_OUT = frozenset(
    (
        "alwaysAllow",
        "autoApprove",
        "description",
        "dev",
        "gallery",
        "icon",
        "name",
        "oauth",
        "timeout",
        "trust",
        "version",
    )
)
"""What other programs know and we may pass over: it describes a server, or would have it asked about less."""

_TYPES = {"stdio": _COMMAND, "http": _URL, "streamable-http": _URL, "streamableHttp": _URL}
_OLD = "sse"
_MOST_BYTES = 1_000_000
_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]+")
_MOST_NAME_CHARS = 24


@dataclass(frozen=True, slots=True)
class ListedServers:
    """The servers of a file, by its names for them, and in sentences what of it was passed over."""

    servers: Mapping[str, MCPServer]
    left_out: tuple[str, ...] = ()

    def connect(self) -> Toolset:
        """The tools of all of them, connected at the same time. Raises ConfigError."""
        return connect(*self.servers.values())


def read_servers(
    file: str | Path,
    *,
    level: Level | Mapping[str, _OfTools] = SafetyLevel.SYSTEM,
    only: Iterable[str] | None = None,
) -> ListedServers:
    """The servers that a file lists as Claude, Cursor and VS Code do; none is connected yet.

    A file starts programs and is given variables of ours: name one that you would run. `level` is the safety level of
    all tools, or by server what `MCPServer` takes; `only` names the servers that are meant. Raises ConfigError for what
    is not understood, since a limit might be passed over.
    """
    path = Path(file).expanduser()
    try:
        listed = entries(_text(path))
        names = [*listed] if only is None else [only] if isinstance(only, str) else [*only]
        _refuse_unknown(names, listed)
        _refuse_unknown(level if isinstance(level, Mapping) else (), listed)
        places = Places(path, config.environment())
        left_out = [text for name in names for text in _left_out(name, listed[name])]
        meant = [name for name in names if not listed[name].get("disabled")]
        levels = level if isinstance(level, Mapping) else dict.fromkeys(meant, level)
        made = {name: _made(name, listed[name], places, levels.get(name, SafetyLevel.SYSTEM)) for name in meant}
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    _refuse_alike(path, made)
    return ListedServers(made, tuple(left_out))


def connect_file(file: str | Path, *, level: Level | Mapping[str, _OfTools] = SafetyLevel.SYSTEM) -> Toolset:
    """The tools of all servers that a file lists, as `connect` gives them. Raises as `read_servers` does."""
    return read_servers(file, level=level).connect()


def _text(path: Path) -> str:
    try:
        with usable(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"it has more than {_MOST_BYTES:,} bytes.")
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError("it is no text in UTF-8.") from None


def _made(name: str, entry: Mapping[str, Any], places: Places, level: _OfTools) -> MCPServer:
    """The server of an entry. Raises ConfigError."""
    try:
        said = {key: places.filled(entry[key]) for key in _understood(entry) if key in entry}
        known_as = _UNNAMEABLE.sub("_", name)[:_MOST_NAME_CHARS].strip("_") or "mcp"
        if "command" not in said:
            url = _address(_of_type(said, next((key for key in _URLS if key in said), _URLS[0]), str))
            return MCPServer(url, known_as, level=level, headers=_of_type(said, "headers", dict) or None)
        words = [_of_type(said, "command", str), *_texts(said)]
        folder = _of_type(said, "cwd", str) or None
        return MCPServer(words, known_as, level=level, folder=folder, environment=_environment(said))
    except ConfigError as error:
        raise ConfigError(f"the server {name!r}: {error}") from None


def _address(url: str) -> str:
    """The address. Raises ConfigError for one in which a secret of ours would be read on the way."""
    if not is_sealed(url) and any(secret in url for secret in config.secret_values()):
        raise ConfigError("its address has a secret of yours in it, which would travel unencrypted; use https://.")
    return url


def _understood(entry: Mapping[str, Any]) -> frozenset[str]:
    """What may be said of a server of that kind. Raises ConfigError for a kind, or a word, that nobody knows here."""
    kind = entry.get("type", "http" if "command" not in entry and any(key in entry for key in _URLS) else "stdio")
    if kind == _OLD:
        raise ConfigError(
            'it says "sse", the older way over HTTP, which is not there. Try "http"; the address then ends in /mcp.'
        )
    known = _TYPES.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise ConfigError(f"its type is none of {', '.join(_TYPES)}.")
    unknown = [key for key in entry if key not in known | _BOTH | _LEFT_OUT]
    if unknown:
        told, meant = ", ".join(sorted(known | _BOTH)), suggestion(unknown[0], sorted(known), 0.75)
        raise ConfigError(f"{unknown[0]!r} is not understood, and might be a limit.{meant} What is understood: {told}.")
    if not any(key in entry for key in ("command", *_URLS)):
        raise ConfigError("it has neither a command nor a url.")
    return known


def _left_out(name: str, entry: Mapping[str, Any]) -> list[str]:
    """What of an entry counts for nothing here, in sentences."""
    if entry.get("disabled"):
        return [f"{name} is disabled."]
    keys = [key for key in entry if key in _LEFT_OUT]
    return [f"{name}: {', '.join(keys)} {'counts' if len(keys) == 1 else 'count'} for nothing here."] if keys else []


def _of_type(said: Mapping[str, Any], key: str, kind: Any) -> Any:
    value = said.get(key, kind())
    if not isinstance(value, kind):
        raise ConfigError(f"{key!r} is no {'text' if kind is str else 'object'}.")
    return value


def _texts(said: Mapping[str, Any]) -> list[str]:
    words = said.get("args", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigError("'args' is no list of texts.")
    return words


def _environment(said: Mapping[str, Any]) -> dict[str, str]:
    """The variables of an entry, which come before those of its `envFile`."""
    given = _of_type(said, "env", dict)
    if not all(isinstance(value, str | int | float) for value in given.values()):
        raise ConfigError("'env' has a value that is neither a text nor a number.")
    own = {name: value if isinstance(value, str) else f"{value}" for name, value in given.items()}
    file = _of_type(said, "envFile", str)
    return {**(settings(_text(Path(file))) if file else {}), **own}


def _refuse_unknown(names: Iterable[str], listed: Mapping[str, Any]) -> None:
    unknown = next((name for name in names if name not in listed), None)
    if unknown is not None:
        raise ConfigError(f"it lists no server {unknown!r}. Those that it lists: {', '.join(listed) or 'none'}.")


def _refuse_alike(path: Path, made: Mapping[str, MCPServer]) -> None:
    """Raise ConfigError for servers whose tools would be named alike."""
    names = [server.name for server in made.values()]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"{path}: two servers would be called alike; their names differ in signs alone, or far behind."
        )
