"""Wire protocols: requests, responses and streams as JSON (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


class WireProtocol(Protocol):
    """A wire protocol. `streaming` contains the additional body fields of a streaming request.

    `headers` are sent with every request.
    """

    name: str
    headers: Mapping[str, str]
    streaming: Mapping[str, Any]

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
        """Create a reader for one streamed response."""
        ...


def wire_named(name: str) -> WireProtocol:
    """The protocol named `responses`, `chat`, `messages` or `gemini`."""
    if name == "gemini":
        from agentkit.llm.protocols.gemini import GeminiContents

        return GeminiContents()
    if name == "messages":
        from agentkit.llm.protocols.anthropic import AnthropicMessages

        return AnthropicMessages()
    if name == "responses":
        from agentkit.llm.protocols.responses import Responses

        return Responses()
    from agentkit.llm.protocols.chat_completions import ChatCompletions

    return ChatCompletions()
