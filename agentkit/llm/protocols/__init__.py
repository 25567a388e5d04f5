"""Wire protocols: requests, responses and streams as JSON (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentkit.events import Event
    from agentkit.llm.protocols.encoding import EncodingCache
    from agentkit.messages import Request, Response


class StreamReader(Protocol):
    """Turns the chunks of one streamed response into events, and into the response once all are in."""

    @property
    def is_whole(self) -> bool:
        """Whether the protocol itself says that nothing follows."""
        ...

    @property
    def is_answered(self) -> bool:
        """Whether nothing may follow but token counts, so that a connection that breaks takes nothing away."""
        ...

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError when the chunk is an error."""
        ...

    def finish(self, *, closed: bool) -> Response:
        """The whole response. `closed` says that the server marked the end of its stream.

        Raises BadResponse when the stream was cut short, Rejected on a refusal.
        """
        ...


class WireProtocol(Protocol):
    """A wire protocol. `streaming` is what a body says besides when the answer shall come in pieces.

    `headers` are sent with every request.
    """

    name: str
    path: str
    headers: Mapping[str, str]
    streaming: Mapping[str, Any]

    def encode(
        self, request: Request, model: str, *, strict: bool, before: EncodingCache | None = None
    ) -> dict[str, Any]:
        """The request as a JSON body. `strict` says that the server enforces schemas; `before` knows what was sent."""
        ...

    def decode(self, data: Mapping[str, Any]) -> Response:
        """The response in a JSON body. Raises ModelError when there is none."""
        ...

    def reader(self) -> StreamReader:
        """A reader for one streamed response."""
        ...


def wire_named(name: str) -> WireProtocol:
    """The protocol called `responses`, `chat` or `messages`."""
    if name == "messages":
        from agentkit.llm.protocols.anthropic import AnthropicMessages

        return AnthropicMessages()
    if name == "responses":
        from agentkit.llm.protocols.responses import Responses

        return Responses()
    from agentkit.llm.protocols.chat_completions import ChatCompletions

    return ChatCompletions()
