"""Wire protocols: requests, responses and streams as JSON (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from agentkit.errors import ConfigError

if TYPE_CHECKING:
    from agentkit.errors import ModelError
    from agentkit.events import Event
    from agentkit.llm.protocols.encoding import EncodingCache
    from agentkit.messages import Request, Response
    from agentkit.usage import Usage


class StreamReader(Protocol):
    """Converts the chunks of one streamed response to events, and to the response at the end."""

    @property
    def is_whole(self) -> bool:
        """Whether the protocol itself marked the end of the response."""
        ...

    @property
    def is_answered(self) -> bool:
        """Whether only token counts could still follow, so that a lost connection does no harm."""
        ...

    @property
    def usage(self) -> Usage:
        """The token counts received so far, of which the output can be a part."""
        ...

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError if the chunk is an error."""
        ...

    def finish(self, *, closed: bool) -> Response:
        """Build the response. `closed` means that the server marked the end of its stream.

        Raises BadResponse if the stream was cut short, Rejected on a refusal.
        """
        ...


class Framing(Protocol):
    """Splits the bytes of one streamed response into JSON objects, wherever the chunks are cut.

    `closed` becomes true when the server marks the end of its stream. `body` contains what the server sent if it
    answered with a single JSON body in place of a stream; it is empty otherwise.
    """

    closed: bool
    body: bytearray

    def feed(self, piece: bytes, /) -> Iterable[Mapping[str, Any]]:
        """The objects completed by this chunk of bytes. Raises BadResponse for data in another format."""
        ...

    def flush(self) -> Iterable[Mapping[str, Any]]:
        """The objects left incomplete when the server closed the connection. Raises BadResponse."""
        ...


class WireProtocol(Protocol):
    """A wire protocol. Its members with a body are the defaults of the classes that derive from it.

    `streaming` contains the additional body fields of a streaming request, and `headers` are sent with every request.
    With `can_pause`, the server can pause a response, which is continued once it is sent back. `embeddings_path` is the
    path of requests for embeddings, in OpenAI's format.
    """

    name: str
    headers: Mapping[str, str]
    streaming: Mapping[str, Any]
    can_pause: bool = False
    embeddings_path: str = "/embeddings"

    def url(self, model: str, /, *, streaming: bool) -> str:
        """The path of a request, relative to the base URL; it can have a query."""
        ...

    def error(self, body: object, *, status: int | None = None, retry_after_seconds: float | None = None) -> ModelError:
        """Map the body of a response with an error status, parsed if it is JSON, to a ModelError."""
        ...

    def encode(
        self, request: Request, model: str, *, strict: bool, cache: EncodingCache | None = None
    ) -> dict[str, Any]:
        """Encode a request as a JSON body. `strict`: the server enforces schemas; `cache` caches encoded messages."""
        ...

    def decode(self, data: Mapping[str, Any]) -> Response:
        """Decode the response in a JSON body. Raises ModelError if it contains none."""
        ...

    def reader(self) -> StreamReader:
        """Create a reader for the objects of one streamed response."""
        ...

    def framing(self, scrub: Callable[[str], str]) -> Framing:
        """Create the framing of one streamed response: server-sent events by default.

        `scrub` removes secrets from texts quoted in errors.
        """
        from agentkit.llm.protocols.sse import EventStream

        return EventStream(scrub)


def _responses() -> WireProtocol:
    from agentkit.llm.protocols.responses import Responses

    return Responses()


def _chat() -> WireProtocol:
    from agentkit.llm.protocols.chat_completions import ChatCompletions

    return ChatCompletions()


def _messages() -> WireProtocol:
    from agentkit.llm.protocols.anthropic import AnthropicMessages

    return AnthropicMessages()


def _gemini() -> WireProtocol:
    from agentkit.llm.protocols.gemini import GeminiContents

    return GeminiContents()


PROTOCOLS: Mapping[str, Callable[[], WireProtocol]] = {
    "responses": _responses,
    "chat": _chat,
    "messages": _messages,
    "gemini": _gemini,
}
"""The loader of each protocol by its name, which is the value of `protocol=`. `ProtocolName` lists the same names."""


def check_protocol(name: str) -> None:
    """Raise ConfigError for an unknown protocol."""
    if name not in PROTOCOLS:
        *names, last = map(repr, PROTOCOLS)
        raise ConfigError(f"protocol= is {', '.join(names)} or {last}, not {name!r:.100}.")


def wire_named(name: str) -> WireProtocol:
    """The protocol with a name of `PROTOCOLS`. Raises ConfigError for an unknown name."""
    check_protocol(name)
    return PROTOCOLS[name]()
