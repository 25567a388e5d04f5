"""Events of a run. `RunFinished`, the last one, is defined with its result in `agents/result.py`.

Those that are a `Milestone` tell all that a run has done: the state of a run is made of them, and they are what
sessions and cassettes keep. The others are pieces of what is to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Never

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.messages import Content, MadeCall, Message, Response, ToolCall, ToolResult
from agentkit.suggestions.attribute_errors import explained
from agentkit.usage import Usage

RunStatus = Literal["done", "paused", "limit", "failed", "interrupted"]


class Event:
    """Something happened in a run."""

    __slots__ = ()


class Milestone(Event):
    """Something that a run has done, and that stays done."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RunStarted(Milestone):
    """A run of the agent `agent` begins with `prompt`.

    `history` counts the messages of the conversation that it begins with; `record` is the id under which the
    workspace's journal keeps what it changes.
    """

    agent: str
    prompt: Content
    history: int = 0
    record: str = ""


@dataclass(frozen=True, slots=True)
class HistoryGiven(Milestone):
    """The conversation begins with messages that were said elsewhere: those of a fork, or of an import.

    It is kept with a session, and told to nobody.
    """

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class RunResumed(Milestone):
    """A run that had ended, been paused or been cut off goes on; `prompt` is what the model is told then."""

    prompt: str = ""


@dataclass(frozen=True, slots=True)
class RequestStarted(Event):
    """The model is being asked; `iteration` counts from 1."""

    iteration: int


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(Event):
    """The next piece of the reasoning that the provider lets us see."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta(Event):
    """The next piece of a tool call being written: `index` tells the calls of one response apart."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class PartialOutput(Event):
    """The typed answer as far as it is written: `value` is of the output type, or a dictionary with fewer keys."""

    value: Any


@dataclass(frozen=True, slots=True)
class ResponseReceived(Milestone):
    """The model has answered."""

    response: Response


@dataclass(frozen=True, slots=True)
class RequestFailed(Milestone):
    """The model gave no answer, and why. The run ends, or tries again when it knows how.

    `usage` counts a request that was cut off as one of unknown cost.
    """

    error: str
    kind: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Approved(Milestone):
    """A person has answered what was asked about a tool call: `answer` is the Approval's word.

    `text` are words of theirs: why not, or the result of a call that waited for one. `arguments` is JSON text when the
    person changed the call's arguments. `bound` is what the person was asked about: by path, where it really led, and
    the digest of a script.
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


@explained("USED")
@dataclass(frozen=True, slots=True)
class ToolCallFinished(Milestone):
    """A tool call has its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class HostedCallFinished(ToolCallFinished):
    """The provider has used a tool of its own, whose result only it knows; or it was not offered the tool, and why."""


@dataclass(frozen=True, slots=True)
class ToolCallPostponed(Milestone):
    """A tool call waits for a person; the run ends paused once nothing else is to be done.

    `question` is what the person is asked. A call that waits for approval has the decision that asks for it, and the
    folder that it was asked for; one that has run and waits for an answer to give as its result has neither. Where the
    call sets off others, as programs and agents do, all this is about `inner`, the one of them that waits; `made` are
    those of a program before it, since it was postponed last; `inner_run` is an agent's run, as `RunResult.to_json` has
    it, in which `inner` has another id. `usage` is what the call has spent so far. `bound` is what an approval of the
    call is bound to.
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
        """The call that the person is asked about."""
        return self.call if self.inner is None else self.inner


@dataclass(frozen=True, slots=True)
class AnswerRefused(Milestone):
    """The answer was not taken, and the model is told why in a message of the user."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnswerGiven(Milestone):
    """A tool that ends the run has given the answer in the model's stead."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerAmended(Milestone):
    """A check has put another text in the place of the answer's."""

    text: str


@dataclass(frozen=True, slots=True)
class Summarised(Milestone):
    """The model is told `text` in place of the first `messages` messages of the conversation from here on.

    `usage` is what writing it has spent. The history keeps all messages.
    """

    text: str
    messages: int
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class HandedOff(Milestone):
    """From here on the agent `agent` leads the conversation."""

    agent: str


@dataclass(frozen=True, slots=True)
class LimitReached(Milestone):
    """The limit of that name, a field of Limits, was hit; `reason` says it in words."""

    limit: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunLeft(Event):
    """Nobody asks for the run's next event any more, so listeners alone hear this, as its last event.

    `error` is what ended it, such as an exception of a listener; empty when whoever ran it has stopped listening, as
    leaving the loop over `stream` does. What was done is kept, and `resume` goes on with it.
    """

    error: str = ""


@dataclass(frozen=True, slots=True)
class RunEnded(Milestone):
    """The run is over, or paused. `output` is its answer as text; `error` says why there is none.

    It is kept with a session, and told to nobody: who listens hears RunFinished.
    """

    status: RunStatus
    output: str = ""
    error: str = ""
    changes: str = ""


if not TYPE_CHECKING:  # a type checker would believe that every name is here

    def __getattr__(name: str) -> Never:
        """Say where the one event is that is not here."""
        if name == "RunFinished":
            raise ImportError(
                "RunFinished is in agentkit itself. Write: from agentkit import RunFinished", name=__name__
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def deltas_of(response: Response) -> Iterator[Event]:
    """A whole response as the pieces of one that is streamed."""
    if response.message.reasoning:
        yield ReasoningDelta(response.message.reasoning)
    if response.text:
        yield TextDelta(response.text)
    for index, call in enumerate(response.tool_calls):
        yield ToolCallDelta(index, call.name, call.arguments)


def streamed(response: Response) -> Iterator[Event]:
    """A whole response as a stream tells it: in pieces, and then itself."""
    yield from deltas_of(response)
    yield ResponseReceived(response)
