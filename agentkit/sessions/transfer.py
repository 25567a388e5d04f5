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

from agentkit.atomic_write import validate_path
from agentkit.errors import SessionError
from agentkit.event_rendering import count_text
from agentkit.events import Approved, HistoryGiven, ResponseReceived, RunEnded, StoredEvent
from agentkit.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentkit.portable_files import CLOEXEC
from agentkit.redaction import redact, redact_data, stored_text_redactor
from agentkit.sessions.codec import Data, decode_entry, decode_message, encode_entry, encode_part, from_line, to_line
from agentkit.sessions.state import RunState, history_problem, with_distinct_calls
from agentkit.sessions.store import SessionEntry

FORMAT = 1
_MAX_OLD_NAME_CHARS = 150
_MAX_READ_CHARS, _MAX_WORDS, _MAX_WORD_CHARS = 1_000, 4, 20


def new_name(prompt: str) -> str:
    """Generate a recognisable session name: the first words of the prompt and four random characters."""
    words = re.findall(r"[^\W_]+", redact(prompt[:_MAX_READ_CHARS]).lower())[:_MAX_WORDS]
    return "-".join([*(word[:_MAX_WORD_CHARS] for word in words), secrets.token_hex(2)])


def old_name(name: str, until: str = "until") -> str:
    """The name of a session after a reset, or of a branch `before` a repeated prompt: its name and the time."""
    now = datetime.now(UTC) if until == "until" else datetime.now(UTC).astimezone()
    return f"{name[:_MAX_OLD_NAME_CHARS]}, {until} {now:%Y-%m-%d %H:%M:%S.%f}"


def history_entries(messages: Sequence[Message]) -> list[SessionEntry]:
    """Build the entries of a conversation that starts with messages from elsewhere; empty without messages."""
    if not messages:
        return []
    run, now = uuid.uuid4().hex, time.time()
    return [SessionEntry(run, now, HistoryGiven(tuple(messages))), SessionEntry(run, now, RunEnded("done"))]


def validate_messages(messages: Sequence[Message]) -> list[Message]:
    """Validate messages from elsewhere and return them as a store would, with unique tool call ids.

    Raises SessionError if an item is not a message, or if a call is not directly followed by exactly one result.
    """
    if not isinstance(messages, Sequence):
        raise SessionError(f"A session takes a list of messages. Got {messages!r:.200}.")
    stored = with_distinct_calls([_round_trip(index, message) for index, message in enumerate(messages)])
    problem = history_problem(stored)
    if problem is not None:
        raise SessionError(f"These messages are not a valid conversation; none was added. {problem}")
    return stored


def _round_trip(index: int, message: Message) -> Message:
    """Return the message as a store would. Raises SessionError if it cannot be stored."""
    if _is_plain(message):
        return message
    error = ""
    if isinstance(message, Message):
        try:
            return decode_message(encode_part(message))
        except SessionError as fault:
            error = f" {fault}"
    raise SessionError(
        f"messages[{index}] cannot be stored: {message!r:.200}. Use UserMessage, AssistantMessage and"
        f" ToolMessage of agentkit.messages.{error}"
    )


def _is_plain(message: object) -> bool:
    """Whether a message consists of texts alone, so that a store returns it unchanged."""
    if type(message) is UserMessage:
        return type(message.content) is str and type(message.by_person) is bool
    if type(message) is AssistantMessage:
        is_text = type(message.text) is type(message.reasoning) is type(message.origin) is str
        rest = (message.tool_calls, message.extra, message.labels)
        return is_text and rest == ((), {}, frozenset()) and type(message.labels) is frozenset
    return False


def first_messages(messages: Sequence[Message], count: int | None) -> Sequence[Message]:
    """The first `count` messages, or all. Raises SessionError if that would separate a call from its result."""
    if count is not None and type(count) is not int:
        raise SessionError(f"A fork takes a number of messages, or None for all. Got {count!r:.100}.")
    indexes = [index for index, message in enumerate(messages) if not isinstance(message, ToolMessage)]
    indexes.append(len(messages))
    if count is None or count in indexes:
        return messages[:count]
    if not 0 <= count <= len(messages):
        raise SessionError(
            f"The session has {count_text(len(messages), 'message')}, so it cannot be forked at {count}."
            f" Fork at a number from 0 to {len(messages)}."
        )
    before = max(index for index in indexes if index < count)
    after = min(index for index in indexes if index > count)
    raise SessionError(
        f"Between message {count} and the next, a tool call would be separated from its result. Fork at {before} or "
        f"{after}."
    )


def write_export(file: str | PathLike[str], name: str, entries: Sequence[SessionEntry]) -> None:
    """Write a header line and one line for each entry to a new file that only its owner can read.

    Secrets and texts that look like one are redacted. Raises SessionError if the file exists or cannot be written.
    """
    path = Path(file)
    header = to_line({"session": FORMAT, "name": name, "entries": len(entries)})
    clean = stored_text_redactor()
    lines = [header, *(to_line(redact_data(encode_entry(entry), clean)) for entry in entries)]
    try:
        descriptor = os.open(validate_path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600)
    except FileExistsError:
        raise SessionError(f"The file {str(path)!r} already exists. Choose another name.") from None
    except OSError as error:
        raise SessionError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(f"{line}\n".encode() for line in lines)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise SessionError(f"{str(path)!r} could not be written completely: {error.strerror}.") from None


def read_export(file: str | PathLike[str]) -> tuple[str, list[SessionEntry]]:
    """Read the session's name and entries. Raises SessionError if the file is not a complete export.

    Approvals of calls that were not executed are dropped: the author of the file need not be the person whose approval
    is required.
    """
    path = Path(file)
    try:
        lines = validate_path(path).read_bytes().removesuffix(b"\n").split(b"\n")
    except OSError as error:
        raise SessionError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    header = _header(path, lines)
    entries = []
    for number, line in enumerate(lines[1:], 2):
        try:
            entries.append(decode_entry(from_line(line)))
        except SessionError as error:
            raise SessionError(f"Line {number} of {str(path)!r} is damaged. {error}") from None
    if not entries or len(entries) != header.get("entries", len(entries)):
        raise SessionError(f"{str(path)!r} is truncated: it has {len(entries)} entries of {header.get('entries')}.")
    unexecuted: set[int] = set()
    runs: dict[str, list[StoredEvent]] = {}
    for entry in entries:
        runs.setdefault(entry.run, []).append(entry.event)
    for run, events in runs.items():
        progress = RunState.of(events)
        problem = history_problem(progress.valid_messages())
        if problem is not None:
            raise SessionError(f"{str(path)!r} was changed: its run {run!r} is not a valid conversation. {problem}")
        unexecuted.update(map(id, unexecuted_approvals(events, progress)))
    return header["name"], [entry for entry in entries if id(entry.event) not in unexecuted]


def unexecuted_approvals(events: Sequence[StoredEvent], progress: RunState) -> Iterator[Approved]:
    """Yield the approvals since the newest response of calls without a result, or of calls nested in these."""
    unexecuted = [step for step in progress.steps.values() if step.result is None]
    waiting = {call.id for step in unexecuted for call in (step.call, step.pending_call)}
    for event in reversed(events):
        if isinstance(event, ResponseReceived):
            return
        if isinstance(event, Approved) and event.call_id in waiting:
            yield event


def _header(path: Path, lines: Sequence[bytes]) -> Data:
    try:
        header = from_line(lines[0])
    except SessionError:
        header = {}
    version = header.get("session")
    if type(version) is not int or not isinstance(header.get("name"), str):
        raise SessionError(f"{str(path)!r} is not an exported session. Use a file written by Session.export.")
    if version > FORMAT:
        raise SessionError(
            f"{str(path)!r} was written by a newer version of agentkit: it has format {version}, and this version"
            f" reads up to {FORMAT}. Update agentkit."
        )
    return header
