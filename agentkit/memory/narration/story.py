"""What happened, run by run? The entries of a cassette or of a session as stories (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import reduce
from operator import add

from agentkit.decisions import Decision
from agentkit.errors import ModelError
from agentkit.events import (
    Approved,
    Milestone,
    RequestFailed,
    ResponseReceived,
    RunEnded,
    RunStarted,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.memory import store
from agentkit.memory.cassettes.entries import Entry, RecordedAnswer, Told
from agentkit.messages import Content, Message, Request, Response, ToolCall, ToolResult
from agentkit.slotted import dataclass
from agentkit.tape import PersonAsked
from agentkit.usage import Usage


@dataclass(slots=True)
class Moment:
    """Something that a run has done. `request` and `new` are what the model was asked, and what of that was new."""

    at: float
    seconds: float
    milestone: Milestone
    request: Request | None = None
    new: Sequence[Message] = ()

    @property
    def began(self) -> float:
        """When it began; `at` is when it was over."""
        return self.at - self.seconds


@dataclass(slots=True)
class CallStory:
    """A tool call from the wish to the result."""

    call: ToolCall
    at: float
    decision: Decision | None = None
    question: str = ""
    answers: list[Approved] = field(default_factory=list)
    inner: dict[str, ToolCall] = field(default_factory=dict)
    """The calls that it has set off and a person was asked about, by their ids."""
    spent: Usage = field(default_factory=Usage)
    """What it had spent when it was postponed."""
    result: ToolResult | None = None
    ended: float | None = None
    waited: tuple[float, float] | None = None
    """When a person had answered, and how many seconds that took."""

    @property
    def began(self) -> float:
        """When it began."""
        return self.at

    @property
    def seconds(self) -> float:
        """How long the tool ran, or else the call took from its judgment to its end."""
        if self.result is not None and self.result.seconds:
            return self.result.seconds
        return max(0.0, (self.ended or self.at) - self.at)

    @property
    def judgment(self) -> Decision | None:
        """The decision that the result bears, or else the first one."""
        return (self.result and self.result.decision) or self.decision


@dataclass(slots=True)
class RunStory:
    """One run from its prompt to its end. Without an agent it is what was asked outside of all runs."""

    id: str
    agent: str = ""
    prompt: Content | None = None
    inside: int = 0
    began: float = 0.0
    ended: float = 0.0
    steps: list[Moment | CallStory] = field(default_factory=list)
    end: RunEnded | None = None
    calls: dict[str, CallStory] = field(default_factory=dict)
    wishes: dict[str, ToolCall] = field(default_factory=dict)
    """The calls that the model has wished for, by their ids."""
    asked: Request | None = None
    """What the model was asked last."""
    reached: float | None = None
    """When the latest of the steps was over."""

    @property
    def moments(self) -> list[Moment]:
        """The steps that are no tool calls."""
        return [step for step in self.steps if isinstance(step, Moment)]

    @property
    def responses(self) -> list[Response]:
        """What the model answered, in order."""
        milestones = (moment.milestone for moment in self.moments)
        return [milestone.response for milestone in milestones if isinstance(milestone, ResponseReceived)]

    @property
    def usage(self) -> Usage:
        """What the run has spent, what agents that it used as tools have spent among it."""
        usages = [response.usage for response in self.responses]
        usages += [story.result.usage for story in self.tool_calls if story.result is not None]
        usages += [story.spent for story in self.tool_calls]
        usages += [moment.milestone.usage for moment in self.moments if isinstance(moment.milestone, Summarised)]
        return reduce(add, usages, Usage())

    @property
    def tool_calls(self) -> list[CallStory]:
        """The calls that were judged, in order."""
        return [step for step in self.steps if isinstance(step, CallStory)]

    @property
    def answer(self) -> str:
        """The run's last word."""
        if self.end is not None:
            return self.end.output
        return next((response.text for response in reversed(self.responses) if response.text), "")

    @property
    def status(self) -> str:
        """How it ended."""
        return self.end.status if self.end is not None else "unfinished" if self.agent else ""

    def call_of(self, call: ToolCall, at: float) -> CallStory:
        """The story of a call, begun when it is new."""
        if call.id not in self.calls:
            story = self.calls[call.id] = CallStory(call, at)
            self.steps.append(story)
            self.reach(at)
        return self.calls[call.id]

    def add(self, moment: Moment) -> None:
        """Add a step that is no tool call."""
        self.steps.append(moment)
        self.asked = moment.request or self.asked
        self.reach(moment.at)
        if isinstance(moment.milestone, ResponseReceived):
            for call in moment.milestone.response.tool_calls:
                self.wishes.setdefault(call.id, call)

    def reach(self, at: float) -> None:
        """Remember that a step was over at this time."""
        self.reached = at if self.reached is None else max(self.reached, at)


def stories_of(entries: Iterable[store.Entry]) -> list[RunStory]:
    """The runs of a session, in the order in which they began."""
    return stories(Told(entry.run, entry.at, entry.milestone) for entry in entries)


def stories(entries: Iterable[Entry]) -> list[RunStory]:
    """The runs, in the order in which they began, and what was asked outside of them."""
    entries = list(entries)
    told = [entry for entry in entries if isinstance(entry, Told)]
    askings = [entry for entry in entries if isinstance(entry, RecordedAnswer)]
    by_answer = {_content(asking.answer): asking for asking in reversed(askings) if isinstance(asking.answer, Response)}
    runs: dict[str, RunStory] = {}
    for entry in told:
        run = runs.setdefault(entry.run, RunStory(entry.run, inside=entry.inside, began=entry.at, ended=entry.at))
        _tell(run, entry, entry.asking or _asking_behind(entry, by_answer))
        run.ended = max(run.ended, entry.at)
    waits = {asking.question.call.id: asking for asking in askings if isinstance(asking.question, PersonAsked)}
    for run in runs.values():
        _add_waiting(run, waits)
    loose = _outside(askings, told)
    return sorted([*runs.values(), *([loose] if loose.steps else [])], key=lambda run: run.began)


def _tell(run: RunStory, told: Told, asking: RecordedAnswer | None) -> None:
    """Add a milestone to its run's story."""
    match told.milestone:
        case RunStarted(agent, prompt):
            run.agent, run.prompt = agent, prompt
        case RunEnded():
            run.end = told.milestone
        case ToolCallStarted() | ToolCallFinished() | ToolCallPostponed() | Approved():
            _tell_call(run, told.milestone, told.at)
        case milestone:
            run.add(_moment(run, told.at, milestone, asking))


def _tell_call(
    run: RunStory, milestone: ToolCallStarted | ToolCallFinished | ToolCallPostponed | Approved, at: float
) -> None:
    """Add a milestone to the story of its call."""
    match milestone:
        case Approved(call_id):
            run.call_of(run.wishes.get(call_id) or ToolCall(call_id, "", ""), at).answers.append(milestone)
        case ToolCallStarted(call, decision):
            run.call_of(call, at).decision = decision
        case ToolCallPostponed(call, question, decision):
            story = run.call_of(call, at)
            story.question, story.decision = question, story.decision if milestone.inner else decision or story.decision
            story.spent += milestone.usage
            if milestone.inner is not None:  # what is answered of a call that it has set off is part of its story
                run.wishes[milestone.inner.id], story.inner[milestone.inner.id] = call, milestone.inner
        case finished:
            story = run.call_of(finished.call, at - finished.result.seconds)
            story.call, story.result, story.ended = finished.call, finished.result, at
            run.reach(at)


def _add_waiting(run: RunStory, waits: Mapping[str, RecordedAnswer]) -> None:
    """Add how long each call waited for a person."""
    for call_id, story in run.calls.items():
        if call_id in waits:
            story.waited = waits[call_id].at, waits[call_id].seconds


def _moment(run: RunStory, at: float, milestone: Milestone, asking: RecordedAnswer | None) -> Moment:
    """A milestone that is a step of its own; one of a session took as long as nothing else had happened."""
    if asking is not None and isinstance(asking.question, Request):
        return Moment(at, asking.seconds, milestone, asking.question, _new(asking.question, run.asked))
    if not isinstance(milestone, ResponseReceived):
        return Moment(at, 0.0, milestone)
    before = run.began if run.reached is None else run.reached
    return Moment(at, max(0.0, at - before), milestone)


def _end(step: Moment | CallStory) -> float:
    return step.at if isinstance(step, Moment) else step.ended or step.at


def _new(request: Request, before: Request | None) -> Sequence[Message]:
    """The messages that the request before did not have; what a cassette names by its number is one object."""
    known = {id(message) for message in before.messages} if before else set()
    return [message for message in request.messages if id(message) not in known]


def _asking_behind(told: Told, by_answer: Mapping[_Content, RecordedAnswer]) -> RecordedAnswer | None:
    """The request whose response a milestone tells of, in a response that got other ids on its way."""
    if not isinstance(told.milestone, ResponseReceived):
        return None
    return by_answer.get(_content(told.milestone.response))


_Content = tuple[str, Usage, tuple[tuple[str, str], ...]]


def _content(response: Response) -> _Content:
    """What a response says, whatever the ids of its calls."""
    return response.text, response.usage, tuple((call.name, call.arguments) for call in response.tool_calls)


def _outside(askings: Sequence[RecordedAnswer], told: Sequence[Told]) -> RunStory:
    """What was asked while no run told of it."""
    numbers = {entry.asking.number for entry in told if entry.asking is not None}
    said = {_content(entry.milestone.response) for entry in told if isinstance(entry.milestone, ResponseReceived)}
    summaries = {entry.milestone.text for entry in told if isinstance(entry.milestone, Summarised)}
    failures = {entry.milestone.error for entry in told if isinstance(entry.milestone, RequestFailed)}
    calls = {entry.milestone.call.id for entry in told if isinstance(entry.milestone, ToolCallFinished)}
    loose = RunStory("")
    for asking in askings:
        match asking.answer:
            case _ if asking.number in numbers:
                continue
            case Response() as response if response.text not in summaries and _content(response) not in said:
                loose.add(_moment(loose, asking.at, ResponseReceived(response), asking))
            case ModelError() as error if str(error) not in failures:
                failed = RequestFailed(str(error), type(error).__name__)
                loose.add(_moment(loose, asking.at, failed, asking))
            case ToolResult() as result if isinstance(asking.question, ToolCall) and asking.question.id not in calls:
                story = CallStory(asking.question, asking.at - asking.seconds, result=result, ended=asking.at)
                loose.steps.append(story)
    loose.began = min((step.began for step in loose.steps), default=0.0)
    loose.ended = max((_end(step) for step in loose.steps), default=0.0)
    return loose
