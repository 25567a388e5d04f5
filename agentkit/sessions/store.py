"""The store interface and the rows that stores hold."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from agentkit._dataclass import dataclass
from agentkit.errors import SessionError
from agentkit.events import StoredEvent

Release = Callable[[], object]
"""Releases a lock; idempotent."""

Position = tuple[int, int]
"""A position in a session: the session's id and the entry read last."""

START: Position = (0, 0)
"""The position before the first entry of any session."""

_MAX_NAME_CHARS = 200
_UNFIT = ("Cc", "Cs", "Zl", "Zp")
"""Control characters, surrogates, and line and paragraph separators."""


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A stored event of a run. `at` is in seconds since 1970."""

    run: str
    at: float
    event: StoredEvent


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A row in a list of sessions: the number of runs and entries, and the times of the first and last entry."""

    name: str
    runs: int
    entries: int
    began: float
    changed: float


@runtime_checkable
class SessionStore(Protocol):
    """Stores the entries of sessions in the order in which they were appended. Raises SessionError.

    Any thread and any process can use it, including forked children. Stored entries never change. A pickled store opens
    the same place again.
    """

    def create(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Create a session with these entries. Raises SessionError if the name is taken."""

    def append(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Append all entries or none, creating the session if necessary.

        When this returns, they survive the process.
        """

    def read(self, session: str, after: Position = START) -> tuple[list[SessionEntry], Position]:
        """Read the entries after a position, and the position of the last. An unknown session is empty.

        If the session of that name is not the one of `after`, because that was deleted or renamed in the meantime, all
        entries are returned; the ids in the two positions then differ.
        """

    def lock(self, session: str, run: str) -> Release | None:
        """Lock a run for this caller until it is released or the process dies; None if it is locked already."""

    def is_locked(self, session: str, run: str) -> bool:
        """Whether a live process holds the lock on the run."""

    def summaries(self) -> list[SessionSummary]:
        """List all sessions, the most recently changed first."""

    def rename(self, old: str, new: str) -> None:
        """Rename a session.

        Raises SessionError if the old name does not exist, the new one is taken, or one of its runs is locked.
        """

    def delete(self, session: str) -> None:
        """Delete a session. Raises SessionError if it does not exist, or if one of its runs is locked."""

    def close(self) -> None:
        """Release open resources; the store remains usable."""


def validate_session_name(name: str) -> str:
    """Return the name if it is a valid session name. Raises SessionError."""
    is_fit = isinstance(name, str) and bool(name.strip()) and len(name) <= _MAX_NAME_CHARS
    if not is_fit or any(unicodedata.category(char) in _UNFIT for char in name):
        raise SessionError(
            f"A session's name has 1 to {_MAX_NAME_CHARS} characters, is not blank, and has no control characters. "
            f"Got {name!r:.300}."
        )
    return name


def no_session(name: str) -> SessionError:
    """Build the error for a session that does not exist."""
    return SessionError(f"No session is named {name!r}. Session.summaries(place) lists the sessions.")


def name_taken_error(name: str) -> SessionError:
    """Build the error for a name that is taken."""
    return SessionError(f"The session {name!r} already exists. Choose another name, or delete it first.")


def in_use(name: str) -> SessionError:
    """Build the error for a session that cannot be changed while a run is in progress."""
    return SessionError(f"A run of the session {name!r} is in progress. Try again when it has ended.")
