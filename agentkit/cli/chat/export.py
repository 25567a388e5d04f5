"""Export of a conversation as Markdown (pure)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentkit.cli.display import call_line, clean
from agentkit.errors import SessionError
from agentkit.event_rendering import content_text
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    HistoryGiven,
    LimitReached,
    Milestone,
    RequestFailed,
    ResponseReceived,
    RunResumed,
    ToolCallFinished,
)
from agentkit.lines import split_lines
from agentkit.messages import AssistantMessage, Message, UserMessage
from agentkit.portable_files import CLOEXEC
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.transcript import (
    CallStory,
    RunStory,
    answers_text,
    day_text,
    stories_of,
    without_secrets,
)

_JSON_LINES = (".jsonl", ".json")


def save(session: Session, path: Path) -> None:
    """Write a conversation to a new file for its owner only: JSON lines for `.jsonl` and `.json`, else Markdown.

    Raises SessionError if the file exists or cannot be written.
    """
    if path.suffix in _JSON_LINES:
        session.export(path)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(markdown_of(session.name, session.entries))
    except FileExistsError:
        raise SessionError(f"The file {str(path)!r} already exists. Choose another name.") from None
    except OSError as error:
        raise SessionError(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def markdown_of(name: str, entries: Iterable[SessionEntry]) -> str:
    """Render a conversation as Markdown: messages, tool calls, other milestones and changes.

    Secrets, and values that look like one, are left out, as in an export.
    """
    runs = stories_of(without_secrets(entries))
    parts = [f"# {name or 'Conversation'}", *(part for run in runs for part in _parts(run))]
    return clean("\n\n".join(parts)) + "\n"


def _parts(run: RunStory) -> Iterator[str]:
    """Yield the Markdown of a run: prompt, steps, error or interruption, changes."""
    if run.prompt is not None:
        yield from (_heading("You", day_text(run.began)), _quoted(content_text(run.prompt, "\n")))
    for step in run.steps:
        yield from _call(step) if isinstance(step, CallStory) else _done(step.milestone)
    if run.end is not None and (run.end.error or run.status == "interrupted"):
        yield from _remark(run.status, run.end.error)
    if run.end is not None and run.end.changes:
        yield _code("diff", run.end.changes)


def _call(story: CallStory) -> Iterator[str]:
    if story.result is not None:
        yield _code("", call_line(ToolCallFinished(story.call, story.result)))
    if person := answers_text(story):
        yield from _remark("", person)


def _done(milestone: Milestone) -> Iterator[str]:
    match milestone:
        case ResponseReceived(response):
            yield from _said(response.text)
        case AnswerGiven(text) | AnswerAmended(text):
            yield from _said(text)
        case HistoryGiven(messages):
            for message in messages:
                yield from _message(message)
        case RunResumed(prompt) if prompt:
            yield from (_heading("You"), _quoted(prompt))
        case RequestFailed() | LimitReached():
            pass  # the end of the run contains the same error
        case _:
            description = milestone.describe()
            yield from _remark(description.title, description.text)


def _message(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(content):
            yield from (_heading("You"), _quoted(content_text(content, "\n")))
        case AssistantMessage(text):
            yield from _said(text)


def _said(text: str) -> Iterator[str]:
    if text:
        yield _heading("agentkit")
        yield _quoted(text)


def _quoted(text: str) -> str:
    """Quote a text, so that no line of it can pass for a heading, a call or a person's answer."""
    return "\n".join(f"> {line}".rstrip() for line in split_lines(text))


def _remark(what: str, words: str) -> Iterator[str]:
    """Render a remark on one line, even if its words span several."""
    yield f"*{' '.join(': '.join(filter(None, [what, words])).split())}*"


def _heading(who: str, when: str = "") -> str:
    return f"## {who}{', ' if when else ''}{when}"


def _code(language: str, text: str) -> str:
    """A code block with a fence longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
