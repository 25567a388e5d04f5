"""Outcomes of undo, and the journal records written by one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from agentkit._dataclass import dataclass

_MAX_NAMED = 10
_WRITTEN: ContextVar[list[Reversible] | None] = ContextVar("written", default=None)
"""The records written by the current call, if they are collected."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of an undo: restored paths, removed paths, and notes on what could not be undone."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def joined(cls, done: Sequence[Undone]) -> Undone:
        """Combine the results of several undos."""
        restored, removed, notes = (
            tuple(each for one in done for each in getattr(one, name)) for name in ("restored", "removed", "notes")
        )
        return cls(restored, removed, notes)

    def __str__(self) -> str:
        actions = [
            f"{verb} {format_paths(paths)}"
            for verb, paths in (("restored", self.restored), ("removed", self.removed))
            if paths
        ]
        return ". ".join([" and ".join(actions).capitalize() or "Nothing to undo", *self.notes]) + "."


class Reversible(Protocol):
    """A record of changes that can be undone."""

    def undo(self) -> Undone:
        """Restore everything or nothing. Raises ToolError."""
        ...


@contextmanager
def collect_records() -> Iterator[list[Reversible]]:
    """Collect the records written by the current call, including its threads and tasks."""
    records: list[Reversible] = []
    token = _WRITTEN.set(records)
    try:
        yield records
    finally:
        _WRITTEN.reset(token)


def add_record(record: Reversible) -> None:
    """Add a record to those of the current call."""
    records = _WRITTEN.get()
    if records is not None:
        records.append(record)


def format_paths(paths: Sequence[str]) -> str:
    """The first paths, followed by the number of the remaining ones."""
    more = len(paths) - _MAX_NAMED
    return ", ".join([*map(repr, paths[:_MAX_NAMED]), *([f"{more:,} more"] if more > 0 else [])])
