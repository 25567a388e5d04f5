"""Outcomes of undo, and the journal records written by one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from agentkit._dataclass import dataclass

_MOST_NAMED = 10
_WRITTEN: ContextVar[list[Reversible] | None] = ContextVar("written", default=None)
"""The records of the call that is being made, if anybody collects them."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did: places that are as they were before, places that are gone again, what it could not do."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def joined(cls, done: Sequence[Undone]) -> Undone:
        """What several undos did together."""
        restored, removed, notes = (
            tuple(each for one in done for each in getattr(one, name)) for name in ("restored", "removed", "notes")
        )
        return cls(restored, removed, notes)

    def __str__(self) -> str:
        did = [
            f"{verb} {listed(paths)}"
            for verb, paths in (("restored", self.restored), ("removed", self.removed))
            if paths
        ]
        return ". ".join([" and ".join(did).capitalize() or "Nothing was to be undone", *self.notes]) + "."


class Reversible(Protocol):
    """A record of changes that can be put back."""

    def undo(self) -> Undone:
        """Put everything back as it was, or nothing. Raises ToolError."""
        ...


@contextmanager
def collected() -> Iterator[list[Reversible]]:
    """The records that are written meanwhile by this call, also in the threads and tasks that it starts."""
    written: list[Reversible] = []
    token = _WRITTEN.set(written)
    try:
        yield written
    finally:
        _WRITTEN.reset(token)


def written(record: Reversible) -> None:
    """Add a record to those of the call that is being made."""
    records = _WRITTEN.get()
    if records is not None:
        records.append(record)


def listed(paths: Sequence[str]) -> str:
    """The first paths by name, and how many more there are."""
    more = len(paths) - _MOST_NAMED
    return ", ".join([*map(repr, paths[:_MOST_NAMED]), *([f"{more:,} more"] if more > 0 else [])])
