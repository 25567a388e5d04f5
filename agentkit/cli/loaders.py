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

_ObjectType = TypeVar("_ObjectType")


def split_target(target: str) -> tuple[Path, str]:
    """Split `FILE` or `FILE.py:NAME` into the file and the name; the name is empty if not given."""
    file, colon, name = target.rpartition(":")
    return (Path(file), name) if colon and file.endswith(SUFFIX) else (Path(target), "")


def run_file(path: Path) -> Mapping[str, Any]:
    """Run a Python file and return its names. Raises UsageError if it is missing, ConfigError with the failing line."""
    if not path.is_file():
        raise click.UsageError(f"The file {str(path)!r} does not exist.")
    return run_program(path)


def select_object(found: Mapping[str, Any], name: str, kind: type[_ObjectType], path: Path) -> _ObjectType:
    """The object of type `kind`: the one with that name, or the only one. Raises UsageError."""
    candidates = {each: value for each, value in found.items() if isinstance(value, kind) and not each.startswith("_")}
    if name in candidates:
        return candidates[name]
    if len(candidates) == 1 and not name:
        return next(iter(candidates.values()))
    type_name = kind.__name__
    if not candidates:
        raise click.UsageError(
            f"There is no {type_name} in {path}. Define one at module level, for example: it = {type_name}(...)"
        )
    listing = f"has {', '.join(candidates)}"
    if name:
        raise click.UsageError(f"There is no {type_name} {name!r} in {path}; it {listing}. Name one: {path}:NAME.")
    raise click.UsageError(f"{path} {listing}, so the choice is ambiguous. Name one: {path}:NAME.")


def run_program(program: Path) -> Mapping[str, Any]:
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
        raise ConfigError(f"{_error_location(error, program)}: {error}") from error
    except (Exception, SystemExit) as error:
        detail = error.msg if isinstance(error, SyntaxError) else error  # its text repeats the position
        message = f"{type(error).__name__}: {detail}".strip(": ")
        raise ConfigError(
            f"{_error_location(error, program)}: {message}\nThe whole traceback: python {program}"
        ) from error


def _is_taken(name: str) -> bool:
    """Whether a module with that name exists or could be imported later."""
    is_loaded = name == "__main__" or getattr(sys.modules.get(name), "__spec__", None) is not None
    return is_loaded or name in sys.stdlib_module_names or PathFinder.find_spec(name, sys.path[1:]) is not None


def _error_location(error: BaseException, program: Path) -> str:
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


def is_program(path: Path) -> bool:
    """Whether an agent is given as a program, `FILE.py` or `FILE.py:NAME`."""
    return split_target(str(path))[0].suffix == SUFFIX


@cache
def agent_from_program(target: str) -> Agent[Any]:
    """The agent in `FILE.py`, or the named one in `FILE.py:NAME`; the program is run once.

    Raises UsageError if the agent is missing, ConfigError with the line if the program fails.
    """
    path, name = split_target(target)
    return select_object(run_file(path), name, Agent, path)


_LIST = "tools"
_SERVERS = ".json"
_HOSTED = "hosted:"


def is_user_defined(name: str) -> bool:
    """Whether a name is outside the catalog: a provider's tool, a program or a file of servers, also with `:NAME`."""
    return name.startswith(_HOSTED) or _split_tool(name)[0].suffix in {SUFFIX, _SERVERS}


def load_tools(names: Iterable[str], levels: Mapping[str, str] | None = None) -> Toolset:
    """The tools of the named collections, tools, plugins and Python files, without duplicates. Raises ConfigError.

    `levels` are the safety levels that the user sets for plugins.
    """
    return Toolset(list(dict.fromkeys(tool for name in names for tool in _load_named(name, levels or {}))))


def load_tool(name: str) -> AnyTool:
    """The single tool with that name. Raises ConfigError."""
    if not is_user_defined(name):
        try:
            return catalog.find(name)
        except UnknownTool as error:
            if not (plugin := _load_plugin(name, {})):
                raise UnknownTool(f"{error} {_other_sources(name)}") from None
            found = plugin
    else:
        found = _load_named(name, {})
    if len(found) > 1:
        raise ConfigError(f"{name} has {', '.join(found.names)}. Name one: {name}:{found.names[0]}")
    return found[0]


def _load_plugin(name: str, levels: Mapping[str, str]) -> Toolset | None:
    """The tools of `PLUGIN`, or the one of `PLUGIN:TOOL`; None for an unknown plugin. Raises ConfigError."""
    from agentkit.tools.plugins import installed, plugin_tools

    plugin, _, tool = name.partition(":")
    if plugin not in installed("tools"):
        return None
    found = plugin_tools(plugin, levels.get(plugin))
    return Toolset([found.find(tool)]) if tool else found


def _load_named(name: str, levels: Mapping[str, str]) -> Toolset:
    if name.startswith(_HOSTED):
        from agentkit.tools.hosted import HostedTool

        return Toolset([HostedTool(name.removeprefix(_HOSTED))])
    if name == CODE:
        from agentkit.agents.coding import coding_tools

        return coding_tools()
    if is_user_defined(name):
        return _load_file(*_split_tool(name))
    try:
        return catalog.named([name])
    except UnknownTool as error:
        if plugin := _load_plugin(name, levels):
            return plugin
        problem, _, known = str(error).partition("The tools are: ")
        collections = f"The collections are: {COLLECTIONS}."
        candidates = (COLLECTIONS.split(", "), installed("tools"), catalog.all_tools.names)
        hint = next(filter(None, (suggestion(name, each, 0.6) for each in candidates)), "")
        first = f"{problem.partition(' Did you mean ')[0].strip()}{hint}"
        raise UnknownTool(f"{first}\nThe tools are: {known} {collections} {_other_sources(name)}") from None


def _split_tool(name: str) -> tuple[Path, str]:
    """Split a name into a file and a tool; the tool is empty if not given."""
    file, _, tool = name.rpartition(":")
    return (Path(file), tool) if file.endswith(_SERVERS) else split_target(name)


def _other_sources(name: str) -> str:
    """How to name a user's own tool; suggests the file if the name is that of a module."""
    module, colon, function = name.partition(":")
    file = f"{module}{SUFFIX}"
    return (
        f"Did you mean {file}{colon}{function}?"
        if Path(file).is_file()
        else "Your own tools: FILE.py, FILE.py:NAME; of plugins: agentkit plugins; of the provider: hosted:web_search."
    )


def _load_file(file: Path, name: str) -> Toolset:
    """The tools of a program: its list `tools`, or else its tools and public functions; only the named one if given."""
    path = file.expanduser()
    tools = _file_tools(path)
    if not name:
        return tools
    try:
        return Toolset([tools.find(name)])
    except UnknownTool as error:
        raise UnknownTool(f"{path}: {error}") from None


@cache
def _file_tools(path: Path) -> Toolset:
    """The tools of a program, or of the servers in a file; cached, so that servers start only once."""
    if not path.is_file():
        raise ConfigError(
            f"The file {str(path)!r} does not exist. Name a Python file of tools, or a JSON file of MCP servers."
        )
    if path.suffix == _SERVERS:
        from agentkit.mcp import connect_file

        return connect_file(path)
    found = run_program(path)
    own = Toolset(_make_toolset(path, found[_LIST] if _LIST in found else list(_defined_in(path, found))))
    if not own:
        raise ConfigError(f"{path} offers no tools. Write functions in it, or a list: {_LIST} = [...]")
    return own


def _make_toolset(path: Path, tools: Any) -> Toolset:
    try:
        return Toolset(tools)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _defined_in(path: Path, found: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the public functions that the program defines itself, and the hosted tools that it declares."""
    for name, value in found.items():
        function = unwrap(value.function if isinstance(value, Tool) else value, stop=_is_unwrapped)
        is_defined_here = isfunction(function) and function.__code__.co_filename == str(path)
        is_declared = isinstance(value, Tool) and value.spec.hosted is not None
        if (is_defined_here or is_declared) and not name.startswith("_"):
            yield value


def _is_unwrapped(value: Any) -> bool:
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
        raise _plugin_error(plugin, "a click command", command)
    return command


def plugin_llm(model: str) -> LLM | None:
    """The client for `PLUGIN:MODEL`; None if no plugin provides it. Raises ConfigError."""
    name, colon, rest = model.partition(":")
    plugin = installed("providers").get(name) if colon else None
    if plugin is None:
        return None
    if not rest.strip():
        raise ConfigError(f"{model!r} is a provider, not a model. Use -m {name}:MODEL")
    from agentkit.llm.client import LLM

    client = load(plugin)(rest)
    if not isinstance(client, LLM):
        raise _plugin_error(plugin, "a function from a model's name to an LLM", client)
    return client


def _plugin_error(plugin: Plugin, expected: str, found: Any) -> ConfigError:
    type_name = type(found).__name__
    return ConfigError(
        f"The plugin {plugin.name!r} of the package {plugin.package} returned {type_name} instead of {expected}."
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
