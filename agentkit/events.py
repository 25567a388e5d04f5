"""Events of a run. `RunFinished`, the last one, is defined with its result in `agents/result.py`.

`StoredEvent` events fully describe a run: the run's state is derived from them, and sessions and cassettes store
them. The other events are incremental previews of upcoming stored events. Each class declares how it is stored,
logged, traced and displayed; the codec, the listeners and all pages render from these declarations. The code of a run
emits a stored event with `emit` of `agents/effects.py`, which also applies it to the run's state; it yields others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Verdict
from agentkit.event_rendering import (
    content_text,
    conversation_text,
    count_text,
    main_text,
    plan_text,
    seconds_text,
    tokens_text,
)
from agentkit.messages import Content, MadeCall, Message, Response, ToolCall, ToolResult
from agentkit.usage import NO_USAGE, Usage

RunStatus = Literal["done", "paused", "limit", "failed", "interrupted"]


Severity = Literal["debug", "info", "warning", "error"]
"""The importance of an event. Events of severity `debug` are not logged; `warning` means that a person must act."""


@dataclass(frozen=True, slots=True)
class EventDescription:
    """How an event is displayed to people and logged.

    `title` is one line, `text` what a person, a model or a tool wrote, `outcome` the result in a few words. `figures`
    are counts, rendered after the title. `fields` are names, numbers and decisions, which go to JSON lines and traces;
    never put texts here. `content` are texts, which are logged only on request. `call` is the tool call that the event
    is about.
    """

    title: str = ""
    text: str = ""
    severity: Severity = "info"
    outcome: str = ""
    figures: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    content: Mapping[str, Any] = field(default_factory=dict)
    call: ToolCall | None = None


_DEBUG_ONLY = EventDescription(severity="debug")


class Event:
    """Base class of everything a run emits."""

    __slots__ = ()

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return _DEBUG_ONLY


class StoredEvent(Event):
    """An event that is part of the permanent record of a run.

    `event_name` identifies the class in sessions, cassettes and traces. With `is_span_event`, a trace contains the
    event and its fields in the span of its run; the other stored events have spans themselves.
    """

    __slots__ = ()
    event_name: ClassVar[str]
    is_span_event: ClassVar[bool] = True

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged; by default as the name of its class."""
        return EventDescription(type(self).__name__)


@dataclass(frozen=True, slots=True)
class RunStarted(StoredEvent):
    """A run of the agent `agent` begins with `prompt`.

    `history` is the number of messages already in the conversation; `record` is the id under which the workspace's
    journal stores the run's changes.
    """

    event_name: ClassVar[str] = "run_started"
    is_span_event: ClassVar[bool] = False
    agent: str
    prompt: Content
    history: int = 0
    record: str = ""

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        prompt = content_text(self.prompt)
        return EventDescription(
            "Run started",
            prompt,
            fields={"prompt_chars": len(prompt), "history": self.history},
            content={"prompt": prompt},
        )


@dataclass(frozen=True, slots=True)
class HistoryGiven(StoredEvent):
    """The conversation starts with messages from elsewhere: a fork or an import.

    Stored with a session, but not emitted to listeners.
    """

    event_name: ClassVar[str] = "history_given"
    messages: tuple[Message, ...]

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            f"Starts with {count_text(len(self.messages), 'earlier message')}",
            conversation_text(self.messages),
            fields={"messages": len(self.messages)},
        )


@dataclass(frozen=True, slots=True)
class RunResumed(StoredEvent):
    """A finished, paused or interrupted run resumes; `prompt` is the message sent to the model, if any."""

    event_name: ClassVar[str] = "run_resumed"
    is_span_event: ClassVar[bool] = False
    prompt: str = ""

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription("Run resumed", self.prompt, content={"prompt": self.prompt})


@dataclass(frozen=True, slots=True)
class InputReceived(StoredEvent):
    """A message was sent into the run while it was running; the next request contains it."""

    event_name: ClassVar[str] = "input_received"
    content: Content

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        text = content_text(self.content)
        return EventDescription("Message received", text, fields={"chars": len(text)}, content={"text": text})


@dataclass(frozen=True, slots=True)
class RequestStarted(Event):
    """A request to the model starts; `iteration` counts from 1."""

    iteration: int


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """The next chunk of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(Event):
    """The next chunk of the reasoning that the provider exposes."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta(Event):
    """The next chunk of a tool call; `index` identifies the call within the response."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class PartialOutput(Event):
    """The answer parsed so far: `value` has the output type or is a dictionary with a subset of its keys."""

    value: Any


@dataclass(frozen=True, slots=True)
class ResponseReceived(StoredEvent):
    """The model has responded."""

    event_name: ClassVar[str] = "response_received"
    is_span_event: ClassVar[bool] = False
    response: Response

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        response = self.response
        names = [call.name for call in response.tool_calls]
        return EventDescription(
            f"{response.model or 'the model'} answered",
            response.text,
            figures=(tokens_text(response.usage), *(["cut at its token limit"] * (response.finish_reason == "length"))),
            fields={
                "model": response.model,
                "finish_reason": response.finish_reason,
                **token_counts(response.usage),
                "text_chars": len(response.text),
                "tool_calls": names,
            },
            content={"text": response.text, "reasoning": response.message.reasoning},
        )


@dataclass(frozen=True, slots=True)
class RequestFailed(StoredEvent):
    """A request to the model failed. The run ends, or retries if it can recover.

    `usage` counts an interrupted request as one of unknown cost.
    """

    event_name: ClassVar[str] = "request_failed"
    error: str
    kind: str
    usage: Usage = NO_USAGE

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            f"Model request failed ({self.kind})", self.error, "error", fields={"kind": self.kind, "error": self.error}
        )


@dataclass(frozen=True, slots=True)
class Approved(StoredEvent):
    """A person has answered an approval request for a tool call: `answer` is the value of the Approval.

    `text` is the person's comment: the reason of a refusal, or the result of a call that waited for one. `arguments` is
    JSON text if the person changed the call's arguments. `bound` is what the approval applies to: for each path its
    resolved target, and the digest of a script.
    """

    event_name: ClassVar[str] = "approved"
    call_id: str
    answer: str
    text: str = ""
    arguments: str | None = None
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            f"Approval answered: {self.answer}",
            self.text,
            "warning",
            fields={"call": self.call_id, "answer": self.answer},
            content={"text": self.text, "arguments": self.arguments},
        )


@dataclass(frozen=True, slots=True)
class ToolCallStarted(StoredEvent):
    """A tool call has been judged; it runs unless the decision forbids it."""

    event_name: ClassVar[str] = "tool_call_started"
    is_span_event: ClassVar[bool] = False
    call: ToolCall
    decision: Decision

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        decision, arguments = self.decision, self.call.arguments
        return EventDescription(
            "",
            arguments,
            _SEVERITIES[decision.verdict],
            f"{decision.verdict}, by {decision.rule}",
            fields={
                **_call_fields(self.call),
                "verdict": decision.verdict,
                "rule": decision.rule,
                "arguments_chars": len(arguments),
            },
            content={"arguments": arguments, "reason": decision.reason, "evidence": decision.evidence},
            call=self.call,
        )


@dataclass(frozen=True, slots=True)
class ToolCallFinished(StoredEvent):
    """A tool call has finished with a result."""

    event_name: ClassVar[str] = "tool_call_finished"
    is_span_event: ClassVar[bool] = False
    call: ToolCall
    result: ToolResult

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        result = self.result
        spent = [tokens_text(result.usage)] if result.usage.requests else []
        return EventDescription(
            f"{result.status} in {seconds_text(result.seconds)}",
            result.error or plan_text(self.call) or main_text(result),
            "info" if result.ok or result.status == "waiting" else "error",
            figures=tuple(spent),
            fields={
                **_call_fields(self.call),
                "status": result.status,
                "seconds": round(result.seconds, 6),
                "result_chars": len(result.content),
                **(token_counts(result.usage) if spent else {}),
            },
            content=self._content(),
            call=self.call,
        )

    def _content(self) -> Mapping[str, Any]:
        return {"result": self.result.content, "error": self.result.error}


@dataclass(frozen=True, slots=True)
class HostedCallFinished(ToolCallFinished):
    """The provider ran a hosted tool, whose result it does not expose, or was not offered the tool, and why."""

    event_name: ClassVar[str] = "hosted_call_finished"

    def _content(self) -> Mapping[str, Any]:
        return {"arguments": self.call.arguments, "error": self.result.error}


@dataclass(frozen=True, slots=True)
class ToolCallPostponed(StoredEvent):
    """A tool call waits for a person; the run pauses once nothing else is left to do.

    `question` is shown to the person. A call that waits for approval has the decision that requires it and the folder
    it was requested for; a call that has run and waits for an answer to use as its result has neither. If the call
    triggers other calls, as programs and agents do, these fields describe `inner`, the nested call that waits. `made`
    are the calls a program made before it, since it was last postponed. `inner_run` is the nested agent's run as
    serialised by `RunResult.to_json`, in which `inner` has a different id. `usage` is what the call has spent so far.
    `bound` is what an approval of the call applies to.
    """

    event_name: ClassVar[str] = "tool_call_postponed"
    call: ToolCall
    question: str
    decision: Decision | None = None
    folder: str = ""
    inner: ToolCall | None = None
    made: tuple[MadeCall, ...] = field(default=(), repr=False)
    usage: Usage = field(default=NO_USAGE, repr=False)
    inner_run: Mapping[str, Any] = field(default_factory=dict, repr=False)
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def pending_call(self) -> ToolCall:
        """The call that the person must decide about."""
        return self.call if self.inner is None else self.inner

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            "waits for approval" if self.decision is not None or self.inner is not None else "waits for an answer",
            self.question,
            "warning",
            fields=_call_fields(self.call),
            content={"question": self.question},
            call=self.call,
        )


@dataclass(frozen=True, slots=True)
class AnswerRefused(StoredEvent):
    """The answer was rejected; the reason is sent to the model as a user message."""

    event_name: ClassVar[str] = "answer_refused"
    reason: str

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription("Answer rejected", self.reason, content={"reason": self.reason})


@dataclass(frozen=True, slots=True)
class AnswerGiven(StoredEvent):
    """A tool that ends the run has provided the answer instead of the model."""

    event_name: ClassVar[str] = "answer_given"
    text: str

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription("Answer given by a tool", self.text, content={"text": self.text})


@dataclass(frozen=True, slots=True)
class AnswerAmended(StoredEvent):
    """A guardrail has replaced the text of the answer."""

    event_name: ClassVar[str] = "answer_amended"
    text: str

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription("Answer changed by a guardrail", self.text, content={"text": self.text})


@dataclass(frozen=True, slots=True)
class Summarised(StoredEvent):
    """From here on `text` replaces the first `messages` messages in requests to the model.

    `usage` is the cost of writing the summary. The history keeps all messages.
    """

    event_name: ClassVar[str] = "summarised"
    text: str
    messages: int
    usage: Usage = NO_USAGE

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            f"{count_text(self.messages, 'message')} summarised",
            self.text,
            fields={"messages": self.messages, "text_chars": len(self.text), **token_counts(self.usage)},
            content={"text": self.text},
        )


@dataclass(frozen=True, slots=True)
class HandedOff(StoredEvent):
    """From here on the agent `agent` owns the conversation."""

    event_name: ClassVar[str] = "handed_off"
    is_span_event: ClassVar[bool] = False
    agent: str

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(f"Handed off to {self.agent}")


@dataclass(frozen=True, slots=True)
class LimitReached(StoredEvent):
    """A limit was exceeded: `limit` is the name of the field of Limits, `reason` a description."""

    event_name: ClassVar[str] = "limit_reached"
    limit: str
    reason: str

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            f"Limit reached: {self.limit}", self.reason, "error", fields={"limit": self.limit, "reason": self.reason}
        )


@dataclass(frozen=True, slots=True)
class FunctionStarted(StoredEvent):
    """A durable function starts: its name, the version of its source, and its arguments by name, as encoded texts."""

    event_name: ClassVar[str] = "function_started"
    function: str
    version: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return EventDescription(
            f"Durable function {self.function}",
            arguments,
            fields={"function": self.function, "version": self.version},
            content={"arguments": arguments},
        )


@dataclass(frozen=True, slots=True)
class StepRecorded(StoredEvent):
    """A step of a durable function is done, has failed, or waits for a person or a time.

    `number` counts from 0. `digest` identifies its arguments. `value` is its encoded result, the error of a failed
    step, the question of one that waits for a person, or the time that it waits for. `session` contains the runs of an
    agent.
    """

    event_name: ClassVar[str] = "step_recorded"
    number: int
    name: str
    status: Literal["done", "failed", "asks", "sleeps"]
    digest: str = ""
    value: str = ""
    session: str = ""

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            f"Step {self.number}, {self.name}: {self.status}{self.session and f', in session {self.session}'}",
            self.value,
            "info" if self.status == "done" else "error" if self.status == "failed" else "warning",
            fields={"step": self.number, "name": self.name, "status": self.status},
            content={"value": self.value},
        )


@dataclass(frozen=True, slots=True)
class RunLeft(Event):
    """The consumer stopped iterating over the run; emitted to listeners only, as the run's last event.

    `error` is the cause, such as a listener's exception; it is empty if the consumer left the loop over `stream`.
    Completed work is stored, and `resume` continues the run.
    """

    error: str = ""

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        kind = self.error.partition(":")[0]
        return EventDescription(
            "Run abandoned",
            self.error,
            "error" if self.error else "info",
            fields={"kind": kind} if kind else {},
            content={"error": self.error},
        )


@dataclass(frozen=True, slots=True)
class RunEnded(StoredEvent):
    """The run is over or paused. `output` is its answer as text; `error` explains a missing answer.

    Stored with a session, but not emitted to listeners, which receive RunFinished.
    """

    event_name: ClassVar[str] = "run_ended"
    status: RunStatus
    output: str = ""
    error: str = ""
    changes: str = ""

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        return EventDescription(
            f"Run ended: {self.status}", self.error or self.output, "error" if self.error else "info"
        )


STORED_EVENTS: Mapping[str, type[StoredEvent]] = {
    kind.event_name: kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, StoredEvent) and kind is not StoredEvent
}
"""The stored event classes by their `event_name`."""

_SEVERITIES: Mapping[Verdict, Severity] = {Verdict.ALLOW: "info", Verdict.ASK: "warning", Verdict.DENY: "error"}


def _call_fields(call: ToolCall) -> Mapping[str, str]:
    return {"tool": call.name, "call": call.id}


def token_counts(usage: Usage) -> Mapping[str, int]:
    """Token counts as fields; empty if the server reported none."""
    if usage.unreported and not usage.total_tokens:
        return {}
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> Never:
        """Raise an ImportError that names the module of RunFinished."""
        if name == "RunFinished":
            raise ImportError(
                "RunFinished is in agentkit itself. Write: from agentkit import RunFinished", name=__name__
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def response_deltas(response: Response) -> Iterator[Event]:
    """Convert a complete response to the delta events of a stream."""
    if response.message.reasoning:
        yield ReasoningDelta(response.message.reasoning)
    if response.text:
        yield TextDelta(response.text)
    for index, call in enumerate(response.tool_calls):
        yield ToolCallDelta(index, call.name, call.arguments)


def response_events(response: Response) -> Iterator[Event]:
    """Convert a complete response to the events of a stream: deltas, then the response itself."""
    yield from response_deltas(response)
    yield ResponseReceived(response)
