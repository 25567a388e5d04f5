"""Conversations of the chat page and their runs."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.agent import Agent
from agentkit.agents.options import Prompt
from agentkit.agents.result import Resumption
from agentkit.errors import AgentKitError, ToolError
from agentkit.events import RunEnded, RunStarted
from agentkit.safety.approval import Approval, ApprovalRequest, ApproverReply
from agentkit.server.event_stream import PageEvent, history, page_events, question_event, settled_event, total
from agentkit.server.http_types import ConcurrencyLimit, HTTPError, invalid_value, json_bytes
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionStore, SessionSummary
from agentkit.sessions.transcript import search_sessions, title_of

PATIENCE_SECONDS = 600.0
"""Seconds that an approval request waits; then the run ends paused, and can be answered later."""

_MAX_CHATS = 100
_MAX_LISTED = 200
_SERIALS = 900_000_000


@dataclass(frozen=True, slots=True)
class _Question:
    request: ApprovalRequest
    answer: Future[ApproverReply]


class Chat:
    """One session of the page. Buffers the events of its newest run until the next one; `is_running` during a run."""

    def __init__(
        self, agent: Agent[Any], name: str, store: SessionStore, limit: ConcurrencyLimit, patience_seconds: float
    ) -> None:
        self.name = name
        # random, so that a page left open from an earlier process cannot mistake a run or request for its own
        self.serial = secrets.randbelow(_SERIALS)
        self._limit, self._patience_seconds = limit, patience_seconds
        self._agent = agent.within(Session.open(store, name))
        self._agent.approve = self._ask
        self._lines: list[bytes] = []
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self.questions: dict[str, _Question] = {}
        self._first_entry = 0
        self.is_running = self._is_undoing = False
        self._lock = threading.Lock()

    async def document(self) -> PageEvent:
        """The session's history before the current run, and the state of that run."""
        stored = await asyncio.to_thread(self._stored_events, self._first_entry if self.is_running else None)
        return {**stored, **self.state}

    @property
    def state(self) -> PageEvent:
        """The name and the newest run of the session, from which a page detects runs that another page has started."""
        return {"name": self.name, "serial": self.serial, "running": self.is_running, "model": self._agent.llm.model}

    def _stored_events(self, until: int | None) -> PageEvent:
        """The first entries as page events, or all of them. Runs in a thread, because journals can be long."""
        session = self._agent.session
        entries = session.entries[:until]
        changed = any(isinstance(entry.event, RunEnded) and entry.event.changes for entry in entries)
        records = self._agent.workspace.journal.runs() if changed else []
        undone = {record.id: record.is_undone for record in records}
        unfinished = "" if self.is_running else next(reversed(session.unfinished), "")
        title = title_of(self.name, entries)
        events = list(history(entries, session.unfinished, undone))
        return {"events": events, "title": title, "unfinished": unfinished, **total(session.usage)}

    def start(self, work: Prompt | Resumption, model: str = "") -> int:
        """Start or resume a run, optionally with another model, and return its serial number.

        Raises HTTPError while another is running, ConfigError for an invalid model.
        """
        self._refuse_while_busy()
        if model and model != self._agent.llm.model:
            self._agent.llm = self._agent.llm.with_model(model)
        first_entry = len(self._agent.session.entries)
        self._limit.acquire()
        self._first_entry = first_entry
        self._lines, self.serial = [], self.serial + 1
        self.is_running = True
        self._task = asyncio.create_task(self._run(work))
        self._task.add_done_callback(self._finish)
        return self.serial

    def _refuse_while_busy(self) -> None:
        if self.is_running or self._is_undoing:
            raise HTTPError(409, "A run of this conversation is in progress. Wait, or stop it.", code="busy")

    def retry(self) -> int:
        """Ask the last prompt again, without its answer; the old branch becomes a separate conversation.

        Returns the serial number of the run. Raises HTTPError while a run is in progress, or without a prompt.
        """
        self._refuse_while_busy()
        entries = self._agent.session.entries
        prompts = [entry.event.prompt for entry in entries if isinstance(entry.event, RunStarted)]
        if not prompts:
            raise HTTPError(409, "This conversation has no prompt to repeat.", code="not_known")
        llm = self._agent.llm
        self._agent = self._agent.within(self._agent.session.without_last_run())
        self._agent.approve, self._agent.llm = self._ask, llm
        return self.start(prompts[-1])

    def rename(self, name: str) -> None:
        """Rename the conversation. Raises HTTPError while a run is in progress, SessionError for an invalid name."""
        self._refuse_while_busy()
        self._agent.session.rename(name)
        self.name = name

    def delete(self) -> None:
        """Delete the conversation. Raises HTTPError while a run is in progress."""
        self._refuse_while_busy()
        self._agent.session.delete()

    async def stop(self) -> None:
        """Stop the current run, if any; its progress is stored."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def lines(self, serial: int, after: int = 0) -> AsyncGenerator[bytes, None]:
        """Stream the events of the run with that serial as JSON lines, from line `after` until the run ends."""
        while self.serial == serial:
            changed, is_running = self._changed, self.is_running
            for line in self._lines[after:]:
                after += 1
                yield line
            if not is_running:
                return
            await changed.wait()

    def answer(self, question_id: object, answer: ApproverReply) -> None:
        """Answer an approval request. Raises HTTPError if it no longer waits."""
        with self._lock:
            question = self.questions.pop(question_id, None) if isinstance(question_id, str) else None
        if question is None or not question.answer.set_running_or_notify_cancel():
            raise HTTPError(409, "This question no longer waits for an answer.", code="not_waiting")
        question.answer.set_result(answer)

    async def undo(self, record: str) -> str:
        """Undo the changes of a run of this session and return a summary. Raises HTTPError."""
        started = [entry.event for entry in self._agent.session.entries if isinstance(entry.event, RunStarted)]
        is_busy = self.is_running or self._is_undoing
        if is_busy or not record or record not in {event.record for event in started}:
            raise HTTPError(409, "No run of this conversation that has ended has changed that.", code="not_known")
        self._is_undoing = True
        try:
            return str(await asyncio.to_thread(lambda: self._agent.workspace.journal.find(record).undo()))
        except ToolError as error:
            raise HTTPError(409, str(error), code="not_undone") from None
        finally:
            self._is_undoing = False

    async def _run(self, work: Prompt | Resumption) -> None:
        try:
            async with aclosing(self._agent.astream(work)) as events:
                async for event in events:
                    for each in page_events(event):
                        is_end = each["kind"] == "ended"
                        self._emit({**each, "total": total(self._agent.session.usage)} if is_end else each)
        except asyncio.CancelledError:
            self._emit({"kind": "stopped"})
            raise
        except AgentKitError as error:
            self._emit({"kind": "failed", "error": str(error)})

    def _finish(self, task: asyncio.Task[None]) -> None:
        """Release the run's slot and wake the listeners. Errors other than agentkit's are sent as failures."""
        self._limit.release()
        with self._lock:
            self.questions.clear()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._emit({"kind": "failed", "error": f"{type(error).__name__}: {error}"})
        self.is_running = False
        self._wake()

    async def _ask(self, request: ApprovalRequest) -> ApproverReply:
        """Wait for the person's answer; a timeout defers the request. Can be called on any event loop."""
        future: Future[ApproverReply] = Future()
        question_id = secrets.token_hex(8)
        with self._lock:
            self.questions[question_id] = _Question(request, future)
        self._loop.call_soon_threadsafe(self._emit, question_event(question_id, request))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._patience_seconds)
        except TimeoutError:
            return Approval.LATER
        finally:
            with self._lock:
                self.questions.pop(question_id, None)
            self._loop.call_soon_threadsafe(self._emit, settled_event(question_id))

    def _emit(self, event: PageEvent) -> None:
        self._lines.append(json_bytes(event) + b"\n")
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Chats:
    """The chats of the page by session name; idle ones are dropped beyond a maximum."""

    def __init__(
        self,
        agent: Agent[Any],
        store: SessionStore,
        limit: ConcurrencyLimit,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._agent, self._store, self._limit, self._patience_seconds = agent, store, limit, patience_seconds
        self._open: dict[str, Chat] = {}
        self._titles: dict[tuple[str, float], str] = {}

    def waiting(self) -> list[tuple[str, ApprovalRequest]]:
        """The approval requests that wait for a person now, each with the name of its conversation."""
        return [(chat.name, each.request) for chat in self._open.values() for each in chat.questions.values()]

    def list_sessions(self, query: str = "") -> list[PageEvent]:
        """The stored sessions that contain all words of a query, the newest change first."""
        if query.strip():
            return [
                {"name": each.name, "title": each.title, "changed": each.changed, "snippet": each.snippet}
                for each in search_sessions(self._store, query)
            ]
        return [
            {"name": each.name, "title": self._title(each), "changed": each.changed}
            for each in self._store.summaries()[:_MAX_LISTED]
        ]

    def _title(self, summary: SessionSummary) -> str:
        """The title of a session, cached until its first entries can have changed."""
        key = (summary.name, summary.began)
        if key not in self._titles:
            self._titles[key] = title_of(summary.name, self._store.read(summary.name)[0])
        return self._titles[key]

    def rename(self, name: object, new: object) -> str:
        """Rename a conversation and return its new name. Raises HTTPError and SessionError."""
        if not isinstance(new, str) or not new.strip():
            raise invalid_value("name is the new name of the conversation.", "name")
        chat = self.find(name)
        chat.rename(new.strip())
        self._open.pop(str(name), None)
        self._open[chat.name] = chat
        return chat.name

    def delete(self, name: object) -> None:
        """Delete a conversation. Raises HTTPError and SessionError."""
        chat = self.find(name)
        chat.delete()
        self._open.pop(chat.name, None)

    def find(self, name: object) -> Chat:
        """The chat with that name, created if it does not exist. Raises SessionError for an invalid name."""
        if not isinstance(name, str):
            raise invalid_value("session is the name of a conversation.", "session")
        chat = self._open.pop(name, None) or Chat(self._agent, name, self._store, self._limit, self._patience_seconds)
        self._open[name] = chat
        surplus = max(0, len(self._open) - _MAX_CHATS)
        for idle in [each for each in self._open.values() if not each.is_running][:surplus]:
            del self._open[idle.name]
        return chat

    async def close(self) -> None:
        """Stop all runs."""
        for chat in list(self._open.values()):
            await chat.stop()


def parse_answer(document: Mapping[str, Any]) -> ApproverReply:
    """Parse a person's answer: edited arguments, an Approval, or a reason for denial. Raises HTTPError."""
    answer, text, arguments = document.get("answer"), document.get("text") or "", document.get("arguments")
    if isinstance(arguments, str):  # parsed here, because browsers round integers above 2**53
        arguments = _arguments(arguments)
    if not isinstance(text, str) or not isinstance(arguments, dict | None):
        raise _no_answer()
    if answer == "text":
        return text
    if not isinstance(answer, str) or answer not in set(Approval):
        raise _no_answer()
    if answer == Approval.ONCE and arguments is not None:
        return arguments
    return text if answer == Approval.NO and text.strip() else Approval(answer)


def _arguments(text: str) -> dict[str, Any]:
    """Parse edited arguments. Raises HTTPError with the place of the fault."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid_value(f"The arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise invalid_value("The arguments are not a JSON object.")
    return arguments


def _no_answer() -> HTTPError:
    answers = ", ".join([*Approval, "text"])
    return invalid_value(f"answer is one of {answers}; text and arguments go with it.")
