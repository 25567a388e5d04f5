"""Titles of sessions and full-text search in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentkit._dataclass import dataclass
from agentkit.event_rendering import content_text, cut
from agentkit.events import HistoryGiven, ResponseReceived, RunStarted, ToolCallFinished
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.sessions.store import SessionEntry, SessionStore

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
    title = cut(" ".join(prompt.split()), _MAX_TITLE_CHARS) or name
    return f"{title} ({found[1]})" if found[1] else title


def search_sessions(store: SessionStore, query: str, most: int = 50) -> Iterator[SessionMatch]:
    """Yield the sessions whose prompts, answers and tool calls contain all words of the query, the newest first."""
    words = query.casefold().split()
    for summary in store.summaries() if words else ():
        entries, _ = store.read(summary.name)
        text = "\n".join([summary.name, *(text for entry in entries for text in _texts(entry))])
        lower = text.casefold()
        if all(word in lower for word in words):
            yield SessionMatch(summary.name, title_of(summary.name, entries), _snippet(text, words[0]), summary.changed)
            most -= 1
            if not most:
                return


def _snippet(text: str, word: str) -> str:
    at = text.casefold().find(word)
    start, end = max(0, at - _AROUND_CHARS), at + len(word) + _AROUND_CHARS
    return " ".join(f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}".split())


def _prompts(entry: SessionEntry) -> Iterator[str]:
    match entry.milestone:
        case RunStarted(prompt=prompt):
            yield content_text(prompt)
        case HistoryGiven(messages):
            yield from (content_text(each.content) for each in messages if isinstance(each, UserMessage))


def _texts(entry: SessionEntry) -> Iterator[str]:
    yield from _prompts(entry)
    match entry.milestone:
        case ResponseReceived(response):
            yield response.text
        case ToolCallFinished(call, result):
            yield f"{call.name} {call.arguments}"
            yield result.error or result.content
        case HistoryGiven(messages):
            yield from (each.text for each in messages if isinstance(each, AssistantMessage))
