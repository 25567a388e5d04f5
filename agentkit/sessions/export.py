"""Copying, exporting and importing of sessions."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from agentkit.atomic_write import usable
from agentkit.errors import SessionError
from agentkit.event_rendering import count_text
from agentkit.events import (
    Approved,
    HistoryGiven,
    Milestone,
    ResponseReceived,
    RunEnded,
)
from agentkit.messages import Message, ToolMessage
from agentkit.redaction import redact, redact_data, written_redactor
from agentkit.sessions.codec import Data, decode_entry, decode_message, encode_entry, encode_part, from_line, to_line
from agentkit.sessions.conversation import fault_in, with_distinct_calls
from agentkit.sessions.run_state import RunState
from agentkit.sessions.store import SessionEntry

FORMAT = 1
_MOST_RESULT_CHARS = 1_000
_MOST_OLD_NAME_CHARS = 150
_MOST_READ_CHARS, _MOST_WORDS, _MOST_WORD_CHARS = 1_000, 4, 20


def new_name(prompt: str) -> str:
    """A name that a person recognises: the first words of the prompt, and four characters that make it unique."""
    words = re.findall(r"[^\W_]+", redact(prompt[:_MOST_READ_CHARS]).lower())[:_MOST_WORDS]
    return "-".join([*(word[:_MOST_WORD_CHARS] for word in words), secrets.token_hex(2)])


def old_name(name: str) -> str:
    """What a session is called once it has begun anew: its name, cut if need be, and the time."""
    return f"{name[:_MOST_OLD_NAME_CHARS]}, until {datetime.now(UTC).strftime('%Y-%m-%d %H:%M:%S.%f')}"


def entries_of(messages: Sequence[Message]) -> list[SessionEntry]:
    """Entries that make a conversation begin with messages that were said elsewhere, none for none."""
    if not messages:
        return []
    run, now = uuid.uuid4().hex, time.time()
    return [SessionEntry(run, now, HistoryGiven(tuple(messages))), SessionEntry(run, now, RunEnded("done"))]


def given(messages: Sequence[Message]) -> list[Message]:
    """Messages that were said elsewhere, as a store gives them back, each tool call with an id of its own.

    Raises SessionError for what is no message, and when a call has not exactly one result right behind it.
    """
    if not isinstance(messages, Sequence):
        raise SessionError(f"A session takes a list of messages. Got {messages!r:.200}.")
    kept = with_distinct_calls([_as_kept(index, message) for index, message in enumerate(messages)])
    fault = fault_in(kept)
    if fault is not None:
        raise SessionError(f"These messages are no conversation, and nothing of them was entered. {fault}")
    return kept


def _as_kept(index: int, message: Message) -> Message:
    """The message as a store gives it back. Raises SessionError for what is none."""
    error = ""
    if isinstance(message, Message):
        try:
            return decode_message(encode_part(message))
        except SessionError as fault:
            error = f" {fault}"
    raise SessionError(
        f"messages[{index}] is no message that can be kept: {message!r:.200}. Use UserMessage, AssistantMessage and"
        f" ToolMessage of agentkit.messages.{error}"
    )


def first(messages: Sequence[Message], count: int | None) -> Sequence[Message]:
    """The first `count` messages, None for all. Raises SessionError when a call would be parted from its result."""
    if count is not None and type(count) is not int:
        raise SessionError(f"A session is forked at a number of messages, or whole with None. Got {count!r:.100}.")
    places = [place for place, message in enumerate(messages) if not isinstance(message, ToolMessage)]
    places.append(len(messages))
    if count is None or count in places:
        return messages[:count]
    if not 0 <= count <= len(messages):
        raise SessionError(
            f"The session has {count_text(len(messages), 'message')}, so it cannot be forked at {count}."
            f" Fork at a number from 0 to {len(messages)}."
        )
    before = max(place for place in places if place < count)
    behind = min(place for place in places if place > count)
    raise SessionError(
        f"Between message {count} and the next, a tool call would be parted from its result."
        f" Fork at {before} or at {behind}."
    )


def write_export(file: str | PathLike[str], name: str, entries: Sequence[SessionEntry]) -> None:
    """Write a line that says what follows, and then a line for each entry, to a new file for the owner only.

    What is or looks like a secret is left out. Raises SessionError when there is such a file, or it cannot be written.
    """
    path = Path(file)
    header = to_line({"session": FORMAT, "name": name, "entries": len(entries)})
    clean = written_redactor()
    lines = [header, *(to_line(redact_data(encode_entry(entry), clean)) for entry in entries)]
    try:
        descriptor = os.open(usable(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise SessionError(f"There is a file {str(path)!r} already; choose another name.") from None
    except OSError as error:
        raise SessionError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(f"{line}\n".encode() for line in lines)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise SessionError(f"{str(path)!r} could not be written to its end: {error.strerror}.") from None


def read_export(file: str | PathLike[str]) -> tuple[str, list[SessionEntry]]:
    """The session's name and its entries. Raises SessionError when the file is not a whole export.

    That calls which have not happened were approved counts for nothing: who wrote the file need not be who is asked.
    """
    path = Path(file)
    try:
        lines = usable(path).read_bytes().removesuffix(b"\n").split(b"\n")
    except OSError as error:
        raise SessionError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    header = _header(path, lines)
    entries = []
    for number, line in enumerate(lines[1:], 2):
        try:
            entries.append(decode_entry(from_line(line)))
        except SessionError as error:
            raise SessionError(f"Line {number} of {str(path)!r} is not as it was written. {error}") from None
    if not entries or len(entries) != header.get("entries", len(entries)):
        raise SessionError(f"{str(path)!r} is cut off: it holds {len(entries)} entries of {header.get('entries')}.")
    unmade: set[int] = set()
    for run, some in _by_run(entries).items():
        milestones = [entry.milestone for entry in some]
        progress = RunState.of(milestones)
        fault = fault_in(progress.valid_messages())
        if fault is not None:
            raise SessionError(f"{str(path)!r} was changed: its run {run!r} is no conversation. {fault}")
        unmade.update(map(id, unmade_approvals(milestones, progress)))
    return header["name"], [entry for entry in entries if id(entry.milestone) not in unmade]


def unmade_approvals(milestones: Sequence[Milestone], progress: RunState) -> Iterator[Approved]:
    """What of a run approves calls of its newest response which have no result, or calls that these make."""
    unmade = [step for step in progress.steps.values() if step.result is None]
    waiting = {call.id for step in unmade for call in (step.call, step.asked)}
    for milestone in reversed(milestones):
        if isinstance(milestone, ResponseReceived):
            return
        if isinstance(milestone, Approved) and milestone.call_id in waiting:
            yield milestone


def _by_run(entries: Sequence[SessionEntry]) -> dict[str, list[SessionEntry]]:
    runs: dict[str, list[SessionEntry]] = {}
    for entry in entries:
        runs.setdefault(entry.run, []).append(entry)
    return runs


def _header(path: Path, lines: Sequence[bytes]) -> Data:
    try:
        header = from_line(lines[0])
    except SessionError:
        header = {}
    version = header.get("session")
    if type(version) is not int or not isinstance(header.get("name"), str):
        raise SessionError(f"{str(path)!r} is not an exported session. Give a file that Session.export wrote.")
    if version > FORMAT:
        raise SessionError(
            f"{str(path)!r} was written by a newer version of agentkit: it has format {version}, and this version"
            f" reads up to {FORMAT}. Update agentkit."
        )
    return header
