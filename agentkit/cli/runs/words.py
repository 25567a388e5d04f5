"""How are times, figures and texts said in words? For the terminal and the page alike (pure)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from agentkit.cli.display import is_shallow, json_value
from agentkit.cli.runs.story import CallStory, RunStory
from agentkit.usage import Usage
from agentkit.wording import count_text, seconds_text

if TYPE_CHECKING:
    from agentkit.memory.store import SessionSummary
    from agentkit.usage import Cost

OUTSIDE = "Asked outside of a run"

_MOST_LEVELS = 12
"""Values that nest deeper are shown on one line: indented, each of their lines would begin with a line of blanks."""


def day_text(at: float) -> str:
    """A moment as day and time, in this machine's time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def summary_line(summary: SessionSummary, width: int) -> str:
    """A session that is kept: its name in so many columns, when it was changed, and how many runs it has."""
    return f"{summary.name:<{width}}  {day_text(summary.changed)}  {count_text(summary.runs, 'run')}"


def usage_of(runs: Iterable[RunStory]) -> Usage:
    """What the runs have spent together."""
    return reduce(add, (run.usage for run in runs), Usage())


def outer(runs: Iterable[RunStory]) -> list[RunStory]:
    """The runs that no tool call has begun: what the others have spent is in the results of those calls."""
    return [run for run in runs if not run.inside]


def cost(runs: Iterable[RunStory]) -> Cost | None:
    """What the runs cost; None when nobody knows."""
    from agentkit.llm.prices import cost_of

    return cost_of(usage_of(runs))


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


def kind_of(header: Mapping[str, Any]) -> str:
    """What a file is, by its header."""
    return "Cassette" if "cassette" in header else "Session"


def title(run: RunStory) -> str:
    """What a run is called."""
    if not run.agent:
        return OUTSIDE
    return f"{run.agent}, within a tool call" if run.inside else run.agent


def answers_text(story: CallStory) -> str:
    """What a person was asked about a call and answered; empty when nobody was asked."""
    if not story.answers:
        return f"waits for a person: {story.question}" if story.question else ""
    answers = (f"{answer.answer} ({answer.text})" if answer.text else answer.answer for answer in story.answers)
    told = f"a person said: {', '.join(answers)}"
    if story.waited is not None:
        told += f", after {seconds_text(story.waited[1])}"
    changed = next((answer.arguments for answer in story.answers if answer.arguments is not None), None)
    return told if changed is None else f"{told}, with other arguments: {changed}"
