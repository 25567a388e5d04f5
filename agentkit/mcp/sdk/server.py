"""The server side, over stdio and HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agentkit._version import __version__
from agentkit.content import File, Image
from agentkit.errors import ConfigError
from agentkit.event_rendering import suggestion, visible
from agentkit.http_security import checked_host, checked_token, is_local, server_of, shows
from agentkit.levels import SafetyLevel
from agentkit.mcp.sdk import check_package
from agentkit.messages import ToolResult
from agentkit.tooling.tool import Tool

if TYPE_CHECKING:
    import socket

    from mcp import types
    from mcp.server import Server


PATH = "/mcp"
"""The HTTP path of the protocol endpoint."""

_MAX_NAME_CHARS = 128
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_STRANGER = b'{"error": "Show the token that this server was started with: Authorization: Bearer TOKEN."}'
_TOO_LONG = b'{"error": "A request has at most 8 MB. Write large values to a file, and pass its path."}'

MOST_BYTES = 8_000_000
"""Maximum size of a request body, which is read into memory as a whole."""

Entry = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Entry]]
Send = Callable[[Entry], Awaitable[None]]
Application = Callable[[Entry, Receive, Send], Awaitable[None]]
"""An ASGI application."""


class MCPAuth:
    """Token authentication. `hosts` are the host names, with any port, allowed in Host and Origin headers.

    Raises ConfigError for a token that is too short, and for an invalid host name.
    """

    def __init__(self, token: str | None = None, hosts: Iterable[str] = ()) -> None:
        self.token = checked_token(token)
        names = [*_LOCAL, *map(checked_host, hosts)]
        self.hosts = tuple(name for host in names for name in (host, f"{host}:*"))

    def before(self, application: Application) -> Application:
        """Wrap the application with authentication and the size limit."""

        async def gated(scope: Entry, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                await application(scope, receive, send)
            elif scope["type"] != "http" or not self.lets_in(scope["headers"]):
                await _refuse(send, 401, _STRANGER, (b"www-authenticate", b"Bearer"))
            elif (first := await _body(receive)) is None:
                await _refuse(send, 413, _TOO_LONG, (b"connection", b"close"))
            else:
                await application(scope, _followed(first, receive), send)

        return gated

    def lets_in(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the headers contain the token, exactly once."""
        shown = [value for name, value in headers if name.lower() == b"authorization"]
        return len(shown) == 1 and shows(shown[0].decode("latin-1"), self.token)


async def _refuse(send: Send, status: int, body: bytes, header: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), header]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> Entry | None:
    """Read the whole body into one message, or return a disconnect message; None if the body is too large."""
    body = bytearray()
    while len(body) <= MOST_BYTES:
        entry = await receive()
        if entry["type"] != "http.request":
            return entry
        body += entry.get("body", b"")
        if not entry.get("more_body", False) and len(body) <= MOST_BYTES:
            return {"type": "http.request", "body": bytes(body)}
    return None


def _followed(first: Entry, receive: Receive) -> Receive:
    """Return a receive function that yields the first message, and then those that follow."""
    waiting = [first]

    async def received() -> Entry:
        return waiting.pop() if waiting else await receive()

    return received


def check_reach(host: str, token: str | None) -> None:
    """Raise ConfigError if other machines can reach the address and no token was chosen."""
    if not is_local(host) and token is None:
        raise ConfigError(f"{host} can be reached by other machines. Choose a token that clients must send.")


Ask = Callable[[str, str], Awaitable[bool]]
"""Asks the person at the client about a call; the second text identifies the question."""

Answered = Callable[[str, Mapping[str, Any], Ask | None], Awaitable[ToolResult]]
"""Executes a call by name; the last argument is None if the client cannot ask a person."""


class _MustAsk(Exception):
    """Raised if the client has to ask its person first and then repeat the call."""

    def __init__(self, question: str, mark: str) -> None:
        super().__init__(question, mark)
        self.question, self.mark = question, mark


def protocol_server(name: str, tools: Sequence[Tool[..., Any]], answered: Answered) -> Server[Any]:
    """Create a server of the package that offers the tools; `answered` executes calls. Raises MissingExtra."""
    check_package()
    from mcp import MCPError, types
    from mcp.server import Server

    names = [tool.name for tool in tools]

    async def on_list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_offered(tool) for tool in tools])

    async def on_call_tool(context: Any, call: types.CallToolRequestParams) -> Any:
        if call.name not in names:
            text = f"No tool is named {visible(call.name[:_MAX_NAME_CHARS])!r}.{suggestion(call.name, names)}"
            raise MCPError(types.INVALID_PARAMS, text)
        beating = asyncio.create_task(_beat(context.session, call.name))
        try:
            return _told(await answered(call.name, call.arguments or {}, _ask_of(context, call)))
        except _MustAsk as must:
            request = types.ElicitRequest(params=_question(must.question))
            return types.InputRequiredResult(input_requests={"approval": request}, request_state=must.mark)
        finally:
            beating.cancel()

    return Server(name, version=__version__, on_list_tools=on_list_tools, on_call_tool=on_call_tool)


async def over_stdio(server: Server[Any]) -> None:
    """Serve the client on stdin and stdout until the input ends."""
    from mcp import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def over_http(server: Server[Any], listener: socket.socket, gate: MCPAuth) -> None:
    """Serve streamable HTTP on an open socket until cancelled or the process is terminated."""
    from mcp.server.transport_security import TransportSecuritySettings

    hosts, origins = gate.hosts, [f"{scheme}://{host}" for host in gate.hosts for scheme in ("http", "https")]
    checks = TransportSecuritySettings(allowed_hosts=[*hosts], allowed_origins=origins)
    application = gate.before(server.streamable_http_app(streamable_http_path=PATH, transport_security=checks))
    await server_of(application).serve([listener])


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
    """Convert a result for the client; the decision is included as metadata."""
    from mcp import types

    decision = {} if result.decision is None else result.decision.to_dict()
    about = {"agentkit/status": result.status, "agentkit/decision": decision}
    shown = [_shown(part) for part in result.beside if part.url.startswith("data:")]
    content: list[types.ContentBlock] = [types.TextContent(text=result.content), *shown]
    return types.CallToolResult(content=content, is_error=not result.ok, _meta=about)


def _shown(part: Image | File) -> types.ContentBlock:
    """Convert an image or recording to its own block type, any other file to an embedded resource."""
    from mcp import types

    head, _, data = part.url.partition(";base64,")
    kind = head.removeprefix("data:")
    if isinstance(part, Image):
        return types.ImageContent(data=data, mime_type=kind)
    if part.sound:
        return types.AudioContent(data=data, mime_type=kind)
    uri = f"file:///{quote(part.file_name, safe='')}"
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, mime_type=kind, blob=data))


def _ask_of(context: Any, call: types.CallToolRequestParams) -> Ask | None:
    """Return a function that asks the person at this client; None if the client does not support it."""
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
    """Report progress every second while a call is running, if the client wants it."""
    seconds = 0.0
    while True:
        await session.report_progress(seconds, None, f"{name} is at work")
        await asyncio.sleep(1)
        seconds += 1
