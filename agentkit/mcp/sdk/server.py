"""The server side, over stdio and HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.content import File, Image, data_url, file_type, image_type
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError, ToolError
from agentkit.event_rendering import escape_invisible, suggestion
from agentkit.http_security import create_server, has_token, is_local, validate_host, validate_token
from agentkit.mcp.sdk import check_package
from agentkit.messages import ToolResult
from agentkit.tooling import execution
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset

if TYPE_CHECKING:
    import socket

    from mcp import types
    from mcp.server import Server


PATH = "/mcp"
"""The HTTP path of the protocol endpoint."""

_MAX_NAME_CHARS = 128
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_UNAUTHORIZED_BODY = b'{"error": "Show the token that this server was started with: Authorization: Bearer TOKEN."}'

MAX_BYTES = 8_000_000
"""Maximum size of a request body, which the package reads into memory as a whole."""

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
        self.token = validate_token(token)
        names = [*_LOCAL_HOSTS, *map(validate_host, hosts)]
        self.hosts = tuple(name for host in names for name in (host, f"{host}:*"))

    def protect(self, application: Application) -> Application:
        """Wrap the application with authentication."""

        async def authenticated(scope: Entry, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan" or (scope["type"] == "http" and self.is_authorized(scope["headers"])):
                await application(scope, receive, send)
            else:
                headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": _UNAUTHORIZED_BODY})

        return authenticated

    def is_authorized(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the headers contain the token, exactly once."""
        values = [value for name, value in headers if name.lower() == b"authorization"]
        return len(values) == 1 and has_token(values[0].decode("latin-1"), self.token)


def check_public_address(host: str, token: str | None) -> None:
    """Raise ConfigError if other machines can reach the address and no token was chosen."""
    if not is_local(host) and token is None:
        raise ConfigError(f"{host} can be reached by other machines. Choose a token that clients must send.")


Ask = Callable[[str, str], Awaitable[bool]]
"""Asks the person at the client about a call; the second text identifies the question."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_MAX_COMPLETIONS, _MAX_EVENTS = 100, 1_000
_POLL_SECONDS, _RETRY_MILLISECONDS = 1.0, 500


class _MustAsk(Exception):
    """Raised if the client has to ask its person or model first and then repeat the call."""

    def __init__(self, request: Any, state: str) -> None:
        super().__init__(state)
        self.request, self.state = request, state


class CallingClient:
    """The client that made the current call of a served tool; `calling_client()` returns it.

    Clients of the newer protocol repeat the call with each answer to `ask` and `sample`: the tool is then run again
    from its beginning, so let it ask before it changes anything. All methods are for `async def` tools.
    """

    def __init__(self, context: Any, call: types.CallToolRequestParams, level: str) -> None:
        self._context, self._level, self._number = context, level, 0
        self.must_ask: _MustAsk | None = None
        try:
            state = json.loads(call.request_state or "{}")
            self._answers: dict[str, Any] = {**state["said"]}
            answer = (call.input_responses or {})["answer"]
            self._answers[state["key"]] = answer.model_dump(by_alias=True, exclude_none=True)
        except (ValueError, KeyError, TypeError):
            self._answers = {}

    async def log(self, text: str, level: str = "info") -> None:
        """Send a log message: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency"."""
        from mcp import types
        from mcp.server.connection import allowed_log_levels

        requested = allowed_log_levels(self._context.session.protocol_version, self._context.meta)
        if level in requested and _LEVELS.index(level) >= _LEVELS.index(self._level):
            params = types.LoggingMessageNotificationParams.model_validate({"level": level, "data": text})
            await self._notify(types.LoggingMessageNotification(params=params))

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report how much of `total` is done, if the client wants to know."""
        await self._context.session.report_progress(done, total, message or None)

    async def ask(
        self, question: str, fields: Mapping[str, Any], required: Iterable[str] = ()
    ) -> dict[str, Any] | None:
        """Ask the person at the client to fill in a form; None if they refuse or the client cannot ask.

        `fields` has the JSON schema of each field by name: texts, numbers, booleans, and choices among texts.
        """
        from mcp import types

        can = self._context.session.client_capabilities
        if can is None or can.elicitation is None:
            return None
        schema = {"type": "object", "properties": dict(fields), "required": [*required]}
        params = types.ElicitRequestFormParams(message=question, requested_schema=schema)
        self._number += 1
        answer = await self._request_input(
            f"ask-{self._number}", types.ElicitRequest(params=params), types.ElicitResult
        )
        return dict(answer.content or {}) if answer.action == "accept" else None

    async def approves(self, question: str, key: str) -> bool:
        """Ask the person at the client about the call itself."""
        from mcp import types

        approve = {"type": "boolean", "title": "Allow this call", "description": "Whether to allow this call."}
        schema = {"type": "object", "properties": {"approve": approve}, "required": ["approve"]}
        params = types.ElicitRequestFormParams(message=question, requested_schema=schema)
        answer = await self._request_input(key, types.ElicitRequest(params=params), types.ElicitResult)
        return answer.action == "accept" and (answer.content or {}).get("approve") is True

    async def sample(self, prompt: str, max_tokens: int = 1_000, system_prompt: str | None = None) -> str:
        """Ask the model of the client, and return its text. Raises ToolError if the client refuses."""
        from mcp import MCPError, types

        can = self._context.session.client_capabilities
        if can is None or can.sampling is None:
            raise ToolError("The client provides no model.")
        message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
        params = types.CreateMessageRequestParams(
            messages=[message], max_tokens=max_tokens, system_prompt=system_prompt
        )
        self._number += 1
        try:
            request = types.CreateMessageRequest(params=params)
            answer = await self._request_input(f"sample-{self._number}", request, types.CreateMessageResult)
        except MCPError as error:
            raise ToolError(f"The client refused: {escape_invisible(error.message)}") from error
        return str(getattr(answer.content, "text", ""))

    async def disconnect(self) -> None:
        """End the HTTP response of a long call: the client connects again, and gets the result then."""
        if self._context.close_sse_stream is not None:
            await self._context.close_sse_stream()

    async def report_running(self, name: str) -> None:
        """Report progress every second while a call is running, if the client wants it."""
        seconds = 0.0
        while True:
            await self.progress(seconds, None, f"{name} is running")
            await asyncio.sleep(1)
            seconds += 1

    async def _notify(self, notification: Any) -> None:
        await self._context.session.send_notification(notification, related_request_id=self._context.request_id)

    async def _request_input(self, key: str, request: Any, answer: Any) -> Any:
        """Return the client's answer. Raises _MustAsk if the client has to repeat the call with it."""
        from mcp.shared.message import ServerMessageMetadata

        session = self._context.session
        if session.can_send_request:
            metadata = ServerMessageMetadata(related_request_id=self._context.request_id)
            return await session.send_request(request, answer, metadata=metadata)
        if key not in self._answers:
            self.must_ask = _MustAsk(request, json.dumps({"key": key, "said": self._answers}))
            raise self.must_ask
        return answer.model_validate(self._answers[key], by_name=False)


_CLIENT: ContextVar[CallingClient | None] = ContextVar("agentkit_mcp_client", default=None)


def calling_client() -> CallingClient:
    """Return the client that made the current call of a served tool. Raises ToolError outside of such a call."""
    client = _CLIENT.get()
    if client is None:
        raise ToolError("No MCP client made this call.")
    return client


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource or template of a server: `read` takes the placeholders of the URI as arguments.

    `names` returns the values of the only placeholder, which are listed as resources and suggested.
    """

    uri: str
    name: str
    description: str
    read: Callable[..., Awaitable[Any]]
    names: Callable[[], Iterable[str]] | None = None


class ServedTools(Protocol):
    """The tools, resources and prompts of a protocol server."""

    name: str
    tools: Toolset
    prompts: dict[str, Tool[..., Any]]
    resources: list[ServedResource]

    async def answer(self, name: str, arguments: Mapping[str, Any], ask: Ask | None = None) -> ToolResult:
        """Judge and execute a call."""
        ...


def protocol_server(served: ServedTools) -> Server[Any]:
    """Create a server of the package that offers tools, resources and prompts. Raises MissingExtra."""
    check_package()
    from mcp import types
    from mcp.server import Server

    handlers = _Handlers(served)
    handlers_by_name: dict[str, Any] = {"on_list_tools": handlers.list_tools, "on_call_tool": handlers.call_tool}
    if served.resources:
        handlers_by_name |= {
            "on_list_resources": handlers.list_resources,
            "on_list_resource_templates": handlers.list_templates,
            "on_read_resource": handlers.read_resource,
            "on_subscribe_resource": handlers.subscribe,
            "on_unsubscribe_resource": handlers.unsubscribe,
            "on_subscriptions_listen": handlers.listen,
        }
    if served.prompts:
        handlers_by_name |= {"on_list_prompts": handlers.list_prompts, "on_get_prompt": handlers.get_prompt}
    if served.prompts or served.resources:
        handlers_by_name["on_completion"] = handlers.complete
    server: Server[Any] = Server(served.name, version=__version__, **handlers_by_name)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handlers.set_level)
    return server


class _Handlers:
    """The request handlers of a server."""

    def __init__(self, served: ServedTools) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self._served, self._level = served, _LEVELS[0]
        self._bus = InMemorySubscriptionBus()
        self._listen_handler = ListenHandler(self._bus)
        self._polled: dict[str, tuple[int, asyncio.Task[None]]] = {}
        self._subscribed: dict[tuple[int, str], Callable[[], None]] = {}

    async def list_tools(self, *_: Any) -> types.ListToolsResult:
        from mcp import types

        return types.ListToolsResult(tools=[_tool_definition(tool) for tool in self._served.tools])

    async def call_tool(self, context: Any, call: types.CallToolRequestParams) -> Any:
        from mcp import types

        names = [tool.name for tool in self._served.tools]
        if call.name not in names:
            raise _unknown_name_error("tool", call.name, names)
        client = CallingClient(context, call, self._level)
        can = context.session.client_capabilities
        ask = None if can is None or can.elicitation is None else client.approves
        token = _CLIENT.set(client)
        beating = asyncio.create_task(client.report_running(call.name))
        try:
            result = await self._served.answer(call.name, call.arguments or {}, ask)
            if client.must_ask is None:
                return _result_for_client(result)
        except _MustAsk as must:
            client.must_ask = must
        finally:
            beating.cancel()
            _CLIENT.reset(token)
        state = client.must_ask.state
        return types.InputRequiredResult(input_requests={"answer": client.must_ask.request}, request_state=state)

    async def set_level(self, _: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
        from mcp import types

        self._level = params.level
        return types.EmptyResult()

    async def list_resources(self, *_: Any) -> types.ListResourcesResult:
        from mcp import types

        found = [(each, each.uri, each.name) for each in self._served.resources if "{" not in each.uri]
        for each in self._served.resources:
            if each.names is not None:
                names = await execution.acall(each.names, None)
                found += [(each, _expand(each.uri, name), name) for name in names]
        return types.ListResourcesResult(
            resources=[types.Resource(uri=uri, name=name, description=each.description) for each, uri, name in found]
        )

    async def list_templates(self, *_: Any) -> types.ListResourceTemplatesResult:
        from mcp import types

        templates = [
            types.ResourceTemplate(uri_template=each.uri, name=each.name, description=each.description)
            for each in self._served.resources
            if "{" in each.uri
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(self, _: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        from mcp import types

        return types.ReadResourceResult(contents=[await self._read(str(params.uri))])

    async def _read(self, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
        from mcp import MCPError, types
        from mcp.shared.uri_template import UriTemplate

        for each in self._served.resources:
            variables = UriTemplate.parse(each.uri).match(uri)
            if variables is not None:
                try:
                    return _content(uri, await each.read(**variables))
                except ToolError as error:
                    raise MCPError(
                        types.INVALID_PARAMS, f"{uri} cannot be read: {escape_invisible(str(error))}"
                    ) from error
        raise _unknown_name_error("resource", uri, [each.uri for each in self._served.resources])

    async def subscribe(self, context: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
        from mcp import types

        session, requested = context.session, str(params.uri)

        def send(event: Any) -> None:
            if getattr(event, "uri", None) == requested:
                asyncio.ensure_future(session.send_resource_updated(requested)).add_done_callback(_retrieve_exception)

        key = (id(session.client_params), requested)
        if key not in self._subscribed:
            await self._watch(requested)
            self._subscribed[key] = self._bus.subscribe(send)
        return types.EmptyResult()

    async def unsubscribe(self, context: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        from mcp import types

        key = (id(context.session.client_params), str(params.uri))
        if key in self._subscribed:
            self._subscribed.pop(key)()
            self._unwatch(str(params.uri))
        return types.EmptyResult()

    async def listen(self, context: Any, params: types.SubscriptionsListenRequestParams) -> Any:
        uris = params.notifications.resource_subscriptions or []
        for uri in uris:
            await self._watch(uri)
        try:
            return await self._listen_handler(context, params)
        finally:
            for uri in uris:
                self._unwatch(uri)

    async def _watch(self, uri: str) -> None:
        before = await self._snapshot(uri)
        count, task = self._polled.get(uri) or (0, asyncio.create_task(self._poll(uri, before)))
        self._polled[uri] = count + 1, task

    def _unwatch(self, uri: str) -> None:
        count, task = self._polled.pop(uri)
        if count > 1:
            self._polled[uri] = count - 1, task
        else:
            task.cancel()

    async def _poll(self, uri: str, before: object) -> None:
        """Publish changes of a resource, which is read every second while someone subscribes to it."""
        from mcp.shared.subscriptions import ResourceUpdated

        while True:
            await asyncio.sleep(_POLL_SECONDS)
            now = await self._snapshot(uri)
            if now != before:
                await self._bus.publish(ResourceUpdated(uri))
            before = now

    async def _snapshot(self, uri: str) -> object:
        """Return the contents of a resource, or the reason why it cannot be read."""
        from mcp import MCPError

        try:
            return await self._read(uri)
        except MCPError as error:
            return error.message

    async def list_prompts(self, *_: Any) -> types.ListPromptsResult:
        from mcp import types

        prompts = [
            types.Prompt(
                name=name,
                description=tool.description,
                arguments=[
                    types.PromptArgument(name=each, description=about.get("description"), required=each in required)
                    for required in (tool.parameters.get("required", ()),)
                    for each, about in tool.parameters["properties"].items()
                ],
            )
            for name, tool in self._served.prompts.items()
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, _: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        from mcp import MCPError, types

        prompt = self._served.prompts.get(params.name)
        if prompt is None:
            raise _unknown_name_error("prompt", params.name, self._served.prompts)
        result = await prompt.ainvoke(params.arguments or {})
        if not result.ok:
            raise MCPError(types.INVALID_PARAMS, result.error or "The prompt cannot be rendered.")
        parts = result.value if isinstance(result.value, list | tuple) else [result.value]
        blocks = [
            _media_block(each) if isinstance(each, Image | File) else types.TextContent(text=f"{each}")
            for each in parts
        ]
        messages = [types.PromptMessage(role="user", content=block) for block in blocks]
        return types.GetPromptResult(description=prompt.description, messages=messages)

    async def complete(self, _: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
        from mcp import types

        candidates: Iterable[Any] = ()
        if isinstance(params.ref, types.PromptReference):
            prompt = self._served.prompts.get(params.ref.name)
            candidates = prompt.parameters["properties"].get(params.argument.name, {}).get("enum", ()) if prompt else ()
        else:
            names = [each.names for each in self._served.resources if each.uri == params.ref.uri]
            candidates = await execution.acall(names[0], None) if names and names[0] else ()
        prefix = params.argument.value.casefold()
        values = [each for each in map(str, candidates) if each.casefold().startswith(prefix)]
        return types.CompleteResult(
            completion=types.Completion(
                values=values[:_MAX_COMPLETIONS], total=len(values), has_more=len(values) > _MAX_COMPLETIONS
            )
        )


def _unknown_name_error(kind: str, name: str, known: Iterable[str]) -> Exception:
    from mcp import MCPError, types

    text = f"No {kind} is named {escape_invisible(name[:_MAX_NAME_CHARS])!r}.{suggestion(name, [*known])}"
    return MCPError(types.INVALID_PARAMS, text)


def _retrieve_exception(sending: asyncio.Future[None]) -> None:
    """Retrieve the exception of a notification: the client can be gone."""
    if not sending.cancelled():
        sending.exception()


def _expand(template: str, name: str) -> str:
    from mcp.shared.uri_template import UriTemplate

    parsed = UriTemplate.parse(template)
    return parsed.expand({parsed.variable_names[0]: name})


def _content(uri: str, value: Any) -> types.TextResourceContents | types.BlobResourceContents:
    """Convert the value of a resource: a text, bytes, an image or file, or a value that becomes JSON."""
    from mcp import types

    if isinstance(value, bytes):
        value = File(data_url(image_type(value) or file_type(value, uri) or "application/octet-stream", value))
    if isinstance(value, Image | File):
        head, _, data = value.url.partition(";base64,")
        return types.BlobResourceContents(uri=uri, mime_type=head.removeprefix("data:"), blob=data)
    if isinstance(value, str):
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return types.TextResourceContents(uri=uri, mime_type="application/json", text=text)


class RecentEvents:
    """The last 1,000 messages of HTTP sessions, which clients that have lost their connection can request again."""

    def __init__(self) -> None:
        self._events: deque[tuple[str, str, Any]] = deque(maxlen=_MAX_EVENTS)
        self._prefix, self._numbers = secrets.token_hex(8), itertools.count(1)

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store a message; returns its id, which others cannot guess."""
        event = f"{self._prefix}-{next(self._numbers)}"
        self._events.append((event, stream_id, message))
        return event

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        """Send the later messages of the same stream; returns its id, or None if the event is unknown."""
        from mcp.server.streamable_http import EventMessage

        events = list(self._events)
        position = next((number for number, (event, *_) in enumerate(events) if event == last_event_id), None)
        if position is None:
            return None
        requested = events[position][1]
        for event, stream, message in events[position + 1 :]:
            if stream == requested and message is not None:
                await send_callback(EventMessage(message, event))
        return requested


async def over_stdio(server: Server[Any]) -> None:
    """Serve the client on stdin and stdout until the input ends."""
    from mcp import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def over_http(server: Server[Any], listener: socket.socket, auth: MCPAuth) -> None:
    """Serve streamable HTTP on an open socket until cancelled or the process is terminated."""
    from mcp.server.transport_security import TransportSecuritySettings

    hosts, origins = auth.hosts, [f"{scheme}://{host}" for host in auth.hosts for scheme in ("http", "https")]
    checks = TransportSecuritySettings(allowed_hosts=[*hosts], allowed_origins=origins)
    events: Any = RecentEvents()
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BYTES,
        transport_security=checks,
        event_store=events,
        retry_interval=_RETRY_MILLISECONDS,
    )
    await create_server(auth.protect(application)).serve([listener])


def _tool_definition(tool: Tool[..., Any]) -> types.Tool:
    from mcp import types

    known: Mapping[SafetyLevel, dict[str, bool]] = {
        SafetyLevel.SAFE: {"readOnlyHint": True, "openWorldHint": False},
        SafetyLevel.NETWORK: {"openWorldHint": True},
    }
    hints = types.ToolAnnotations.model_validate(known.get(tool.level, {}))
    schema = tool.parameters
    return types.Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints)


def _result_for_client(result: ToolResult) -> types.CallToolResult:
    """Convert a result for the client; the decision is included as metadata."""
    from mcp import types

    decision = {} if result.decision is None else result.decision.to_dict()
    metadata = {"agentkit/status": result.status, "agentkit/decision": decision}
    media = [_media_block(part) for part in result.attachments if part.url.startswith("data:")]
    content: list[types.ContentBlock] = [types.TextContent(text=result.content), *media]
    return types.CallToolResult(content=content, is_error=not result.ok, _meta=metadata)


def _media_block(part: Image | File) -> types.ContentBlock:
    """Convert an image or recording to its own block type, any other file to an embedded resource."""
    from mcp import types

    head, _, data = part.url.partition(";base64,")
    kind = head.removeprefix("data:")
    if isinstance(part, Image):
        return types.ImageContent(data=data, mime_type=kind)
    if part.audio_format:
        return types.AudioContent(data=data, mime_type=kind)
    uri = f"file:///{quote(part.file_name, safe='')}"
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, mime_type=kind, blob=data))
