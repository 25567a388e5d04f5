"""Server lists in the format of Claude, Cursor and VS Code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentkit import settings as config
from agentkit._dataclass import dataclass
from agentkit.atomic_write import validate_path
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError
from agentkit.event_rendering import is_shallow, suggestion
from agentkit.mcp.client import MCPServer, connect
from agentkit.mcp.connection_target import is_encrypted
from agentkit.text_encoding import split_lines
from agentkit.tooling.toolset import Toolset

_LISTS = ("mcpServers", "servers")
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_COMMENT = r"(?>//[^\n]*|/\*.*?\*/)"
_NO_JSON = re.compile(
    rf'"(?:[^"\\\n]|\\.)*+"?|{_COMMENT}|(?P<unended>/\*.*)|,(?=(?:\s|{_COMMENT})*+[}}\]])',
    re.DOTALL,
)
"""Possessive and atomic matching prevents catastrophic backtracking, e.g. on a long line of slashes."""

_SETTING = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_EDITORS = frozenset((".vscode", ".cursor"))


def entries(text: str) -> dict[str, Mapping[str, Any]]:
    """Parse the configuration of each server, by name. Comments and trailing commas are allowed, as in editors.

    Raises ConfigError; the message quotes nothing from the file, which can contain keys.
    """
    try:
        data = json.loads(_NO_JSON.sub(_strip, text.removeprefix("\ufeff")), object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise ConfigError(f"it is not JSON, line {error.lineno}: {error.msg}.") from None
    except RecursionError:
        raise ConfigError("it is nested too deeply.") from None
    if not is_shallow(data):
        raise ConfigError("it is nested too deeply.")
    lists = [data[name] for name in _LISTS if name in data] if isinstance(data, dict) else []
    if len(lists) != 1 or not isinstance(lists[0], dict):
        raise ConfigError('it lists no servers, as in {"mcpServers": {"time": {"command": "uvx", "args": [...]}}}.')
    for name, entry in lists[0].items():
        if not isinstance(entry, dict):
            raise ConfigError(f"the entry {name!r} must be an object with a command or a url.")
    return lists[0]


class ConfigVariables:
    """Values for `${...}` placeholders in a file: environment variables, and folders as named by the editors."""

    def __init__(self, file: Path, environment: Mapping[str, str]) -> None:
        parent = file.absolute().parent
        folder = parent.parent if parent.name in _EDITORS else parent
        self._environment = environment
        self._folders = {
            "userHome": str(Path.home()),
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "pathSeparator": "/",
            "/": "/",
        }

    def substitute(self, value: Any) -> Any:
        """Substitute the placeholders in all texts of a value. Raises ConfigError for an unknown one."""
        if isinstance(value, str):
            return _PLACEHOLDER.sub(lambda found: self._value(found[1]), value)
        if isinstance(value, list):
            return [self.substitute(each) for each in value]
        return {name: self.substitute(each) for name, each in value.items()} if isinstance(value, dict) else value

    def _value(self, place: str) -> str:
        if place in self._folders:
            return self._folders[place]
        found = _VARIABLE.fullmatch(place)
        if found is None:
            remedy = "Use ${env:NAME} instead, and set that variable." if place.startswith("input:") else ""
            raise ConfigError(f"the variable ${{{place}}} is unknown. {remedy}".rstrip())
        name, default = found.group("name", "default")
        if name not in self._environment and default is None:
            raise ConfigError(f"the variable ${{{place}}} is not set.")
        return self._environment.get(name) or default or ""


def settings(text: str) -> dict[str, str]:
    """Parse the variables in a file of `NAME=value` lines. Raises ConfigError for any other line."""
    found: dict[str, str] = {}
    for number, line in enumerate(split_lines(text), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            setting = _SETTING.fullmatch(line)
            if setting is None:
                raise ConfigError(f"line {number} of its envFile must have the form NAME=value.")
            value = setting[2]
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[setting[1]] = value[1:-1] if is_quoted else value
    return found


def _strip(found: re.Match[str]) -> str:
    """Keep strings and unterminated comments; replace comments and trailing commas by a blank."""
    return found[0] if found[0].startswith('"') or found["unended"] else " "


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise ConfigError(f"the key {duplicate!r} occurs twice.")
    return dict(pairs)


Level = SafetyLevel | str
_LevelOrLevels = Level | Mapping[str, Level]

_COMMAND_KEYS = frozenset(("args", "command", "cwd", "env", "envFile"))
_URLS = ("url", "serverUrl", "httpUrl")
_URL_KEYS = frozenset(("headers", *_URLS))
_COMMON_KEYS = frozenset(("disabled", "type"))
_DESCRIPTIVE_KEYS = frozenset(("description", "dev", "gallery", "icon", "name", "version"))
_IGNORED_KEYS = _DESCRIPTIVE_KEYS | frozenset(("alwaysAllow", "autoApprove", "oauth", "timeout", "trust"))
"""Keys of other programs that can be ignored: they describe a server, or reduce the number of approvals."""

_TYPES = {"stdio": _COMMAND_KEYS, "http": _URL_KEYS, "streamable-http": _URL_KEYS, "streamableHttp": _URL_KEYS}
_SSE = 'the older HTTP transport "sse" is not supported. Use "http"; the address then usually ends in /mcp.'
_MAX_BYTES = 1_000_000
_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME_CHARS = 24


@dataclass(frozen=True, slots=True)
class ListedServers:
    """The servers listed in a file, by name, and sentences about ignored settings."""

    servers: Mapping[str, MCPServer]
    left_out: tuple[str, ...] = ()

    def connect(self) -> Toolset:
        """Return the tools of all servers, connecting in parallel. Raises ConfigError."""
        return connect(*self.servers.values())


def read_servers(
    file: str | Path,
    *,
    level: Level | Mapping[str, _LevelOrLevels] = SafetyLevel.SYSTEM,
    only: Iterable[str] | None = None,
) -> ListedServers:
    """Read the servers listed in a file in the format of Claude, Cursor and VS Code, without connecting.

    The file starts programs and receives environment variables: use only a file you trust. `level` is the safety level
    of all tools, or by server the `level` argument of `MCPServer`; `only` selects servers by name. Raises ConfigError
    for anything not understood, because it could be a restriction.
    """
    path = Path(file).expanduser()
    try:
        listed = entries(_text(path))
        names = [*listed] if only is None else [only] if isinstance(only, str) else [*only]
        _refuse_unknown(names, listed)
        _refuse_unknown(level if isinstance(level, Mapping) else (), listed)
        config_variables = ConfigVariables(path, config.environment())
        notes = [text for name in names for text in _ignored_notes(name, listed[name])]
        sse_names = [name for name in names if listed[name].get("type") == "sse"]
        selected = [name for name in names if not listed[name].get("disabled") and name not in sse_names]
        _refuse_sse(sse_names if only is not None and not selected else ())
        levels = level if isinstance(level, Mapping) else dict.fromkeys(selected, level)
        servers = {
            name: _make_server(name, listed[name], config_variables, levels.get(name, SafetyLevel.SYSTEM))
            for name in selected
        }
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    _refuse_same_names(path, servers)
    return ListedServers(servers, tuple(notes))


def connect_file(file: str | Path, *, level: Level | Mapping[str, _LevelOrLevels] = SafetyLevel.SYSTEM) -> Toolset:
    """Connect to all servers listed in a file and return their tools. Raises like `read_servers`."""
    return read_servers(file, level=level).connect()


def _text(path: Path) -> str:
    try:
        with validate_path(path).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ConfigError(f"it has more than {_MAX_BYTES:,} bytes.")
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError("it is not UTF-8 text.") from None


def _make_server(
    name: str, entry: Mapping[str, Any], config_variables: ConfigVariables, level: _LevelOrLevels
) -> MCPServer:
    """Create the server of an entry. Raises ConfigError."""
    try:
        entry_values = {key: config_variables.substitute(entry[key]) for key in _known_keys(entry) if key in entry}
        known_as = _UNNAMEABLE.sub("_", name)[:_MAX_NAME_CHARS].strip("_") or "mcp"
        if "command" not in entry_values:
            url = _address(
                _typed_value(entry_values, next((key for key in _URLS if key in entry_values), _URLS[0]), str)
            )
            return MCPServer(url, known_as, level=level, headers=_typed_value(entry_values, "headers", dict) or None)
        words = [_typed_value(entry_values, "command", str), *_arguments(entry_values)]
        folder = _typed_value(entry_values, "cwd", str) or None
        return MCPServer(words, known_as, level=level, folder=folder, environment=_environment(entry_values))
    except ConfigError as error:
        raise ConfigError(f"the server {name!r}: {error}") from None


def _address(url: str) -> str:
    """Return the address. Raises ConfigError if it would send a known secret unencrypted."""
    if not is_encrypted(url) and any(secret in url for secret in config.secret_values()):
        raise ConfigError("its address contains a secret, which would be sent unencrypted. Use https://.")
    return url


def _known_keys(entry: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys allowed for the type of server. Raises ConfigError for an unknown type or key."""
    kind = entry.get("type", "http" if "command" not in entry and any(key in entry for key in _URLS) else "stdio")
    known = _TYPES.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise ConfigError(f"its type is unknown. Known types: {', '.join(_TYPES)}.")
    unknown = [key for key in entry if key not in known | _COMMON_KEYS | _IGNORED_KEYS]
    if unknown:
        names, meant = ", ".join(sorted(known | _COMMON_KEYS)), suggestion(unknown[0], sorted(known), 0.75)
        raise ConfigError(f"{unknown[0]!r} is unknown, and could be a restriction.{meant} Known keys: {names}.")
    if not any(key in entry for key in ("command", *_URLS)):
        raise ConfigError("it has neither a command nor a url.")
    return known


def _ignored_notes(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Describe the ignored settings of an entry."""
    if entry.get("disabled"):
        return [f"{name} is disabled."]
    if entry.get("type") == "sse":
        return [f"{name}: {_SSE}"]
    keys = [key for key in entry if key in _IGNORED_KEYS]
    return [f"{name}: {', '.join(keys)} {'is' if len(keys) == 1 else 'are'} ignored."] if keys else []


def _refuse_sse(names: Sequence[str]) -> None:
    """Raise ConfigError if only servers over SSE were selected by name."""
    if names:
        raise ConfigError(" ".join(f"{name}: {_SSE}" for name in names))


def _typed_value(entry_values: Mapping[str, Any], key: str, kind: Any) -> Any:
    value = entry_values.get(key, kind())
    if not isinstance(value, kind):
        raise ConfigError(f"{key!r} must be {'a string' if kind is str else 'an object'}.")
    return value


def _arguments(entry_values: Mapping[str, Any]) -> list[str]:
    words = entry_values.get("args", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigError("'args' must be a list of strings.")
    return words


def _environment(entry_values: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of an entry, which override those of its `envFile`."""
    env = _typed_value(entry_values, "env", dict)
    if not all(isinstance(value, str | int | float) for value in env.values()):
        raise ConfigError("the values of 'env' must be strings or numbers.")
    values = {name: value if isinstance(value, str) else f"{value}" for name, value in env.items()}
    file = _typed_value(entry_values, "envFile", str)
    return {**(settings(_text(Path(file))) if file else {}), **values}


def _refuse_unknown(names: Iterable[str], listed: Mapping[str, Any]) -> None:
    unknown = next((name for name in names if name not in listed), None)
    if unknown is not None:
        raise ConfigError(f"it lists no server {unknown!r}. Its servers: {', '.join(listed) or 'none'}.")


def _refuse_same_names(path: Path, servers: Mapping[str, MCPServer]) -> None:
    """Raise ConfigError if two servers would use the same name."""
    names = [server.name for server in servers.values()]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"{path}: two servers would get the same short name, because their names differ only in signs or "
            "at the end."
        )
