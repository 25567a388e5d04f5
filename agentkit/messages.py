"""Messages, tool calls, requests and responses: frozen data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, ClassVar, Literal

from agentkit._dataclass import dataclass
from agentkit.content import File, Image
from agentkit.decisions import Decision, Label
from agentkit.errors import ToolError
from agentkit.suggestions.attribute_errors import explained
from agentkit.undo import Reversible, Undone
from agentkit.usage import NO_USAGE, Tariff, Usage

FinishReason = Literal["stop", "tool_calls", "length"]
Status = Literal[
    "ok",
    "empty",
    "blocked",
    "denied",
    "rate_limited",
    "offline",
    "timed_out",
    "truncated",
    "failed",
    "interrupted",
    "waiting",
]

READ_MORE = "read_more"
"""The tool that reads what was left out of a result, as the notes in cut results name it."""

Content = str | tuple[str | Image | File, ...]
"""What a user says: text, or texts, images and files in order."""


def parts_of(content: Content) -> tuple[str | Image | File, ...]:
    """The texts, images and files of a content, in order."""
    return (content,) if isinstance(content, str) else content


def well_formed(text: str) -> str:
    """A text that can be encoded: halves of a character, as some servers and file names have them, are joined or `?`.

    JSON may cut a character beyond U+FFFF in two, and a stream may send the halves apart.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


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
class MadeCall:
    """A call that a program has made, with what it was told came of it: a value that is JSON, or why there is none.

    `outcome` says that in a word or two, `labels` what it may hold.
    """

    call: ToolCall
    outcome: str
    value: Any = field(default=None, repr=False)
    error: str | None = None
    labels: frozenset[Label] = frozenset()


@dataclass(frozen=True, slots=True)
class Pause:
    """Where a call stands still: at a `call` that it has set off, after those `made`, or in an agent's `inner_run`."""

    call: ToolCall
    question: str
    decision: Decision | None = None
    folder: str = ""
    made: tuple[MadeCall, ...] = field(default=(), repr=False)
    inner_run: Mapping[str, Any] = field(default_factory=dict, repr=False)
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)


@explained("OUTCOME")
@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a tool call.

    `value` is the function's own value (None when it failed), `content` the bounded text a model is told, `images` and
    `files` what it is shown besides, `error` one sentence or None, `decision` the judgment it passed, `seconds` the
    time it took, `labels` what it may hold, `whole` the whole text when `content` is only its head and tail, `usage`
    what the call spent on models, `lead` the name of the agent that the conversation is passed to, `pause` where a
    call that makes calls itself stands still while a person is asked about one of these. `records` are what was
    written down of the changes of a call that was made by `Tool.invoke` or `Tool.ainvoke`.
    """

    tool: str
    status: Status
    content: str
    value: Any = field(default=None, repr=False)
    error: str | None = None
    decision: Decision | None = None
    seconds: float = 0.0
    labels: frozenset[Label] = frozenset()
    whole: str | None = field(default=None, repr=False)
    usage: Usage = field(default=NO_USAGE, repr=False)
    lead: str = field(default="", repr=False)
    images: tuple[Image, ...] = field(default=(), repr=False)
    files: tuple[File, ...] = field(default=(), repr=False)
    pause: Pause | None = field(default=None, repr=False)
    records: tuple[Reversible, ...] = field(default=(), repr=False, compare=False)

    def undo(self) -> Undone:
        """Put back the files that this direct call changed.

        Raises ToolError naming what was changed since, and when nothing is recorded that the call changed: what a call
        of a run changed is undone with its run.
        """
        if not self.records:
            raise ToolError(
                f"Nothing is recorded that this call of {self.tool} changed, so there is nothing to undo. "
                "What a run changed is undone with that run."
            )
        done = [record.undo() for record in reversed(self.records)]
        return done[0] if len(done) == 1 else Undone.joined(done)

    @property
    def beside(self) -> tuple[Image | File, ...]:
        """The pictures and files that stand beside the text."""
        return (*self.images, *self.files)

    @property
    def ok(self) -> bool:
        """Whether the function ran and returned a value."""
        return self.error is None

    def __getstate__(self) -> dict[str, Any]:
        """All of it; a value that cannot be pickled is None in the copy, and `content` is what is left of it."""
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        return state if _can_be_pickled(self.value) else {**state, "value": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


def _can_be_pickled(value: object) -> bool:
    if value is None or isinstance(value, str | int | float):
        return True
    import pickle

    try:
        pickle.dumps(value)
    except (pickle.PickleError, TypeError, AttributeError, ValueError, RuntimeError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """A standing order inside a conversation."""

    role: ClassVar[Literal["system"]] = "system"
    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person says; not `by_person` is what a run says in that role, which may quote the model."""

    role: ClassVar[Literal["user"]] = "user"
    content: Content
    by_person: bool = field(default=True, repr=False)


@explained("ANSWERED")
@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What a model says: text, tool calls, or both.

    `extra` holds what the provider wants back with this message (reasoning items, unknown fields); it is
    sent back only to the `origin` it came from. `labels` say what hosted tools may have brought into it.
    """

    role: ClassVar[Literal["assistant"]] = "assistant"
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origin: str = field(default="", repr=False)
    labels: frozenset[Label] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """What a model is told of its tool call `call_id`, and shown beside. `labels` say what all of it may hold."""

    role: ClassVar[Literal["tool"]] = "tool"
    call_id: str
    name: str
    content: str
    labels: frozenset[Label] = frozenset()
    images: tuple[Image, ...] = field(default=(), repr=False)
    files: tuple[File, ...] = field(default=(), repr=False)

    @property
    def beside(self) -> tuple[Image | File, ...]:
        """The pictures and files that stand beside the text."""
        return (*self.images, *self.files) if self.images or self.files else ()

    @property
    def shown(self) -> Content:
        """The text, with any pictures and files behind it."""
        return (self.content, *self.beside) if self.images or self.files else self.content


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. `parameters` is a JSON schema of type object.

    `strict_parameters` is the same schema in the form that strict mode demands, or None when there is none. `hosted`
    declares a tool that the provider runs itself: its `type`, and its settings.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict_parameters: Mapping[str, Any] | None = None
    hosted: Mapping[str, Any] | None = None


def digest_of(data: Mapping[str, Any]) -> str:
    """A SHA-256 of JSON-ready data, such as what a model is told of a tool; the order of its keys does not count."""
    import hashlib

    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


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
class Missed:
    """A model that gave no answer where another one could be asked: `openai:gpt-5.4-mini`, its error's kind and text.

    `usage` counts what its server may charge for all the same. When it was not asked, its last failure is too recent.
    """

    model: str
    kind: str
    error: str
    usage: Usage = field(default=NO_USAGE, repr=False)
    was_asked: bool = True


def usage_of(missed: Iterable[Missed]) -> Usage:
    """What the servers of models that gave no answer may charge for all the same."""
    return sum((each.usage for each in missed), start=NO_USAGE)


@dataclass(frozen=True, slots=True)
class HostedUse:
    """What the provider has used a tool of its own for; `error` says why nothing came of it.

    `sources` are the pages that it names, each a `url` and its `title`.
    """

    call: ToolCall
    error: str = ""
    sources: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """A model's answer to one request. `raw` is the provider's JSON as it came.

    `missed` are the models that should have answered before this one, and why they did not. `hosted` is what the
    provider has used its own tools for.
    """

    message: AssistantMessage
    finish_reason: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    missed: tuple[Missed, ...] = ()
    hosted: tuple[HostedUse, ...] = ()

    @property
    def text(self) -> str:
        """The text of the answer, empty when the model only calls tools."""
        return self.message.text

    @property
    def reasoning(self) -> str:
        """What the provider lets us see of the model's reasoning, empty where it shows none."""
        return self.message.reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools the model wishes to use, in its order."""
        return self.message.tool_calls

    @property
    def tariff(self) -> Tariff | None:
        """What the answer is charged by, whoever was asked in vain before; None when nobody has said."""
        if not self.missed:
            return self.usage.tariff
        in_vain = {part.tariff: part.requests for part in usage_of(self.missed).by_tariff}
        return next((each.tariff for each in self.usage.by_tariff if each.requests > in_vain.get(each.tariff, 0)), None)


@dataclass(frozen=True, slots=True)
class VectorsAsked:
    """A model is to make vectors of texts; `settings` are sent as they are."""

    texts: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VectorsMade:
    """A vector of each text, in their order, by the model `model`."""

    vectors: Sequence[list[float]] = field(repr=False)
    model: str = ""
    usage: Usage = NO_USAGE


def calls_in(messages: Iterable[Message]) -> Iterator[ToolCall]:
    """The tool calls in a conversation, in order."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.tool_calls


def arguments_of(call: ToolCall) -> Any:
    """The arguments of a call as the value that their JSON says; as the model wrote them where they are no JSON."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def failure_content(tool: str, error: str) -> str:
    """What a model is told of a call that came to nothing: the JSON text `{"error": …, "tool": …}`."""
    return json.dumps({"error": error, "tool": tool}, ensure_ascii=False)


def with_distinct_ids(message: AssistantMessage, taken: set[str]) -> AssistantMessage:
    """The message with an id on every tool call that no other call has; the ids are added to `taken`."""
    calls = []
    numbers: dict[str, int] = {}  # the next one to try: a response may give one id to thousands of calls
    for call in message.tool_calls:
        base = call.id or "call"
        number = max(numbers.get(base, 0), len(taken) + 1)
        unique = call.id or f"call_{number}"
        while unique in taken:
            unique = f"{base}_{number}"
            number += 1
        numbers[base] = number
        taken.add(unique)
        calls.append(call if unique == call.id else replace(call, id=unique))
    distinct = tuple(calls)
    return message if distinct == message.tool_calls else replace(message, tool_calls=distinct)


def reading_call(handle: str, start: int | None = None) -> str:
    """The call that reads what was left out of a result, as a model writes it. `handle` is the id of the result's call.

    It stands in the notes of cut results, so what reads such notes looks for it.
    """
    place = "" if start is None else f", start={start}"
    return f"{READ_MORE}(handle={json.dumps(handle, ensure_ascii=False)}{place})"


def without_extra(message: Message) -> Message:
    """The message without what its provider keeps for itself."""
    if not isinstance(message, AssistantMessage):
        return message
    calls = tuple(replace(call, extra={}) if call.extra else call for call in message.tool_calls)
    return replace(message, extra={}, tool_calls=calls)
