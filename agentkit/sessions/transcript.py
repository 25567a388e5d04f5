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
class TranscriptStep:
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
class CallTranscript:
    """A tool call from request to result."""

    call: ToolCall
    at: float
    decision: Decision | None = None
    question: str = ""
    answers: list[Approved] = field(default_factory=list)
    inner: dict[str, ToolCall] = field(default_factory=dict)
    """The nested calls that a person was asked about, by id."""
    usage_before: Usage = field(default_factory=Usage)
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
class RunTranscript:
    """One run from prompt to end. Without an agent, it contains the requests made outside of runs."""

    id: str
    agent: str = ""
    prompt: Content | None = None
    inside: int = 0
    began: float = 0.0
    ended: float = 0.0
    steps: list[TranscriptStep | CallTranscript] = field(default_factory=list)
    end: RunEnded | None = None
    calls: dict[str, CallTranscript] = field(default_factory=dict)
    requested_calls: dict[str, ToolCall] = field(default_factory=dict)
    """The tool calls that the model has requested, by id."""
    last_request: Request | None = None
    """The latest request to the model."""
    last_step_ended: float | None = None
    """The time at which the latest step ended."""

    @property
    def other_steps(self) -> list[TranscriptStep]:
        """The steps that are not tool calls."""
        return [step for step in self.steps if isinstance(step, TranscriptStep)]

    @property
    def responses(self) -> list[Response]:
        """The model's responses, in order."""
        events = (step.event for step in self.other_steps)
        return [event.response for event in events if isinstance(event, ResponseReceived)]

    @property
    def usage(self) -> Usage:
        """The usage of the run, including agents that it used as tools."""
        usages = [response.usage for response in self.responses]
        usages += [call.result.usage for call in self.tool_calls if call.result is not None]
        usages += [call.usage_before for call in self.tool_calls]
        usages += [step.event.usage for step in self.other_steps if isinstance(step.event, Summarised)]
        return reduce(add, usages, Usage())

    @property
    def tool_calls(self) -> list[CallTranscript]:
        """The tool calls that were judged, in order."""
        return [step for step in self.steps if isinstance(step, CallTranscript)]

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

    def call_of(self, call: ToolCall, at: float) -> CallTranscript:
        """The transcript of a call, created on first use."""
        if call.id not in self.calls:
            transcript = self.calls[call.id] = CallTranscript(call, at)
            self.steps.append(transcript)
            self.record_end(at)
        return self.calls[call.id]

    def add(self, step: TranscriptStep) -> None:
        """Add a step that is not a tool call."""
        self.steps.append(step)
        self.last_request = step.request or self.last_request
        self.record_end(step.at)
        if isinstance(step.event, ResponseReceived):
            for call in step.event.response.tool_calls:
                self.requested_calls.setdefault(call.id, call)

    def record_end(self, at: float) -> None:
        """Record the end time of a step."""
        self.last_step_ended = at if self.last_step_ended is None else max(self.last_step_ended, at)


def transcripts_of(entries: Iterable[SessionEntry]) -> list[RunTranscript]:
    """Build the transcripts of a session's runs, in the order in which they began."""
    return build_transcripts(RecordedEvent(entry.run, entry.at, entry.event) for entry in entries)


def build_transcripts(entries: Iterable[Entry]) -> list[RunTranscript]:
    """Build the transcripts of all runs, and of the requests outside of runs, in the order in which they began."""
    entries = list(entries)
    events = [entry for entry in entries if isinstance(entry, RecordedEvent)]
    exchanges = [entry for entry in entries if isinstance(entry, RecordedAnswer)]
    by_answer = {
        _content(exchange.answer): exchange for exchange in reversed(exchanges) if isinstance(exchange.answer, Response)
    }
    runs: dict[str, RunTranscript] = {}
    for entry in events:
        run = runs.setdefault(entry.run, RunTranscript(entry.run, inside=entry.inside, began=entry.at, ended=entry.at))
        exchange = entry.exchange
        if exchange is None and isinstance(entry.event, ResponseReceived):  # its call ids can have been changed
            exchange = by_answer.get(_content(entry.event.response))
        _add_event(run, entry, exchange)
        run.ended = max(run.ended, entry.at)
    waits = {
        exchange.question.call.id: exchange for exchange in exchanges if isinstance(exchange.question, PersonAsked)
    }
    for call_id, call in (item for run in runs.values() for item in run.calls.items()):
        if call_id in waits:
            call.waited = waits[call_id].at, waits[call_id].seconds
    outside_runs = _outside(exchanges, events)
    return sorted([*runs.values(), *([outside_runs] if outside_runs.steps else [])], key=lambda run: run.began)


def _add_event(run: RunTranscript, event: RecordedEvent, exchange: RecordedAnswer | None) -> None:
    """Add a stored event to the transcript of its run."""
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
            run.add(_step(run, event.at, other, exchange))


def _add_call_event(
    run: RunTranscript, event: ToolCallStarted | ToolCallFinished | ToolCallPostponed | Approved, at: float
) -> None:
    """Add a stored event to the transcript of its call."""
    match event:
        case Approved(call_id):
            run.call_of(run.requested_calls.get(call_id) or ToolCall(call_id, "", ""), at).answers.append(event)
        case ToolCallStarted(call, decision):
            run.call_of(call, at).decision = decision
        case ToolCallPostponed(call, question, decision):
            transcript = run.call_of(call, at)
            transcript.question, transcript.decision = (
                question,
                transcript.decision if event.inner else decision or transcript.decision,
            )
            transcript.usage_before += event.usage
            if event.inner is not None:  # answers about a nested call belong to the transcript of the outer call
                run.requested_calls[event.inner.id], transcript.inner[event.inner.id] = call, event.inner
        case finished:
            transcript = run.call_of(finished.call, at - finished.result.seconds)
            transcript.call, transcript.result, transcript.ended = finished.call, finished.result, at
            run.record_end(at)


def _step(run: RunTranscript, at: float, event: StoredEvent, exchange: RecordedAnswer | None) -> TranscriptStep:
    """Build a step from an event; without a recorded request, its duration is the time since the previous step."""
    if exchange is not None and isinstance(exchange.question, Request):
        return TranscriptStep(at, exchange.seconds, event, exchange.question, _new(exchange.question, run.last_request))
    if not isinstance(event, ResponseReceived):
        return TranscriptStep(at, 0.0, event)
    before = run.began if run.last_step_ended is None else run.last_step_ended
    return TranscriptStep(at, max(0.0, at - before), event)


def _end(step: TranscriptStep | CallTranscript) -> float:
    return step.at if isinstance(step, TranscriptStep) else step.ended or step.at


def _new(request: Request, before: Request | None) -> Sequence[Message]:
    """The messages missing from the previous request, by identity: a cassette decodes each message once."""
    known = {id(message) for message in before.messages} if before else set()
    return [message for message in request.messages if id(message) not in known]


_Content = tuple[str, Usage, tuple[tuple[str, str], ...]]


def _content(response: Response) -> _Content:
    """The content of a response, ignoring the ids of its calls."""
    return response.text, response.usage, tuple((call.name, call.arguments) for call in response.tool_calls)


def _outside(exchanges: Sequence[RecordedAnswer], events: Sequence[RecordedEvent]) -> RunTranscript:
    """Collect the questions that no run reports."""
    numbers = {entry.exchange.number for entry in events if entry.exchange is not None}
    contents = {_content(entry.event.response) for entry in events if isinstance(entry.event, ResponseReceived)}
    summaries = {entry.event.text for entry in events if isinstance(entry.event, Summarised)}
    failures = {entry.event.error for entry in events if isinstance(entry.event, RequestFailed)}
    calls = {entry.event.call.id for entry in events if isinstance(entry.event, ToolCallFinished)}
    outside_runs = RunTranscript("")
    for exchange in exchanges:
        match exchange.answer:
            case _ if exchange.number in numbers:
                continue
            case Response() as response if response.text not in summaries and _content(response) not in contents:
                outside_runs.add(_step(outside_runs, exchange.at, ResponseReceived(response), exchange))
            case ModelError() as error if str(error) not in failures:
                failed = RequestFailed(str(error), type(error).__name__)
                outside_runs.add(_step(outside_runs, exchange.at, failed, exchange))
            case ToolResult() as result if (
                isinstance(exchange.question, ToolCall) and exchange.question.id not in calls
            ):
                call = CallTranscript(
                    exchange.question, exchange.at - exchange.seconds, result=result, ended=exchange.at
                )
                outside_runs.steps.append(call)
    outside_runs.began = min((step.began for step in outside_runs.steps), default=0.0)
    outside_runs.ended = max((_end(step) for step in outside_runs.steps), default=0.0)
    return outside_runs


Money = Callable[[Usage], str]
"""Renders a usage as money; callers without prices pass None."""
OUTSIDE, STARTED_ELSEWHERE, GIVEN = "Asked outside of a run", "Begun elsewhere", "Earlier conversation"

_MAX_LEVELS = 12
"""Values nested deeper are rendered on one line: indented, every line would start with many blanks."""


def day_text(at: float) -> str:
    """Format a time as date and time in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def usage_of(runs: Iterable[RunTranscript]) -> Usage:
    """The total usage of the runs."""
    return reduce(add, (run.usage for run in runs), Usage())


def outer(runs: Iterable[RunTranscript]) -> list[RunTranscript]:
    """The runs not started by a tool call: the usage of nested runs is included in the results of those calls."""
    return [run for run in runs if not run.inside]


def figures(runs: Sequence[RunTranscript], spenders: Sequence[RunTranscript], money: Money | None = None) -> list[str]:
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


def title(run: RunTranscript) -> str:
    """The heading of a run."""
    if not run.agent:
        is_given = any(isinstance(step.event, HistoryGiven) for step in run.other_steps)
        return GIVEN if is_given else STARTED_ELSEWHERE if run.id else OUTSIDE
    return f"{run.agent}, within a tool call" if run.inside else run.agent


def answers_text(call: CallTranscript) -> str:
    """Render the question to a person about a call and the answers; empty if no person was asked."""
    if not call.answers:
        return f"waits for a person: {call.question}" if call.question else ""
    answers = []
    for answer in call.answers:
        text, inner = answer.answer + (f" ({answer.text})" if answer.text else ""), call.inner.get(answer.call_id)
        answers.append(text if inner is None else f"{text} to {call_text(inner)}")
    answered = f"a person answered: {', '.join(answers)}"
    if call.waited is not None:
        answered += f", after {seconds_text(call.waited[1])}"
    changed = next((answer.arguments for answer in call.answers if answer.arguments is not None), None)
    return answered if changed is None else f"{answered}, with other arguments: {changed}"


_MAX_LINES = 12
_MAX_LINE_CHARS = 160
_WIDTH = 88
_MARKS = {Verdict.ALLOW: "✓", Verdict.ASK: "?", Verdict.DENY: "✗"}


def session_text(name: str, entries: Iterable[SessionEntry]) -> str:
    """Render a session as text, with secrets redacted and terminal control characters removed."""
    return escape_invisible(
        redact_stored(show_text(f"Session {name}".rstrip(), transcripts_of(without_secrets(entries))))
    )


def without_secrets(entries: Iterable[SessionEntry]) -> list[SessionEntry]:
    """The entries of a session, redacted as in an export."""
    redactor = stored_text_redactor()
    return [decode_entry(redact_data(encode_entry(entry), redactor)) for entry in entries]


def show_text(heading: str, runs: Sequence[RunTranscript], money: Money | None = None) -> str:
    """Render runs as text below a heading with totals; `money` renders their cost."""
    sums = ", ".join([count_text(sum(bool(run.id) for run in runs), "run"), *figures(runs, outer(runs), money)])
    return "\n".join([heading, sums, *(line for run in runs for line in _run_lines(run, money))])


def _run_lines(run: RunTranscript, money: Money | None) -> Iterator[str]:
    """Render a run: prompt, requests, calls with decision and time, answer, changes."""
    yield ""
    yield f"── {_name(title(run))}, {day_text(run.began)} ".ljust(_WIDTH, "─")
    if run.prompt is not None:
        yield from _block("> ", content_text(run.prompt, "\n"))
    for step in run.steps:
        yield ""
        yield from _call(run, step) if isinstance(step, CallTranscript) else _step_lines(run, step)
    if run.end is not None and run.end.error:
        yield ""
        yield from _block("  ! ", run.end.error)
    if run.end is not None and run.end.changes:
        yield ""
        yield "  Changes"
        yield from (f"    {escape_invisible(line)}" for line in split_lines(run.end.changes))
    yield from _foot(run, figures([run], [run], money))


def _foot(run: RunTranscript, sums: Sequence[str]) -> Iterator[str]:
    """Render how a run ended, and its usage. An unfinished run is shown with its id, needed to resume it."""
    if run.agent or sums:
        run_name = f" ({_name(run.id)})" if run.agent and run.status != "done" else ""
        summary = f"{run.status or 'asked'}{run_name} in {seconds_text(run.ended - run.began)}"
        yield ""
        yield f"  {': '.join(filter(None, [summary, ', '.join(sums)]))}"


def _step_lines(run: RunTranscript, step: TranscriptStep) -> Iterator[str]:
    offset = _offset(run, step.began)
    if not isinstance(step.event, ResponseReceived):
        description = step.event.describe()
        if not isinstance(step.event, HistoryGiven):
            yield f"{offset}{_name(description.title)}"
        yield from _block("          ", description.text)
        return
    response = step.event.response
    tokens = tokens_text(response.usage)
    yield f"{offset}{_name(response.model) or 'the model'}  {seconds_text(step.seconds)}  {tokens}"
    if not run.agent:
        yield from (line for message in step.new for line in _block("        > ", _message(message)))
    yield from _block("          ", response.text)
    for call in response.tool_calls:
        if run.agent and call.id not in run.calls:
            yield from _block("          requests: ", call_text(call))


def _message(message: Message) -> str:
    return content_text(message.content, "\n") if hasattr(message, "content") else str(message.text)


def _call(run: RunTranscript, call: CallTranscript) -> Iterator[str]:
    yield f"{_offset(run, call.began)}{_name(call.call.name)}  {seconds_text(call.seconds)}"
    named = plan_text(call.call) or parse_arguments(call.call.arguments)
    for name, value in named.items() if isinstance(named, dict) else [("", named)]:
        yield from _truncated_block(f"          {_name(name)}: " if name else "          ", readable(value))
    decision = call.judgment
    if decision is not None:
        yield from _block(
            f"        {_MARKS[decision.verdict]} ", f"{decision.verdict}: {decision.reason} (rule: {decision.rule})"
        )
    if answer := answers_text(call):
        yield from _block("        ? ", answer)
    if call.result is not None:
        yield from _result(call.result)


def _result(result: ToolResult) -> Iterator[str]:
    if result.error is not None:
        yield from _truncated_block("        ✗ ", result.error)
        return
    content = content_of(result.content)
    for place, (name, value) in enumerate(content.items() if isinstance(content, dict) else [("", content)]):
        mark = " " if place else "→"
        yield from _truncated_block(f"        {mark} {_name(name)}: " if name else f"        {mark} ", readable(value))


def _offset(run: RunTranscript, at: float) -> str:
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


def search_sessions(store: SessionStore, query: str, limit: int = 50) -> Iterator[SessionMatch]:
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
            limit -= 1
            if not limit:
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
