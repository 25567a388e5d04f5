"""Messages, tool calls, requests and responses: frozen data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import Any, ClassVar, Literal

from agentkit._dataclass import dataclass
from agentkit.content import File, Image
from agentkit.decisions import Decision, Label
from agentkit.errors import ToolError
from agentkit.undo import Reversible, Undone
from agentkit.usage import NO_USAGE, Tariff, Usage

REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The reasoning efforts that providers accept; each model accepts some of them."""

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
"""The tool that reads the omitted part of a result, as named in the notes of truncated results."""

UPDATE_PLAN = "update_plan"
"""The tool by which a model writes its plan; the newest call of it is the plan."""

Content = str | tuple[str | Image | File, ...]
"""Content of a user message: text, or texts, images and files in order."""


def parts_of(content: Content) -> tuple[str | Image | File, ...]:
    """The texts, images and files of a content, in order."""
    return (content,) if isinstance(content, str) else content


def well_formed(text: str) -> str:
    """Make a text encodable: join lone surrogates that form a pair and replace others by `?`.

    Some servers and file names contain them: JSON can split a character beyond U+FFFF in two, and a stream can deliver
    the halves separately.
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
    """A tool call requested by a model.

    `arguments` is JSON text exactly as the model wrote it, so it can be invalid. `extra` holds provider-specific fields
    that must be sent back with the call.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call made by a program, with the result the program received: a JSON value, or an error.

    `outcome` is a short description, `labels` classifies what the result can contain.
    """

    call: ToolCall
    outcome: str
    value: Any = field(default=None, repr=False)
    error: str | None = None
    labels: frozenset[Label] = frozenset()


@dataclass(frozen=True, slots=True)
class Pause:
    """Where a call is paused: at a nested `call`, after the calls in `made`, or inside an agent's `inner_run`."""

    call: ToolCall
    question: str
    decision: Decision | None = None
    folder: str = ""
    made: tuple[MadeCall, ...] = field(default=(), repr=False)
    inner_run: Mapping[str, Any] = field(default_factory=dict, repr=False)
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        tool: Name of the tool.
        status: Outcome of the call.
        content: Bounded text sent to the model.
        value: Return value of the function; None if it failed.
        error: One sentence, or None.
        decision: Decision of the policy about the call.
        seconds: Duration of the call.
        labels: Labels of the content, such as untrusted.
        whole: The complete text if `content` is only its head and tail.
        usage: The usage of models by the call.
        lead: Name of the agent that the conversation is handed off to.
        images: Images sent to the model along with the text.
        files: Files sent to the model along with the text.
        pause: Where a call with nested calls is paused while a person decides about one of them.
        records: Journal records of the changes of a call made with `Tool.invoke` or `Tool.ainvoke`.
    """

    tool: str
    status: Status
    content: str
    value: Any = field(default=None, repr=False)
    error: str | None = None
    decision: Decision | None = None
    seconds: float = 0.0
    labels: frozenset[Label] = frozenset()
    full_content: str | None = field(default=None, repr=False)
    usage: Usage = field(default=NO_USAGE, repr=False)
    handoff_to: str = field(default="", repr=False)
    images: tuple[Image, ...] = field(default=(), repr=False)
    files: tuple[File, ...] = field(default=(), repr=False)
    pause: Pause | None = field(default=None, repr=False)
    records: tuple[Reversible, ...] = field(default=(), repr=False, compare=False)

    def undo(self) -> Undone:
        """Revert the file changes of this direct call.

        Raises ToolError naming the files that have changed since, or if no changes were recorded: the changes of a call
        in a run are undone with its run.
        """
        if not self.records:
            raise ToolError(
                f"No changes of this {self.tool} call are recorded, so there is nothing to undo. Changes of a run are "
                f"undone with result.undo()."
            )
        done = [record.undo() for record in reversed(self.records)]
        return done[0] if len(done) == 1 else Undone.joined(done)

    @property
    def attachments(self) -> tuple[Image | File, ...]:
        """The images and files sent along with the text."""
        return (*self.images, *self.files)

    @property
    def ok(self) -> bool:
        """Whether the function ran and returned a value."""
        return self.error is None

    def __getstate__(self) -> dict[str, Any]:
        """All fields; a value that cannot be pickled is None in the copy, where only `content` remains."""
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


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SystemMessage:
    """A system instruction inside a conversation."""

    role: ClassVar[Literal["system"]] = "system"
    labels: ClassVar[frozenset[Label]] = frozenset()
    text: str
    agent: ClassVar[str] = ""

    @property
    def content(self) -> str:
        """The text."""
        return self.text


@dataclass(frozen=True, slots=True, weakref_slot=True)
class UserMessage:
    """A message in the user role. `by_person` is False if the run wrote it, in which case it can quote the model.

    `name` distinguishes several users of one conversation.
    """

    role: ClassVar[Literal["user"]] = "user"
    labels: ClassVar[frozenset[Label]] = frozenset()
    content: Content
    by_person: bool = field(default=True, repr=False)
    name: str = field(default="", repr=False)
    agent: ClassVar[str] = ""

    @property
    def text(self) -> str:
        """The texts of the content, a paragraph each, without images and files."""
        return "\n\n".join(part for part in parts_of(self.content) if isinstance(part, str))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class AssistantMessage:
    """A message of the model: text, tool calls, or both.

    `extra` holds provider-specific data (reasoning items, unknown fields), which is sent back only to the `origin` it
    came from. `labels` classifies what hosted tools can have added to it. `name` distinguishes several assistants;
    `agent` is the name of the agent that wrote it.
    """

    role: ClassVar[Literal["assistant"]] = "assistant"
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origin: str = field(default="", repr=False)
    labels: frozenset[Label] = field(default=frozenset(), repr=False)
    name: str = field(default="", repr=False)
    agent: str = field(default="", repr=False, compare=False)

    @property
    def content(self) -> str:
        """The text."""
        return self.text

    def with_agent(self, agent: str) -> AssistantMessage:
        """The message as written by this agent: much faster than `replace`, which each stored one would need."""
        if agent == self.agent:
            return self
        parts = (self.text, self.tool_calls, self.reasoning, self.extra, self.origin, self.labels, self.name)
        return AssistantMessage(*parts, agent)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolMessage:
    """The result of tool call `call_id`, for the model. `labels` classifies what text, images and files can contain.

    `agent` is the name of the agent that made the call.
    """

    role: ClassVar[Literal["tool"]] = "tool"
    call_id: str
    name: str
    content: str
    labels: frozenset[Label] = frozenset()
    images: tuple[Image, ...] = field(default=(), repr=False)
    files: tuple[File, ...] = field(default=(), repr=False)
    agent: str = field(default="", repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text of the result."""
        return self.content

    @property
    def attachments(self) -> tuple[Image | File, ...]:
        """The images and files sent along with the text."""
        return (*self.images, *self.files) if self.images or self.files else ()

    @property
    def parts_content(self) -> Content:
        """The text, followed by the images and files, if any."""
        return (self.content, *self.attachments) if self.images or self.files else self.content


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolSpec:
    """The definition of a tool sent to a model. `parameters` is a JSON schema of type object.

    `strict_parameters` is the same schema in the form that strict mode requires, or None if it has no such form; or a
    function that returns it, called if a server enforces schemas. `hosted` declares a tool run by the provider: its
    `type` and its settings.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict_parameters: Mapping[str, Any] | Callable[[], Mapping[str, Any] | None] | None = field(
        default=None, compare=False
    )
    hosted: Mapping[str, Any] | None = None

    @property
    def strict(self) -> Mapping[str, Any] | None:
        """The schema in the form that strict mode requires, if it has such a form."""
        given = self.strict_parameters
        return given() if callable(given) else given


def digest_of(data: Mapping[str, Any]) -> str:
    """SHA-256 of JSON-compatible data, such as a tool definition; the order of its keys does not matter."""
    import hashlib

    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OutputSchema:
    """The JSON schema of a structured answer. `strict` asks the provider to enforce it."""

    name: str
    schema: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model. `settings` holds only what the user set (`temperature`, `max_tokens`, …)."""

    messages: Sequence[Message]
    instruction: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_schema: OutputSchema | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailedModel:
    """A model of a fallback chain that did not answer: its name (`openai:gpt-5.4-mini`), the error's kind and text.

    `usage` counts what the provider can charge regardless. `was_tried` is False if the model was skipped because it
    failed recently.
    """

    model: str
    kind: str
    error: str
    usage: Usage = field(default=NO_USAGE, repr=False)
    was_tried: bool = True


def usage_of(missed: Iterable[FailedModel]) -> Usage:
    """Sum of what the providers of failed models can charge regardless."""
    return sum((each.usage for each in missed), start=NO_USAGE)


@dataclass(frozen=True, slots=True)
class HostedUse:
    """A use of a hosted tool by the provider; `error` explains a failed use.

    `sources` are the pages that the provider cites, each with a `url` and a `title`.
    """

    call: ToolCall
    error: str = ""
    sources: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """A model's answer to one request. `raw` is the provider's unmodified JSON.

    `missed` lists the models of the fallback chain that failed before this one, with their errors. `hosted` lists the
    uses of hosted tools.
    """

    message: AssistantMessage
    finish_reason: FinishReason = "stop"
    usage: Usage = NO_USAGE
    model: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    missed: tuple[FailedModel, ...] = ()
    hosted: tuple[HostedUse, ...] = ()

    @property
    def text(self) -> str:
        """The text of the answer; empty if the model only calls tools."""
        return self.message.text

    @property
    def reasoning(self) -> str:
        """The reasoning that the provider exposes; empty if it exposes none."""
        return self.message.reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the answer, in order."""
        return self.message.tool_calls

    @property
    def tariff(self) -> Tariff | None:
        """The tariff of this answer, ignoring models that failed before; None if it is unknown."""
        if not self.missed:
            return self.usage.tariff
        failed_requests = {part.tariff: part.requests for part in usage_of(self.missed).by_tariff}
        return next(
            (each.tariff for each in self.usage.by_tariff if each.requests > failed_requests.get(each.tariff, 0)), None
        )


@dataclass(frozen=True, slots=True)
class EmbeddingQuery:
    """A request for embeddings of texts; `settings` are sent unchanged."""

    texts: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The embeddings of texts, in the same order, created by the model `model`."""

    vectors: Sequence[list[float]] = field(repr=False)
    model: str = ""
    usage: Usage = NO_USAGE


_labels = attrgetter("labels")


def labels_of(messages: Iterable[Message]) -> frozenset[Label]:
    """All labels of the tool results in a conversation and of the content that hosted tools added to answers."""
    return frozenset[Label]().union(*set(map(_labels, messages)))


def calls_in(messages: Iterable[Message]) -> Iterator[ToolCall]:
    """The tool calls in a conversation, in order."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.tool_calls


def arguments_of(call: ToolCall) -> Any:
    """The arguments of a call parsed from JSON; the unchanged text if it is not JSON."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def failure_content(tool: str, error: str) -> str:
    """Content of a failed tool call for the model: the JSON text `{"error": …, "tool": …}`."""
    return json.dumps({"error": error, "tool": tool}, ensure_ascii=False)


def with_distinct_ids(message: AssistantMessage, taken: set[str]) -> AssistantMessage:
    """Return the message with unique ids on all tool calls; the ids are added to `taken`."""
    calls = []
    numbers: dict[str, int] = {}  # next number to try: a response can repeat one id in thousands of calls
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


def read_more_call(handle: str, start: int | None = None) -> str:
    """Render the call that reads the omitted part of a result, as a model writes it.

    `handle` is the id of the result's call.

    The notes of truncated results contain this text, so code that parses the notes searches for it.
    """
    place = "" if start is None else f", start={start}"
    return f"{READ_MORE}(handle={json.dumps(handle, ensure_ascii=False)}{place})"


def without_extra(message: Message) -> Message:
    """Remove provider-specific data from a message."""
    if not isinstance(message, AssistantMessage):
        return message
    if not message.extra and not any(call.extra for call in message.tool_calls):
        return message
    calls = tuple(replace(call, extra={}) if call.extra else call for call in message.tool_calls)
    return replace(message, extra={}, tool_calls=calls)
