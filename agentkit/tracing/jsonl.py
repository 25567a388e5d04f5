"""JSON lines output of run events."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentkit.errors import ConfigError
from agentkit.event_rendering import content_text
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    AnswerRefused,
    Approved,
    Event,
    HistoryGiven,
    HostedCallFinished,
    LimitReached,
    Milestone,
    RequestFailed,
    ResponseReceived,
    RunLeft,
    RunResumed,
    RunStarted,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import ToolCall
from agentkit.redaction import redact_data, written_redactor
from agentkit.tracing.listeners import FailureGuard, Origin, RunOutcome, ToolUse, Work, ending_in, origin, text_of
from agentkit.usage import Usage

Data = dict[str, Any]


def is_told(event: Event) -> bool:
    """Whether an event is logged: milestones and the end of a run, not streamed chunks."""
    return isinstance(event, Milestone | RunLeft) or ending_in(event) is not None


def line_of(event: Event, source: Origin, seconds: float | None, *, content: bool) -> bytes:
    """Serialise an event to a line of JSON without secrets.

    `seconds` is the duration of a request. Without `content`, texts are replaced by their length.
    """
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    told = {"time": now, "event": type(event).__name__, **_place(source), **_body(event, seconds)}
    told |= {name: text for name, text in _words(event).items() if text} if content else {}
    line = json.dumps(_redacted(told, content=content), ensure_ascii=False, default=str)
    # A lone surrogate, which cannot be encoded, becomes a JSON escape, so that the line is not lost.
    return f"{line}\n".encode("utf-8", "backslashreplace")


def _redacted(told: Data, *, content: bool) -> Data:
    """Redact the data. Without content, one check of all texts together is usually enough.

    Checking each text separately takes five times as long.
    """
    clean = written_redactor()
    if not content:
        texts = "\n".join(str(value) for value in told.values())
        if clean(texts) == texts:
            return told
    hidden: Data = redact_data(told, clean)
    return hidden


def _place(source: Origin) -> Data:
    told = {"run": source.run, "parent": source.parent, "session": source.session, "agent": source.agent}
    told = {name: value for name, value in told.items() if value}
    return {**told, "iteration": source.iteration, **({"is_elsewhere": True} if source.is_elsewhere else {})}


def _body(event: Event, seconds: float | None) -> Data:
    """Return the fields that are always logged: names, numbers and decisions."""
    ending = ending_in(event)
    told = _BODIES[type(event)](event) if type(event) in _BODIES else {} if ending is None else _of_ending(ending)
    return told if seconds is None else {**told, "seconds": round(seconds, 6)}


def _words(event: Event) -> Data:
    """Return the fields that are logged only with `content`: all texts."""
    ending = ending_in(event)
    if ending is not None:
        return {"output": text_of(ending.value), "error": text_of(ending.error)}
    return _WORDS[type(event)](event) if type(event) in _WORDS else {}


def _of_call(call: ToolCall) -> Data:
    return {"tool": call.name, "call": call.id}


def _of_decision(event: ToolCallStarted) -> Data:
    judged = {"verdict": event.decision.verdict, "rule": event.decision.rule}
    return {**_of_call(event.call), **judged, "arguments_chars": len(event.call.arguments)}


def _why(event: ToolCallStarted) -> Data:
    """Return the arguments, and the reason and evidence of the decision, which can quote them."""
    decision = event.decision
    return {"arguments": event.call.arguments, "reason": decision.reason, "evidence": decision.evidence}


def _of_response(event: ResponseReceived) -> Data:
    response = event.response
    told = {"model": response.model, "finish_reason": response.finish_reason, **_of_usage(response.usage)}
    return {**told, "text_chars": len(response.text), "tool_calls": [call.name for call in response.tool_calls]}


def _of_result(event: ToolCallFinished) -> Data:
    result = event.result
    told = {
        **_of_call(event.call),
        "status": result.status,
        "seconds": round(result.seconds, 6),
        "result_chars": len(result.content),
    }
    return {**told, **_of_usage(result.usage)} if result.usage.requests else told


def _of_ending(ending: RunOutcome) -> Data:
    told: Data = {"status": ending.status, "requests": ending.usage.requests, **_of_usage(ending.usage)}
    told |= {"tool_calls": len(ending.tool_calls), "output_chars": len(text_of(ending.value))}
    told |= {"kind": type(ending.error).__name__} if ending.error is not None else {}
    return {**told, "dollars": ending.cost.dollars} if ending.cost is not None else told


def _of_usage(usage: Usage) -> Data:
    """Return token counts; empty if the server reported none."""
    if usage.unreported and not usage.total_tokens:
        return {}
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


_BODIES: Mapping[type[Event], Callable[[Any], Data]] = {
    RunStarted: lambda event: {"prompt_chars": len(content_text(event.prompt)), "history": event.history},
    HistoryGiven: lambda event: {"messages": len(event.messages)},
    ResponseReceived: _of_response,
    RequestFailed: lambda event: {"kind": event.kind, "error": event.error},
    Approved: lambda event: {"call": event.call_id, "answer": event.answer},
    ToolCallStarted: _of_decision,
    ToolCallFinished: _of_result,
    HostedCallFinished: _of_result,
    ToolCallPostponed: lambda event: _of_call(event.call),
    Summarised: lambda event: {"messages": event.messages, "text_chars": len(event.text), **_of_usage(event.usage)},
    LimitReached: lambda event: {"limit": event.limit, "reason": event.reason},
    RunLeft: lambda event: {"kind": event.error.partition(":")[0]} if event.error else {},
}
"""The fields that are always logged in addition to the event name, by event type."""

_WORDS: Mapping[type[Event], Callable[[Any], Data]] = {
    RunStarted: lambda event: {"prompt": content_text(event.prompt)},
    RunResumed: lambda event: {"prompt": event.prompt},
    ResponseReceived: lambda event: {"text": event.response.text, "reasoning": event.response.message.reasoning},
    Approved: lambda event: {"text": event.text, "arguments": event.arguments},
    HostedCallFinished: lambda event: {"arguments": event.call.arguments, "error": event.result.error},
    ToolCallStarted: _why,
    ToolCallFinished: lambda event: {"result": event.result.content, "error": event.result.error},
    ToolCallPostponed: lambda event: {"question": event.question},
    AnswerRefused: lambda event: {"reason": event.reason},
    AnswerGiven: lambda event: {"text": event.text},
    AnswerAmended: lambda event: {"text": event.text},
    Summarised: lambda event: {"text": event.text},
    RunLeft: lambda event: {"error": event.error},
}
"""The texts of an event, by event type."""


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
        self._seconds: dict[str, float] = {}
        self._silence = FailureGuard(f"The trace cannot be written to {self.path}", "Look at the disk and the folder.")
        try:
            os.close(_opened(self.path))
        except OSError as error:
            raise ConfigError(
                f"The trace cannot be written to {self.path}: {error.strerror or error}. "
                "Name a file of your own, in a folder that is there."
            ) from None

    def __call__(self, event: Event) -> None:
        """Log an event."""
        if is_told(event):
            self._silence.call(self._write, event, origin())

    @contextmanager
    def around(self, work: Work) -> Iterator[None]:
        """Measure a request; a tool's result has its own duration."""
        began = time.perf_counter()
        try:
            yield
        finally:
            if not isinstance(work, ToolUse):
                self._seconds[work.origin.run] = time.perf_counter() - began

    def _write(self, event: Event, source: Origin) -> None:
        has_time = isinstance(event, ResponseReceived | RequestFailed)
        seconds = self._seconds.pop(source.run, None) if has_time else None
        append(self.path, line_of(event, source, seconds, content=self._content))


def append(path: Path, line: bytes) -> None:
    """Append a line completely or not at all. Raises OSError."""
    descriptor = _opened(path)
    try:
        with _locked(descriptor):
            end = os.fstat(descriptor).st_size
            try:
                _write_whole(descriptor, line)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    if written < len(line):
        raise OSError(f"only {written} of {len(line)} bytes could be written")


def _opened(path: Path) -> int:
    """Open the file for appending. Raises OSError for links, special files, and files of other users."""
    careful = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | careful, 0o600)
    try:
        found = os.fstat(descriptor)
        _refuse_strange(found)
        if found.st_mode & 0o077:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_strange(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a plain file")
    if found.st_uid != os.geteuid():
        raise OSError("it belongs to another user, who could read and change what is written")


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Hold the advisory lock of the file; closing the file releases it. Raises OSError after a timeout."""
    import fcntl

    ends = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.001)
    yield
