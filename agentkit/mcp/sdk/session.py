"""Client sessions: requests, content conversion and errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.decisions import Decision, Verdict
from agentkit.errors import AgentKitError, ConfigError, ToolError
from agentkit.event_rendering import content_text, escape_invisible
from agentkit.mcp.connection_target import Target
from agentkit.mcp.content import (
    Answer,
    Prompt,
    PromptArgument,
    Resource,
    blocks_of,
    prompt_answer,
    resource_answer,
    result_answer,
)
from agentkit.mcp.definitions import Definition
from agentkit.mcp.login_store import ClientCredentials
from agentkit.mcp.sdk import check_package
from agentkit.mcp.watchdog import watchdog_command
from agentkit.redaction import redact, redact_value
from agentkit.safety.approval import NOBODY, Approval, ApprovalRequest, Approver, ApproverAnswer
from agentkit.settings import Secret, secret_values
from agentkit.text_encoding import split_lines
from agentkit.tooling import execution
from agentkit.tooling.signature import is_asynchronous

if TYPE_CHECKING:
    from mcp import Client, types

    from agentkit.llm.client import LLM
    from agentkit.mcp.sdk.oauth import Authorized


Progress = Callable[[float, float | None, str], object]
"""Callback for the progress of a call: progress, total or None if unknown, and a message."""

ELICITATION, SAMPLING = "mcp-elicitation", "mcp-sampling"
"""The rules of decisions on a server's requests during a call: for answers of a person, and of the model."""


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """The run or program that makes a call, and what it grants to the server during the call.

    `approve` is asked about every request of the server; `llm` returns the model for sampling. Both are called in
    `context` and on `loop`, the caller's event loop, if it has one: models are charged to the budget of the run.
    """

    server: str
    approve: Approver | None
    llm: Callable[[], LLM] | None
    context: Context
    loop: asyncio.AbstractEventLoop | None
    run: str = ""

    async def ask_approver(self, tool: str, arguments: Mapping[str, Any], rule: str, reason: str) -> ApproverAnswer:
        """Ask the approver; without one, the answer is no."""
        if self.approve is None:
            return NOBODY
        decision = Decision(Verdict.ASK, rule, escape_invisible(reason[:_MAX_TEXT_CHARS]))
        request = ApprovalRequest(f"The MCP server {self.server}", tool, arguments, decision)
        is_async = is_asynchronous(self.approve)
        try:
            asking = execution.acall(partial(self.approve, request), None, is_async=is_async)
            return ApproverAnswer.of(await self._await_for_caller(asking))
        except Exception as error:
            return ApproverAnswer.of(error)

    async def sample(self, params: types.CreateMessageRequestParams) -> tuple[str, str]:
        """Return the model's answer to the server's messages, and the name of the model. Raises ToolError."""
        if self.llm is None:
            raise ToolError("No model is available to this call.")
        from agentkit.agents.agent import Agent

        settings = {"max_tokens": params.max_tokens, "temperature": params.temperature}
        llm = self.llm().with_settings(**{name: value for name, value in settings.items() if value is not None})
        agent = Agent(f"{self.server}_sampling", instruction=params.system_prompt or None, llm=llm, max_iterations=1)
        result = await self._await_for_caller(agent.arun(prompt_answer(params.messages)))
        if result.status != "done":
            raise ToolError(f"The model did not answer: {result.error or result.status}")
        return result.text, llm.model

    async def _await_for_caller(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the work in the caller's context, on the caller's event loop if there is one."""
        context = self.context.copy()
        if self.loop is None or self.loop.is_closed():
            return await asyncio.create_task(work, context=context)
        return await asyncio.wrap_future(context.run(asyncio.run_coroutine_threadsafe, work, self.loop))


_CLOSED = -32000
_SESSION_TERMINATED = "Session terminated"
_UNKNOWN_METHOD = -32601
_MAX_PAGES, _MAX_TOOLS, _MAX_OTHERS = 100, 1_000, 10_000
_MAX_NAME_CHARS = 128
_TAIL_BYTES, _MAX_TEXT_CHARS = 4_000, 4_000
_LISTING_INTERVAL_SECONDS = 1.0
_MIN_SECRET_CHARS = 8
_POLL_MILLISECONDS, _CANCELLING_SECONDS = 500, 5
_USER_REFUSED = -1


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools that a server offers, and the tools that cannot be used, by name, with the reason."""

    definitions: tuple[Definition, ...]
    invalid: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A server's answer to a call: texts, images and files, and whether the server marks it as an error."""

    value: Answer
    failed: bool


class _Unknown(ToolError):
    """The server does not support the method."""


class MCPConnection:
    """An open connection to a server. `lost` means that it no longer answers."""

    def __init__(self, client: Client, state: _State) -> None:
        self._client, self._state = client, state
        self._listeners: dict[str, asyncio.Task[None]] = {}

    @property
    def lost(self) -> bool:
        """Whether the connection is unusable."""
        return self._state.is_lost

    @contextlib.asynccontextmanager
    async def limited(self, seconds: float | None) -> AsyncIterator[None]:
        """Limit the time of the block, without the time in which the server waits for a person. Raises TimeoutError."""
        async with asyncio.timeout(seconds) as limit:
            self._state.limits.add(limit)
            try:
                yield
            finally:
                self._state.limits.discard(limit)

    async def definitions(self) -> ToolListing:
        """List the tools that the server offers. Raises ToolError if there are too many."""
        self._state.invalid_tools = {}
        tools = await self._list_all(self._client.list_tools, "tools", _MAX_TOOLS)
        errors = {tool.name: error for tool in tools if (error := await self._tool_error(tool))}
        definitions = tuple(_definition(tool) for tool in tools if tool.name not in errors)
        return ToolListing(definitions, {**self._state.invalid_tools, **errors})

    async def _tool_error(self, tool: types.Tool) -> str:
        """Describe why every call of a tool would fail; empty if it can be called."""
        from mcp.types import CallToolResult

        if tool.execution is not None and tool.execution.task_support == "required":
            if self._client.server_capabilities.tasks is None:
                return f"Tool {tool.name!r} can only be called as a task, and the server does not offer tasks."
            self._state.tasks.add(tool.name)
        if tool.output_schema is not None:
            try:  # the package compiles the schema, keeps it for later results, and rejects the empty one
                empty = CallToolResult(content=[], structured_content={})
                await self._client.session.validate_tool_result(tool.name, empty)
            except RuntimeError as error:
                if str(error).startswith("Invalid schema"):
                    return f"Tool {tool.name!r} is invalid: outputSchema: {_first_line(error)}."
        return ""

    async def resources(self) -> tuple[Resource, ...]:
        """List the resources that the server offers, templates last. Raises ToolError, also if there are too many."""
        if self._client.server_capabilities.resources is None:
            return ()
        whole = await self._list_all(self._client.list_resources, "resources")
        templates = await self._list_all(self._client.list_resource_templates, "resource_templates")
        return tuple(map(_resource, (*whole, *templates)))

    async def read(self, uri: str) -> Answer:
        """Read a resource. Raises ToolError."""
        return resource_answer((await self._await_answer(self._client.read_resource(uri))).contents)

    async def prompts(self) -> tuple[Prompt, ...]:
        """List the prompts that the server offers. Raises ToolError, also if there are too many."""
        if self._client.server_capabilities.prompts is None:
            return ()
        return tuple(map(_prompt, await self._list_all(self._client.list_prompts, "prompts")))

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Answer:
        """Get a prompt rendered by the server with these arguments. Raises ToolError."""
        return prompt_answer((await self._await_answer(self._client.get_prompt(name, dict(arguments)))).messages)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: Progress | None = None,
        caller: Caller | None = None,
    ) -> ToolOutput:
        """Call a tool; a cancellation is reported to the server. Raises ToolError."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                on_progress(progress, total, message or "")

        callback = None if on_progress is None else report  # a server sends more messages if it reports progress
        with contextlib.nullcontext() if caller is None else self._state.serving(caller):
            if name in self._state.tasks:
                result = await self._await_answer(self._call_as_task(name, dict(arguments)))
            else:
                result = await self._await_answer(
                    self._client.call_tool(name, dict(arguments), progress_callback=callback)
                )
        return ToolOutput(result_answer(result.content, result.structured_content), bool(result.is_error))

    async def _call_as_task(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool as a task: create it, wait until it has ended, and fetch its result."""
        from mcp import types

        session = self._client.session
        params = types.CallToolRequestParams(name=name, arguments=arguments, task=types.TaskMetadata())
        created = await session.send_request(types.CallToolRequest(params=params), types.CreateTaskResult)
        task: types.Task = created.task
        task_id = task.task_id
        try:
            while task.status == "working":
                await asyncio.sleep((task.poll_interval or _POLL_MILLISECONDS) / 1_000)
                poll = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=task_id))
                task = await session.send_request(poll, types.GetTaskResult)
            payload = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task_id))
            return await session.send_request(payload, types.CallToolResult)
        except asyncio.CancelledError:
            end = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=task_id))
            with contextlib.suppress(Exception):
                await asyncio.wait_for(session.send_request(end, types.CancelTaskResult), _CANCELLING_SECONDS)
            raise

    async def subscribe(self, uri: str, on_change: Callable[[str], object] | None) -> None:
        """Call back when a resource has changed; None ends that. Raises ToolError."""
        from mcp import types

        watched, listening = self._state.callbacks, self._listeners.pop(uri, None)
        if listening is not None:
            listening.cancel()
        if on_change is None:
            if watched.pop(uri, None) is not None and listening is None:
                ended = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
                await self._await_answer(self._client.session.send_request(ended, types.EmptyResult))
            return
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        watched[uri] = on_change
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await self._await_answer(self._client.session.send_request(request, types.EmptyResult))
            return
        self._state.is_listening = True
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners[uri] = asyncio.create_task(self._listen(started, resource_subscriptions=[uri]))
        await self._await_answer(started)

    async def _listen(self, started: asyncio.Future[None] | None = None, **notifications: Any) -> None:
        """Receive notifications of changes until cancelled, which only servers of the newer protocol support."""
        try:
            async with self._client.listen(**notifications) as events:
                if started is not None:
                    started.set_result(None)
                async for event in events:
                    self._state.notify_change(getattr(event, "uri", ""))
        except Exception as error:  # the server does not support it, or the connection is lost
            if started is not None and not started.done():
                started.set_exception(error)

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Call back when the server reports changed tools, at most once a second."""
        self._listeners[""] = asyncio.create_task(self._listen(tools_list_changed=True))
        try:
            while True:
                await self._state.changed.wait()
                self._state.changed.clear()
                await on_change()
                await asyncio.sleep(_LISTING_INTERVAL_SECONDS)
        finally:
            for each in self._listeners.values():
                each.cancel()

    async def _list_all(self, ask: Callable[..., Awaitable[Any]], kind: str, maximum: int = _MAX_OTHERS) -> list[Any]:
        """Fetch all pages of a list; empty if the method is not supported. Raises ToolError if there are too many."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            try:
                page = await self._await_answer(ask(cursor=cursor))
            except _Unknown:
                return found
            found += getattr(page, kind)
            cursor = page.next_cursor
            if len(found) > maximum:
                break
            if cursor is None:
                return found
        kinds = kind.replace("_", " ")
        raise ToolError(f"The server offers more than {maximum} {kinds}, or has too many pages.")

    async def _await_answer(self, question: Awaitable[Any]) -> Any:
        """Await a request and translate errors. Raises ToolError."""
        from mcp import MCPError

        try:
            return await question
        except MCPError as error:
            self._state.check()
            if error.code == _CLOSED or error.message == _SESSION_TERMINATED:
                self._state.is_lost = True
                raise ToolError(self._state.with_stderr("The server ended before it answered.")) from error
            kind = _Unknown if error.code == _UNKNOWN_METHOD else ToolError
            raise kind(f"The server refused: {escape_invisible(error.message[:_MAX_TEXT_CHARS])}") from error
        except (ValueError, RuntimeError) as error:  # an answer that violates the schema the server declared
            raise ToolError(f"The server's answer cannot be used: {_first_line(error)}") from error
        except Exception as error:
            self._state.is_lost = True
            self._state.check()
            raise ToolError(self._state.with_stderr(f"The server cannot be reached: {_first_line(error)}")) from error


class _State:
    """The state of a connection: whether it is lost, pending tool changes, and the last stderr output.

    `secrets` are values sent to the server, which are removed from everything it returns.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.is_lost = False
        self.secrets = {Secret(each) for each in secrets}
        self.problem: AgentKitError | None = None
        self.changed = asyncio.Event()
        self.tail: deque[int] = deque(maxlen=_TAIL_BYTES)
        self.protocol_version = ""
        self.invalid_tools: dict[str, str] = {}
        self.tasks: set[str] = set()
        self.callbacks: dict[str, Callable[[str], object]] = {}
        self.is_listening = False
        self.limits: set[asyncio.Timeout] = set()
        self._callers: list[Caller] = []

    def with_stderr(self, sentence: str) -> str:
        """Append the stderr output of the process to an error message."""
        output = escape_invisible(redact(self.clean(bytes(self.tail).decode("utf-8", "replace").strip())))
        return f"{sentence} It wrote: {output}" if output else sentence

    def failed(self, trouble: AgentKitError) -> None:
        """Record why a request could not be authorized; the package reports only that something failed."""
        self.problem = trouble

    def check(self) -> None:
        """Raise the recorded error, once."""
        trouble, self.problem = self.problem, None
        if trouble is not None:
            raise trouble from None

    def token_used(self, secret: str) -> None:
        """Record a token sent to the server."""
        self.secrets.add(Secret(secret))

    def clean(self, text: str) -> str:
        """Remove the secrets from a text."""
        for secret in self.secrets:
            text = secret.scrub(text)
        return text

    async def handle_message(self, message: object) -> None:
        """Handle a notification from the server; news of resources also arrives where they are listened for."""
        from mcp import types

        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()
        elif isinstance(message, types.ResourceUpdatedNotification) and not self.is_listening:
            self.notify_change(message.params.uri)

    def notify_change(self, uri: str) -> None:
        """Handle the news of a changed resource; without an address, of changed tools."""
        if not uri:
            self.changed.set()
        elif uri in self.callbacks:
            self.callbacks[uri](uri)

    @contextlib.contextmanager
    def serving(self, caller: Caller) -> Iterator[None]:
        """Let the server ask this caller for the duration of the block."""
        self._callers.append(caller)
        try:
            yield
        finally:
            self._callers.remove(caller)

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        """Suspend the timeouts of the calls: the time that a person or the model takes does not count."""
        clock = asyncio.get_running_loop().time
        remaining = {limit: when - clock() for limit in self.limits if (when := limit.when()) is not None}
        for limit in remaining:
            limit.reschedule(None)
        try:
            yield
        finally:
            for limit in remaining.keys() & self.limits:
                limit.reschedule(clock() + remaining[limit])

    def _only_caller(self) -> Caller | None:
        """The caller to ask, if there is exactly one: the protocol does not tell which call a request belongs to."""
        runs = {(each.run, id(each.approve)) for each in self._callers}
        return self._callers[-1] if len(runs) == 1 else None

    async def answer_elicitation(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Answer a question of the server: with the person's answer, or a refusal."""
        from mcp import types

        caller = self._only_caller()
        if caller is None:
            return types.ElicitResult(action="decline")
        schema = params.requested_schema if isinstance(params, types.ElicitRequestFormParams) else {}
        fields: dict[str, Any] = schema.get("properties", {})
        proposed = {name: each.get("default") for name, each in fields.items()}
        if isinstance(params, types.ElicitRequestURLParams):
            proposed = {"url": params.url}
        reason = "\n".join((params.message, *(f"{name}: {_describe_field(each)}" for name, each in fields.items())))
        with self._paused():
            answer = await caller.ask_approver("ask_user", proposed, ELICITATION, reason)
        if answer.approval is Approval.LATER:
            return types.ElicitResult(action="cancel")
        values = proposed if answer.arguments is None else answer.arguments
        content = {name: value for name, value in values.items() if name in fields and value is not None}
        if answer.approval is Approval.NO or not content.keys() >= {*schema.get("required", ())}:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=content if schema else None)

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult | types.ErrorData:
        """Answer a server's request for the model, if the approver agrees; otherwise refuse it."""
        from mcp import types

        caller = self._only_caller()
        if caller is None or caller.llm is None:
            return types.ErrorData(code=_USER_REFUSED, message="There is no approver, or no model.")
        prompt = content_text(tuple(blocks_of(prompt_answer(params.messages))))
        arguments = {"prompt": prompt, "system_prompt": params.system_prompt or "", "max_tokens": params.max_tokens}
        reason = "It sends a prompt to your model, at your cost, and receives the answer."
        with self._paused():
            answer = await caller.ask_approver("ask_model", arguments, SAMPLING, reason)
            if answer.approval in (Approval.NO, Approval.LATER) or answer.arguments is not None:
                return types.ErrorData(code=_USER_REFUSED, message=answer.text or "The request was refused.")
            try:
                text, model = await caller.sample(params)
            except AgentKitError as error:
                return types.ErrorData(code=types.INTERNAL_ERROR, message=escape_invisible(str(error)))
        content = types.TextContent(text=text)
        return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason="endTurn")


@contextlib.asynccontextmanager
async def open_connection(target: Target) -> AsyncIterator[MCPConnection]:
    """Connect to the server for the duration of the block.

    Raises ConfigError for an invalid target, MissingExtra without the package, and ToolError if the server does not
    answer.
    """
    check_package()
    from mcp import Client, types

    state = _State((*_secrets(target.headers), *secret_values(target.environment)))
    async with contextlib.AsyncExitStack() as stack:
        try:
            client_info = types.Implementation(name="agentkit", version=__version__)
            server = await _open_transport(target, state, stack)
            client = Client(
                server,
                cache=None,
                client_info=client_info,
                message_handler=state.handle_message,
                elicitation_callback=lambda _, params: state.answer_elicitation(params),
                sampling_callback=lambda _, params: state.sample(params),
            )
            await stack.enter_async_context(client)
            state.protocol_version = client.protocol_version
        except (ConfigError, asyncio.CancelledError):
            raise
        except BaseException as error:
            state.check()
            raise ToolError(
                state.with_stderr(f"The server does not answer as an MCP server: {_first_line(error)}.")
            ) from error
        yield MCPConnection(client, state)


async def _open_transport(target: Target, state: _State, stack: contextlib.AsyncExitStack) -> Any:
    """Return the server or transport for the package's client. Raises ConfigError."""
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server import MCPServer, Server

    from agentkit.mcp.sdk.ssrf_transport import web_client

    if target.words:
        return _watch_transport(_process(target, state), state)
    if target.url:
        client = web_client(target.url, target.headers, _authentication(target, state))
        http = await stack.enter_async_context(client)
        return _watch_transport(streamable_http_client(target.url, http_client=http), state)
    if not isinstance(target.program, Server | MCPServer):
        kind = type(target.program).__name__
        raise ConfigError(f"MCPServer() takes a command, a URL, or a server of the mcp package; got a {kind}.")
    return target.program


def _authentication(target: Target, state: _State) -> Authorized | None:
    """Return the authentication for requests; None without a login."""
    if target.login is None:
        return None
    if isinstance(target.login, ClientCredentials):
        from agentkit.mcp.sdk.oauth import ClientCredentialsAuth

        return ClientCredentialsAuth(target, target.login, state)
    from agentkit.mcp.sdk.oauth import AuthorizationCodeAuth

    return AuthorizationCodeAuth(target, target.login, state)


@contextlib.asynccontextmanager
async def _process(target: Target, state: _State) -> AsyncIterator[Any]:
    """Run the command under the watchdog and yield its streams; the end of its stderr output is recorded."""
    from mcp import StdioServerParameters, stdio_client

    command, *arguments = watchdog_command(target.words)
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
    loop.add_reader(reading, _read_tail, reading, state.tail)
    try:
        with os.fdopen(writing, "w") as stderr:
            async with stdio_client(parameters, errlog=stderr) as streams:
                yield streams
    finally:
        loop.remove_reader(reading)
        _read_tail(reading, state.tail)
        os.close(reading)


def _read_tail(descriptor: int, tail: deque[int]) -> None:
    with contextlib.suppress(BlockingIOError):
        tail.extend(os.read(descriptor, 65_536)[-_TAIL_BYTES:])


@contextlib.asynccontextmanager
async def _watch_transport(transport: Any, state: _State) -> AsyncIterator[Any]:
    """Wrap a transport to detect when nothing more can be read."""
    async with transport as (reading, writing):
        yield _Watched(reading, state), writing


class _Watched:
    """A message stream that records its end."""

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
            message = await self._stream.__anext__()
        except BaseException:
            self._state.is_lost = True
            raise
        if self._state.secrets:
            _remove_secrets(message, self._state)
        _adapt(message, self._state)
        return message


def _adapt(message: Any, state: _State) -> None:
    """Remove invalid tools from a listing, and let tasks pass: the package rejects both as a whole."""
    result: Any = getattr(getattr(message, "message", None), "result", None)
    if isinstance(result, dict) and isinstance(result.get("task"), dict):
        result.setdefault("content", [])  # the package takes the answer to a call for its result
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list) or "content" in result:
        return
    valid = []
    for number, tool in enumerate(tools, 1):
        fault = _definition_error(tool, state.protocol_version)
        if fault is None:
            valid.append(tool)
            continue
        name = tool.get("name") if isinstance(tool, dict) else None
        name = escape_invisible(name[:_MAX_NAME_CHARS]) if isinstance(name, str) and name else f"tool number {number}"
        state.invalid_tools[name] = f"Tool {name!r} is invalid: {fault}."
    result["tools"] = valid


def _definition_error(tool: Any, version: str) -> str | None:
    """Describe why a listed tool violates the protocol or has an invalid output schema; None for a valid one."""
    from mcp_types.methods import SERVER_RESULTS

    try:
        listing: Any = SERVER_RESULTS["tools/list", version]
        listing.model_fields["tools"].annotation.__args__[0].model_validate(tool)
    except ValueError as error:  # of pydantic
        fault: Any = error
        first = fault.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        return f"{field}: {first['msg']}" if field else str(first["msg"])
    return None if tool["name"] else "name: The name is empty"


def _remove_secrets(message: Any, state: _State) -> None:
    """Remove the secrets sent to the server from a message."""
    answer = getattr(message, "message", None)
    for name in ("result", "params"):
        if isinstance(getattr(answer, name, None), dict):
            setattr(answer, name, redact_value(getattr(answer, name), state.clean))
    error = getattr(answer, "error", None)
    if error is not None:
        error.message = state.clean(error.message)


def _secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the header values long enough to be treated as secrets, without their scheme."""
    return [value.split(" ", 1)[-1] for value in headers.values() if len(value) >= _MIN_SECRET_CHARS]


def _definition(tool: types.Tool) -> Definition:
    hints = {} if tool.annotations is None else tool.annotations.model_dump(by_alias=True, exclude_none=True)
    return Definition(tool.name, tool.description or tool.title or "", tool.input_schema, hints)


def _resource(offered: types.Resource | types.ResourceTemplate) -> Resource:
    uri = getattr(offered, "uri_template", "")
    return Resource(
        uri or getattr(offered, "uri", ""), *_name_and_description(offered), offered.mime_type or "", bool(uri)
    )


def _prompt(prompt: types.Prompt) -> Prompt:
    arguments = (
        PromptArgument(each.name, each.description or each.title or "", bool(each.required))
        for each in prompt.arguments or ()
    )
    return Prompt(*_name_and_description(prompt), tuple(arguments))


def _name_and_description(offered: types.Resource | types.ResourceTemplate | types.Prompt) -> tuple[str, str]:
    return offered.name, offered.description or offered.title or ""


def _describe_field(field: Mapping[str, Any]) -> str:
    """Describe a field of a form: its description, and the values to choose from."""
    items = field.get("items", {})
    choices = field.get("enum") or items.get("enum")
    titled = field.get("oneOf") or items.get("anyOf") or ()
    choices = choices or [f"{each.get('const')} ({each.get('title')})" for each in titled]
    selection = "any of" if field.get("type") == "array" else "one of"
    description = [field.get("description") or field.get("title") or field.get("type", "any value")]
    return f"{description[0]}; {selection} {', '.join(map(str, choices))}" if choices else str(description[0])


def _first_line(error: BaseException) -> str:
    """Return the first line of the innermost error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return escape_invisible((split_lines(str(error)[:_MAX_TEXT_CHARS].strip()) or [type(error).__name__])[0])
