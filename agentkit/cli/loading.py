"""Loading of agents, suites and tools from Python files and tool names."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import cache
from importlib.machinery import PathFinder
from inspect import isfunction, unwrap
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

from agentkit.agents.agent import Agent
from agentkit.errors import AgentKitError, ConfigError, UnknownTool
from agentkit.event_rendering import suggestion
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.tools import catalog

SUFFIX = ".py"

_Wanted = TypeVar("_Wanted")


def parted(place: str) -> tuple[Path, str]:
    """The file in `FILE` or `FILE.py:NAME`, and the name, which is empty when none is given."""
    file, colon, name = place.rpartition(":")
    return (Path(file), name) if colon and file.endswith(SUFFIX) else (Path(place), "")


def run_file(path: Path) -> Mapping[str, Any]:
    """What a Python file defines, by name. Raises UsageError when it is not there, ConfigError, with the line."""
    if not path.is_file():
        raise click.UsageError(f"There is no file {str(path)!r}.")
    return names_in(path)


def one_in(found: Mapping[str, Any], name: str, kind: type[_Wanted], path: Path) -> _Wanted:
    """What is of that kind: the one of that name, or the only one."""
    known = {each: value for each, value in found.items() if isinstance(value, kind) and not each.startswith("_")}
    if name in known:
        return known[name]
    if len(known) == 1 and not name:
        return next(iter(known.values()))
    what = kind.__name__
    if not known:
        raise click.UsageError(f"There is no {what} in {path}. Make one at its top, as in: it = {what}(...)")
    has = f"has {', '.join(known)}"
    if name:
        raise click.UsageError(f"There is no {what} {name!r} in {path}; it {has}. Name one: {path}:NAME.")
    raise click.UsageError(f"Which {what} is meant? The file {path} {has}. Name one: {path}:NAME.")


def names_in(program: Path) -> Mapping[str, Any]:
    """What the program defines, by name. Modules beside it can be imported. Raises ConfigError, with the line."""
    try:
        with _own_folder(program), redirect_stdout(sys.stderr):  # stdout is the answer's, or a protocol's
            return _imported(program)
    except AgentKitError as error:
        raise ConfigError(f"{_where(error, program)}: {error}") from error
    except (Exception, SystemExit) as error:
        fault = error.msg if isinstance(error, SyntaxError) else error  # the text of a SyntaxError has its place, too
        told = f"{type(error).__name__}: {fault}".strip(": ")
        raise ConfigError(f"{_where(error, program)}: {told}\nAll that Python says of it: python {program}") from error


def _imported(program: Path) -> dict[str, Any]:
    """The program's names; they are found by its own from then on, as what annotations that are texts mean."""
    name = program.name if _is_taken(program.stem) else program.stem
    found = runpy.run_path(str(program), run_name=name)
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(found)
    return found


def _is_taken(name: str) -> bool:
    """Whether a module goes by that name, or will for whoever imports it later."""
    is_there = name == "__main__" or getattr(sys.modules.get(name), "__spec__", None) is not None
    return is_there or name in sys.stdlib_module_names or PathFinder.find_spec(name, sys.path[1:]) is not None


def _where(error: BaseException, program: Path) -> str:
    """The program, and its line that was being run."""
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        line = frame.lineno if frame.filename == str(program) else line
    return f"{program}, line {line}" if line else str(program)


@contextmanager
def _own_folder(program: Path) -> Iterator[None]:
    """The program's folder in the place of the command's, as if Python had started it."""
    folder = sys.path[0]
    sys.path[0] = str(program.resolve().parent)
    try:
        yield
    finally:
        sys.path[0] = folder


def is_program(place: Path) -> bool:
    """Whether an agent is named by its program, as `FILE.py` or `FILE.py:NAME`."""
    return parted(str(place))[0].suffix == SUFFIX


@cache
def made_by(place: str) -> Agent[Any]:
    """The agent in `FILE.py`, or the one of that name in `FILE.py:NAME`; the program is run once.

    Raises UsageError when it is not there, ConfigError, with the line, when the program fails.
    """
    path, name = parted(place)
    return one_in(run_file(path), name, Agent, path)


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
        from agentkit.tools.hosted import HostedTool

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
