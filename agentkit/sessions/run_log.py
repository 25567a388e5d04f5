"""Persistence of a run while it is in progress."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Protocol

from agentkit.errors import SessionError
from agentkit.events import Milestone, RunEnded, RunResumed, ToolCallFinished
from agentkit.messages import AssistantMessage, Message, ToolMessage
from agentkit.sessions.conversation import Conversation
from agentkit.sessions.run_state import RunState, Summary
from agentkit.sessions.store import Release, SessionEntry, SessionStore


class SessionHandle(Protocol):
    """The part of a session that its runs use."""

    name: str
    store: SessionStore | None
    conversation: Conversation
    """The state folded from the session's entries; without a store, the runs that have ended."""
    resumed: dict[str, int]
    """How often each run was resumed, including runs removed since."""

    def tell_apart(self, message: AssistantMessage) -> AssistantMessage:
        """Make the ids of the message's tool calls unique within the session."""

    def enter(self, run: str, progress: RunState) -> None:
        """Without a store, remember the state of a run."""


class LocalRunLocks:
    """The locks on the runs of a session without a store."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    def hold(self, _session: str, run: str) -> Release | None:
        """Lock a run until it is released; None if it is locked already."""
        if run in self._held:
            return None
        self._held.add(run)
        return partial(self._held.discard, run)

    def is_held(self, _session: str, run: str) -> bool:
        """Whether the run is locked."""
        return run in self._held


class SessionRun:
    """A run in progress, locked until it is closed.

    `history` is the conversation it started with. The loop applies milestones to `progress`; `keep` stores each of
    them, and `close` those that were not stored when the run was cut off.
    """

    def __init__(
        self, session: SessionHandle, run: str, progress: RunState, history: tuple[Message, ...], release: Release
    ) -> None:
        self.id, self.progress, self.history = run, progress, history
        self._session = session
        self._release = release
        self._kept = {_key(milestone): milestone for milestone in progress.milestones}
        self._has_failed = self._is_closed = self._has_wholes = False
        self._looked_at = 0

    @cached_property
    def _earlier_calls(self) -> frozenset[str]:
        """The ids of the calls whose results are in the history."""
        return frozenset(message.call_id for message in self.history if isinstance(message, ToolMessage))

    def new_record_id(self) -> str:
        """A new id for a record of the run's changes. Matching a record to its run requires the run's id."""
        return f"{time.time_ns():020d}-{_token(self.id)}"

    def tell_apart(self, message: AssistantMessage) -> AssistantMessage:
        """Make the ids of the message's tool calls unique within the session."""
        return self._session.tell_apart(message)

    @property
    def summary(self) -> Summary | None:
        """The newest summary that a model has written of the conversation, within this run or before it."""
        return self.progress.summary_of(self.history) or self._session.conversation.summary

    @property
    def has_wholes(self) -> bool:
        """Whether some result was shown to the model in part."""
        calls, looked_at = self.progress.tool_calls, self._looked_at
        self._has_wholes = self._has_wholes or any(used.result.whole is not None for used in calls[looked_at:])
        self._looked_at = len(calls)
        wholes = tuple(self._session.conversation.wholes)
        return self._has_wholes or (bool(wholes) and not self._earlier_calls.isdisjoint(wholes))

    def whole(self, call_id: str) -> str | None:
        """The full text of a tool call's result, of this run or of its history."""
        for used in self.progress.tool_calls:
            if used.call.id == call_id and used.result.whole is not None:
                return used.result.whole
        results = (each for each in (*self.progress.messages, *self.history) if isinstance(each, ToolMessage))
        shown = next((message.content for message in results if message.call_id == call_id), None)
        return (self._session.conversation.wholes.get(call_id) if call_id in self._earlier_calls else None) or shown

    def keep(self, milestone: Milestone) -> None:
        """Store a milestone; after this returns, it survives the process.

        Raises SessionError if that fails, and on each later call, so that the stored run has no gap.
        """
        if self._has_failed:
            raise SessionError("An earlier event of this run could not be stored, so the run cannot continue.")
        self._write([milestone])

    def leave(self) -> None:
        """Release the run unchanged, so that another caller can resume it."""
        self._is_closed = True
        self._release()

    def interrupt(self) -> None:
        """End a run that was cut off and add its messages; each call without a result gets one that says so."""
        if self.progress.milestones and self.progress.ended is None:
            for finished in tuple(self.progress.interruptions()):
                self.progress.apply(finished)
            self.progress.apply(RunEnded("interrupted", self.progress.text))
        self.close()

    def close(self) -> None:
        """Store the remaining milestones and release the run. A paused or cut-off run can be resumed."""
        if self._is_closed:
            return
        self._is_closed = True
        progress = self.progress
        try:
            if progress.ended is None:
                for step in tuple(progress.steps.values()):  # results stored before the loop could process them
                    finished = self._kept.get(_finished_key(step.call.id))
                    if step.result is None and finished is not None:
                        progress.apply(finished)
            if not self._has_failed:
                self._write([milestone for milestone in progress.milestones if _key(milestone) not in self._kept])
            if self._session.store is None and progress.milestones:
                self._session.enter(self.id, progress)
        finally:
            self._release()

    def _write(self, milestones: Sequence[Milestone]) -> None:
        self._kept.update((_key(milestone), milestone) for milestone in milestones)
        store = self._session.store
        if store is not None:
            try:
                store.append(self._session.name, entries_of_run(self.id, milestones))
            except BaseException:
                self._has_failed = True
                raise
        if any(isinstance(milestone, RunResumed) for milestone in milestones):
            self._session.resumed[self.id] = resumptions(self._kept.values())


def is_record_of(run: str, record: str) -> bool:
    """Whether a record of changes belongs to a run, judged by its id."""
    return record.rpartition("-")[2] == _token(run)


def _token(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def entries_of_run(run: str, milestones: Sequence[Milestone]) -> list[SessionEntry]:
    """Build the entries of milestones that have just occurred."""
    return [SessionEntry(run, time.time(), milestone) for milestone in milestones]


def resumptions(milestones: Iterable[Milestone]) -> int:
    """Count how often a run was resumed."""
    return sum(isinstance(milestone, RunResumed) for milestone in milestones)


def _key(milestone: Milestone) -> object:
    """The identity of a milestone; the driver and the loop both emit the end of a call."""
    return _finished_key(milestone.call.id) if isinstance(milestone, ToolCallFinished) else id(milestone)


def _finished_key(call_id: str) -> object:
    return "finished", call_id
