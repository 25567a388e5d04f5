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
"""What each style is to a terminal."""


@dataclass
class _Run:
    """A run that is going on: its number, how deep it is within others, and the numbers of its calls."""

    number: int
    depth: int
    began: float
    calls: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _ConsoleLine:
    """Something that is told: what it is, what was said, what came of it, and how all look."""

    what: str
    said: str = ""
    style: str = ""
    end: str = ""


class Console:
    """A listener that tells a person what runs do, line by line: `Agent(..., listeners=[Console()])`.

    Each line begins with the number of its run, so that several at once are told apart, and with the agent's name; the
    runs of agents that are tools are indented. Texts are cut to one line. Secrets are hidden, and characters that a
    terminal would obey are shown as escapes. There is colour where a terminal shows it and `NO_COLOR` is not set. It
    never raises into a run: what cannot be written is lost, with a warning in the log `agentkit.tracing`, once.

    Args:
        stream: Where the lines go; the standard error of the moment when nothing is given.
        max_chars: How much is shown of each text.
        content: False tells what was done, and nothing of what was said.

    Raises:
        ConfigError: There is no such number of characters.
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
        """Hear an event."""
        if is_told(event):
            self._silence.call(self._hear, event, origin())

    @contextmanager
    def around(self, work: Work) -> Iterator[None]:
        """Tell that a model is asked, and take the time that it needs; a tool's result has its own."""
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
        """The run that is telling; it has a number from its first line to its last."""
        with self._lock:
            if source.run not in self._runs:
                self._count += 1
                outer = self._runs.get(source.parent)
                depth = min(outer.depth + 1, _MOST_DEPTH) if outer else int(bool(source.parent))
                self._runs[source.run] = _Run(self._count, depth, time.perf_counter())
            return self._runs[source.run]

    def _tell(self, source: Origin, lines: list[_ConsoleLine]) -> None:
        """Write some lines in one piece, so that no other run's come between."""
        run, stream = self._run(source), self._stream or sys.stderr
        start = f"{_INDENT * run.depth}[{run.number}] {one_line(source.agent, _MOST_NAME_CHARS)}"
        styled = self._styled_on(stream)
        text = "".join(f"{styled(start, 'name')}  {styled(self._text(line), line.style)}\n" for line in lines)
        encoding = getattr(stream, "encoding", None) or "utf-8"
        with self._lock:
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()

    def _styled_on(self, stream: TextIO) -> Callable[[str, str], str]:
        """What styles a text for a stream; that a stream is a terminal is found out once."""
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
    """What is told of a milestone, or of a run that is left."""
    if type(event) in _LINES:
        return [_LINES[type(event)](event, run)]
    return [_ConsoleLine(*milestone_words(cast("Milestone", event)))]


def _of_response(event: ResponseReceived, seconds: float | None) -> Iterator[_ConsoleLine]:
    """What a model has answered: how long it took and what it counted, then its words."""
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
    """A call and what was decided of it."""
    run.calls.setdefault(event.call.id, len(run.calls) + 1)  # a program that has waited begins once more
    decision = event.decision
    style = {Verdict.DENY: "bad", Verdict.ASK: "asked"}.get(decision.verdict, "")
    return _ConsoleLine(
        _call(event.call, run), _arguments(event.call), style, f"{decision.verdict}, by {decision.rule}"
    )


def _of_waiting(event: ToolCallPostponed, run: _Run) -> _ConsoleLine:
    """What a call waits for."""
    return _ConsoleLine(f"{_call(event.call, run)} waits for a person", event.question, "asked")


def _of_result(event: ToolCallFinished, run: _Run) -> _ConsoleLine:
    """What came of a call."""
    result = event.result
    agents = f", {tokens_text(result.usage)}" if result.usage.requests else ""
    what = f"{_call(event.call, run)} {result.status} in {seconds_text(result.seconds)}{agents}"
    is_bad = not result.ok and result.status != "waiting"
    return _ConsoleLine(what, result.error or answer_in(result), "bad" if is_bad else "")


def _of_ending(ending: RunOutcome, run: _Run, source: Origin) -> _ConsoleLine:
    """How a run ended, and what it took: what it answered was told before. One elsewhere is told of afterwards."""
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
    """The tool of a call, with a number that tells it from others of the run."""
    return f"{call.name} #{run.calls.setdefault(call.id, len(run.calls) + 1)}"


def _arguments(call: ToolCall) -> str:
    """Arguments as a person writes them, without those that their names call secret; what is no JSON stays as it is."""
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
"""Of each kind of event that has a line of its own, what that says."""
