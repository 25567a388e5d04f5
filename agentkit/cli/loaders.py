"""Loading of agents, suites and tools from Python files, names and plugins; `agentkit plugins`."""

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
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentkit.agents.agent import Agent
from agentkit.cli.options import CODE, COLLECTIONS, JSON
from agentkit.cli.terminal import clean, document_text
from agentkit.errors import AgentKitError, ConfigError, UnknownTool
from agentkit.event_rendering import suggestion
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.tools import catalog
from agentkit.tools.plugins import KINDS, Plugin, installed, load

if TYPE_CHECKING:
    from agentkit.llm.client import LLM

SUFFIX = ".py"

_Wanted = TypeVar("_Wanted")


def parted(place: str) -> tuple[Path, str]:
    """Split `FILE` or `FILE.py:NAME` into the file and the name; the name is empty if not given."""
    file, colon, name = place.rpartition(":")
    return (Path(file), name) if colon and file.endswith(SUFFIX) else (Path(place), "")


def run_file(path: Path) -> Mapping[str, Any]:
    """Run a Python file and return its names. Raises UsageError if it is missing, ConfigError with the failing line."""
    if not path.is_file():
        raise click.UsageError(f"The file {str(path)!r} does not exist.")
    return names_in(path)


def one_in(found: Mapping[str, Any], name: str, kind: type[_Wanted], path: Path) -> _Wanted:
    """The object of type `kind`: the one with that name, or the only one. Raises UsageError."""
    known = {each: value for each, value in found.items() if isinstance(value, kind) and not each.startswith("_")}
    if name in known:
        return known[name]
    if len(known) == 1 and not name:
        return next(iter(known.values()))
    what = kind.__name__
    if not known:
        raise click.UsageError(
            f"There is no {what} in {path}. Define one at module level, for example: it = {what}(...)"
        )
    has = f"has {', '.join(known)}"
    if name:
        raise click.UsageError(f"There is no {what} {name!r} in {path}; it {has}. Name one: {path}:NAME.")
    raise click.UsageError(f"{path} {has}, so the choice is ambiguous. Name one: {path}:NAME.")


def names_in(program: Path) -> Mapping[str, Any]:
    """Run a program and return its names; it can import modules of its folder. Raises ConfigError with the line."""
    try:
        with _own_folder(program), redirect_stdout(sys.stderr):  # stdout is reserved for the answer or a protocol
            # Run the program and register it as a module, so that string annotations can be resolved later
            name = program.name if _is_taken(program.stem) else program.stem
            found = runpy.run_path(str(program), run_name=name)
            sys.modules[name] = ModuleType(name)
            vars(sys.modules[name]).update(found)
            return found
    except AgentKitError as error:
        raise ConfigError(f"{_where(error, program)}: {error}") from error
    except (Exception, SystemExit) as error:
        fault = error.msg if isinstance(error, SyntaxError) else error  # its text repeats the position
        message = f"{type(error).__name__}: {fault}".strip(": ")
        raise ConfigError(f"{_where(error, program)}: {message}\nThe whole traceback: python {program}") from error


def _is_taken(name: str) -> bool:
    """Whether a module with that name exists or could be imported later."""
    is_there = name == "__main__" or getattr(sys.modules.get(name), "__spec__", None) is not None
    return is_there or name in sys.stdlib_module_names or PathFinder.find_spec(name, sys.path[1:]) is not None


def _where(error: BaseException, program: Path) -> str:
    """The program, and the line of it that failed."""
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        line = frame.lineno if frame.filename == str(program) else line
    return f"{program}, line {line}" if line else str(program)


@contextmanager
def _own_folder(program: Path) -> Iterator[None]:
    """Put the program's folder first on `sys.path` for the block, as if Python had started it."""
    folder = sys.path[0]
    sys.path[0] = str(program.resolve().parent)
    try:
        yield
    finally:
        sys.path[0] = folder


def is_program(place: Path) -> bool:
    """Whether an agent is given as a program, `FILE.py` or `FILE.py:NAME`."""
    return parted(str(place))[0].suffix == SUFFIX


@cache
def made_by(place: str) -> Agent[Any]:
    """The agent in `FILE.py`, or the named one in `FILE.py:NAME`; the program is run once.

    Raises UsageError if the agent is missing, ConfigError with the line if the program fails.
    """
    path, name = parted(place)
    return one_in(run_file(path), name, Agent, path)


_LIST = "tools"
_SERVERS = ".json"
_HOSTED = "hosted:"


def is_own(name: str) -> bool:
    """Whether a name is outside the catalog: a provider's tool, a program or a file of servers, also with `:NAME`."""
    return name.startswith(_HOSTED) or _parted(name)[0].suffix in {SUFFIX, _SERVERS}


def tools_named(names: Iterable[str], levels: Mapping[str, str] | None = None) -> Toolset:
    """The tools of the named collections, tools, plugins and Python files, without duplicates. Raises ConfigError.

    `levels` are the safety levels that the user sets for plugins.
    """
    return Toolset(list(dict.fromkeys(tool for name in names for tool in _named(name, levels or {}))))


def tool_named(name: str) -> AnyTool:
    """The single tool with that name. Raises ConfigError."""
    if not is_own(name):
        try:
            return catalog.find(name)
        except UnknownTool as error:
            if not (plugin := _plugin(name, {})):
                raise UnknownTool(f"{error} {_own_way(name)}") from None
            found = plugin
    else:
        found = _named(name, {})
    if len(found) > 1:
        raise ConfigError(f"{name} has {', '.join(found.names)}. Name one: {name}:{found.names[0]}")
    return found[0]


def _plugin(name: str, levels: Mapping[str, str]) -> Toolset | None:
    """The tools of `PLUGIN`, or the one of `PLUGIN:TOOL`; None for an unknown plugin. Raises ConfigError."""
    from agentkit.tools.plugins import installed, plugin_tools

    plugin, _, tool = name.partition(":")
    if plugin not in installed("tools"):
        return None
    found = plugin_tools(plugin, levels.get(plugin))
    return Toolset([found.find(tool)]) if tool else found


def _named(name: str, levels: Mapping[str, str]) -> Toolset:
    if name.startswith(_HOSTED):
        from agentkit.tools.hosted import HostedTool

        return Toolset([HostedTool(name.removeprefix(_HOSTED))])
    if name == CODE:
        from agentkit.agents.coding import coding_tools

        return coding_tools()
    if is_own(name):
        return _own(*_parted(name))
    try:
        return catalog.named([name])
    except UnknownTool as error:
        if plugin := _plugin(name, levels):
            return plugin
        what, _, known = str(error).partition("The tools are: ")
        collections = f"The collections are: {COLLECTIONS}."
        near = (COLLECTIONS.split(", "), installed("tools"), catalog.all_tools.names)
        hint = next(filter(None, (suggestion(name, each, 0.6) for each in near)), "")
        first = f"{what.partition(' Did you mean ')[0].strip()}{hint}"
        raise UnknownTool(f"{first}\nThe tools are: {known} {collections} {_own_way(name)}") from None


def _parted(name: str) -> tuple[Path, str]:
    """Split a name into a file and a tool; the tool is empty if not given."""
    file, _, tool = name.rpartition(":")
    return (Path(file), tool) if file.endswith(_SERVERS) else parted(name)


def _own_way(name: str) -> str:
    """How to name a user's own tool; suggests the file if the name is that of a module."""
    module, colon, function = name.partition(":")
    file = f"{module}{SUFFIX}"
    return (
        f"Did you mean {file}{colon}{function}?"
        if Path(file).is_file()
        else "Your own tools: FILE.py, FILE.py:NAME; of plugins: agentkit plugins; of the provider: hosted:web_search."
    )


def _own(file: Path, name: str) -> Toolset:
    """The tools of a program: its list `tools`, or else its tools and public functions; only the named one if given."""
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
    """The tools of a program, or of the servers in a file; cached, so that servers start only once."""
    if not path.is_file():
        raise ConfigError(
            f"The file {str(path)!r} does not exist. Name a Python file of tools, or a JSON file of MCP servers."
        )
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
    """Yield the public functions that the program defines itself, and the hosted tools that it declares."""
    for name, value in found.items():
        function = unwrap(value.function if isinstance(value, Tool) else value, stop=_is_bare)
        is_its_own = isfunction(function) and function.__code__.co_filename == str(path)
        is_declared = isinstance(value, Tool) and value.spec.hosted is not None
        if (is_its_own or is_declared) and not name.startswith("_"):
            yield value


def _is_bare(value: Any) -> bool:
    """Whether the value wraps nothing; checked in `__dict__`, because `__getattr__` can pretend any attribute."""
    return "__wrapped__" not in getattr(value, "__dict__", {})


_USES = {"tools": "-t {}", "providers": "-m {}:MODEL", "commands": "agentkit {}"}


def plugin_command(name: str) -> click.Command | None:
    """The command of a plugin; None if no plugin has a command of that name. Raises ConfigError."""
    plugin = installed("commands").get(name)
    if plugin is None:
        return None
    command = load(plugin)
    if not isinstance(command, click.Command):
        raise _wrong(plugin, "a click command", command)
    return command


def plugin_llm(model: str) -> LLM | None:
    """The client for `PLUGIN:MODEL`; None if no plugin provides it. Raises ConfigError."""
    name, colon, rest = model.partition(":")
    plugin = installed("providers").get(name) if colon else None
    if plugin is None:
        return None
    if not rest.strip():
        raise ConfigError(f"The model name {model!r} lacks the model: {name}:MODEL")
    from agentkit.llm.client import LLM

    made = load(plugin)(rest)
    if not isinstance(made, LLM):
        raise _wrong(plugin, "a function from a model's name to an LLM", made)
    return made


def _wrong(plugin: Plugin, wanted: str, found: Any) -> ConfigError:
    kind = type(found).__name__
    return ConfigError(
        f"The plugin {plugin.name!r} of the package {plugin.package} returned {kind} instead of {wanted}."
    )


@click.group(invoke_without_command=True, short_help="List the installed plugins.")
@click.pass_context
def plugins(context: click.Context) -> None:
    """List the installed plugins: packages that offer tools, providers and commands.

    A plugin is active only where it is named. Its tools have the level SYSTEM; to set another one:
    agentkit config set plugins.NAME network
    """
    if context.invoked_subcommand is None:
        context.invoke(list_plugins, as_json=False)


@plugins.command("list")
@JSON
def list_plugins(*, as_json: bool) -> None:
    """List the installed plugins: kind, name, package and use. Nothing of them is imported."""
    found = [plugin for kind in KINDS for plugin in installed(kind).values()]
    if as_json:
        names = ("kind", "name", "value", "package", "version")
        click.echo(document_text(plugins=[{name: getattr(each, name) for name in names} for each in found]))
        return
    for each in found:
        use = _USES[each.kind].format(each.name)
        click.echo(clean(f"{each.kind:<9}  {each.name:<16}  {each.package} {each.version}  use: {use}"))
    if not found:
        click.echo("No plugin is installed.", err=True)
