"""How are the parts of a story said in words? For text, Markdown and page alike (pure)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any

from agentkit import wording
from agentkit.events import Approved, HistoryGiven, Milestone
from agentkit.lines import split_lines
from agentkit.memory.narration.story import CallStory, RunStory
from agentkit.messages import AssistantMessage, Message, SystemMessage, UserMessage
from agentkit.usage import Usage
from agentkit.wording import content_text, count_text, is_shallow, json_value, seconds_text, tokens_text

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
    return said if inner is None else f"{said} to {wording.call_text(inner)}"


def milestone_words(milestone: Milestone) -> tuple[str, str]:
    """What happened on the course of a run, and all the words that belong to it, what was said before among them."""
    what, words = wording.milestone_words(milestone)
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
