"""`MCPServer`: the tools, resources and prompts of an MCP server."""

from __future__ import annotations

import asyncio
import json
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never
from urllib.parse import urlsplit

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.agents.run_config import LINEAGE
from agentkit.decisions import NO_RULE, Decision, Label, SafetyLevel, Verdict
from agentkit.errors import BadArguments, Blocked, ConfigError, LoginNeeded, ToolError
from agentkit.event_rendering import escape_invisible, suggestion
from agentkit.mcp.connection import Question, ServerConnection
from agentkit.mcp.connection_target import Target, advice, target_of, variables
from agentkit.mcp.content import Answer, Prompt, Resource, argument_texts, format_resources
from agentkit.mcp.definitions import Definition, DefinitionChange, Pins, changes, clashing, local_names
from agentkit.mcp.login_store import Ask, Login, Logout, Terms, command, with_login
from agentkit.mcp.sdk.session import Caller
from agentkit.messages import READ_MORE
from agentkit.suggestions import check_unknown_arguments
from agentkit.tooling.results import BAD_ARGUMENTS, denial_text
from agentkit.tooling.schema import GivenParameters
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.tools.catalog import all_tools
from agentkit.tools.human import finish_tool
from agentkit.tools.run_tools import FIND_TOOLS

if TYPE_CHECKING:
    from agentkit.llm.client import LLM
    from agentkit.mcp.sdk.session import ToolListing, ToolOutput
    from agentkit.safety.approval import Approver


class ServerResources:
    """The resources and prompts of a server, and login and logout.

    Each access sends a request; every call raises ToolError and ToolTimeout.
    """

    _connection: ServerConnection
    _target: Target
    _timeout_seconds: float | None

    def resources(self) -> tuple[Resource, ...]:
        """List the resources that the server offers, templates last."""
        return self._connection.ask(lambda server: server.resources(), self._timeout_seconds)

    async def aresources(self) -> tuple[Resource, ...]:
        """Like `resources`, asynchronously."""
        return await self._connection.aask(lambda server: server.resources(), self._timeout_seconds)

    def read(self, uri: str) -> Answer:
        """Read a resource: a text, or a list of texts, Images and Files."""
        return self._connection.ask(lambda server: server.read(uri), self._timeout_seconds)

    async def aread(self, uri: str) -> Answer:
        """Like `read`, asynchronously; cancelling it cancels the request at the server."""
        return await self._connection.aask(lambda server: server.read(uri), self._timeout_seconds)

    def prompts(self) -> tuple[Prompt, ...]:
        """List the prompts that the server offers."""
        return self._connection.ask(lambda server: server.prompts(), self._timeout_seconds)

    async def aprompts(self) -> tuple[Prompt, ...]:
        """Like `prompts`, asynchronously."""
        return await self._connection.aask(lambda server: server.prompts(), self._timeout_seconds)

    def prompt(self, name: str, /, **arguments: Any) -> Answer:
        """Get a prompt for `agent.run`, rendered by the server: a text, or a list of texts, Images and Files.

        Values other than texts are serialised to JSON. In a run the prompt counts as user input: review it first.
        """
        texts = argument_texts(arguments)
        return self._connection.ask(lambda server: server.prompt(name, texts), self._timeout_seconds)

    def subscribe(self, uri: str, on_change: Callable[[str], object] | None) -> None:
        """Call `on_change` with the URI when the resource has changed; None ends that.

        The function is called on the thread of the connection, and must return soon.
        """
        self._connection.subscribe(uri, on_change, self._timeout_seconds)

    async def aprompt(self, name: str, /, **arguments: Any) -> Answer:
        """Like `prompt`, asynchronously."""
        texts = argument_texts(arguments)
        return await self._connection.aask(lambda server: server.prompt(name, texts), self._timeout_seconds)

    def login(self) -> None:
        """Log in now through the `login=` function, and store the login. Raises ConfigError."""
        terms = self._target.login
        if not isinstance(terms, Login) or terms.ask is None:
            raise ConfigError(
                f"No login function is set. Pass login= to MCPServer, or log in with: {command(self._target)}"
            )
        try:
            self._connection.log_in(terms, terms.ask)
        except ToolError as error:
            raise ConfigError(f"The login failed at {urlsplit(self._target.url).netloc}. {error}") from None

    def _list(self) -> None:
        """List the tools, logging in first if the server requires it and a `login=` function is set."""
        try:
            self._connection.definitions()
        except LoginNeeded:
            if getattr(self._target.login, "ask", None) is None:
                raise
            self.login()
            self._connection.definitions()

    def logout(self) -> Logout:
        """Delete the stored login, disconnect, and revoke the login at the authorization server.

        Takes at most half a minute, unless another process is renewing the login. Raises ConfigError.
        """
        terms = self._target.login
        result = self._connection.log_out(terms) if isinstance(terms, Login) else Logout(was_stored=False)
        self._connection.close()
        return result


CHANGED, REMOVED = "mcp-changed", "mcp-gone"
"""The rules of decisions on tools that differ from the accepted definitions."""

Levels = Mapping[str, SafetyLevel] | SafetyLevel
"""The level of each tool by its remote name, or one level for all."""

_MAX_DESCRIPTION_CHARS = 8_000
_MAX_SCHEMA_CHARS = 100_000
_TEXT_KEYS = frozenset(("description", "title", "$comment"))
_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}}
_NEW_TOOL = (
    "This tool is new at the MCP server {server!r} since its definitions were accepted; a person must review "
    "its "
    "description first."
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The settings of a remote tool: level, length and labels of its results."""

    level: SafetyLevel
    max_chars: int
    labels: frozenset[Label]


def labels_of(level: SafetyLevel, labels: Iterable[Label | str] | None) -> frozenset[Label]:
    """Return the labels of results: always untrusted, and private for tools that access this machine."""
    if labels is not None:
        return frozenset(map(Label, labels)) | {Label.UNTRUSTED}
    private = {Label.PRIVATE} if level is SafetyLevel.SYSTEM else set[Label]()
    return frozenset({Label.UNTRUSTED, *private})


class RemoteTool(Tool[..., Any]):
    """A tool of an MCP server, called `name` locally. `token_used` is its accepted definition, or None without one.

    Calls block in synchronous code; use `ainvoke` in asynchronous code. Raises ConfigError if the definition is
    invalid.
    """

    def __init__(
        self, server: MCPServer, remote_name: str, name: str, accepted: Definition | None, bounds: Bounds
    ) -> None:
        schema = _ANYTHING if accepted is None else _clean_schema(accepted.schema, name)
        description = _NEW_TOOL.format(server=server.name) if accepted is None else accepted.description
        self.__dict__.update(server=server, remote_name=remote_name, _parameters=GivenParameters(schema, name))
        super().__init__(
            self._acall,
            name,
            escape_invisible(description[:_MAX_DESCRIPTION_CHARS]),
            level=bounds.level,
            timeout_seconds=None,  # the connection limits the time, excluding the time that a person takes to answer
            max_chars=bounds.max_chars,
            labels=bounds.labels,
            judge=self._judge_call,
        )

    server: MCPServer
    remote_name: str
    """The server's name for the tool."""

    def __call__(self, /, *args: Any, **arguments: Any) -> Answer:
        """Call the server and wait for the answer. Raises BadArguments, Blocked, ToolTimeout and ToolError."""
        checked, decision = self.decide(self._parameters.bind(args, arguments))
        if decision.denied:
            raise (BadArguments if decision.rule == BAD_ARGUMENTS else Blocked)(denial_text(decision))
        return self._call(**checked)

    def _call(self, **arguments: Any) -> Answer:
        return self.server.call(self.remote_name, **arguments)

    async def _acall(self, **arguments: Any) -> Answer:
        return await self.server.acall(self.remote_name, **arguments)

    def _judge_call(self, _arguments: Mapping[str, Any]) -> Decision:
        """Allow the call if the tool matches its accepted definition; ask if it has changed."""
        return judge_definition(self.server.name, self.name, self.server.change_of(self.remote_name), self.level)

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return MCPServer.tool_named, (self.server, self.remote_name)  # another process has its own connection


class ResourceTool(RemoteTool):
    """A built-in tool that reads a server's resources. Its definition cannot change, so it is judged by level."""

    def _call(self, **arguments: Any) -> Answer:
        return self.server.read(**arguments) if arguments else format_resources(self.server.resources())

    async def _acall(self, **arguments: Any) -> Answer:
        return await self.server.aread(**arguments) if arguments else format_resources(await self.server.aresources())

    def _judge_call(self, _arguments: Mapping[str, Any]) -> Decision:
        return judge_definition(self.server.name, self.name, None, self.level)


def resource_tools(server: str) -> dict[str, Definition]:
    """Return the built-in tools for reading a server's resources, by their unprefixed names."""
    uri = {"type": "string", "description": "The URI of a resource, or a URI template with its placeholders filled in."}
    return {
        "list_resources": Definition("resources/list", f"List the resources of the server {server}.", _ANYTHING),
        "read_resource": Definition(
            "resources/read",
            f"Read a resource of the server {server}.",
            {"type": "object", "properties": {"uri": uri}, "required": ["uri"]},
        ),
    }


def judge_definition(server: str, name: str, change: DefinitionChange | None, level: SafetyLevel) -> Decision:
    """Return the decision on a tool, given how its definition has changed since it was accepted."""
    egress = level >= SafetyLevel.NETWORK
    if change is None:
        return Decision(Verdict.ALLOW, NO_RULE, f"{name} is as it was accepted of {server!r}.", egress=egress)
    if change.after is None:
        return Decision(Verdict.DENY, REMOVED, f"The MCP server {server!r} no longer offers {name}.")
    return Decision(
        Verdict.ASK,
        CHANGED,
        f"The MCP server {server!r} has been changed since it was accepted: {change}",
        evidence=str(change),
        remedy="Review the change and accept it: `agentkit mcp tools SERVER --accept`, or accept() in Python.",
        egress=egress,
    )


def parse_levels(levels: Mapping[str, SafetyLevel | str] | SafetyLevel | str) -> Levels:
    """Validate the level of all tools, or the level of each. Raises ConfigError."""
    if isinstance(levels, Mapping):
        return {name: SafetyLevel.of(level) for name, level in levels.items()}
    return SafetyLevel.of(levels)


def level_of(names: Iterable[str], levels: Levels) -> SafetyLevel:
    """Return the configured level of a tool, by the first of its names that has one; SYSTEM by default."""
    if isinstance(levels, SafetyLevel):
        return levels
    return next((levels[name] for name in names if name in levels), SafetyLevel.SYSTEM)


def refuse_unknown(levels: Levels, names: Mapping[str, str], others: Iterable[str], server: str) -> None:
    """Raise ConfigError if a level is configured for a tool that the server does not have.

    `names` maps the server's tool names to the local ones; `others` are names of tools that cannot be used.
    """
    known = {*names, *names.values(), *others}
    for name in () if isinstance(levels, SafetyLevel) else levels:
        if name not in known:
            offered = ", ".join(names) or "none"
            raise ConfigError(
                f"The MCP server {server!r} has no tool {name!r}, which level= names.{suggestion(name, known)}"
                f" Its tools: {offered}."
            )


def _clean_schema(schema: Mapping[str, Any], name: str) -> Any:
    """Make hidden characters in a schema visible. Raises ConfigError for a schema that is unsuitable for models."""
    try:
        length = len(json.dumps(schema))
        if length > _MAX_SCHEMA_CHARS:
            raise ConfigError(
                f"Tool {name!r}: its schema has {length:,} characters; the limit is {_MAX_SCHEMA_CHARS:,}."
            )
        return _visible_texts(schema)
    except (RecursionError, TypeError, ValueError) as error:
        raise ConfigError(f"Tool {name!r}: its schema is not a valid JSON schema ({type(error).__name__}).") from None


def _visible_texts(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {
            name: escape_invisible(each) if name in _TEXT_KEYS and isinstance(each, str) else _visible_texts(each)
            for name, each in part.items()
        }
    return [_visible_texts(each) for each in part] if isinstance(part, list) else part


_RESERVED_NAMES = frozenset(
    {*all_tools.names, finish_tool.name, FIND_TOOLS, READ_MORE, "ask_user", "tell_user", "run_program"}
)
"""Names of built-in tools: a server's tool must not impersonate one of them, or match a rule written for one."""


class MCPServer(ServerResources):
    """The tools of an MCP server: pass it among an agent's tools, or use `tools`.

    Args:
        server: A command such as `"uvx mcp-server-time"` or a list of its words, a streamable HTTP URL, or an
            in-process server object of the `mcp` package.
        name: The prefix of tools whose name is taken; by default derived from the command or the URL.
        level: The safety level of all tools, or a dictionary with the level of each. SYSTEM by default: a server's
            claims about its own tools are not trusted.
        environment: Variables for a command in addition to a few harmless ones: their names, or a dictionary.
        folder: The working directory of a command; the current one by default.
        token: The bearer token for a URL, sent as `Authorization: Bearer TOKEN`.
        headers: Additional headers for each request to a URL. They are treated as secrets, like the token.
        login: The OAuth login for a URL: a function that has a person open an address, a `Login`, or
            `ClientCredentials`. Without it, a stored login is used if there is one.
        prefix: Whether all tools are named `NAME_tool`, not only those whose name is taken by a built-in tool.
        timeout_seconds: The timeout of a call. None means no limit.
        connect_seconds: The timeout for starting and connecting.
        max_chars: The maximum length of a result sent to the model.
        labels: The labels of results in addition to untrusted; by default, private for a SYSTEM tool.
        on_progress: A callback for progress notifications: tool name, progress, total and message.
        approve: The approver of the server's requests during a call: for answers of a person (the tool `ask_user`) and
         of a model (`ask_model`). By default that of the run that makes the call; without one, all are refused.
        llm: The model that answers the server's requests; by default that of the run, and always charged to the run.
        pins: The folder for accepted definitions; by default in the state folder. An in-process server is part of the
            program, and has no pins unless this is given.
        resources: Whether to add the tools `list_resources` and `read_resource`, with which a model reads the server's
            resources. `level` applies to them, too.

    Connects on first use of its tools, and reconnects after a lost connection. The connection ends with `close()`, at
    the end of a `with` block, on garbage collection, or at exit. Raises ConfigError, and MissingExtra if the extra
    `mcp` is not installed.
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
        approve: Approver | None = None,
        llm: LLM | None = None,
        pins: str | Path | None = None,
        resources: bool = False,
        **unknown: Never,
    ) -> None:
        check_unknown_arguments(MCPServer, unknown)
        variables_for_server = variables(environment, settings.environment())
        working_folder = None if folder is None else str(folder)
        found = target_of(
            server, name, folder=working_folder, environment=variables_for_server, token=token, headers=headers
        )
        self._target = with_login(found, login)
        self._levels = parse_levels(level)
        self._labels = None if labels is None else frozenset(map(Label, labels))
        self._prefix, self._on_progress, self._approve, self._llm = prefix, on_progress, approve, llm
        self._resource_tools = resource_tools(self._target.name) if resources else {}
        self._timeout_seconds, self._connect_seconds, self._max_chars = timeout_seconds, connect_seconds, max_chars
        needs_no_pins = pins is None and found.program is not None
        pins_folder = settings.state_folder() / "mcp" if pins is None else Path(pins)
        self._pins = None if needs_no_pins else Pins(pins_folder, found.identity)
        self._taken_names: frozenset[str] = _RESERVED_NAMES
        self._reset()

    def _reset(self) -> None:
        """Initialise the unconnected state."""
        self._lock = threading.RLock()
        self._current: dict[str, Definition] | None = None
        self._accepted: dict[str, Definition] | None = None
        self._tools: tuple[RemoteTool, ...] | None = None
        self._changes: dict[str, DefinitionChange] = {}
        self._invalid: Mapping[str, str] = {}
        self._unusable: dict[str, str] = {}
        saw = weakref.WeakMethod(
            self._store_listing
        )  # the thread of the connection must not prevent the garbage collection of the server
        self._connection = ServerConnection(
            self._target, self._connect_seconds, lambda listing: _notify(saw(), listing)
        )
        weakref.finalize(self, self._connection.close)

    @property
    def name(self) -> str:
        """The short name of the server."""
        return self._target.name

    @property
    def target(self) -> Target:
        """The connection target: a command with folder and environment, a URL with headers, or an in-process server."""
        return self._target

    @property
    def is_pinned(self) -> bool:
        """Whether accepted definitions are stored on disk, so that later processes detect changes, too."""
        return self._pins is not None

    @property
    def tools(self) -> Toolset:
        """The server's tools; connects if necessary. Raises ConfigError if the server is unusable."""
        return Toolset(iter(self))

    @property
    def changes(self) -> tuple[DefinitionChange, ...]:
        """The differences between the current and the accepted definitions."""
        self._connect()
        return tuple(self._changes.values())

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The tools as the server describes them now, accepted or not."""
        self._connect()
        return tuple((self._current or {}).values())

    def accept(self) -> None:
        """Accept the current definitions. Tools obtained from `tools` earlier keep their descriptions."""
        self._connect()
        with self._lock:
            self._accepted, self._changes = dict(self._current or {}), {}
            if self._pins is not None:
                self._pins.write(self._accepted)
            self._tools = None

    def change_of(self, name: str) -> DefinitionChange | None:
        """Return how a tool, by its remote name, differs from its accepted definition; None if unchanged."""
        self._connect()
        return self._changes.get(name)

    @property
    def unusable(self) -> Mapping[str, str]:
        """The tools excluded from `tools`, by remote name, with the reason."""
        self._tools_listed()
        return dict(self._unusable)

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        """Call a tool by its remote name, without judging the call. Raises ToolError and ToolTimeout."""
        return _answer_value(self._connection.ask(self._request(tool, arguments), self._timeout_seconds, tool))

    async def acall(self, tool: str, /, **arguments: Any) -> Answer:
        """Like `call`, asynchronously; cancelling it cancels the request at the server."""
        question = self._request(tool, arguments, asyncio.get_running_loop())
        return _answer_value(await self._connection.aask(question, self._timeout_seconds, tool))

    def tool_named(self, name: str) -> RemoteTool:
        """Return the tool with this remote name from `tools`. Raises ConfigError if it does not exist."""
        found = {tool.remote_name: tool for tool in self}
        if name not in found:
            reason = self._unusable.get(name)
            raise ConfigError(reason or f"The MCP server {self.name!r} has no tool {name!r}.")
        return found[name]

    def close(self) -> None:
        """Close the connection, and end the process of a command with its descendants."""
        self._connection.close()

    def _connect(self) -> None:
        with self._lock:
            if self._current is not None:
                return
            try:
                self._list()
            except ToolError as error:
                place = self._target.url.partition("?")[0]  # the query could contain a key
                where = f" at {place}" if place else ""
                text = (
                    f"The MCP server {self.name!r}{where} cannot be used. {error}\n{advice(self._target, str(error))}"
                )
                raise ConfigError(text.rstrip()) from error
            names = local_names(
                (*(self._current or {}), *self._resource_tools), self.name, self._taken_names, prefixed=self._prefix
            )
            refuse_unknown(self._levels, names, self._invalid, self.name)

    def _make_tools(self) -> Iterator[RemoteTool]:
        """Yield the tools with their accepted definitions, and the resource tools; record invalid ones as unusable."""
        accepted, current = self._accepted or {}, self._current or {}
        named = local_names(current, self.name, self._taken_names, prefixed=self._prefix)
        self._unusable = dict(self._invalid)
        for name, local_name in named.items():
            try:
                yield RemoteTool(self, name, local_name, accepted.get(name), self._bounds(name, local_name))
            except ConfigError as error:
                self._unusable[name] = str(error)
        taken = {*self._taken_names, *named.values()}
        for name, local_name in local_names(self._resource_tools, self.name, taken, prefixed=self._prefix).items():
            own = self._resource_tools[name]
            yield ResourceTool(self, own.name, local_name, own, self._bounds(name, local_name))

    def _bounds(self, name: str, local_name: str) -> Bounds:
        level = level_of((name, local_name), self._levels)
        return Bounds(level, self._max_chars, labels_of(level, self._labels))

    def _store_listing(self, listing: ToolListing) -> None:
        """Store the listed definitions; without pins, the first listing is accepted."""
        current = {each.name: each for each in listing.definitions}
        if self._accepted is None:
            stored = None if self._pins is None else self._pins.read()
            if stored is None and self._pins is not None:
                self._pins.write(current)
            self._accepted = current if stored is None else stored
        self._changes = {change.name: change for change in changes(self._accepted, current)}
        self._current, self._invalid = current, listing.invalid

    def _request(
        self, tool: str, arguments: Mapping[str, Any], loop: asyncio.AbstractEventLoop | None = None
    ) -> Question[ToolOutput]:
        lineage, configured = LINEAGE.get(), self._llm
        model = None if lineage.config is None else lineage.config.llm
        model, approve = model if configured is None else lambda: configured, self._approve or lineage.approve
        caller = Caller(self.name, approve, model, copy_context(), loop, lineage.context.run)
        progress = None if self._on_progress is None else partial(self._on_progress, tool)
        return lambda server: server.call(tool, arguments, progress, caller)

    def with_distinct_names(self, taken: Iterable[str]) -> Toolset:
        """Return the tools, with the prefix `NAME_` on those whose names clash with other servers' tools."""
        with self._lock:
            self._taken_names, self._tools = self._taken_names | frozenset(taken), None
            return self.tools

    def _tools_listed(self) -> tuple[RemoteTool, ...]:
        with self._lock:
            if self._tools is None:
                self._connect()
                self._tools = tuple(self._make_tools())
            return self._tools

    def __iter__(self) -> Iterator[RemoteTool]:
        tools = self._tools_listed()
        if self._unusable and not tools:
            reason = next(iter(self._unusable.values()))
            raise ConfigError(f"The MCP server {self.name!r} has no usable tool. {reason}")
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
        """Exclude the connection: a copy in another process opens its own."""
        unshared = "_lock", "_current", "_accepted", "_tools", "_changes", "_invalid", "_unusable", "_connection"
        return {name: value for name, value in self.__dict__.items() if name not in unshared}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"


def _notify(saw: Callable[[ToolListing], None] | None, listing: ToolListing) -> None:
    """Pass the listed tools to the server object, if it still exists."""
    if saw is not None:
        saw(listing)


def _answer_value(output: ToolOutput) -> Answer:
    """Return the value of an answer. Raises ToolError if the server marks it as an error."""
    if output.failed:
        text = output.value if isinstance(output.value, str) else "\n".join(map(str, output.value))
        raise ToolError(text or "The server reports a failure without a reason.")
    return output.value


def connect(*servers: Any) -> Toolset:
    """Return the tools of several servers, connecting in parallel; clashing names get the server's name as prefix.

    Each is an MCPServer, or the first argument of one. Raises ConfigError like MCPServer.
    """
    connected = [each if isinstance(each, MCPServer) else MCPServer(each) for each in servers]
    with ThreadPoolExecutor(max(len(connected), 1), "agentkit-mcp-connect") as pool:
        list(pool.map(len, connected))
    taken = clashing([{each.name for each in server} for server in connected])
    return Toolset(server.with_distinct_names(taken) for server in connected)
