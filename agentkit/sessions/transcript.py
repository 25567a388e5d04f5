"""Transcripts of recorded runs, as data and as text, and full-text search in sessions (pure)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import reduce
from operator import add
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Verdict
from agentkit.errors import ModelError
from agentkit.event_rendering import (
    call_text,
    content_text,
    count_text,
    escape_invisible,
    is_shallow,
    parse_arguments,
    parse_json,
    plan_text,
    redact_stored,
    seconds_text,
    tokens_text,
    truncate,
)
from agentkit.events import (
    Approved,
    FunctionStarted,
    HistoryGiven,
    RequestFailed,
    ResponseReceived,
    RunEnded,
    RunStarted,
    StoredEvent,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import (
    AssistantMessage,
    Content,
    Message,
    Request,
    Response,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agentkit.recording import PersonAsked
from agentkit.redaction import redact_data, stored_text_redactor
from agentkit.sessions.cassettes.entries import Entry, RecordedAnswer, RecordedEvent
from agentkit.sessions.codec import decode_entry, encode_entry
from agentkit.sessions.store import SessionEntry, SessionStore
from agentkit.text_encoding import split_lines
from agentkit.usage import Usage


@dataclass(slots=True)
class StoryMoment:
    """A step of a run other than a tool call. `request` is what was sent to the model, `new` the messages new in it."""

    at: float
    seconds: float
    event: StoredEvent
    request: Request | None = None
    new: Sequence[Message] = ()

    @property
    def began(self) -> float:
        """The time at which it began; `at` is the time at which it ended."""
        return self.at - self.seconds


@dataclass(slots=True)
class CallStory:
    """A tool call from request to result."""

    call: ToolCall
    at: float
    decision: Decision | None = None
    question: str = ""
    answers: list[Approved] = field(default_factory=list)
    inner: dict[str, ToolCall] = field(default_factory=dict)
    """The nested calls that a person was asked about, by id."""
    spent: Usage = field(default_factory=Usage)
    """The usage before it was postponed."""
    result: ToolResult | None = None
    ended: float | None = None
    waited: tuple[float, float] | None = None
    """The time of a person's answer, and the seconds spent waiting for it."""

    @property
    def began(self) -> float:
        """The time at which it began."""
        return self.at

    @property
    def seconds(self) -> float:
        """Seconds that the tool ran or, if unknown, that passed from the decision to the end of the call."""
        if self.result is not None and self.result.seconds:
            return self.result.seconds
        return max(0.0, (self.ended or self.at) - self.at)

    @property
    def judgment(self) -> Decision | None:
        """The decision in the result or, without one, the first decision."""
        return (self.result and self.result.decision) or self.decision


@dataclass(slots=True)
class RunStory:
    """One run from prompt to end. Without an agent, it contains the requests made outside of runs."""

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
    """The tool calls that the model has requested, by id."""
    asked: Request | None = None
    """The latest request to the model."""
    reached: float | None = None
    """The time at which the latest step ended."""

    @property
    def moments(self) -> list[StoryMoment]:
        """The steps that are not tool calls."""
        return [step for step in self.steps if isinstance(step, StoryMoment)]

    @property
    def responses(self) -> list[Response]:
        """The model's responses, in order."""
        events = (moment.event for moment in self.moments)
        return [event.response for event in events if isinstance(event, ResponseReceived)]

    @property
    def usage(self) -> Usage:
        """The usage of the run, including agents that it used as tools."""
        usages = [response.usage for response in self.responses]
        usages += [story.result.usage for story in self.tool_calls if story.result is not None]
        usages += [story.spent for story in self.tool_calls]
        usages += [moment.event.usage for moment in self.moments if isinstance(moment.event, Summarised)]
        return reduce(add, usages, Usage())

    @property
    def tool_calls(self) -> list[CallStory]:
        """The tool calls that were judged, in order."""
        return [step for step in self.steps if isinstance(step, CallStory)]

    @property
    def answer(self) -> str:
        """The final output of the run."""
        if self.end is not None:
            return self.end.output
        return next((response.text for response in reversed(self.responses) if response.text), "")

    @property
    def status(self) -> str:
        """How the run ended."""
        return self.end.status if self.end is not None else "unfinished" if self.agent else ""

    def call_of(self, call: ToolCall, at: float) -> CallStory:
        """The story of a call, created on first use."""
        if call.id not in self.calls:
            story = self.calls[call.id] = CallStory(call, at)
            self.steps.append(story)
            self.reach(at)
        return self.calls[call.id]

    def add(self, moment: StoryMoment) -> None:
        """Add a step that is not a tool call."""
        self.steps.append(moment)
        self.asked = moment.request or self.asked
        self.reach(moment.at)
        if isinstance(moment.event, ResponseReceived):
            for call in moment.event.response.tool_calls:
                self.wishes.setdefault(call.id, call)

    def reach(self, at: float) -> None:
        """Record the end time of a step."""
        self.reached = at if self.reached is None else max(self.reached, at)


def stories_of(entries: Iterable[SessionEntry]) -> list[RunStory]:
    """Build the stories of a session's runs, in the order in which they began."""
    return build_stories(RecordedEvent(entry.run, entry.at, entry.event) for entry in entries)


def build_stories(entries: Iterable[Entry]) -> list[RunStory]:
    """Build the stories of all runs, and of the requests outside of runs, in the order in which they began."""
    entries = list(entries)
    events = [entry for entry in entries if isinstance(entry, RecordedEvent)]
    askings = [entry for entry in entries if isinstance(entry, RecordedAnswer)]
    by_answer = {_content(asking.answer): asking for asking in reversed(askings) if isinstance(asking.answer, Response)}
    runs: dict[str, RunStory] = {}
    for entry in events:
        run = runs.setdefault(entry.run, RunStory(entry.run, inside=entry.inside, began=entry.at, ended=entry.at))
        asking = entry.asking
        if asking is None and isinstance(entry.event, ResponseReceived):  # its call ids can have been changed
            asking = by_answer.get(_content(entry.event.response))
        _add_event(run, entry, asking)
        run.ended = max(run.ended, entry.at)
    waits = {asking.question.call.id: asking for asking in askings if isinstance(asking.question, PersonAsked)}
    for call_id, story in (item for run in runs.values() for item in run.calls.items()):
        if call_id in waits:
            story.waited = waits[call_id].at, waits[call_id].seconds
    loose = _outside(askings, events)
    return sorted([*runs.values(), *([loose] if loose.steps else [])], key=lambda run: run.began)


def _add_event(run: RunStory, event: RecordedEvent, asking: RecordedAnswer | None) -> None:
    """Add a stored event to its run's story."""
    match event.event:
        case RunStarted(agent, prompt):
            run.agent, run.prompt = agent, prompt
        case FunctionStarted():
            description = event.event.describe()
            run.agent, run.prompt = description.title, description.text or None
        case RunEnded():
            run.end = event.event
        case ToolCallStarted() | ToolCallFinished() | ToolCallPostponed() | Approved():
            _add_call_event(run, event.event, event.at)
        case other:
            run.add(_moment(run, event.at, other, asking))


def _add_call_event(
    run: RunStory, event: ToolCallStarted | ToolCallFinished | ToolCallPostponed | Approved, at: float
) -> None:
    """Add a stored event to the story of its call."""
    match event:
        case Approved(call_id):
            run.call_of(run.wishes.get(call_id) or ToolCall(call_id, "", ""), at).answers.append(event)
        case ToolCallStarted(call, decision):
            run.call_of(call, at).decision = decision
        case ToolCallPostponed(call, question, decision):
            story = run.call_of(call, at)
            story.question, story.decision = question, story.decision if event.inner else decision or story.decision
            story.spent += event.usage
            if event.inner is not None:  # answers about a nested call belong to the story of the outer call
                run.wishes[event.inner.id], story.inner[event.inner.id] = call, event.inner
        case finished:
            story = run.call_of(finished.call, at - finished.result.seconds)
            story.call, story.result, story.ended = finished.call, finished.result, at
            run.reach(at)


def _moment(run: RunStory, at: float, event: StoredEvent, asking: RecordedAnswer | None) -> StoryMoment:
    """Build a step from an event; without a recorded request, its duration is the time since the previous step."""
    if asking is not None and isinstance(asking.question, Request):
        return StoryMoment(at, asking.seconds, event, asking.question, _new(asking.question, run.asked))
    if not isinstance(event, ResponseReceived):
        return StoryMoment(at, 0.0, event)
    before = run.began if run.reached is None else run.reached
    return StoryMoment(at, max(0.0, at - before), event)


def _end(step: StoryMoment | CallStory) -> float:
    return step.at if isinstance(step, StoryMoment) else step.ended or step.at


def _new(request: Request, before: Request | None) -> Sequence[Message]:
    """The messages missing from the previous request, by identity: a cassette decodes each message once."""
    known = {id(message) for message in before.messages} if before else set()
    return [message for message in request.messages if id(message) not in known]


_Content = tuple[str, Usage, tuple[tuple[str, str], ...]]


def _content(response: Response) -> _Content:
    """The content of a response, ignoring the ids of its calls."""
    return response.text, response.usage, tuple((call.name, call.arguments) for call in response.tool_calls)


def _outside(askings: Sequence[RecordedAnswer], events: Sequence[RecordedEvent]) -> RunStory:
    """Collect the questions that no run reports."""
    numbers = {entry.asking.number for entry in events if entry.asking is not None}
    contents = {_content(entry.event.response) for entry in events if isinstance(entry.event, ResponseReceived)}
    summaries = {entry.event.text for entry in events if isinstance(entry.event, Summarised)}
    failures = {entry.event.error for entry in events if isinstance(entry.event, RequestFailed)}
    calls = {entry.event.call.id for entry in events if isinstance(entry.event, ToolCallFinished)}
    loose = RunStory("")
    for asking in askings:
        match asking.answer:
            case _ if asking.number in numbers:
                continue
            case Response() as response if response.text not in summaries and _content(response) not in contents:
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
"""Renders a usage as money; callers without prices pass None."""
OUTSIDE, ELSEWHERE, GIVEN = "Asked outside of a run", "Begun elsewhere", "Earlier conversation"

_MAX_LEVELS = 12
"""Values nested deeper are rendered on one line: indented, every line would start with many blanks."""


def day_text(at: float) -> str:
    """Format a time as date and time in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def usage_of(runs: Iterable[RunStory]) -> Usage:
    """The total usage of the runs."""
    return reduce(add, (run.usage for run in runs), Usage())


def outer(runs: Iterable[RunStory]) -> list[RunStory]:
    """The runs not started by a tool call: the usage of nested runs is included in the results of those calls."""
    return [run for run in runs if not run.inside]


def figures(runs: Sequence[RunStory], spenders: Sequence[RunStory], money: Money | None = None) -> list[str]:
    """Render the requests and calls of the runs, and the usage of `spenders`; empty if nothing was requested."""
    usage, calls = usage_of(spenders), sum(len(run.tool_calls) for run in runs)
    requests = max(sum(len(run.responses) for run in runs), usage.requests)  # includes agents used as tools
    if not requests and not calls:
        return []
    parts = [count_text(requests, "request"), count_text(calls, "tool call")]
    if requests:
        parts += [tokens_text(usage), *([f"cost {money(usage)}"] if money else [])]
    return parts


def readable(value: Any) -> str:
    """Render a value as text: a string unchanged, anything else as JSON; `…` if it is nested too deeply."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2 if is_shallow(value, _MAX_LEVELS) else None)
    except RecursionError:
        return "…"


def content_of(text: str) -> dict[str, Any] | str:
    """Parse a tool's result: the fields of a JSON object, an indented JSON list, or the text."""
    value = parse_json(text)
    if isinstance(value, dict) and value:
        return value
    return readable(value) if isinstance(value, list) else text


def title(run: RunStory) -> str:
    """The heading of a run."""
    if not run.agent:
        is_given = any(isinstance(moment.event, HistoryGiven) for moment in run.moments)
        return GIVEN if is_given else ELSEWHERE if run.id else OUTSIDE
    return f"{run.agent}, within a tool call" if run.inside else run.agent


def answers_text(story: CallStory) -> str:
    """Render the question to a person about a call and the answers; empty if no person was asked."""
    if not story.answers:
        return f"waits for a person: {story.question}" if story.question else ""
    answers = []
    for answer in story.answers:
        text, inner = answer.answer + (f" ({answer.text})" if answer.text else ""), story.inner.get(answer.call_id)
        answers.append(text if inner is None else f"{text} to {call_text(inner)}")
    answered = f"a person answered: {', '.join(answers)}"
    if story.waited is not None:
        answered += f", after {seconds_text(story.waited[1])}"
    changed = next((answer.arguments for answer in story.answers if answer.arguments is not None), None)
    return answered if changed is None else f"{answered}, with other arguments: {changed}"


_MAX_LINES = 12
_MAX_LINE_CHARS = 160
_WIDTH = 88
_MARKS = {Verdict.ALLOW: "✓", Verdict.ASK: "?", Verdict.DENY: "✗"}


def session_text(name: str, entries: Iterable[SessionEntry]) -> str:
    """Render a session as text, with secrets redacted and terminal control characters removed."""
    return escape_invisible(redact_stored(show_text(f"Session {name}".rstrip(), stories_of(without_secrets(entries)))))


def without_secrets(entries: Iterable[SessionEntry]) -> list[SessionEntry]:
    """The entries of a session, redacted as in an export."""
    redactor = stored_text_redactor()
    return [decode_entry(redact_data(encode_entry(entry), redactor)) for entry in entries]


def show_text(heading: str, runs: Sequence[RunStory], money: Money | None = None) -> str:
    """Render runs as text below a heading with totals; `money` renders their cost."""
    sums = ", ".join([count_text(sum(bool(run.id) for run in runs), "run"), *figures(runs, outer(runs), money)])
    return "\n".join([heading, sums, *(line for run in runs for line in _run_lines(run, money))])


def _run_lines(run: RunStory, money: Money | None) -> Iterator[str]:
    """Render a run: prompt, requests, calls with decision and time, answer, changes."""
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
        yield from (f"    {escape_invisible(line)}" for line in split_lines(run.end.changes))
    yield from _foot(run, figures([run], [run], money))


def _foot(run: RunStory, sums: Sequence[str]) -> Iterator[str]:
    """Render how a run ended, and its usage. An unfinished run is shown with its id, needed to resume it."""
    if run.agent or sums:
        which = f" ({_name(run.id)})" if run.agent and run.status != "done" else ""
        took = f"{run.status or 'asked'}{which} in {seconds_text(run.ended - run.began)}"
        yield ""
        yield f"  {': '.join(filter(None, [took, ', '.join(sums)]))}"


def _moment_lines(run: RunStory, moment: StoryMoment) -> Iterator[str]:
    offset = _offset(run, moment.began)
    if not isinstance(moment.event, ResponseReceived):
        description = moment.event.describe()
        if not isinstance(moment.event, HistoryGiven):
            yield f"{offset}{_name(description.title)}"
        yield from _block("          ", description.text)
        return
    response = moment.event.response
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
    named = plan_text(story.call) or parse_arguments(story.call.arguments)
    for name, value in named.items() if isinstance(named, dict) else [("", named)]:
        yield from _truncated_block(f"          {_name(name)}: " if name else "          ", readable(value))
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
        yield from _truncated_block("        ✗ ", result.error)
        return
    content = content_of(result.content)
    for place, (name, value) in enumerate(content.items() if isinstance(content, dict) else [("", content)]):
        mark = " " if place else "→"
        yield from _truncated_block(f"        {mark} {_name(name)}: " if name else f"        {mark} ", readable(value))


def _offset(run: RunStory, at: float) -> str:
    return f"{seconds_text(max(0.0, at - run.began)):>8}  "


def _name(written: str) -> str:
    """Render an untrusted name (from a model, a tool or a file) on one line, so that it cannot fake further output."""
    return truncate(" ".join(written.split()), _MAX_LINE_CHARS)


def _block(prefix: str, text: str) -> Iterator[str]:
    """Render a text after a prefix, with further lines aligned below it."""
    for number, line in enumerate(split_lines(text)):
        yield f"{' ' * len(prefix) if number else prefix}{escape_invisible(line)}".rstrip()


def _truncated_block(prefix: str, text: str) -> Iterator[str]:
    """Render the input or output of a call as a block with a limited number and length of lines."""
    lines = split_lines(text)
    yield from _block(prefix, "\n".join(truncate(line, _MAX_LINE_CHARS) for line in lines[:_MAX_LINES]))
    if len(lines) > _MAX_LINES:
        yield f"{' ' * len(prefix)}… {count_text(len(lines) - _MAX_LINES, 'more line')}"


_MAX_TITLE_CHARS = 80
_AROUND_CHARS = 40
_GENERATED = re.compile(r"\S*-[0-9a-f]{4}(?:, ((?:until|before) [\d-]+ \d\d:\d\d).*)?")
"""Matches the names that are generated from a prompt, and those of their earlier branches."""


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """A session that contains all words of a query: its name, its title, and the text around the first word."""

    name: str
    title: str
    snippet: str
    changed: float


def title_of(name: str, entries: Sequence[SessionEntry]) -> str:
    """The title of a session: the name that a person gave it, or else its first prompt on one line."""
    found = _GENERATED.fullmatch(name)
    if found is None:
        return name
    prompt = next((text for entry in entries for text in _prompts(entry)), "")
    title = truncate(" ".join(prompt.split()), _MAX_TITLE_CHARS) or name
    return f"{title} ({found[1]})" if found[1] else title


def search_sessions(store: SessionStore, query: str, most: int = 50) -> Iterator[SessionMatch]:
    """Yield the sessions whose prompts, answers and tool calls contain all words of the query, the newest first."""
    words = query.casefold().split()
    for summary in store.summaries() if words else ():
        entries, _ = store.read(summary.name)
        text = "\n".join([summary.name, *(text for entry in entries for text in _texts(entry))])
        lower = text.casefold()
        if all(word in lower for word in words):
            at = lower.find(words[0])
            start, end = max(0, at - _AROUND_CHARS), at + len(words[0]) + _AROUND_CHARS
            snippet = " ".join(f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}".split())
            yield SessionMatch(summary.name, title_of(summary.name, entries), snippet, summary.changed)
            most -= 1
            if not most:
                return


def _prompts(entry: SessionEntry) -> Iterator[str]:
    match entry.event:
        case RunStarted(prompt=prompt):
            yield content_text(prompt)
        case HistoryGiven(messages):
            yield from (content_text(each.content) for each in messages if isinstance(each, UserMessage))


def _texts(entry: SessionEntry) -> Iterator[str]:
    yield from _prompts(entry)
    match entry.event:
        case ResponseReceived(response):
            yield response.text
        case ToolCallFinished(call, result):
            yield f"{call.name} {call.arguments}"
            yield result.error or result.content
        case HistoryGiven(messages):
            yield from (each.text for each in messages if isinstance(each, AssistantMessage))
