"""How is the protocol spoken? By the `mcp` package, which only this module imports; it gives and takes plain values."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentkit.errors import ConfigError, MissingExtra, ToolError
from agentkit.levels import SafetyLevel
from agentkit.mcp.definitions import Definition, value_of
from agentkit.mcp.gate import PATH, Gate
from agentkit.mcp.keeper import kept
from agentkit.mcp.target import Target
from agentkit.messages import Image, ToolResult
from agentkit.slotted import dataclass
from agentkit.tooling.tool import Tool

if TYPE_CHECKING:
    import socket

    from mcp import Client, types
    from mcp.server import Server
    from mcp.shared.dispatcher import ProgressFnT

Progress = Callable[[float, float | None, str], object]
"""Hears how far a call is: how much of how much, or None where nobody knows, and a word on it."""

_CLOSED = -32000
_SESSION_IS_OVER = "Session terminated"
_MOST_PAGES, _MOST_TOOLS = 100, 1_000
_TAIL_BYTES = 4_000
_MOST_CONNECTIONS = 256


@dataclass(frozen=True, slots=True)
class Said:
    """What a server answered to a call, texts and pictures, and whether it calls it a failure."""

    value: str | list[str | Image]
    failed: bool


class Connection:
    """A server that answers. `lost` says that it does not any more."""

    def __init__(self, client: Client, state: _State) -> None:
        self._client, self._state = client, state

    @property
    def lost(self) -> bool:
        """Whether nothing more can come of it."""
        return self._state.is_lost

    async def definitions(self) -> tuple[Definition, ...]:
        """The tools that the server offers now. Raises ToolError when there are more than anybody could want."""
        found: list[Definition] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._asking(self._client.list_tools(cursor=cursor))
            found += map(_definition, page.tools)
            cursor = page.next_cursor
            if cursor is None and len(found) <= _MOST_TOOLS:
                return tuple(found)
            if len(found) > _MOST_TOOLS:
                break
        raise ToolError(f"The server offers more than {_MOST_TOOLS} tools; it was not believed.")

    async def call(self, name: str, arguments: Mapping[str, Any], on_progress: Progress | None = None) -> Said:
        """Have the server run a tool; when this is cancelled, the server is told. Raises ToolError."""
        progress = None if on_progress is None else _hearing(on_progress)
        result = await self._asking(self._client.call_tool(name, dict(arguments), progress_callback=progress))
        return Said(value_of(result.content, result.structured_content), bool(result.is_error))

    async def watch(self, when_changed: Callable[[], Awaitable[None]]) -> None:
        """Call back each time the server says that its tools are others now, as long as it does."""
        while True:
            await self._state.changed.wait()
            self._state.changed.clear()
            await when_changed()

    async def listen(self) -> None:
        """Ask a server of the newer protocol to say when its tools change; it may not know how to."""
        with contextlib.suppress(Exception):
            async with self._client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._state.changed.set()

    async def _asking(self, question: Awaitable[Any]) -> Any:
        """The answer, with what can go wrong in our words. Raises ToolError."""
        from mcp import MCPError

        try:
            return await question
        except MCPError as error:
            if error.code == _CLOSED or error.message == _SESSION_IS_OVER:
                self._state.is_lost = True
                raise ToolError(self._state.ended("The server ended before it had answered.")) from error
            raise ToolError(f"The server refused: {error.message}") from error
        except (ValueError, RuntimeError) as error:  # an answer that is not what the server itself said it would be
            raise ToolError(f"The server's answer cannot be used: {_first_line(error)}") from error
        except Exception as error:
            self._state.is_lost = True
            raise ToolError(self._state.ended(f"The server cannot be reached: {_first_line(error)}")) from error


def _hearing(on_progress: Progress) -> ProgressFnT:
    async def heard(progress: float, total: float | None, message: str | None) -> None:
        on_progress(progress, total, message or "")

    return heard


class _State:
    """What is known of a connection: whether it is lost, whether tools have changed, what the process wrote last."""

    def __init__(self) -> None:
        self.is_lost = False
        self.changed = asyncio.Event()
        self.tail: deque[int] = deque(maxlen=_TAIL_BYTES)

    def ended(self, sentence: str) -> str:
        """The sentence, with what the process wrote to its stderr."""
        written = bytes(self.tail).decode("utf-8", "replace").strip()
        return f"{sentence} It wrote: {written}" if written else sentence

    async def heard(self, message: object) -> None:
        """Take in what the server says unasked."""
        from mcp import types

        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()


@contextlib.asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Connection]:
    """A connection to the server, as long as the block lasts.

    Raises ConfigError for what is no server, MissingExtra without the package, and ToolError when it does not answer.
    """
    try:
        from mcp import Client, types
    except ModuleNotFoundError as error:
        raise MissingExtra("mcp", "agentkit.mcp") from error
    _hush()
    state = _State()
    async with contextlib.AsyncExitStack() as stack:
        try:
            who = types.Implementation(name="agentkit", version=_version())
            server = await _reached(target, state, stack)
            client = Client(server, cache=None, client_info=who, message_handler=state.heard)
            await stack.enter_async_context(client)
        except (ConfigError, asyncio.CancelledError):
            raise
        except BaseException as error:
            raise ToolError(state.ended(f"The server does not answer as one: {_first_line(error)}.")) from error
        yield Connection(client, state)


async def _reached(target: Target, state: _State, stack: contextlib.AsyncExitStack) -> Any:
    """What the package's client takes for the server. Raises ConfigError."""
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server import MCPServer, Server
    from mcp.shared._httpx_utils import create_mcp_http_client

    if target.words:
        return _watched(_process(target, state), state)
    if target.url:
        http = await stack.enter_async_context(create_mcp_http_client(headers=dict(target.headers)))
        return _watched(streamable_http_client(target.url, http_client=http), state)
    if not isinstance(target.program, Server | MCPServer):
        kind = type(target.program).__name__
        raise ConfigError(f"MCPServer() takes a command, a URL, or a server of the mcp package; got a {kind}.")
    return target.program


@contextlib.asynccontextmanager
async def _process(target: Target, state: _State) -> AsyncIterator[Any]:
    """The streams to a process of the command, behind its keeper; what it writes to stderr is kept, the last of it."""
    from mcp import StdioServerParameters, stdio_client

    command, *arguments = kept(target.words)
    parameters = StdioServerParameters(
        command=command,
        args=arguments,
        env=dict(target.environment),
        cwd=target.folder,
        encoding_error_handler="replace",
    )
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    loop.add_reader(reading, _keep, reading, state.tail)
    try:
        with os.fdopen(writing, "w") as stderr:
            async with stdio_client(parameters, errlog=stderr) as streams:
                yield streams
    finally:
        loop.remove_reader(reading)
        _keep(reading, state.tail)
        os.close(reading)


def _keep(descriptor: int, tail: deque[int]) -> None:
    with contextlib.suppress(BlockingIOError):
        tail.extend(os.read(descriptor, 65_536))


@contextlib.asynccontextmanager
async def _watched(transport: Any, state: _State) -> AsyncIterator[Any]:
    """The same transport, which tells when nothing more can be read."""
    async with transport as (reading, writing):
        yield _Watched(reading, state), writing


class _Watched:
    """A stream of messages that notes its end."""

    def __init__(self, stream: Any, state: _State) -> None:
        self._stream, self._state = stream, state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._state.is_lost = True
            raise


def _definition(tool: types.Tool) -> Definition:
    hints = {} if tool.annotations is None else tool.annotations.model_dump(by_alias=True, exclude_none=True)
    return Definition(tool.name, tool.description or tool.title or "", tool.input_schema, hints)


def _first_line(error: BaseException) -> str:
    """The innermost error of a group, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _version() -> str:
    from agentkit import __version__

    return __version__


def _hush() -> None:
    """What the package logs goes to the program's own handlers, and is not printed where there are none."""
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


Ask = Callable[[str, str], Awaitable[bool]]
"""Puts a question about a call to the person at the client; the other text tells this question from any other."""

Answered = Callable[[str, Mapping[str, Any], Ask | None], Awaitable[ToolResult]]
"""What comes of a call by name. There is nobody to ask where a client cannot."""


class _MustAsk(Exception):
    """The client must put a question to its person first, and then send the call again."""

    def __init__(self, question: str, mark: str) -> None:
        super().__init__(question, mark)
        self.question, self.mark = question, mark


def protocol_server(name: str, tools: Sequence[Tool[..., Any]], answered: Answered) -> Server[Any]:
    """A server of the package that offers the tools; the calls are answered by the function. Raises MissingExtra."""
    try:
        from mcp import types
        from mcp.server import Server
    except ModuleNotFoundError as error:
        raise MissingExtra("mcp", "agentkit.mcp") from error
    _hush()

    async def on_list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_offered(tool) for tool in tools])

    async def on_call_tool(context: Any, call: types.CallToolRequestParams) -> Any:
        beating = asyncio.create_task(_beat(context.session, call.name))
        try:
            return _told(await answered(call.name, call.arguments or {}, _ask_of(context, call)))
        except _MustAsk as must:
            request = types.ElicitRequest(params=_question(must.question))
            return types.InputRequiredResult(input_requests={"approval": request}, request_state=must.mark)
        finally:
            beating.cancel()

    return Server(name, version=_version(), on_list_tools=on_list_tools, on_call_tool=on_call_tool)


async def over_stdio(server: Server[Any]) -> None:
    """Serve whoever writes to this process, until the input ends."""
    from mcp import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def over_http(server: Server[Any], listener: socket.socket, gate: Gate) -> None:
    """Serve streamable HTTP on an open socket until this is cancelled or the process is told to end."""
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    hosts, origins = gate.hosts, [f"{scheme}://{host}" for host in gate.hosts for scheme in ("http", "https")]
    checks = TransportSecuritySettings(allowed_hosts=[*hosts], allowed_origins=origins)
    application = gate.before(server.streamable_http_app(streamable_http_path=PATH, transport_security=checks))
    settings: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "ws": "none"}
    settings |= {"limit_concurrency": _MOST_CONNECTIONS, "timeout_graceful_shutdown": 1, "proxy_headers": False}
    await uvicorn.Server(uvicorn.Config(application, **settings)).serve([listener])


def _offered(tool: Tool[..., Any]) -> types.Tool:
    from mcp import types

    known: Mapping[SafetyLevel, dict[str, bool]] = {
        SafetyLevel.SAFE: {"readOnlyHint": True, "openWorldHint": False},
        SafetyLevel.NETWORK: {"openWorldHint": True},
    }
    hints = types.ToolAnnotations.model_validate(known.get(tool.level, {}))
    schema = tool.parameters
    return types.Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints)


def _told(result: ToolResult) -> types.CallToolResult:
    """The result as a client gets it; what was decided, and why, goes along."""
    from mcp import types

    decision = {} if result.decision is None else result.decision.to_dict()
    about = {"agentkit/status": result.status, "agentkit/decision": decision}
    given = [image.url.partition(";base64,") for image in result.images if image.url.startswith("data:")]
    pictures = [types.ImageContent(data=data, mime_type=head.removeprefix("data:")) for head, _, data in given]
    content: list[types.ContentBlock] = [types.TextContent(text=result.content), *pictures]
    return types.CallToolResult(content=content, is_error=not result.ok, _meta=about)


def _ask_of(context: Any, call: types.CallToolRequestParams) -> Ask | None:
    """How the person at this client is asked; None where the client says that it cannot ask one."""
    from mcp import types

    can = context.session.client_capabilities
    if can is None or can.elicitation is None:
        return None

    async def ask(question: str, mark: str) -> bool:
        if context.session.can_send_request:
            schema = _question(question).requested_schema
            return _is_yes(await context.session.elicit_form(question, schema, context.request_id))
        said = (call.input_responses or {}).get("approval")
        if call.request_state != mark or not isinstance(said, types.ElicitResult):
            raise _MustAsk(question, mark)
        return _is_yes(said)

    return ask


def _question(text: str) -> types.ElicitRequestFormParams:
    from mcp import types

    approve = {"type": "boolean", "title": "Let it happen", "description": "Whether this one call may happen."}
    schema = {"type": "object", "properties": {"approve": approve}, "required": ["approve"]}
    return types.ElicitRequestFormParams(message=text, requested_schema=schema)


def _is_yes(said: types.ElicitResult) -> bool:
    return said.action == "accept" and (said.content or {}).get("approve") is True


async def _beat(session: Any, name: str) -> None:
    """Tell a client that wants to know, every second, that its call is at work."""
    seconds = 0.0
    while True:
        await session.report_progress(seconds, None, f"{name} is at work")
        await asyncio.sleep(1)
        seconds += 1
