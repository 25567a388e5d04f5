"""Events of a run. `RunFinished`, the last one, is defined with its result in `agents/result.py`.

`Milestone` events fully describe a run: the run's state is derived from them, and sessions and cassettes store them.
The other events are incremental previews of upcoming milestones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Never

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.messages import Content, MadeCall, Message, Response, ToolCall, ToolResult
from agentkit.usage import Usage

RunStatus = Literal["done", "paused", "limit", "failed", "interrupted"]


class Event:
    """Base class of everything a run emits."""

    __slots__ = ()


class Milestone(Event):
    """An event that is part of the permanent record of a run."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RunStarted(Milestone):
    """A run of the agent `agent` begins with `prompt`.

    `history` is the number of messages already in the conversation; `record` is the id under which the workspace's
    journal stores the run's changes.
    """

    agent: str
    prompt: Content
    history: int = 0
    record: str = ""


@dataclass(frozen=True, slots=True)
class HistoryGiven(Milestone):
    """The conversation starts with messages from elsewhere: a fork or an import.

    Stored with a session, but not emitted to listeners.
    """

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class RunResumed(Milestone):
    """A finished, paused or interrupted run resumes; `prompt` is the message sent to the model, if any."""

    prompt: str = ""


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
class ResponseReceived(Milestone):
    """The model has responded."""

    response: Response


@dataclass(frozen=True, slots=True)
class RequestFailed(Milestone):
    """A request to the model failed. The run ends, or retries if it can recover.

    `usage` counts an interrupted request as one of unknown cost.
    """

    error: str
    kind: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Approved(Milestone):
    """A person has answered an approval request for a tool call: `answer` is the value of the Approval.

    `text` is the person's comment: the reason of a refusal, or the result of a call that waited for one. `arguments` is
    JSON text if the person changed the call's arguments. `bound` is what the approval applies to: for each path its
    resolved target, and the digest of a script.
    """

    call_id: str
    answer: str
    text: str = ""
    arguments: str | None = None
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ToolCallStarted(Milestone):
    """A tool call has been judged; it runs unless the decision forbids it."""

    call: ToolCall
    decision: Decision


@dataclass(frozen=True, slots=True)
class ToolCallFinished(Milestone):
    """A tool call has finished with a result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class HostedCallFinished(ToolCallFinished):
    """The provider ran a hosted tool, whose result it does not expose, or was not offered the tool, and why."""


@dataclass(frozen=True, slots=True)
class ToolCallPostponed(Milestone):
    """A tool call waits for a person; the run pauses once nothing else is left to do.

    `question` is shown to the person. A call that waits for approval has the decision that requires it and the folder
    it was requested for; a call that has run and waits for an answer to use as its result has neither. If the call
    triggers other calls, as programs and agents do, these fields describe `inner`, the nested call that waits. `made`
    are the calls a program made before it, since it was last postponed. `inner_run` is the nested agent's run as
    serialised by `RunResult.to_json`, in which `inner` has a different id. `usage` is what the call has spent so far.
    `bound` is what an approval of the call applies to.
    """

    call: ToolCall
    question: str
    decision: Decision | None = None
    folder: str = ""
    inner: ToolCall | None = None
    made: tuple[MadeCall, ...] = field(default=(), repr=False)
    usage: Usage = field(default_factory=Usage, repr=False)
    inner_run: Mapping[str, Any] = field(default_factory=dict, repr=False)
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def asked(self) -> ToolCall:
        """The call that the person must decide about."""
        return self.call if self.inner is None else self.inner


@dataclass(frozen=True, slots=True)
class AnswerRefused(Milestone):
    """The answer was rejected; the reason is sent to the model as a user message."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnswerGiven(Milestone):
    """A tool that ends the run has provided the answer instead of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerAmended(Milestone):
    """A guardrail has replaced the text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Summarised(Milestone):
    """From here on `text` replaces the first `messages` messages in requests to the model.

    `usage` is the cost of writing the summary. The history keeps all messages.
    """

    text: str
    messages: int
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class HandedOff(Milestone):
    """From here on the agent `agent` owns the conversation."""

    agent: str


@dataclass(frozen=True, slots=True)
class LimitReached(Milestone):
    """A limit was exceeded: `limit` is the name of the field of Limits, `reason` a description."""

    limit: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunLeft(Event):
    """The consumer stopped iterating over the run; emitted to listeners only, as the run's last event.

    `error` is the cause, such as a listener's exception; it is empty if the consumer left the loop over `stream`.
    Completed work is stored, and `resume` continues the run.
    """

    error: str = ""


@dataclass(frozen=True, slots=True)
class RunEnded(Milestone):
    """The run is over or paused. `output` is its answer as text; `error` explains a missing answer.

    Stored with a session, but not emitted to listeners, which receive RunFinished.
    """

    status: RunStatus
    output: str = ""
    error: str = ""
    changes: str = ""


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> Never:
        """Raise an ImportError that names the module of RunFinished."""
        if name == "RunFinished":
            raise ImportError(
                "RunFinished is in agentkit itself. Write: from agentkit import RunFinished", name=__name__
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def deltas_of(response: Response) -> Iterator[Event]:
    """Convert a complete response to the delta events of a stream."""
    if response.message.reasoning:
        yield ReasoningDelta(response.message.reasoning)
    if response.text:
        yield TextDelta(response.text)
    for index, call in enumerate(response.tool_calls):
        yield ToolCallDelta(index, call.name, call.arguments)


def streamed(response: Response) -> Iterator[Event]:
    """Convert a complete response to the events of a stream: deltas, then the response itself."""
    yield from deltas_of(response)
    yield ResponseReceived(response)
