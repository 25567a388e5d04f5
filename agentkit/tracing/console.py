"""Console output of runs, line by line."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

from agentkit.decisions import Verdict
from agentkit.errors import ConfigError
from agentkit.event_rendering import (
    answer_in,
    arguments_text,
    content_text,
    count_text,
    milestone_words,
    one_line,
    seconds_text,
    tokens_text,
)
from agentkit.events import (
    Approved,
    Event,
    HandedOff,
    HostedCallFinished,
    LimitReached,
    Milestone,
    RequestFailed,
    ResponseReceived,
    RunLeft,
    RunStarted,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import ToolCall
from agentkit.redaction import redact_data, written_redactor
from agentkit.settings import has_colour
from agentkit.tracing.jsonl import is_told
from agentkit.tracing.listeners import FailureGuard, ModelRequest, Origin, RunOutcome, Work, ending_in, origin, text_of
from agentkit.usage import is_whole, shown_cost

_INDENT = "  "
_MOST_NAME_CHARS, _MOST_DEPTH = 40, 10
_STYLES: Mapping[str, str] = {"name": "1", "quiet": "2", "bad": "31", "asked": "33"}
"""The ANSI code of each style."""


@dataclass
class _Run:
    """A run in progress: its number, nesting depth, start time, and the numbers of its calls."""

    number: int
    depth: int
    began: float
    calls: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _ConsoleLine:
    """A line of output: what happened, the text involved, the outcome, and the style."""

    what: str
    said: str = ""
    style: str = ""
    end: str = ""


class Console:
    """A listener that prints the progress of runs, line by line: `Agent(..., listeners=[Console()])`.

    Each line begins with the number of its run, to distinguish concurrent runs, and with the agent's name; runs of
    agents used as tools are indented. Texts are cut to one line. Secrets are redacted, and terminal control characters
    are escaped. Colours are used if the terminal supports them and `NO_COLOR` is not set. It never raises into a run:
    output that cannot be written is lost, with a single warning in the log `agentkit.tracing`.

    Args:
        stream: The output stream; by default, the current standard error.
        max_chars: The maximum length of each text.
        content: False omits prompts, answers, arguments and results.

    Raises:
        ConfigError: `max_chars` is not a positive integer.
    """

    def __init__(self, stream: TextIO | None = None, *, max_chars: int = 200, content: bool = True) -> None:
        if not is_whole(max_chars, 1):
            raise ConfigError(f"max_chars= takes a whole number from 1 on. Got {max_chars!r:.200}.")
        self._stream, self._max_chars, self._content = stream, max_chars, content
        self._lock, self._runs, self._count = threading.Lock(), dict[str, _Run](), 0
        self._seconds: dict[str, float] = {}
        self._style: tuple[TextIO | None, Callable[[str, str], str]] = (None, _plain)
        self._silence = FailureGuard("The runs cannot be told on the console", "Look at the stream that was given.")

    def __call__(self, event: Event) -> None:
        """Print an event."""
        if is_told(event):
            self._silence.call(self._hear, event, origin())

    @contextmanager
    def around(self, work: Work) -> Iterator[None]:
        """Print that a model is requested, and measure the request; a tool's result has its own duration."""
        if not isinstance(work, ModelRequest):
            yield
            return
        asked = f"request {work.origin.iteration} to {work.provider}:{work.model}"
        self._silence.call(self._tell, work.origin, [_ConsoleLine(asked, style="quiet")])
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[work.origin.run] = time.perf_counter() - began

    def _hear(self, event: Event, source: Origin) -> None:
        ending = ending_in(event)
        if ending is not None:
            lines = [_of_ending(ending, self._run(source), source)]
        elif isinstance(event, ResponseReceived):
            lines = list(_of_response(event, self._seconds.pop(source.run, None)))
        else:
            lines = _of_event(event, self._run(source))
        self._tell(source, lines)
        if ending is not None or isinstance(event, RunLeft):
            with self._lock:
                self._runs.pop(source.run, None)
                self._seconds.pop(source.run, None)

    def _run(self, source: Origin) -> _Run:
        """Return the run of an event; it keeps its number from its first line to its last."""
        with self._lock:
            if source.run not in self._runs:
                self._count += 1
                outer = self._runs.get(source.parent)
                depth = min(outer.depth + 1, _MOST_DEPTH) if outer else int(bool(source.parent))
                self._runs[source.run] = _Run(self._count, depth, time.perf_counter())
            return self._runs[source.run]

    def _tell(self, source: Origin, lines: list[_ConsoleLine]) -> None:
        """Write lines in a single call, so that lines of other runs cannot come between."""
        run, stream = self._run(source), self._stream or sys.stderr
        start = f"{_INDENT * run.depth}[{run.number}] {one_line(source.agent, _MOST_NAME_CHARS)}"
        styled = self._styled_on(stream)
        text = "".join(f"{styled(start, 'name')}  {styled(self._text(line), line.style)}\n" for line in lines)
        encoding = getattr(stream, "encoding", None) or "utf-8"
        with self._lock:
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()

    def _styled_on(self, stream: TextIO) -> Callable[[str, str], str]:
        """Return the style function for a stream; terminal detection is cached."""
        known, styled = self._style
        if known is not stream:
            styled = _styled if has_colour(stream) else _plain
            self._style = stream, styled
        return styled

    def _text(self, line: _ConsoleLine) -> str:
        said = one_line(line.said, self._max_chars) if self._content and line.said else ""
        told = ": ".join(filter(None, (one_line(line.what), said)))
        return f"{told} → {one_line(line.end)}" if line.end else told


def _styled(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style else text


def _plain(text: str, _style: str) -> str:
    return text


def _of_event(event: Event, run: _Run) -> list[_ConsoleLine]:
    """Return the lines for a milestone, or for an abandoned run."""
    if type(event) in _LINES:
        return [_LINES[type(event)](event, run)]
    return [_ConsoleLine(*milestone_words(cast("Milestone", event)))]


def _of_response(event: ResponseReceived, seconds: float | None) -> Iterator[_ConsoleLine]:
    """Yield the lines for a response: duration and usage, then the text."""
    response = event.response
    for missed in response.missed:
        yield _ConsoleLine(f"no answer from {missed.model}", missed.error, "bad")
    took = f" in {seconds_text(seconds)}" if seconds is not None else ""
    cut = ", cut at its token limit" if response.finish_reason == "length" else ""
    yield _ConsoleLine(
        f"{response.model or 'the model'} answers{took}, {tokens_text(response.usage)}{cut}", style="quiet"
    )
    if response.text:
        yield _ConsoleLine("says", response.text)


def _of_call(event: ToolCallStarted, run: _Run) -> _ConsoleLine:
    """Return the line for a call and the decision on it."""
    run.calls.setdefault(event.call.id, len(run.calls) + 1)  # a resumed program starts again
    decision = event.decision
    style = {Verdict.DENY: "bad", Verdict.ASK: "asked"}.get(decision.verdict, "")
    return _ConsoleLine(
        _call(event.call, run), _arguments(event.call), style, f"{decision.verdict}, by {decision.rule}"
    )


def _of_waiting(event: ToolCallPostponed, run: _Run) -> _ConsoleLine:
    """Return the line for a call that waits for approval."""
    return _ConsoleLine(f"{_call(event.call, run)} waits for a person", event.question, "asked")


def _of_result(event: ToolCallFinished, run: _Run) -> _ConsoleLine:
    """Return the line for the result of a call."""
    result = event.result
    agents = f", {tokens_text(result.usage)}" if result.usage.requests else ""
    what = f"{_call(event.call, run)} {result.status} in {seconds_text(result.seconds)}{agents}"
    is_bad = not result.ok and result.status != "waiting"
    return _ConsoleLine(what, result.error or answer_in(result), "bad" if is_bad else "")


def _of_ending(ending: RunOutcome, run: _Run, source: Origin) -> _ConsoleLine:
    """Return the line for the end of a run: status, usage and duration, without the answer, which was printed before.

    A run in another process is reported afterwards, without a duration.
    """
    usage = ending.usage
    took = [
        count_text(usage.requests, "request"),
        count_text(len(ending.tool_calls), "tool call"),
        tokens_text(usage),
        *([f"cost {shown_cost(ending.cost)}"] if ending.cost is not None else []),
    ]
    where = "elsewhere" if source.is_elsewhere else f"in {seconds_text(time.perf_counter() - run.began)}"
    error = "" if ending.status == "limit" else text_of(ending.error)
    style = "name" if ending.status in ("done", "paused") else "bad"
    return _ConsoleLine(f"{ending.status} {where}, {', '.join(took)}", error, style)


def _call(call: ToolCall, run: _Run) -> str:
    """Return the tool name of a call, with its number within the run."""
    return f"{call.name} #{run.calls.setdefault(call.id, len(run.calls) + 1)}"


def _arguments(call: ToolCall) -> str:
    """Render arguments in readable form, redacting those with secret names; invalid JSON is kept as it is."""
    text: str = redact_data({"arguments": call.arguments}, written_redactor())["arguments"]
    return arguments_text(text)


_LINES: Mapping[type[Event], Callable[[Any, _Run], _ConsoleLine]] = {
    RunStarted: lambda event, _: _ConsoleLine("begins", content_text(event.prompt)),
    RequestFailed: lambda event, _: _ConsoleLine(*milestone_words(event), "bad"),
    LimitReached: lambda event, _: _ConsoleLine(*milestone_words(event), "bad"),
    HandedOff: lambda event, _: _ConsoleLine(*milestone_words(event)),
    Approved: lambda event, _: _ConsoleLine(f"a person answers {event.answer}", event.text, "asked"),
    ToolCallStarted: _of_call,
    ToolCallFinished: _of_result,
    HostedCallFinished: _of_result,
    ToolCallPostponed: _of_waiting,
    RunLeft: lambda event, _: _ConsoleLine("left", event.error, "bad" if event.error else ""),
}
"""Event types with a dedicated line format."""
