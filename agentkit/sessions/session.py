"""`Session`: a conversation that outlives its runs and, with a store, the process; and its runs in progress."""

from __future__ import annotations

import copy
import hashlib
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from os import PathLike
from typing import Any

from agentkit.errors import SessionError
from agentkit.events import RunEnded, RunResumed, RunStarted, StoredEvent, ToolCallFinished
from agentkit.messages import AssistantMessage, Message, ToolMessage, UserMessage, with_distinct_ids
from agentkit.sessions import transfer
from agentkit.sessions.state import Conversation, RunState, Summary
from agentkit.sessions.store import (
    START,
    Release,
    SessionEntry,
    SessionStore,
    SessionSummary,
    validate_session_name,
)
from agentkit.sessions.stores import StoreLocation, store_at
from agentkit.usage import Usage

_FINISHED = "finished"


class LocalRunLocks:
    """The locks on the runs of a session without a store."""

    def __init__(self) -> None:
        self._locked: set[str] = set()

    def lock(self, _session: str, run: str) -> Release | None:
        """Lock a run until it is released; None if it is locked already."""
        if run in self._locked:
            return None
        self._locked.add(run)
        return partial(self._locked.discard, run)

    def is_locked(self, _session: str, run: str) -> bool:
        """Whether the run is locked."""
        return run in self._locked


class SessionRun:
    """A run in progress, locked until it is closed.

    `history` is the conversation it started with. The loop applies stored events to `progress`; `keep` stores each of
    them, and `close` those that were not stored when the run was cut off.
    """

    def __init__(
        self, session: Session, run: str, progress: RunState, history: tuple[Message, ...], release: Release
    ) -> None:
        self.id, self.progress, self.history = run, progress, history
        self.session = session
        self._release = release
        self._events = {_key(event): event for event in progress.events}
        self._has_failed = self._is_closed = self._has_truncated = False
        self._seen_calls = 0

    @cached_property
    def _earlier_calls(self) -> frozenset[str]:
        """The ids of the calls whose results are in the history."""
        return frozenset(message.call_id for message in self.history if isinstance(message, ToolMessage))

    def new_record_id(self) -> str:
        """A new id for a record of the run's changes. Matching a record to its run requires the run's id."""
        return f"{time.time_ns():020d}-{_run_digest(self.id)}"

    @property
    def summary(self) -> Summary | None:
        """The newest summary that a model has written of the conversation, within this run or before it."""
        own = self.progress.summary_of(self.history) if self.progress.summarised is not None else None
        return own or self.session.conversation.summary

    @property
    def has_truncated(self) -> bool:
        """Whether some result was shown to the model in part."""
        calls, seen = self.progress.tool_calls, self._seen_calls
        self._has_truncated = self._has_truncated or any(used.result.full_content is not None for used in calls[seen:])
        self._seen_calls = len(calls)
        full_texts = tuple(self.session.conversation.full_texts)
        return self._has_truncated or (bool(full_texts) and not self._earlier_calls.isdisjoint(full_texts))

    def full_text(self, call_id: str) -> str | None:
        """The full text of a tool call's result, of this run or of its history."""
        for used in self.progress.tool_calls:
            if used.call.id == call_id and used.result.full_content is not None:
                return used.result.full_content
        results = (each for each in (*self.progress.messages, *self.history) if isinstance(each, ToolMessage))
        shown = next((message.content for message in results if message.call_id == call_id), None)
        return (self.session.conversation.full_texts.get(call_id) if call_id in self._earlier_calls else None) or shown

    def keep(self, event: StoredEvent) -> None:
        """Store an event; after this returns, it survives the process.

        Raises SessionError if that fails, and on each later call, so that the stored run has no gap.
        """
        if self._has_failed:
            raise SessionError("An earlier event of this run could not be stored, so the run cannot continue.")
        self._write([event])

    def leave(self) -> None:
        """Release the run unchanged, so that another caller can resume it."""
        self._is_closed = True
        self._release()

    def interrupt(self) -> None:
        """End a run that was cut off and add its messages; each call without a result gets one that says so."""
        if self.progress.events and self.progress.ended is None:
            for finished in tuple(self.progress.interruptions()):
                self.progress.apply(finished)
            self.progress.apply(RunEnded("interrupted", self.progress.text))
        self.close()

    def close(self) -> None:
        """Store the remaining stored events and release the run. A paused or cut-off run can be resumed."""
        if self._is_closed:
            return
        self._is_closed = True
        progress = self.progress
        try:
            if progress.ended is None:
                for step in tuple(progress.steps.values()):  # results stored before the loop could process them
                    finished = self._events.get((_FINISHED, step.call.id))
                    if step.result is None and finished is not None:
                        progress.apply(finished)
            if not self._has_failed:
                self._write([event for event in progress.events if _key(event) not in self._events])
            if self.session.store is None and progress.events:
                self.session.add_ended(self.id, progress)
        finally:
            self._release()

    def _write(self, events: Sequence[StoredEvent]) -> None:
        self._events.update((_key(event), event) for event in events)
        store = self.session.store
        if store is not None:
            try:
                store.append(self.session.name, entries_of_run(self.id, events))
            except BaseException:
                self._has_failed = True
                raise
        if any(isinstance(event, RunResumed) for event in events):
            self.session.resumed[self.id] = resumptions(self._events.values())


def is_record_of(run: str, record: str) -> bool:
    """Whether a record of changes belongs to a run, judged by its id."""
    return record.rpartition("-")[2] == _run_digest(run)


def _run_digest(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def entries_of_run(run: str, events: Sequence[StoredEvent]) -> list[SessionEntry]:
    """Build the entries of stored events that have just occurred."""
    return [SessionEntry(run, time.time(), event) for event in events]


def resumptions(events: Iterable[StoredEvent]) -> int:
    """Count how often a run was resumed."""
    return sum(isinstance(event, RunResumed) for event in events)


def _key(event: StoredEvent) -> object:
    """The identity of a stored event; the driver and the loop both emit the end of a call."""
    return (_FINISHED, event.call.id) if isinstance(event, ToolCallFinished) else id(event)


class Session:
    """A conversation: the messages of its runs, each added as one block when its run ends.

    Without a store it lives as long as the object; `Session.open` returns a stored one. Any number of runs can be
    active at the same time, in threads and, with a store, in processes; a pickled session with a store refers to the
    same conversation. Raises SessionError.
    """

    def __init__(self, name: str = "", store: SessionStore | None = None) -> None:
        if store is not None and not isinstance(store, SessionStore):
            raise SessionError(f"store= takes a store of agentkit.sessions. Write Session.open({store!r}, {name!r}).")
        self.name = name if store is None else validate_session_name(name)
        self.store = store
        self._lock = threading.RLock()
        self._run_locks = LocalRunLocks() if store is None else store
        self.resumed: dict[str, int] = {}  # how often runs were resumed, including runs removed since
        self._forget()

    @classmethod
    def open(cls, store: StoreLocation = None, name: str = "default") -> Session:
        """Open the conversation of that name; create it if it does not exist.

        `store` is a file, the URL of a PostgreSQL database, `:memory:`, a store, or None for the file `sessions.db` in
        the platform's state folder. Raises SessionError if it cannot be read.
        """
        session = cls(name, store_at(store))
        _ = session.messages
        return session

    @classmethod
    def restore(cls, file: str | PathLike[str], store: StoreLocation = None, name: str = "") -> Session:
        """Create a session from a file written by `export`, under its old name or another.

        Raises SessionError if the file is damaged or a session of that name exists; then nothing is stored.
        """
        exported, entries = transfer.read_export(file)
        target = store_at(store)
        target.create(validate_session_name(name or exported), entries)
        return cls(name or exported, target)

    @staticmethod
    def summaries(store: StoreLocation = None) -> list[SessionSummary]:
        """List the sessions at a place, the most recently changed first."""
        return store_at(store).summaries()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the runs, ordered by the runs' ends.

        Runs that were cut off come last until they are resumed.
        """
        with self._lock:
            self._refresh()
            return self.conversation.messages_with(self._cut_off())

    @property
    def usage(self) -> Usage:
        """The usage of all runs that have ended or were cut off."""
        with self._lock:
            self._refresh()
            return self.conversation.usage_with(self._cut_off())

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The ids of the runs that were cut off or are paused, oldest first."""
        with self._lock:
            self._refresh()
            return tuple(self._unfinished_runs())

    @property
    def entries(self) -> list[SessionEntry]:
        """All stored entries in order; without a store, the messages as if they came from elsewhere."""
        return transfer.history_entries(self.messages) if self.store is None else self.store.read(self.name)[0]

    def begin(self) -> SessionRun:
        """Start a run. Runs that were cut off are ended first, as interrupted."""
        with self._lock:
            self._refresh()
            for run in self._cut_off() if self.conversation.active_runs else ():
                self._interrupt(run)
            run = secrets.token_hex(16)
            history = tuple(self.conversation.messages)
            return SessionRun(self, run, RunState(history=len(history)), history, self._claim(run))

    def reopen(self, run: str = "", progress: RunState | None = None, history: Sequence[Message] = ()) -> SessionRun:
        """Resume the run of that id, or the newest that was cut off or is paused.

        `progress` is the state known to the caller; a run unknown to this session is added with it and, if the session
        is empty, with `history`, the conversation before it. Raises SessionError if the run does not exist, is in
        progress elsewhere, or was resumed since.
        """
        with self._lock:
            run = run or next(reversed(self.unfinished), "")
            release = self._claim(run)
            try:
                self._refresh()
                return self._reopen(run, progress, history, release)
            except BaseException:
                release()
                raise

    def append(self, messages: Sequence[Message], *, are_valid: bool = False) -> None:
        """Add messages from elsewhere; an empty list adds nothing.

        Raises SessionError, and adds nothing, if an item is not a message or a call does not have exactly one result.
        `are_valid` states that the messages were validated by `agentkit.sessions.transfer.validate_messages`.
        """
        entries = transfer.history_entries(messages if are_valid else transfer.validate_messages(messages))
        with self._lock:
            if self.store is not None:
                self.store.append(self.name, entries)
            elif entries:
                self.add_ended(entries[0].run, RunState.of(entry.event for entry in entries))

    def fork(self, name: str, at: int | None = None) -> Session:
        """Create a session in the same place that starts with the first `at` messages, or all.

        Raises SessionError if that would separate a tool call from its result, or if a session of that name exists.
        """
        messages, fork = transfer.first_messages(self.messages, at), Session(name, self.store)
        if self.store is not None:
            self.store.create(name, transfer.history_entries(messages))
        else:
            fork.append(messages)
        return fork

    def rename(self, name: str) -> None:
        """Rename the session. Raises SessionError if the name is taken, or while one of its runs is in progress."""
        with self._lock:
            if self.store is not None:
                self.store.rename(self.name, validate_session_name(name))
            self.name = name

    def delete(self) -> None:
        """Delete the session. Raises SessionError if it is not stored, or while one of its runs is in progress."""
        with self._lock:
            if self.store is not None:
                self.store.delete(self.name)
            self._forget()

    def export(self, file: str | PathLike[str]) -> None:
        """Write all entries as JSON lines to a new file for its owner only. Raises SessionError if that fails."""
        transfer.write_export(file, self.name, self.entries)

    def show(self) -> str:
        """Render the session for people: prompts, answers, tool calls with their decisions, changes."""
        from agentkit.sessions.transcript import session_text

        return session_text(self.name, self.entries)

    def start_over(self) -> Session:
        """Return an empty session of the same name. A stored session is renamed to its name with the time."""
        if self.store is not None and self.entries:
            self.store.rename(self.name, transfer.old_name(self.name))
        new = Session(self.name, self.store)
        new.resumed = self.resumed
        return new

    def without_last_run(self) -> Session:
        """Return a session of the same name that ends before the last prompt; the whole one is renamed.

        Earlier runs keep their tool calls and decisions. Raises SessionError while a run is in progress.
        """
        name, entries = self.name, self.entries
        prompt_indexes = [index for index, each in enumerate(self.messages) if isinstance(each, UserMessage)]
        run_starts = [index for index, entry in enumerate(entries) if isinstance(entry.event, RunStarted)]
        if self.store is None:
            return self.fork(name, prompt_indexes[-1] if prompt_indexes else 0)
        self.rename(transfer.old_name(name, "before"))
        if not run_starts:  # all messages are from elsewhere
            return self.fork(name, prompt_indexes[-1] if prompt_indexes else 0)
        if run_starts[-1]:
            self.store.create(name, entries[: run_starts[-1]])
        new = Session(name, self.store)
        new.resumed = self.resumed
        return new

    def with_unique_ids(self, message: AssistantMessage) -> AssistantMessage:
        """Make the ids of the message's tool calls unique within the session, including runs in progress."""
        with self._lock:
            if message.tool_calls:
                self._refresh()
            return with_distinct_ids(message, self.conversation.call_ids)

    def add_ended(self, run: str, progress: RunState) -> None:
        """Without a store, remember the state of a run; its messages are added when it has ended."""
        with self._lock:
            self.conversation.resumptions[run] = resumptions(progress.events)
            if progress.status in (None, "paused"):
                self.conversation.active_runs[run] = progress
            else:
                self.conversation.add_ended(run, progress)

    def __repr__(self) -> str:
        return f"Session({self.name!r})" if self.store is None else f"Session({self.name!r}, {self.store!r})"

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            own: dict[str, Any] = {} if self.store is not None else {"conversation": copy.deepcopy(self.conversation)}
        return {"name": self.name, "store": self.store, "resumed": dict(self.resumed), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Session.__init__(self, state["name"], state["store"])
        self.__dict__.update(state)

    def _forget(self) -> None:
        """Reset the state read from the store."""
        self.conversation, self._position = Conversation(), START

    def _refresh(self) -> None:
        """Apply the entries added to the store since; all entries, if the name now refers to another session."""
        if self.store is None:
            return
        entries, position = self.store.read(self.name, self._position)
        if position[0] != self._position[0] and self._position != START:
            self._forget()
        self._position = position
        for entry in entries:
            self.conversation.apply_entry(entry, self._rebuild_state)

    def _rebuild_state(self, run: str) -> RunState:
        """Rebuild the state of a run from the entries applied so far."""
        entries = self.entries[: self.conversation.count]
        return RunState.of(entry.event for entry in entries if entry.run == run)

    def _reopen(self, run: str, progress: RunState | None, history: Sequence[Message], release: Release) -> SessionRun:
        """Resume a locked run with a copy of its state.

        Stored events that it stores are read back into the session's state.
        """
        resumed = max(self.conversation.resumptions.get(run, 0), self.resumed.get(run, 0))
        if progress is not None and resumptions(progress.events) < resumed:
            remedy = "Use agent.resume(), which resumes the newest run."
            raise SessionError(f"The run {run!r} was resumed since, and cannot be resumed from here again. {remedy}")
        known = self.conversation.active_runs.get(run)
        if known is None and self.store is not None and self.conversation.has_entered(run):
            known = self._rebuild_state(run)
        elif known is None and progress is not None:
            # Add a run that may come from another session; an empty conversation starts with the run's history
            if history and not self.conversation.messages:
                self.append(history)
            self.conversation.adopt(run, history, progress.events)
            if self.store is not None:
                self.store.append(self.name, entries_of_run(run, progress.events))
            known = progress
        if known is None:
            raise SessionError(f"The session {self.name!r} has no run {run!r} to resume.")
        history = self.conversation.history_of(run, known.history)
        return SessionRun(self, run, RunState.of(known.events), history, release)

    def _interrupt(self, run: str) -> None:
        """End a run that was cut off, unless another caller is doing so."""
        release = self._run_locks.lock(self.name, run)
        if release is not None:
            self._refresh()
            known = self.conversation.active_runs.get(run)
            events = known.events if known is not None and known.ended is None else ()
            SessionRun(self, run, RunState.of(events), (), release).interrupt()
            self._refresh()

    def _claim(self, run: str) -> Release:
        """Lock a run."""
        release = self._run_locks.lock(self.name, run) if run else None
        if release is None:
            if run:
                text = (
                    f"The run {run!r} of the session {self.name!r} is in progress elsewhere. Wait until it has ended."
                )
            elif self.store is not None:
                text = f"The session {self.name!r} has no run to resume."
            else:
                text = "This agent has no run to resume: no run is paused, and without session= runs are not stored."
            raise SessionError(text)
        return release

    def _unfinished_runs(self) -> list[str]:
        """The runs that have not ended or are paused, and that are not locked."""
        return [run for run in self.conversation.active_runs if not self._run_locks.is_locked(self.name, run)]

    def _cut_off(self) -> list[str]:
        """The runs that have not ended, are not paused and are not locked."""
        return [run for run in self._unfinished_runs() if self.conversation.active_runs[run].ended is None]
