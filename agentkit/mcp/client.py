"""How are the tools of an MCP server used? As a toolset that connects itself, and lets go when nobody needs it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never

from agentkit import config
from agentkit.agents.offering.offer import FIND_TOOLS
from agentkit.decisions import Label
from agentkit.errors import ConfigError, ToolError
from agentkit.levels import SafetyLevel
from agentkit.mcp import remote
from agentkit.mcp.definitions import Change, Definition, changes, clashing, local_names
from agentkit.mcp.link import Link, Question
from agentkit.mcp.logins.terms import Ask, Terms, with_login
from agentkit.mcp.pins import Pins
from agentkit.mcp.remote import Bounds, RemoteTool, ResourceTool, Source
from agentkit.mcp.sdk.contents import Answer
from agentkit.mcp.target import Target, advice, target_of, variables
from agentkit.messages import READ_MORE
from agentkit.naming import refuse_made
from agentkit.tooling.toolset import Toolset
from agentkit.tools.catalog import all_tools
from agentkit.tools.dialogue import finish_tool

if TYPE_CHECKING:
    from agentkit.mcp.sdk.asking import Progress, Said

_TAKEN = frozenset({*all_tools.names, finish_tool.name, FIND_TOOLS, READ_MORE, "ask_user", "tell_user", "run_program"})
"""The names of our own tools: a server's tool must not pass for one of them, nor a rule for one hold for the other."""


class MCPServer(Source):
    """The tools of an MCP server: put it among an agent's tools, or take them from `tools`.

    Args:
        server: A command such as `"uvx mcp-server-time"` or a list of its words, a URL of streamable HTTP, or a server
            object of the `mcp` package in this process.
        name: What tools are named by where a name is taken; by default a word out of the command or the URL.
        level: The safety level of all its tools, or a dictionary with that of each. SYSTEM where none is told: what a
            server says of its own tools is no reason to trust it.
        environment: The variables that a command gets beside a few harmless ones: their names, or a dictionary.
        folder: The folder that a command works in; the current one by default.
        token: What is shown to a URL, as `Authorization: Bearer TOKEN`.
        headers: What else is sent to a URL with each request. It is kept as secret as a token.
        login: How one logs in at a URL by OAuth: a function that has a person open an address, a `Login`, or
            `ClientCredentials`. Where none is told, a login that is kept already counts.
        prefix: Whether all tools are named `NAME_tool`, and not only those whose name one of ours has.
        timeout_seconds: How long a call may take. None means no limit.
        connect_seconds: How long starting and connecting may take.
        max_chars: How much of a result a model is told.
        labels: What results may hold beside untrusted text; by default, of a SYSTEM tool, private data.
        on_progress: Hears how far a call is, as the server tells: the tool's name, how much, of how much, and a word.
        pins: The folder where it is kept what was accepted of the server; by default in the state folder. A server in
            this process is part of the program, and has no pins unless this is given.
        resources: Whether there are two more tools, `list_resources` and `read_resource`, by which a model reads what
            the server offers to read. `level` tells theirs, too.

    It connects when its tools are first asked for, and again when the connection was lost. `close()` ends it, as does
    the end of a `with` block, of the program, or of the last one who needs it. Raises ConfigError, and MissingExtra
    when the extra `mcp` is not installed.
    """

    def __init__(
        self,
        server: Any,
        name: str | None = None,
        *,
        level: SafetyLevel | str | Mapping[str, SafetyLevel | str] = SafetyLevel.SYSTEM,
        environment: Mapping[str, str] | Iterable[str] = (),
        folder: str | Path | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        login: Ask | Terms | None = None,
        prefix: bool = False,
        timeout_seconds: float | None = 60.0,
        connect_seconds: float = 60.0,
        max_chars: int = 50_000,
        labels: Iterable[Label | str] | None = None,
        on_progress: Callable[[str, float, float | None, str], object] | None = None,
        pins: str | Path | None = None,
        resources: bool = False,
        **unknown: Never,
    ) -> None:
        refuse_made(MCPServer, unknown)
        given = variables(environment, config.environment())
        where = None if folder is None else str(folder)
        found = target_of(server, name, folder=where, environment=given, token=token, headers=headers)
        self._target = with_login(found, login)
        self._levels = remote.checked_levels(level)
        self._labels = None if labels is None else frozenset(map(Label, labels))
        self._prefix, self._on_progress = prefix, on_progress
        self._own = remote.resource_tools(self._target.name) if resources else {}
        self._timeout_seconds, self._connect_seconds, self._max_chars = timeout_seconds, connect_seconds, max_chars
        self._pins = _pins_of(self._target, pins)
        self._taken: frozenset[str] = _TAKEN
        self._begin()

    def _begin(self) -> None:
        """Be without a connection."""
        self._lock = threading.RLock()
        self._seen: dict[str, Definition] | None = None
        self._pinned: dict[str, Definition] | None = None
        self._tools: tuple[RemoteTool, ...] | None = None
        self._unusable: dict[str, str] = {}
        saw = weakref.WeakMethod(self._saw)  # the connection's thread must not keep its server alive
        self._link = Link(self._target, self._connect_seconds, lambda found: _tell(saw(), found))
        self._finalizer = weakref.finalize(self, self._link.close)

    @property
    def name(self) -> str:
        """The word that the server goes by."""
        return self._target.name

    @property
    def target(self) -> Target:
        """How it is reached: the words of a command with folder and environment, a URL with headers, or a program."""
        return self._target

    @property
    def is_pinned(self) -> bool:
        """Whether what was accepted of it is kept on this machine, so that a change is seen by a later process, too."""
        return self._pins is not None

    @property
    def tools(self) -> Toolset:
        """The server's tools. Connects, if need be. Raises ConfigError when the server cannot be used."""
        return Toolset(iter(self))

    @property
    def changes(self) -> tuple[Change, ...]:
        """What is not as it was when the server was accepted."""
        self._connect()
        return changes(self._pinned or {}, self._seen or {})

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The tools as the server describes them now, believed or not."""
        self._connect()
        return tuple((self._seen or {}).values())

    def accept(self) -> None:
        """Believe the server as it is now, from now on. Tools that were taken from `tools` before keep their texts."""
        self._connect()
        with self._lock:
            self._pinned = dict(self._seen or {})
            if self._pins is not None:
                self._pins.write(self._pinned)
            self._tools = None

    def change_of(self, name: str) -> Change | None:
        """How a tool, by the server's name for it, differs from what was accepted; None when it does not."""
        self._connect()
        found = changes(self._pinned or {}, self._seen or {})
        return next((change for change in found if change.name == name), None)

    @property
    def unusable(self) -> Mapping[str, str]:
        """The tools that are left out of `tools`, by the server's names for them, and what is wrong with each."""
        self._listed()
        return dict(self._unusable)

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        """Have the server run a tool, by its own name for it, unjudged. Raises ToolError and ToolTimeout."""
        return _told(self._link.ask(self._calling(tool, arguments), self._timeout_seconds, tool))

    async def acall(self, tool: str, /, **arguments: Any) -> Answer:
        """Like `call`, awaiting; when it is cancelled, so is the server's work."""
        return _told(await self._link.aask(self._calling(tool, arguments), self._timeout_seconds, tool))

    def again(self, name: str) -> RemoteTool:
        """The tool of that name at the server, as it is among `tools`. Raises ConfigError when there is none."""
        found = {tool.remote_name: tool for tool in self}
        if name not in found:
            why = self._unusable.get(name)
            raise ConfigError(why or f"The MCP server {self.name!r} has no tool {name!r}.")
        return found[name]

    def close(self) -> None:
        """End the connection, and the process of a command with all that it has started."""
        self._link.close()

    def _connect(self) -> None:
        with self._lock:
            if self._seen is not None:
                return
            try:
                self._list()
            except ToolError as error:
                place = self._target.url.partition("?")[0]  # behind it there may be a key
                where = f" at {place}" if place else ""
                told = (
                    f"The MCP server {self.name!r}{where} cannot be used. {error}\n{advice(self._target, str(error))}"
                )
                raise ConfigError(told.rstrip()) from error
            remote.refuse_unknown(self._levels, (*(self._seen or {}), *self._own), self.name)

    def _made(self) -> Iterator[RemoteTool]:
        """The tools, told with what was accepted of them, and ours; what is none is noted."""
        pinned, seen = self._pinned or {}, self._seen or {}
        named = local_names(seen, self.name, self._taken, prefixed=self._prefix)
        self._unusable = {}
        for name, given in named.items():
            try:
                yield RemoteTool(self, name, given, pinned.get(name), self._bounds(name))
            except ConfigError as error:
                self._unusable[name] = str(error)
        taken = {*self._taken, *named.values()}
        for name, given in local_names(self._own, self.name, taken, prefixed=self._prefix).items():
            own = self._own[name]
            yield ResourceTool(self, own.name, given, own, self._bounds(name))

    def _bounds(self, name: str) -> Bounds:
        level = remote.level_of(name, self._levels)
        return Bounds(level, self._timeout_seconds, self._max_chars, remote.labels_of(level, self._labels))

    def _saw(self, found: tuple[Definition, ...]) -> None:
        """Take in what the server offers; the first time, that is what is accepted."""
        seen = {each.name: each for each in found}
        if self._pinned is None:
            kept = None if self._pins is None else self._pins.read()
            if kept is None and self._pins is not None:
                self._pins.write(seen)
            self._pinned = seen if kept is None else kept
        self._seen = seen

    def _calling(self, tool: str, arguments: Mapping[str, Any]) -> Question[Said]:
        heard = self._heard(tool)
        return lambda server: server.call(tool, arguments, heard)

    def _heard(self, tool: str) -> Progress | None:
        heard = self._on_progress
        return None if heard is None else lambda progress, total, word: heard(tool, progress, total, word)

    def beside(self, taken: Iterable[str]) -> Toolset:
        """The tools where these names are taken by tools of others: from now on they are named `NAME_tool`."""
        with self._lock:
            self._taken, self._tools = self._taken | frozenset(taken), None
            return self.tools

    def _listed(self) -> tuple[RemoteTool, ...]:
        with self._lock:
            if self._tools is None:
                self._connect()
                self._tools = tuple(self._made())
            return self._tools

    def __iter__(self) -> Iterator[RemoteTool]:
        tools = self._listed()
        if self._unusable and not tools:
            why = next(iter(self._unusable.values()))
            raise ConfigError(f"The MCP server {self.name!r} has no tool that can be used. {why}")
        return iter(tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __add__(self, other: Any) -> Toolset:
        return Toolset((self, other))

    def __radd__(self, other: Any) -> Toolset:
        return Toolset((other, self))

    def __enter__(self) -> MCPServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """All but the connection: a copy in another process has its own."""
        own = ("_lock", "_seen", "_pinned", "_tools", "_unusable", "_link", "_finalizer")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"


def _tell(saw: Callable[[tuple[Definition, ...]], None] | None, found: tuple[Definition, ...]) -> None:
    """Let the server know what it offers, if there is still somebody who needs it."""
    if saw is not None:
        saw(found)


def _pins_of(target: Target, folder: str | Path | None) -> Pins | None:
    if folder is None and target.program is not None:
        return None
    return Pins(config.state_folder() / "mcp" if folder is None else Path(folder), target.identity)


def _told(said: Said) -> Answer:
    """What a server said. Raises ToolError when it calls that a failure."""
    if said.failed:
        text = said.value if isinstance(said.value, str) else "\n".join(map(str, said.value))
        raise ToolError(text or "The server says that it failed, and not why.")
    return said.value


def connect(*servers: Any) -> Toolset:
    """The tools of several servers, connected at the same time; names that two of them have are told apart by theirs.

    Each is an MCPServer, or what `MCPServer` takes. Raises ConfigError as it does.
    """
    made = [each if isinstance(each, MCPServer) else MCPServer(each) for each in servers]
    with ThreadPoolExecutor(max(len(made), 1), "agentkit-mcp-connect") as pool:
        list(pool.map(len, made))
    taken = clashing([{each.name for each in server} for server in made])
    return Toolset(server.beside(taken) for server in made)
