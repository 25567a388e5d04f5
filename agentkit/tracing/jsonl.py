"""JSON lines output of run events."""

from __future__ import annotations

import json
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentkit.errors import ConfigError
from agentkit.events import Event, RequestFailed, ResponseReceived
from agentkit.portable_files import CLOEXEC, NOCTTY, NOFOLLOW, NONBLOCK, is_own, lock, set_mode
from agentkit.redaction import redact_data, stored_text_redactor
from agentkit.tracing.listeners import FailureGuard, Origin, is_logged, origin

Data = dict[str, Any]

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def serialise_event(event: Event, source: Origin, *, content: bool) -> bytes:
    """Serialise an event to a line of JSON without secrets. Without `content`, texts are replaced by their length."""
    description = event.describe()
    data: Data = {"agent": source.agent, "iteration": source.iteration, **description.fields}
    if source.session:
        data["session"] = source.session
    if content:
        data |= {name: text for name, text in description.content.items() if text}
    clean = stored_text_redactor()
    if not content:  # one check of all texts together takes a fifth of the time of one for each
        texts = "\n".join([text for text in data.values() if isinstance(text, str)])
        data = data if clean(texts) == texts else redact_data(data, clean)
    else:
        data = redact_data(data, clean)
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    head = {"time": now, "event": type(event).__name__, "run": source.run, "parent": source.parent}
    data = {**{name: text for name, text in head.items() if text}, **data}
    if source.is_elsewhere:
        data["is_elsewhere"] = True
    if source.request_seconds is not None and isinstance(event, ResponseReceived | RequestFailed):
        data["seconds"] = round(source.request_seconds, 6)
    line = _ENCODER.encode(data)
    # A lone surrogate, which cannot be encoded, becomes a JSON escape, so that the line is not lost.
    return f"{line}\n".encode("utf-8", "backslashreplace")


_LOCK_SECONDS = 1.0
"""Seconds that a write waits for the file lock."""


class JSONLines:
    """A listener that logs runs to a file: `Agent(..., listeners=[JSONLines("trace.jsonl")])`.

    One instance can listen to any number of agents, and any number of processes can write to one file without tearing
    lines. The file is private to its owner and is opened for each line, so it can be moved away at any time. Detected
    secrets are redacted. It never raises into a run: a line that cannot be written is lost, with a single warning in
    the log `agentkit.tracing`.

    Args:
        path: The file, created if it does not exist.
        content: Whether to log prompts, answers, arguments and results, too, rather than their lengths.

    Raises:
        ConfigError: The file cannot be written, is not a regular file, or belongs to another user.
    """

    def __init__(self, path: str | os.PathLike[str], *, content: bool = False) -> None:
        self.path = Path(path)
        self._content = content
        self._guard = FailureGuard(
            f"Cannot write the trace to {self.path}", "Check the free disk space and the permissions of the folder."
        )
        try:
            os.close(_opened(self.path))
        except OSError as error:
            raise ConfigError(
                f"Cannot write the trace to {self.path}: {error.strerror or error}. "
                "Use a regular file that you own, in an existing folder."
            ) from None

    def __call__(self, event: Event) -> None:
        """Log an event."""
        if is_logged(event):
            self._guard.call(self._write, event, origin())

    def _write(self, event: Event, source: Origin) -> None:
        append(self.path, serialise_event(event, source, content=self._content))


def append(path: Path, line: bytes) -> None:
    """Append a line completely or not at all. Raises OSError."""
    descriptor = _opened(path)
    try:
        _wait_for_lock(descriptor)
        written = os.write(descriptor, line)
        if written < len(line):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise OSError(f"only {written} of {len(line)} bytes were written")
    finally:
        os.close(descriptor)  # also releases the lock


def _opened(path: Path) -> int:
    """Open the file for appending. Raises OSError for links, special files, and files of other users."""
    careful = CLOEXEC | NOFOLLOW | NONBLOCK | NOCTTY
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | careful, 0o600)
    try:
        found = os.fstat(descriptor)
        _check_file(found)
        if found.st_mode & 0o077:
            set_mode(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_file(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("not a regular file")
    if not is_own(found):
        raise OSError("the file belongs to another user, who could read and change the trace")


def _wait_for_lock(descriptor: int) -> None:
    """Take the advisory lock of the file. Raises OSError after a timeout."""
    ends = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return lock(descriptor)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.001)
