"""How are sessions kept that need not outlive the process?"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentkit.memory.codec import decode, encode, from_line, to_line
from agentkit.memory.store import START, Entry, Position, Release, Summary, in_use, no_session, taken

_Line = tuple[str, float, str]


@dataclass(slots=True)
class _Kept:
    id: int = field(default_factory=lambda: 1 + secrets.randbits(62))
    lines: list[_Line] = field(default_factory=list)


class MemoryStore:
    """Keeps sessions for as long as the object lives, in the form in which a file would keep them.

    A pickled one is a copy, as no other process can reach this one's memory.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}
        self._held: dict[tuple[str, str], object] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"_sessions": {name: _Kept(kept.id, list(kept.lines)) for name, kept in self._sessions.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _held={}, _lock=threading.Lock())

    def create(self, session: str, entries: Sequence[Entry]) -> None:
        """Make a session of entries."""
        lines = _lines(entries)
        with self._lock:
            if session in self._sessions:
                raise taken(session)
            self._sessions[session] = _Kept(lines=lines)

    def append(self, session: str, entries: Sequence[Entry]) -> None:
        """Add all of them or none."""
        lines = _lines(entries)
        with self._lock:
            if lines:
                self._sessions.setdefault(session, _Kept()).lines.extend(lines)

    def read(self, session: str, after: Position = START) -> tuple[list[Entry], Position]:
        """The entries behind `after`, and the position behind the last."""
        with self._lock:
            kept = self._sessions.get(session)
            if kept is None:
                return [], START
            first = after[1] if after[0] == kept.id else 0
            lines, position = kept.lines[first:], (kept.id, len(kept.lines))
        return [Entry(run, at, decode(from_line(body))) for run, at, body in lines], position

    def hold(self, session: str, run: str) -> Release | None:
        """Claim a run."""
        mark = object()
        with self._lock:
            if self._held.setdefault((session, run), mark) is not mark:
                return None
        return partial(self._release, (session, run), mark)

    def _release(self, key: tuple[str, str], mark: object) -> None:
        with self._lock:
            if self._held.get(key) is mark:
                del self._held[key]

    def is_held(self, session: str, run: str) -> bool:
        """Whether anybody holds the run."""
        with self._lock:
            return (session, run) in self._held

    def summaries(self) -> list[Summary]:
        """All sessions, the newest change first."""
        with self._lock:
            listed = [(name, list(kept.lines)) for name, kept in self._sessions.items()]
        summaries = [_summary(name, lines) for name, lines in listed if lines]
        return sorted(summaries, key=lambda summary: summary.changed, reverse=True)

    def rename(self, old: str, new: str) -> None:
        """Give a session another name."""
        with self._lock:
            self._check(old)
            if new in self._sessions:
                raise taken(new)
            self._sessions[new] = self._sessions.pop(old)

    def delete(self, session: str) -> None:
        """Forget a session."""
        with self._lock:
            self._check(session)
            del self._sessions[session]

    def close(self) -> None:
        """Nothing is open."""

    def _check(self, session: str) -> None:
        if session not in self._sessions:
            raise no_session(session)
        if any(name == session for name, _ in self._held):
            raise in_use(session)


def _lines(entries: Sequence[Entry]) -> list[_Line]:
    return [(entry.run, entry.at, to_line(encode(entry.milestone))) for entry in entries]


def _summary(name: str, lines: list[_Line]) -> Summary:
    times = [at for _, at, _ in lines]
    return Summary(name, len({run for run, _, _ in lines}), len(lines), min(times), max(times))
