"""The store interface and the rows that stores hold."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from agentkit._dataclass import dataclass
from agentkit.errors import SessionError
from agentkit.events import Milestone

Release = Callable[[], object]
"""Gives up a hold; a second time does nothing."""

Position = tuple[int, int]
"""How far a session has been read: which session that was, and behind which of its entries."""

START: Position = (0, 0)
"""Before the first entry of any session."""

_MOST_NAME_CHARS = 200
_UNFIT = ("Cc", "Cs", "Zl", "Zp")
"""Control characters, halves of characters, and breaks of lines and paragraphs."""


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A milestone of one run, as it is kept. `at` are seconds since 1970."""

    run: str
    at: float
    milestone: Milestone


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a list: how many runs and entries it has, and its first and last entry's time."""

    name: str
    runs: int
    entries: int
    began: float
    changed: float


@runtime_checkable
class SessionStore(Protocol):
    """Keeps the entries of sessions, in the order in which they were appended. Raises SessionError.

    Any thread and any process may use it, also one that was forked off. Nothing that was appended is ever changed. A
    pickled store is the same place, opened anew.
    """

    def create(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Make a session of entries. Raises SessionError when there is one of that name."""
        ...

    def append(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Add all of them or none, to a new session if need be; they outlive the process once this returns."""
        ...

    def read(self, session: str, after: Position = START) -> tuple[list[SessionEntry], Position]:
        """The entries behind `after`, and the position behind the last. An unknown session is empty.

        When the session of that name is another than the one that `after` speaks of, because that was deleted or
        renamed meanwhile, all its entries are given; the first number of the two positions tells.
        """
        ...

    def hold(self, session: str, run: str) -> Release | None:
        """Claim a run for this caller until it is released or the process dies; None when it is held already."""
        ...

    def is_held(self, session: str, run: str) -> bool:
        """Whether anybody alive holds the run."""
        ...

    def summaries(self) -> list[SessionSummary]:
        """All sessions, the newest change first."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a session another name.

        Raises SessionError when there is none of the old name, or one of the new, or when a run of it is held.
        """
        ...

    def delete(self, session: str) -> None:
        """Forget a session. Raises SessionError when there is none, or when somebody holds one of its runs."""
        ...

    def close(self) -> None:
        """Give back what it has open; it can be used again."""
        ...


def checked_name(name: str) -> str:
    """The name, if a session may bear it. Raises SessionError."""
    is_fit = isinstance(name, str) and bool(name.strip()) and len(name) <= _MOST_NAME_CHARS
    if not is_fit or any(unicodedata.category(char) in _UNFIT for char in name):
        raise SessionError(
            f"A session's name is 1 to {_MOST_NAME_CHARS} characters without control characters. Got {name!r:.300}."
        )
    return name


def no_session(name: str) -> SessionError:
    """What is raised when there is no session of that name."""
    return SessionError(f"There is no session {name!r}. Session.summaries(place) lists those there are.")


def taken(name: str) -> SessionError:
    """What is raised when there is a session of that name."""
    return SessionError(f"There is a session {name!r} already; choose another name, or delete it first.")


def in_use(name: str) -> SessionError:
    """What is raised when a session must not be changed."""
    return SessionError(f"A run of the session {name!r} is going on; try again when it has ended.")
