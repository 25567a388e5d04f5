"""Transcripts of recorded runs, as data and as text (pure)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import reduce
from operator import add
from typing import Any

from agentkit import event_rendering
from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Verdict
from agentkit.errors import ModelError
from agentkit.event_rendering import (
    arguments_in,
    call_text,
    content_text,
    count_text,
    cut,
    hidden,
    is_shallow,
    json_value,
    seconds_text,
    tokens_text,
    visible,
)
from agentkit.events import (
    Approved,
    HistoryGiven,
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
from agentkit.lines import split_lines
from agentkit.messages import (
    AssistantMessage,
    Content,
    Message,
    Request,
    Response,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agentkit.recording import PersonAsked
from agentkit.redaction import redact_data, written_redactor
from agentkit.sessions import store
from agentkit.sessions.cassettes.entries import Entry, RecordedAnswer, RecordedEvent
from agentkit.sessions.codec import decode_entry, encode_entry
from agentkit.sessions.store import SessionEntry
from agentkit.usage import Usage


@dataclass(slots=True)
class StoryMoment:
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
    steps: list[StoryMoment | CallStory] = field(default_factory=list)
    end: RunEnded | None = None
    calls: dict[str, CallStory] = field(default_factory=dict)
    wishes: dict[str, ToolCall] = field(default_factory=dict)
    """The calls that the model has wished for, by their ids."""
    asked: Request | None = None
    """What the model was asked last."""
    reached: float | None = None
    """When the latest of the steps was over."""

    @property
    def moments(self) -> list[StoryMoment]:
        """The steps that are no tool calls."""
        return [step for step in self.steps if isinstance(step, StoryMoment)]

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

    def add(self, moment: StoryMoment) -> None:
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


def stories_of(entries: Iterable[store.SessionEntry]) -> list[RunStory]:
    """The runs of a session, in the order in which they began."""
    return stories(RecordedEvent(entry.run, entry.at, entry.milestone) for entry in entries)


def stories(entries: Iterable[Entry]) -> list[RunStory]:
    """The runs, in the order in which they began, and what was asked outside of them."""
    entries = list(entries)
    told = [entry for entry in entries if isinstance(entry, RecordedEvent)]
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


def _tell(run: RunStory, told: RecordedEvent, asking: RecordedAnswer | None) -> None:
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


def _moment(run: RunStory, at: float, milestone: Milestone, asking: RecordedAnswer | None) -> StoryMoment:
    """A milestone that is a step of its own; one of a session took as long as nothing else had happened."""
    if asking is not None and isinstance(asking.question, Request):
        return StoryMoment(at, asking.seconds, milestone, asking.question, _new(asking.question, run.asked))
    if not isinstance(milestone, ResponseReceived):
        return StoryMoment(at, 0.0, milestone)
    before = run.began if run.reached is None else run.reached
    return StoryMoment(at, max(0.0, at - before), milestone)


def _end(step: StoryMoment | CallStory) -> float:
    return step.at if isinstance(step, StoryMoment) else step.ended or step.at


def _new(request: Request, before: Request | None) -> Sequence[Message]:
    """The messages that the request before did not have; what a cassette names by its number is one object."""
    known = {id(message) for message in before.messages} if before else set()
    return [message for message in request.messages if id(message) not in known]


def _asking_behind(told: RecordedEvent, by_answer: Mapping[_Content, RecordedAnswer]) -> RecordedAnswer | None:
    """The request whose response a milestone tells of, in a response that got other ids on its way."""
    if not isinstance(told.milestone, ResponseReceived):
        return None
    return by_answer.get(_content(told.milestone.response))


_Content = tuple[str, Usage, tuple[tuple[str, str], ...]]


def _content(response: Response) -> _Content:
    """What a response says, whatever the ids of its calls."""
    return response.text, response.usage, tuple((call.name, call.arguments) for call in response.tool_calls)


def _outside(askings: Sequence[RecordedAnswer], told: Sequence[RecordedEvent]) -> RunStory:
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


Money = Callable[[Usage], str]
"""Says what was spent in money; who knows no prices has none."""
OUTSIDE, ELSEWHERE, GIVEN = "Asked outside of a run", "Begun elsewhere", "What was said"

_MOST_LEVELS = 12
"""Values that nest deeper are shown on one line: indented, each of their lines would begin with a line of blanks."""
_MOST_RESULT_CHARS = 1_000


def day_text(at: float) -> str:
    """A moment as day and time, in this machine's time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def usage_of(runs: Iterable[RunStory]) -> Usage:
    """What the runs have spent together."""
    return reduce(add, (run.usage for run in runs), Usage())


def outer(runs: Iterable[RunStory]) -> list[RunStory]:
    """The runs that no tool call has begun: what the others have spent is in the results of those calls."""
    return [run for run in runs if not run.inside]


def figures(runs: Sequence[RunStory], spenders: Sequence[RunStory], money: Money | None = None) -> list[str]:
    """What the runs have asked and done, and what the `spenders` among them have spent; nothing for nothing asked."""
    usage, calls = usage_of(spenders), sum(len(run.tool_calls) for run in runs)
    requests = max(sum(len(run.responses) for run in runs), usage.requests)  # of agents that tools set to work, too
    if not requests and not calls:
        return []
    parts = [count_text(requests, "request"), count_text(calls, "tool call")]
    if requests:
        parts += [tokens_text(usage), *([f"cost {money(usage)}"] if money else [])]
    return parts


def readable(value: Any) -> str:
    """A value as text: a text itself, or JSON; one that nests too deeply to be written is `…`."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2 if is_shallow(value, _MOST_LEVELS) else None)
    except RecursionError:
        return "…"


def content_of(text: str) -> dict[str, Any] | str:
    """What a tool's result says: its fields when it is a JSON object, else the text, laid out when it is JSON."""
    value = json_value(text)
    if isinstance(value, dict) and value:
        return value
    return readable(value) if isinstance(value, list) else text


def title(run: RunStory) -> str:
    """What a run is called."""
    if not run.agent:
        is_given = any(isinstance(moment.milestone, HistoryGiven) for moment in run.moments)
        return GIVEN if is_given else ELSEWHERE if run.id else OUTSIDE
    return f"{run.agent}, within a tool call" if run.inside else run.agent


def answers_text(story: CallStory) -> str:
    """What a person was asked about a call and answered; empty when nobody was asked."""
    if not story.answers:
        return f"waits for a person: {story.question}" if story.question else ""
    told = f"a person said: {', '.join(_answer_text(story, answer) for answer in story.answers)}"
    if story.waited is not None:
        told += f", after {seconds_text(story.waited[1])}"
    changed = next((answer.arguments for answer in story.answers if answer.arguments is not None), None)
    return told if changed is None else f"{told}, with other arguments: {changed}"


def _answer_text(story: CallStory, answer: Approved) -> str:
    """What was answered, and to which call where that is one that this call has set off."""
    said, inner = f"{answer.answer} ({answer.text})" if answer.text else answer.answer, story.inner.get(answer.call_id)
    return said if inner is None else f"{said} to {event_rendering.call_text(inner)}"


def milestone_words(milestone: Milestone) -> tuple[str, str]:
    """What happened on the course of a run, and all the words that belong to it, what was said before among them."""
    what, words = event_rendering.milestone_words(milestone)
    if isinstance(milestone, HistoryGiven):
        words = "\n".join(line for message in milestone.messages for line in _message_lines(message))
    return what, words


def _message_lines(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(content):
            yield _said("user", content_text(content, "\n"))
        case SystemMessage(text):
            yield _said("system", text)
        case AssistantMessage(text, calls):
            if text:
                yield _said("assistant", text)
            yield from (_said("  wishes", f"{call.name}({call.arguments})") for call in calls)
        case _:
            yield _said(f"  {message.name}", _cut(message.content))


def _said(who: str, text: str) -> str:
    """A text below its speaker: the first line beside the name, the others indented."""
    return "\n".join(
        f"    {line}".rstrip() if place else line for place, line in enumerate(split_lines(f"{who}: {text}"))
    )


def _cut(text: str) -> str:
    cut = text[:_MOST_RESULT_CHARS]
    return cut if cut == text else f"{cut} … ({len(text)} characters)"


_MOST_LINES = 12
_MOST_LINE_CHARS = 160
_WIDTH = 88
_MARKS = {Verdict.ALLOW: "✓", Verdict.ASK: "?", Verdict.DENY: "✗"}


def session_text(name: str, entries: Iterable[SessionEntry]) -> str:
    """A session as text: what its export would tell, without what looks like a secret or tricks a terminal."""
    return visible(hidden(show_text(f"Session {name}".rstrip(), stories_of(without_secrets(entries)))))


def without_secrets(entries: Iterable[SessionEntry]) -> list[SessionEntry]:
    """The entries of a session without what is or looks like a secret, as an export has them."""
    redactor = written_redactor()
    return [decode_entry(redact_data(encode_entry(entry), redactor)) for entry in entries]


def show_text(heading: str, runs: Sequence[RunStory], money: Money | None = None) -> str:
    """Runs as text below a heading, with their sums; `money` says what they cost."""
    sums = ", ".join([count_text(sum(bool(run.id) for run in runs), "run"), *figures(runs, outer(runs), money)])
    return "\n".join([heading, sums, *(line for run in runs for line in _run_lines(run, money))])


def _run_lines(run: RunStory, money: Money | None) -> Iterator[str]:
    """A run as lines: prompt, requests, calls with decision and time, answer, changes."""
    yield ""
    yield f"── {_name(title(run))}, {day_text(run.began)} ".ljust(_WIDTH, "─")
    if run.prompt is not None:
        yield from _block("> ", content_text(run.prompt, "\n"))
    for step in run.steps:
        yield ""
        yield from _call(run, step) if isinstance(step, CallStory) else _moment_lines(run, step)
    if run.end is not None and run.end.error:
        yield ""
        yield from _block("  ! ", run.end.error)
    if run.end is not None and run.end.changes:
        yield ""
        yield "  Changes"
        yield from (f"    {visible(line)}" for line in split_lines(run.end.changes))
    yield from _foot(run, figures([run], [run], money))


def _foot(run: RunStory, sums: Sequence[str]) -> Iterator[str]:
    """How a run ended, and what it took. One that is not done has its id, by which it goes on."""
    if run.agent or sums:
        which = f" ({_name(run.id)})" if run.agent and run.status != "done" else ""
        took = f"{run.status or 'asked'}{which} in {seconds_text(run.ended - run.began)}"
        yield ""
        yield f"  {': '.join(filter(None, [took, ', '.join(sums)]))}"


def _moment_lines(run: RunStory, moment: StoryMoment) -> Iterator[str]:
    offset = _offset(run, moment.began)
    if not isinstance(moment.milestone, ResponseReceived):
        what, words = milestone_words(moment.milestone)
        if not isinstance(moment.milestone, HistoryGiven):
            yield f"{offset}{_name(what)}"
        yield from _block("          ", words)
        return
    response = moment.milestone.response
    tokens = tokens_text(response.usage)
    yield f"{offset}{_name(response.model) or 'the model'}  {seconds_text(moment.seconds)}  {tokens}"
    if not run.agent:
        yield from (line for message in moment.new for line in _block("        > ", _message(message)))
    yield from _block("          ", response.text)
    for call in response.tool_calls:
        if run.agent and call.id not in run.calls:
            yield from _block("          wishes: ", call_text(call))


def _message(message: Message) -> str:
    return content_text(message.content, "\n") if hasattr(message, "content") else str(message.text)


def _call(run: RunStory, story: CallStory) -> Iterator[str]:
    yield f"{_offset(run, story.began)}{_name(story.call.name)}  {seconds_text(story.seconds)}"
    named = arguments_in(story.call.arguments)
    for name, value in named.items() if isinstance(named, dict) else [("", named)]:
        yield from _shortened(f"          {_name(name)}: " if name else "          ", readable(value))
    decision = story.judgment
    if decision is not None:
        yield from _block(
            f"        {_MARKS[decision.verdict]} ", f"{decision.verdict}: {decision.reason} (rule: {decision.rule})"
        )
    if person := answers_text(story):
        yield from _block("        ? ", person)
    if story.result is not None:
        yield from _result(story.result)


def _result(result: ToolResult) -> Iterator[str]:
    if result.error is not None:
        yield from _shortened("        ✗ ", result.error)
        return
    content = content_of(result.content)
    for place, (name, value) in enumerate(content.items() if isinstance(content, dict) else [("", content)]):
        mark = " " if place else "→"
        yield from _shortened(f"        {mark} {_name(name)}: " if name else f"        {mark} ", readable(value))


def _offset(run: RunStory, at: float) -> str:
    return f"{seconds_text(max(0.0, at - run.began)):>8}  "


def _name(written: str) -> str:
    """A name that anybody may have written, a model, a tool or a file, on one line: what follows it is ours to say."""
    return cut(" ".join(written.split()), _MOST_LINE_CHARS)


def _block(prefix: str, text: str) -> Iterator[str]:
    """A text behind a prefix, its further lines below it."""
    for number, line in enumerate(split_lines(text)):
        yield f"{' ' * len(prefix) if number else prefix}{visible(line)}".rstrip()


def _shortened(prefix: str, text: str) -> Iterator[str]:
    """What a call was given or gave back, as a block whose lines are cut, and which is when there are too many."""
    lines = split_lines(text)
    yield from _block(prefix, "\n".join(cut(line, _MOST_LINE_CHARS) for line in lines[:_MOST_LINES]))
    if len(lines) > _MOST_LINES:
        yield f"{' ' * len(prefix)}… {count_text(len(lines) - _MOST_LINES, 'more line')}"
