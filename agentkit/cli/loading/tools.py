"""Which tools are meant? Those that we ship, by name, what a Python file of the user's offers, or a provider has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from inspect import isfunction, unwrap
from pathlib import Path
from typing import Any

from agentkit.cli.loading.programs import SUFFIX, names_in, parted
from agentkit.errors import ConfigError, UnknownTool
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.tools import catalog
from agentkit.wording import suggestion

_LIST = "tools"
_SERVERS = ".json"
_HOSTED = "hosted:"


def is_own(name: str) -> bool:
    """Whether a name is none of ours but a provider's, or a program or file of servers, with `:NAME` or without."""
    return name.startswith(_HOSTED) or _parted(name)[0].suffix in {SUFFIX, _SERVERS}


def tools_named(names: Iterable[str]) -> Toolset:
    """The tools of collections, the named tools, and those of Python files, each once. Raises ConfigError."""
    return Toolset(list(dict.fromkeys(tool for name in names for tool in _named(name))))


def tool_named(name: str) -> AnyTool:
    """The one tool that is meant. Raises ConfigError."""
    if not is_own(name):
        try:
            return catalog.find(name)
        except UnknownTool as error:
            raise UnknownTool(f"{error} {_own_way(name)}") from None
    found = _named(name)
    if len(found) > 1:
        raise ConfigError(f"{name} has {', '.join(found.names)}. Name one: {name}:{found.names[0]}")
    return found[0]


def _named(name: str) -> Toolset:
    if name.startswith(_HOSTED):
        from agentkit.hosted import HostedTool

        return Toolset([HostedTool(name.removeprefix(_HOSTED))])
    if is_own(name):
        return _own(*_parted(name))
    try:
        return catalog.named([name])
    except UnknownTool as error:
        known = f"The collections are: {', '.join(catalog.collections)}.{suggestion(name, catalog.collections, 0.75)}"
        raise UnknownTool(f"{error} {known} {_own_way(name)}") from None


def _parted(name: str) -> tuple[Path, str]:
    """A file, and the tool of it that is meant, empty when none is named."""
    file, _, tool = name.rpartition(":")
    return (Path(file), tool) if file.endswith(_SERVERS) else parted(name)


def _own_way(name: str) -> str:
    """How a tool of one's own is named; a module and its function are files here."""
    module, colon, function = name.partition(":")
    file = f"{module}{SUFFIX}"
    return (
        f"Did you mean {file}{colon}{function}?"
        if Path(file).is_file()
        else "Tools of your own: FILE.py, FILE.py:NAME; the provider's: hosted:web_search."
    )


def _own(file: Path, name: str) -> Toolset:
    """What a program offers: its list `tools`, or else its tools and public functions; of these the named one."""
    path = file.expanduser()
    offered = _offered(path)
    if not name:
        return offered
    try:
        return Toolset([offered.find(name)])
    except UnknownTool as error:
        raise UnknownTool(f"{path}: {error}") from None


@cache
def _offered(path: Path) -> Toolset:
    """The tools of a program, or of the servers in a file, which are started once, however often it is named."""
    if not path.is_file():
        raise ConfigError(f"There is no file {str(path)!r}. Name a Python program whose functions are to be tools.")
    if path.suffix == _SERVERS:
        from agentkit.mcp import connect_file

        return connect_file(path)
    found = names_in(path)
    own = Toolset(_made(path, found[_LIST] if _LIST in found else list(_written_in(path, found))))
    if not own:
        raise ConfigError(f"{path} offers no tools. Write functions in it, or a list: {_LIST} = [...]")
    return own


def _made(path: Path, given: Any) -> Toolset:
    try:
        return Toolset(given)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _written_in(path: Path, found: Mapping[str, Any]) -> Iterator[Any]:
    """What the program itself has written, and which tools of a provider it declares; no name that begins with _."""
    for name, value in found.items():
        function = unwrap(value.function if isinstance(value, Tool) else value, stop=_is_bare)
        is_its_own = isfunction(function) and function.__code__.co_filename == str(path)
        is_declared = isinstance(value, Tool) and value.spec.hosted is not None
        if (is_its_own or is_declared) and not name.startswith("_"):
            yield value


def _is_bare(value: Any) -> bool:
    """Whether nothing is wrapped in it: an object may say that it has whatever it is asked for."""
    return "__wrapped__" not in getattr(value, "__dict__", {})
