"""Client sessions: requests, content conversion and errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from agentkit import __version__
from agentkit._dataclass import dataclass
from agentkit.content import File, Image, worded
from agentkit.errors import AgentKitError, ConfigError, ToolError
from agentkit.event_rendering import visible
from agentkit.lines import split_lines
from agentkit.mcp.definitions import Definition
from agentkit.mcp.login_store import ClientCredentials
from agentkit.mcp.sdk import check_package
from agentkit.mcp.target import Target
from agentkit.mcp.watchdog import kept
from agentkit.redaction import redact, redact_value
from agentkit.settings import Secret, secret_values

if TYPE_CHECKING:
    from mcp import Client, types
    from mcp.shared.dispatcher import ProgressFnT

    from agentkit.mcp.sdk.oauth import Authorized


Answer = str | list[str | Image | File]
"""What a server says: a text, or texts, pictures and files in order. A run takes it as a prompt."""

_SPEAKERS = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class Resource:
    """What a server offers to read: `uri` is what `read` takes.

    Of a template the URI has places in braces, such as `notes://{name}`, for whoever reads to fill in.
    """

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    is_template: bool = False

    def to_dict(self) -> dict[str, str]:
        """What there is of it, JSON-ready: `uri` or `uri_template`, `name`, `description`, `media_type`."""
        told = {"uri_template" if self.is_template else "uri": self.uri, "name": self.name}
        others = {"description": self.description, "media_type": self.media_type}
        return told | {key: value for key, value in others.items() if value}


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """A text that a prompt takes by this name."""

    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that a server offers to write, with what it must be told for that."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


def listing(resources: Iterable[Resource]) -> str:
    """What there is to read, as a model is told it: JSON, one a line."""
    lines = (json.dumps(each.to_dict(), ensure_ascii=False) for each in resources)
    return "\n".join(lines) or "The server offers nothing to read."


def written(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of a prompt, which are texts: other values as JSON. Raises TypeError for what is none."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
    }


def value_of(blocks: Iterable[Any], structured: Any = None) -> Answer:
    """What the blocks of a result say.

    Binary data that no model reads are only named; structured content counts where there is nothing else.
    """
    said = _joined([_block(block) for block in blocks], "\n")
    return said if said or structured is None else json.dumps(structured, ensure_ascii=False)


def contents_of(contents: Sequence[Any]) -> Answer:
    """What a resource says; where it has several contents, the URI of each stands before it."""
    said: list[str | Image | File] = []
    for each in contents:
        said += [f"[{each.uri}]", _content(each)] if len(contents) > 1 else [_content(each)]
    if len(said) == 1 and isinstance(said[0], str):
        return said[0]
    return _joined(said, "\n")


def prompt_of(messages: Sequence[Any]) -> Answer:
    """What the messages of a prompt say; where some are a model's, it is named who says what.

    All of it is the prompt: no words of a stranger become an answer that a model has given.
    """
    are_told_apart = any(message.role != "user" for message in messages)
    said: list[str | Image | File] = []
    for message in messages:
        content = _block(message.content)
        speaker = f"{_SPEAKERS.get(message.role, message.role)}:"
        if are_told_apart and isinstance(content, str):
            said.append(f"{speaker} {content}")
        else:
            said += [speaker, content] if are_told_apart else [content]
    return _joined(said, "\n\n")


def _joined(said: list[str | Image | File], between: str) -> Answer:
    return said if any(isinstance(each, Image | File) for each in said) else between.join(map(str, said))


def _block(block: Any) -> str | Image | File:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource_link":
        return f"[a link to {block.uri}]"
    if block.type == "resource":
        return _content(block.resource)
    if block.type == "image":
        return Image(f"data:{block.mime_type};base64,{block.data}")
    return _shown(block.data) or f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes: not shown]"


def _content(content: Any) -> str | Image | File:
    """A text, a picture or file that models read, or what is said of other binary data."""
    text = getattr(content, "text", None)
    if text is not None:
        return str(text)
    name = unquote(str(content.uri).partition("?")[0].rstrip("/").rpartition("/")[2])
    return _shown(content.blob, name) or f"[binary data of {content.uri}]"


def _shown(encoded: str, name: str = "") -> Image | File | None:
    """A picture, a PDF or a recording, told by its data, whatever the server calls it; None for anything else."""
    url = f"data:application/octet-stream;base64,{encoded}"
    for part in (Image(url), File(url, name)):
        try:
            checked = part.checked()
        except ValueError:
            continue
        return None if isinstance(worded(checked), str) else checked
    return None


Progress = Callable[[float, float | None, str], object]
"""Hears how far a call is: how much of how much, or None where nobody knows, and a word on it."""

_CLOSED = -32000
_SESSION_IS_OVER = "Session terminated"
_UNKNOWN_METHOD = -32601
_MOST_PAGES, _MOST_TOOLS, _MOST_OTHERS = 100, 1_000, 10_000
_TAIL_BYTES, _MOST_WORDS_CHARS = 4_000, 4_000
_BETWEEN_LOOKS_SECONDS = 1.0
_LEAST_SECRET_CHARS = 8


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a server answered to a call, texts, pictures and files, and whether it calls it a failure."""

    value: Answer
    failed: bool


class _Unknown(ToolError):
    """The server does not know what it was asked for."""


class MCPConnection:
    """A server that answers. `lost` says that it does not any more."""

    def __init__(self, client: Client, state: _State) -> None:
        self._client, self._state = client, state

    @property
    def lost(self) -> bool:
        """Whether nothing more can come of it."""
        return self._state.is_lost

    async def definitions(self) -> tuple[Definition, ...]:
        """The tools that the server offers now. Raises ToolError when there are too many."""
        return tuple(map(_definition, await self._listed(self._client.list_tools, "tools", _MOST_TOOLS)))

    async def resources(self) -> tuple[Resource, ...]:
        """What the server offers to read, templates last. Raises ToolError, also when there is too much."""
        if self._client.server_capabilities.resources is None:
            return ()
        whole = await self._listed(self._client.list_resources, "resources")
        templates = await self._listed(self._client.list_resource_templates, "resource_templates")
        return (*map(_resource, whole), *map(_template, templates))

    async def read(self, uri: str) -> Answer:
        """What a resource says. Raises ToolError."""
        return contents_of((await self._asking(self._client.read_resource(uri))).contents)

    async def prompts(self) -> tuple[Prompt, ...]:
        """The prompts that the server offers. Raises ToolError, also when there are too many."""
        if self._client.server_capabilities.prompts is None:
            return ()
        return tuple(map(_prompt, await self._listed(self._client.list_prompts, "prompts")))

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Answer:
        """A prompt as the server writes it with these. Raises ToolError."""
        return prompt_of((await self._asking(self._client.get_prompt(name, dict(arguments)))).messages)

    async def call(self, name: str, arguments: Mapping[str, Any], on_progress: Progress | None = None) -> ToolOutput:
        """Have the server run a tool; when this is cancelled, the server is told. Raises ToolError."""
        progress = None if on_progress is None else _hearing(on_progress)
        result = await self._asking(self._client.call_tool(name, dict(arguments), progress_callback=progress))
        return ToolOutput(value_of(result.content, result.structured_content), bool(result.is_error))

    async def watch(self, when_changed: Callable[[], Awaitable[None]]) -> None:
        """Call back when the server says that its tools are others now, at most once a second."""
        while True:
            await self._state.changed.wait()
            self._state.changed.clear()
            await when_changed()
            await asyncio.sleep(_BETWEEN_LOOKS_SECONDS)

    async def listen(self) -> None:
        """Ask a server of the newer protocol to say when its tools change; it may not know how to."""
        with contextlib.suppress(Exception):
            async with self._client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._state.changed.set()

    async def _listed(self, ask: Callable[..., Awaitable[Any]], kind: str, most: int = _MOST_OTHERS) -> list[Any]:
        """All pages of a list, none where the server does not know it. Raises ToolError when there is far too much."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            try:
                page = await self._asking(ask(cursor=cursor))
            except _Unknown:
                return found
            found += getattr(page, kind)
            cursor = page.next_cursor
            if len(found) > most:
                break
            if cursor is None:
                return found
        told = kind.replace("_", " ")
        raise ToolError(f"The server offers more than {most} {told}, or has too many pages; it was not believed.")

    async def _asking(self, question: Awaitable[Any]) -> Any:
        """The answer, with what can go wrong in our words. Raises ToolError."""
        from mcp import MCPError

        try:
            return await question
        except MCPError as error:
            self._state.check()
            if error.code == _CLOSED or error.message == _SESSION_IS_OVER:
                self._state.is_lost = True
                raise ToolError(self._state.ended("The server ended before it had answered.")) from error
            kind = _Unknown if error.code == _UNKNOWN_METHOD else ToolError
            raise kind(f"The server refused: {visible(error.message[:_MOST_WORDS_CHARS])}") from error
        except (ValueError, RuntimeError) as error:  # an answer that is not what the server itself said it would be
            raise ToolError(f"The server's answer cannot be used: {_first_line(error)}") from error
        except Exception as error:
            self._state.is_lost = True
            self._state.check()
            raise ToolError(self._state.ended(f"The server cannot be reached: {_first_line(error)}")) from error


def _hearing(on_progress: Progress) -> ProgressFnT:
    async def heard(progress: float, total: float | None, message: str | None) -> None:
        on_progress(progress, total, message or "")

    return heard


class _State:
    """What is known of a connection: whether it is lost, whether tools have changed, what the process wrote last.

    `secrets` are what the server was shown, which nothing that it says may bring further.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.is_lost = False
        self.secrets = {Secret(each) for each in secrets}
        self.trouble: AgentKitError | None = None
        self.changed = asyncio.Event()
        self.tail: deque[int] = deque(maxlen=_TAIL_BYTES)

    def ended(self, sentence: str) -> str:
        """The sentence, with what the process wrote to its stderr."""
        written = visible(redact(self.clean(bytes(self.tail).decode("utf-8", "replace").strip())))
        return f"{sentence} It wrote: {written}" if written else sentence

    def failed(self, trouble: AgentKitError) -> None:
        """Note why a login could not be shown; the package says only that something failed."""
        self.trouble = trouble

    def check(self) -> None:
        """Raise what was noted, once."""
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            raise trouble from None

    def shown(self, secret: str) -> None:
        """Note what the server is shown from now on."""
        self.secrets.add(Secret(secret))

    def clean(self, text: str) -> str:
        """The text without what the server was shown."""
        for secret in self.secrets:
            text = secret.scrub(text)
        return text

    async def heard(self, message: object) -> None:
        """Take in what the server says unasked."""
        from mcp import types

        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()


@contextlib.asynccontextmanager
async def connected(target: Target) -> AsyncIterator[MCPConnection]:
    """A connection to the server, as long as the block lasts.

    Raises ConfigError for what is no server, MissingExtra without the package, and ToolError when it does not answer.
    """
    check_package()
    from mcp import Client, types

    state = _State((*_secrets(target.headers), *secret_values(target.environment)))
    async with contextlib.AsyncExitStack() as stack:
        try:
            who = types.Implementation(name="agentkit", version=__version__)
            server = await _reached(target, state, stack)
            client = Client(server, cache=None, client_info=who, message_handler=state.heard)
            await stack.enter_async_context(client)
        except (ConfigError, asyncio.CancelledError):
            raise
        except BaseException as error:
            state.check()
            raise ToolError(state.ended(f"The server does not answer as one: {_first_line(error)}.")) from error
        yield MCPConnection(client, state)


async def _reached(target: Target, state: _State, stack: contextlib.AsyncExitStack) -> Any:
    """What the package's client takes for the server. Raises ConfigError."""
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server import MCPServer, Server

    from agentkit.mcp.sdk.ssrf_transport import web_client

    if target.words:
        return _watched(_process(target, state), state)
    if target.url:
        client = web_client(target.url, target.headers, _authorized(target, state))
        http = await stack.enter_async_context(client)
        return _watched(streamable_http_client(target.url, http_client=http), state)
    if not isinstance(target.program, Server | MCPServer):
        kind = type(target.program).__name__
        raise ConfigError(f"MCPServer() takes a command, a URL, or a server of the mcp package; got a {kind}.")
    return target.program


def _authorized(target: Target, state: _State) -> Authorized | None:
    """What shows a login with each request, where there may be one."""
    if target.login is None:
        return None
    if isinstance(target.login, ClientCredentials):
        from agentkit.mcp.sdk.oauth import ClientCredentialsAuth

        return ClientCredentialsAuth(target, target.login, state)
    from agentkit.mcp.sdk.oauth import AuthorizationCodeAuth

    return AuthorizationCodeAuth(target, target.login, state)


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
        tail.extend(os.read(descriptor, 65_536)[-_TAIL_BYTES:])


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
            message = await self._stream.__anext__()
        except BaseException:
            self._state.is_lost = True
            raise
        if self._state.secrets:
            _clean(message, self._state)
        return message


def _clean(message: Any, state: _State) -> None:
    """Have the message hold nothing that the server was shown."""
    said = getattr(message, "message", None)
    for name in ("result", "params"):
        if isinstance(getattr(said, name, None), dict):
            setattr(said, name, redact_value(getattr(said, name), state.clean))
    error = getattr(said, "error", None)
    if error is not None:
        error.message = state.clean(error.message)


def _secrets(headers: Mapping[str, str]) -> list[str]:
    """What of the headers is too long to be found by chance: each value, without the word for its kind."""
    return [value.split(" ", 1)[-1] for value in headers.values() if len(value) >= _LEAST_SECRET_CHARS]


def _definition(tool: types.Tool) -> Definition:
    hints = {} if tool.annotations is None else tool.annotations.model_dump(by_alias=True, exclude_none=True)
    return Definition(tool.name, tool.description or tool.title or "", tool.input_schema, hints)


def _resource(resource: types.Resource) -> Resource:
    return Resource(resource.uri, *_described(resource), resource.mime_type or "")


def _template(template: types.ResourceTemplate) -> Resource:
    return Resource(template.uri_template, *_described(template), template.mime_type or "", is_template=True)


def _prompt(prompt: types.Prompt) -> Prompt:
    arguments = (
        PromptArgument(each.name, each.description or each.title or "", bool(each.required))
        for each in prompt.arguments or ()
    )
    return Prompt(*_described(prompt), tuple(arguments))


def _described(offered: types.Resource | types.ResourceTemplate | types.Prompt) -> tuple[str, str]:
    return offered.name, offered.description or offered.title or ""


def _first_line(error: BaseException) -> str:
    """The innermost error of a group, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return visible((split_lines(str(error)[:_MOST_WORDS_CHARS].strip()) or [type(error).__name__])[0])
