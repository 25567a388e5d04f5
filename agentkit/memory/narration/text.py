"""How is a run that is over told as text? (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agentkit.decisions import Verdict
from agentkit.events import HistoryGiven, ResponseReceived
from agentkit.lines import split_lines
from agentkit.memory.codec import decode_entry, encode_entry
from agentkit.memory.narration.story import CallStory, Moment, RunStory, stories_of
from agentkit.memory.narration.words import (
    Money,
    answers_text,
    content_of,
    day_text,
    figures,
    milestone_words,
    outer,
    readable,
    title,
)
from agentkit.memory.store import Entry
from agentkit.messages import Message, ToolResult
from agentkit.redaction import redact_data, written_redactor
from agentkit.wording import (
    arguments_in,
    call_text,
    content_text,
    count_text,
    cut,
    hidden,
    seconds_text,
    tokens_text,
    visible,
)

_MOST_LINES = 12
_MOST_LINE_CHARS = 160
_WIDTH = 88
_MARKS = {Verdict.ALLOW: "✓", Verdict.ASK: "?", Verdict.DENY: "✗"}


def session_text(name: str, entries: Iterable[Entry]) -> str:
    """A session as text: what its export would tell, without what looks like a secret or tricks a terminal."""
    return visible(hidden(show_text(f"Session {name}".rstrip(), stories_of(without_secrets(entries)))))


def without_secrets(entries: Iterable[Entry]) -> list[Entry]:
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
        yield from _call(run, step) if isinstance(step, CallStory) else _moment(run, step)
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


def _moment(run: RunStory, moment: Moment) -> Iterator[str]:
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
