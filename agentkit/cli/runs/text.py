"""How is a run that is over shown at a terminal? (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentkit.cli.display import arguments_of, clean
from agentkit.cli.runs.story import CallStory, Moment, RunStory
from agentkit.cli.runs.words import (
    answers_text,
    content_of,
    cost,
    kind_of,
    outer,
    readable,
    title,
    usage_of,
)
from agentkit.events import ResponseReceived
from agentkit.memory.archive import milestone_words
from agentkit.messages import ToolResult
from agentkit.usage import shown_cost
from agentkit.wording import content_text, count_text, cut, seconds_text, tokens_text

_MOST_LINES = 12
_MOST_LINE_CHARS = 160
_WIDTH = 88


def show_text(header: Mapping[str, Any], runs: Sequence[RunStory]) -> str:
    """A cassette or an exported session as text, without anything that could trick a terminal."""
    return clean("\n".join([*_head(header, runs), *(line for run in runs for line in run_lines(run))]))


def run_lines(run: RunStory) -> Iterator[str]:
    """A run as lines: prompt, requests, calls with decision and time, answer, changes."""
    yield ""
    yield f"── {title(run)} ".ljust(_WIDTH, "─")
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
        yield from (f"    {line}" for line in run.end.changes.splitlines())
    yield ""
    yield f"  {run.status or 'asked'} in {seconds_text(run.ended - run.began)}: {_sums([run], [run])}"


def _head(header: Mapping[str, Any], runs: Sequence[RunStory]) -> Iterator[str]:
    recorded = f", recorded {header['recorded']}" if "recorded" in header else ""
    by = f" with agentkit {header['agentkit']}" if "agentkit" in header else ""
    yield f"{kind_of(header)}{recorded}{by}"
    yield f"{count_text(sum(bool(run.agent) for run in runs), 'run')}, {_sums(runs, outer(runs))}"


def _sums(runs: Sequence[RunStory], spenders: Sequence[RunStory]) -> str:
    """What the runs have asked and done, and what the `spenders` among them have spent."""
    requests = sum(len(run.responses) for run in runs)
    calls = sum(len(run.tool_calls) for run in runs)
    parts = [count_text(requests, "request"), count_text(calls, "tool call")]
    if requests:
        parts += [tokens_text(usage_of(spenders)), f"cost {shown_cost(cost(spenders))}"]
    return ", ".join(parts)


def _moment(run: RunStory, moment: Moment) -> Iterator[str]:
    offset = _offset(run, moment.began)
    if not isinstance(moment.milestone, ResponseReceived):
        what, words = milestone_words(moment.milestone)
        yield f"{offset}{what}"
        yield from _block("          ", words)
        return
    response = moment.milestone.response
    tokens = tokens_text(response.usage)
    yield f"{offset}{response.model or 'the model'}  {seconds_text(moment.seconds)}  {tokens}"
    if not run.agent:
        yield from (line for message in moment.new for line in _block("        > ", _message(message)))
    yield from _block("          ", response.text)


def _message(message: Any) -> str:
    return content_text(message.content, "\n") if hasattr(message, "content") else str(message.text)


def _call(run: RunStory, story: CallStory) -> Iterator[str]:
    yield f"{_offset(run, story.began)}{story.call.name}  {seconds_text(story.seconds)}"
    named = arguments_of(story.call.arguments)
    for name, value in named.items() if isinstance(named, dict) else [("", named)]:
        yield from _block(f"          {name}: " if name else "          ", readable(value))
    decision = story.judgment
    if decision is not None:
        yield from _block("        ? ", f"{decision.verdict}: {decision.reason} (rule: {decision.rule})")
    if person := answers_text(story):
        yield from _block("        ? ", person)
    if story.result is not None:
        yield from _result(story.result)


def _result(result: ToolResult) -> Iterator[str]:
    if result.error is not None:
        yield from _block("        ✗ ", result.error)
        return
    content = content_of(result.content)
    for place, (name, value) in enumerate(content.items() if isinstance(content, dict) else [("", content)]):
        mark = " " if place else "→"
        yield from _block(f"        {mark} {name}: " if name else f"        {mark} ", readable(value))


def _offset(run: RunStory, at: float) -> str:
    return f"{seconds_text(max(0.0, at - run.began)):>8}  "


def _block(prefix: str, text: str) -> Iterator[str]:
    """A text behind a prefix, its further lines below it, cut when there are too many."""
    lines = text.splitlines()
    for number, line in enumerate(lines[:_MOST_LINES]):
        start = prefix if not number else " " * len(prefix)
        yield start + cut(line, _MOST_LINE_CHARS)
    if len(lines) > _MOST_LINES:
        yield f"{' ' * len(prefix)}… {count_text(len(lines) - _MOST_LINES, 'more line')}"
