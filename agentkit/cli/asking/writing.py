"""How does a run reach the screen or a file while it happens?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit.agents.result import RunFinished, RunResult
from agentkit.cli.asking.status import StatusLine
from agentkit.cli.display import call_line, clean, json_line, missed_line, started_line
from agentkit.cli.terminal import fitted, tell
from agentkit.config import is_terminal
from agentkit.decisions import Verdict
from agentkit.events import (
    Event,
    Milestone,
    RequestStarted,
    ResponseReceived,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from agentkit.keeping import write_whole
from agentkit.memory.codec import encode_entry
from agentkit.memory.store import Entry
from agentkit.tape import Asked, Question, Tape

if TYPE_CHECKING:
    from agentkit.llm.client import LLM
    from agentkit.memory.cassettes.recorder import Recorder
    from agentkit.messages import Missed

_SESSION_FORMAT = 1


class Screen:
    """Shows a run: its text on stdout as it is written, its tool calls on stderr, and what takes its time."""

    def __init__(self, status: StatusLine, model: str, *, shows_text: bool, shows_calls: bool) -> None:
        self._status, self.model = status, model
        self._shows_text, self._shows_calls = shows_text, shows_calls
        self._is_at_line_start = True

    def hear(self, event: Event) -> None:
        """Show an event."""
        match event:
            case RequestStarted():
                self._wait(f"asking {self.model}")
            case ResponseReceived(response) if self._shows_calls:
                self._tell_missed(response.missed)
            case TextDelta(text) if self._shows_text:
                self._write(clean(text))
            case ToolCallStarted(call, decision) if decision.allowed:
                self._wait(started_line(call))
            case ToolCallFinished():
                self._status.clear()
                self._tell_call(event)
            case RunFinished():
                self.end_line()

    def end_line(self) -> None:
        """Begin a new line on stdout, if need be."""
        self._status.clear()
        if not self._is_at_line_start:
            click.echo()
        self._is_at_line_start = True

    def _wait(self, text: str) -> None:
        self.end_line()
        self._status.show(text)

    def _write(self, text: str) -> None:
        if text:
            self._status.clear()
            self._is_at_line_start = text.endswith("\n")  # first, as an interruption may come while it is written
            click.echo(text, nl=False)

    def _tell_missed(self, missed: Sequence[Missed]) -> None:
        for each in missed:
            if each.was_asked:  # what was told at the first request is not told at each one that follows
                self.end_line()
                tell(f"  {missed_line(each)}", faint=True)

    def _tell_call(self, used: ToolCallFinished) -> None:
        if self._shows_calls:
            self.end_line()
            decision = used.result.decision
            is_denied = decision is not None and decision.verdict is Verdict.DENY
            line = fitted(f"  {call_line(used)}", sys.stderr, 4)
            tell(line, "red" if is_denied else None, faint=not is_denied)


class Lines(Tape):
    """Writes each milestone as a line, as a session's export has them; `inner` is a recording that goes on, too."""

    def __init__(self, write: Callable[[str], object], name: str, inner: Recorder | None) -> None:
        self._write, self._inner = write, inner
        self._write(json_line({"session": _SESSION_FORMAT, "name": name or "unnamed"}))

    def asked(self, question: Question, /) -> Asked:
        """The question, which the recording hears."""
        return super().asked(question) if self._inner is None else self._inner.asked(question)

    def told(self, run: str, milestone: Milestone, /) -> None:
        """Write down what has happened."""
        if self._inner is not None:
            self._inner.told(run, milestone)
        self._write(json_line(encode_entry(Entry(run, self.now(), milestone))))


class Output:
    """Where the answer goes: stdout, or a file that is written once the answer is there, in one piece."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lines = path, list[str]()
        if path is not None and not path.parent.is_dir():
            raise click.UsageError(f"There is no folder {str(path.parent)!r}. Make it, or name another file with -o.")
        if path is not None and path.is_dir():
            raise click.UsageError(f"{str(path)!r} is a folder. Name a file in it with -o.")

    def write(self, line: str) -> None:
        """Add a line."""
        if self._path is None:
            click.echo(line)
        else:
            self._lines.append(line)

    def finish(self) -> None:
        """Put the file in its place, if there is one and anything was written; else one of that name stays."""
        if self._path is not None and self._lines:
            write_whole(self._path, "".join(f"{line}\n" for line in self._lines), 0o666)


def closing_line(result: RunResult[str], llm: LLM, seconds: float, session: str) -> str:
    """Model, tokens, money and seconds of a run, and the session it is in."""
    from agentkit.usage import shown_cost
    from agentkit.wording import seconds_text, tokens_text

    cost = shown_cost(result.cost)
    parts = [_who_answered(result, llm), tokens_text(result.usage), f"cost {cost}", seconds_text(seconds)]
    return " · ".join([*parts, f"session {session}"] if session else parts)


def _who_answered(result: RunResult[str], llm: LLM) -> str:
    """The models that answered, where others were given beside the first."""
    tariffs = [each.response.tariff for each in result.milestones if isinstance(each, ResponseReceived)]
    paid = {(tariff.provider, tariff.model) for tariff in tariffs if tariff is not None}
    known = [each.name for each in llm.members() if (each.tariff.provider, each.tariff.model) in paid]
    return ", ".join(known if llm.fallbacks else ()) or f"{llm.provider}:{llm.model}"


def error_stream() -> StatusLine:
    """The status line of this process: on stderr, when that is a terminal."""
    return StatusLine(sys.stderr if is_terminal(sys.stderr) else None)
