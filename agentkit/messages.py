"""What agents and models say to each other: plain, frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentkit.decisions import Decision
from agentkit.usage import Usage

FinishReason = Literal["stop", "tool_calls", "length"]
Status = Literal[
    "ok", "empty", "blocked", "denied", "rate_limited", "offline", "timed_out", "truncated", "failed", "interrupted"
]


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a message: an `https:` or `data:` URL; `Image.read` makes one from a file."""

    url: str = field(repr=False)
    detail: Literal["auto", "low", "high"] | None = None

    @classmethod
    def read(cls, path: str, detail: Literal["auto", "low", "high"] | None = None) -> Image:
        """The image file at `path` as a `data:` URL. Raises OSError, or ValueError for a file that is no image."""
        import base64
        import mimetypes
        from pathlib import Path

        media_type = mimetypes.guess_type(path)[0] or ""
        if not media_type.startswith("image/"):
            raise ValueError(f"{path!r} does not look like an image; use a .png, .jpg, .gif or .webp file")
        data = base64.b64encode(Path(path).read_bytes()).decode("ascii")
        return cls(f"data:{media_type};base64,{data}", detail)


Content = str | tuple[str | Image, ...]
"""What a user says: text, or texts and images in order."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to use a tool.

    `arguments` is JSON text just as the model wrote it, so it may be wrong. `extra` holds fields of the
    provider's own that must be sent back with the call.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a tool call.

    `value` is the function's own value (None when it failed), `content` the bounded text a model is told,
    `error` one sentence or None, `decision` the judgment it passed, `seconds` the time it took.
    """

    tool: str
    status: Status
    content: str
    value: Any = field(default=None, repr=False)
    error: str | None = None
    decision: Decision | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the function ran and returned a value."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """A standing order inside a conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person says."""

    content: Content


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What a model says: text, tool calls, or both.

    `extra` holds what the provider wants back with this message (reasoning items, unknown fields); it is
    sent back only to the `origin` it came from.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origin: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """What a model is told came of its tool call `call_id`."""

    call_id: str
    name: str
    content: str


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. `parameters` is a JSON schema of type object.

    `strict_parameters` is the same schema in the form that strict mode demands, or None when there is none.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict_parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON schema that an answer must fit. `strict` asks the provider to enforce it."""

    name: str
    schema: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One trip to a model. `settings` holds only what the user set (`temperature`, `max_tokens`, …)."""

    messages: Sequence[Message]
    instruction: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_schema: OutputSchema | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """A model's answer to one request. `raw` is the provider's JSON as it came."""

    message: AssistantMessage
    finish_reason: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The text of the answer, empty when the model only calls tools."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools the model wishes to use, in its order."""
        return self.message.tool_calls


def with_distinct_ids(message: AssistantMessage, taken: set[str]) -> AssistantMessage:
    """The message with an id on every tool call that no other call has; the ids are added to `taken`."""
    calls = []
    for call in message.tool_calls:
        name = call.id or f"call_{len(taken)}"
        unique, suffix = name, 1
        while unique in taken:
            suffix += 1
            unique = f"{name}_{suffix}"
        taken.add(unique)
        calls.append(call if unique == call.id else replace(call, id=unique))
    return replace(message, tool_calls=tuple(calls))


def without_extra(message: Message) -> Message:
    """The message without what its provider keeps for itself."""
    if not isinstance(message, AssistantMessage):
        return message
    calls = tuple(replace(call, extra={}) if call.extra else call for call in message.tool_calls)
    return replace(message, extra={}, tool_calls=calls)
