"""Console output of runs, line by line."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from agentkit.errors import ConfigError
from agentkit.event_rendering import arguments_text, collapse, one_line, redact_stored, seconds_text
from agentkit.events import Event, EventDescription, ResponseReceived, RunLeft, ToolCallStarted
from agentkit.messages import ToolCall
from agentkit.redaction import redact_data, stored_text_redactor
from agentkit.settings import has_colour
from agentkit.tracing.listeners import FailureGuard, ModelRequest, Origin, Work, is_logged, origin, outcome_of
from agentkit.usage import is_whole

_INDENT = "  "
_MAX_NAME_CHARS, _MAX_DEPTH = 40, 10
_STYLES: Mapping[str, str] = {"name": "1", "debug": "2", "error": "31", "warning": "33"}
"""The ANSI code of each style: the agent's name, and severities."""


@dataclass
class _Run:
    """A run in progress: its number, nesting depth, start time, and the numbers of its calls."""

    number: int
    depth: int
    began: float
    calls: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _ConsoleLine:
    """A line of output: what happened, the text involved, the style, and the outcome."""

    title: str
    text: str = ""
    style: str = "info"
    outcome: str = ""


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
            raise ConfigError(f"max_chars= takes a positive integer. Got {max_chars!r:.200}.")
        self._stream, self._max_chars, self._content = stream, max_chars, content
        self._lock, self._runs, self._count = threading.Lock(), dict[str, _Run](), 0
        self._style: tuple[TextIO | None, Callable[[str, str], str]] = (None, _plain)
        self._guard = FailureGuard("Cannot print runs on the console", "Check the given stream.")

    def __call__(self, event: Event) -> None:
        """Print an event."""
        if is_logged(event):
            self._guard.call(self._print, event, origin())

    @contextmanager
    def around(self, work: Work) -> Iterator[None]:
        """Print that a model is requested."""
        if isinstance(work, ModelRequest):
            title = f"request {work.origin.iteration} to {work.provider}:{work.model}"
            self._guard.call(self._write, work.origin, [_ConsoleLine(title, style="debug")])
        yield

    def _print(self, event: Event, source: Origin) -> None:
        run, is_end = self._run(source), outcome_of(event) is not None
        seconds = None
        if is_end:
            seconds = None if source.is_elsewhere else time.perf_counter() - run.began
        elif isinstance(event, ResponseReceived):
            seconds = source.request_seconds
        took = " elsewhere" if is_end and seconds is None else "" if seconds is None else f" in {seconds_text(seconds)}"
        self._write(source, list(_lines(event, event.describe(), run, took)))
        if is_end or isinstance(event, RunLeft):
            with self._lock:
                self._runs.pop(source.run, None)

    def _run(self, source: Origin) -> _Run:
        """Return the run of an event; it keeps its number from its first line to its last."""
        with self._lock:
            if source.run not in self._runs:
                self._count += 1
                outer = self._runs.get(source.parent)
                depth = min(outer.depth + 1, _MAX_DEPTH) if outer else int(bool(source.parent))
                self._runs[source.run] = _Run(self._count, depth, time.perf_counter())
            return self._runs[source.run]

    def _write(self, source: Origin, lines: list[_ConsoleLine]) -> None:
        """Write lines in a single call, so that lines of other runs cannot come between."""
        run, stream = self._run(source), self._stream or sys.stderr
        whole = "\n".join([source.agent, *(text for line in lines for text in (line.title, line.text, line.outcome))])
        render = (
            collapse if redact_stored(whole) == whole else one_line
        )  # one check of all texts instead of one for each
        start = f"{_INDENT * run.depth}[{run.number}] {render(source.agent, _MAX_NAME_CHARS)}"
        if self._style[0] is not stream:  # terminal detection is cached
            self._style = stream, _styled if has_colour(stream) else _plain
        styled = self._style[1]
        text = "".join(f"{styled(start, 'name')}  {styled(self._text(line, render), line.style)}\n" for line in lines)
        encoding = getattr(stream, "encoding", None) or "utf-8"
        with self._lock:
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()

    def _text(self, line: _ConsoleLine, render: Callable[..., str]) -> str:
        text = render(line.text, self._max_chars) if self._content and line.text else ""
        whole = ": ".join(filter(None, (render(line.title), text)))
        return f"{whole} → {render(line.outcome)}" if line.outcome else whole


def _styled(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style in _STYLES else text


def _plain(text: str, _style: str) -> str:
    return text


def _lines(event: Event, description: EventDescription, run: _Run, took: str) -> Iterator[_ConsoleLine]:
    """Yield the lines for an event: the models that failed before another one answered, then the event itself."""
    if isinstance(event, ResponseReceived):
        for missed in event.response.missed:
            yield _ConsoleLine(f"no answer from {missed.model}", missed.error, "error")
    call, text = description.call, description.text
    title = ", ".join([f"{description.title}{took}", *description.figures])
    if call is not None:
        number = run.calls.setdefault(call.id, len(run.calls) + 1)  # a resumed program starts again
        title = f"{call.name} #{number} {title}".rstrip()
    if isinstance(event, ToolCallStarted):
        text = _arguments(event.call)
    yield _ConsoleLine(title, text, description.severity, description.outcome)


def _arguments(call: ToolCall) -> str:
    """Render arguments in readable form, redacting those with secret names; invalid JSON stays unchanged."""
    text: str = redact_data({"arguments": call.arguments}, stored_text_redactor())["arguments"]
    return arguments_text(text)
