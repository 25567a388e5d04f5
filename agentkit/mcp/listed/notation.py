"""What does a file of servers say? JSON with comments, in which places stand for variables (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentkit.errors import ConfigError
from agentkit.lines import split_lines
from agentkit.wording import is_shallow

_LISTS = ("mcpServers", "servers")
_PLACE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_REMARK = r"(?>//[^\n]*|/\*.*?\*/)"
_NO_JSON = re.compile(
    rf'"(?:[^"\\\n]|\\.)*+"?|{_REMARK}|(?P<unended>/\*.*)|,(?=(?:\s|{_REMARK})*+[}}\]])',
    re.DOTALL,
)
"""Nothing of it is tried twice, and what has no end is taken at once: otherwise a line of slashes takes years."""

_SETTING = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_EDITORS = frozenset((".vscode", ".cursor"))


def entries(text: str) -> dict[str, Mapping[str, Any]]:
    """What is said of each server, by name. Comments and commas that end a list are allowed, as editors do.

    Raises ConfigError; the text quotes nothing, since there may be keys in it.
    """
    try:
        data = json.loads(_NO_JSON.sub(_plain, text.removeprefix("\ufeff")), object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ConfigError(f"it is no JSON, line {error.lineno}: {error.msg}.") from None
    except RecursionError:
        raise ConfigError("it is nested too deep.") from None
    if not is_shallow(data):
        raise ConfigError("it is nested too deep.")
    lists = [data[name] for name in _LISTS if name in data] if isinstance(data, dict) else []
    if len(lists) != 1 or not isinstance(lists[0], dict):
        raise ConfigError('it lists no servers, as in {"mcpServers": {"time": {"command": "uvx", "args": [...]}}}.')
    for name, entry in lists[0].items():
        if not isinstance(entry, dict):
            raise ConfigError(f"what it says of {name!r} is no object with a command or a url.")
    return lists[0]


class Places:
    """What stands where a file has `${...}`: variables of ours, and folders as the editors call them."""

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

    def filled(self, value: Any) -> Any:
        """The value with each text's places filled in. Raises ConfigError for one that cannot be."""
        if isinstance(value, str):
            return _PLACE.sub(lambda found: self._filled(found[1]), value)
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        return {name: self.filled(each) for name, each in value.items()} if isinstance(value, dict) else value

    def _filled(self, place: str) -> str:
        if place in self._folders:
            return self._folders[place]
        found = _VARIABLE.fullmatch(place)
        if found is None:
            remedy = "Write ${env:NAME} in its place, and set that." if place.startswith("input:") else ""
            raise ConfigError(f"nobody knows here what ${{{place}}} stands for. {remedy}".rstrip())
        name, default = found.group("name", "default")
        if name not in self._environment and default is None:
            raise ConfigError(f"${{{place}}} stands for a variable that is not set here.")
        return self._environment.get(name) or default or ""


def settings(text: str) -> dict[str, str]:
    """The variables in a file of lines such as `NAME=value`. Raises ConfigError for another line."""
    found: dict[str, str] = {}
    for number, line in enumerate(split_lines(text), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            setting = _SETTING.fullmatch(line)
            if setting is None:
                raise ConfigError(f"line {number} of its envFile is none like NAME=value.")
            value = setting[2]
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[setting[1]] = value[1:-1] if is_quoted else value
    return found


def _plain(found: re.Match[str]) -> str:
    """A text as it is, and a blank for what JSON does not know."""
    return found[0] if found[0].startswith('"') or found["unended"] else " "


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"it says {twice!r} twice.")
    return dict(pairs)
