"""Conversations of protocol clients: their sessions, and the events of their runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agentkit.agents.agent import Agent, StreamedText
from agentkit.agents.human_approval import answer_later
from agentkit.agents.options import Prompt
from agentkit.agents.result import Pending, Resumption, RunFinished, pending_calls
from agentkit.events import Event, TextDelta
from agentkit.messages import Content, Message, UserMessage
from agentkit.server.http_types import HTTPError, invalid_value
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionStore, validate_session_name

_MAX_OPEN = 100


async def front_end_events(
    agent: Agent[Any], work: Prompt | Resumption, sent: Sequence[Content] = ()
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run for a front end that shows text as it arrives; `sent` are messages sent into the run.

    The text deltas are exactly the answer: text that a guardrail can still change comes when it was checked, and each
    response starts a new paragraph.
    """
    streamed = StreamedText(agent.withholds_text)
    async with agent.astream(work) as events:
        for message in sent:
            events.send(message)
        async for event in events:
            text = streamed.piece(event)
            if isinstance(event, RunFinished) and (event.result.status == "done" or not streamed.withholds_text):
                text = streamed.rest(event.result.text)
            if text:
                yield TextDelta(text)
            if not isinstance(event, TextDelta):
                yield event


class ClientConversation:
    """One conversation: an agent in its session, with at most one run at a time.

    `own_tools` are the tools of the agent without those of a client.
    """

    def __init__(self, agent: Agent[Any]) -> None:
        self.agent, self.own_tools = agent, agent.tools
        self.is_running = False

    def waiting(self, run: str = "") -> tuple[str, tuple[Pending, ...]]:
        """The id of a run, by default the newest, and its calls that wait for a person; empty if none does."""
        session = self.agent.session
        unfinished = session.unfinished  # reads what was stored since
        run = run or next(reversed(unfinished), "")
        progress = session.conversation.active_runs.get(run)
        return (run, pending_calls(progress)) if progress is not None and progress.status == "paused" else ("", ())

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far, with those of a run that waits."""
        session = self.agent.session
        progress = session.conversation.active_runs.get(self.waiting()[0])
        return (*session.messages, *(progress.valid_messages() if progress is not None else ()))

    @property
    def prompts(self) -> int:
        """The number of messages from the user."""
        return sum(isinstance(message, UserMessage) and message.by_person for message in self.messages)

    def forget_last_run(self) -> None:
        """Continue before the last prompt; the old branch becomes a conversation with another name."""
        self.agent = self.agent.within(self.agent.session.without_last_run())

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the conversation for one run. Raises HTTPError while another run is in progress."""
        if self.is_running:
            raise HTTPError(409, "A run of this conversation is in progress. Wait, or stop it.", code="busy")
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False


def parse_client_answer(payload: object, pending: Pending) -> Any:
    """The answer of a client to a waiting call: `{"approved": …}` with `editedArgs` or `reason`, or `{"answer": …}`.

    Raises HTTPError if it does not fit the call.
    """
    fields = payload if isinstance(payload, Mapping) else {}
    if pending.needs_answer:
        answer = fields.get("answer") if payload is fields else payload
        if isinstance(answer, str):
            return answer
        raise _invalid_answer(pending, "answer, a text")
    approved, edited, reason = (fields.get(name) for name in ("approved", "editedArgs", "reason"))
    if not isinstance(approved, bool) or not isinstance(edited, dict | None) or not isinstance(reason, str | None):
        raise _invalid_answer(pending, "approved, true or false")
    if not approved:
        return reason if reason and reason.strip() else False
    return True if edited is None else edited


def _invalid_answer(pending: Pending, expected: str) -> HTTPError:
    text = f"The answer to the call {pending.id!r:.100} is an object with {expected}."
    return invalid_value(text)


class Conversations:
    """The conversations of one protocol, in sessions named `PROTOCOL/NAME`; idle ones are dropped beyond a maximum.

    A call that needs approval pauses the run, whatever the agent's own approver: the client is asked.
    """

    def __init__(self, agent: Agent[Any], store: SessionStore, protocol: str) -> None:
        self._agent, self._store, self._protocol = agent, store, protocol
        self._open: dict[str, ClientConversation] = {}

    def find(self, name: str) -> ClientConversation:
        """The conversation with that name, created if it does not exist. Raises SessionError for an invalid name."""
        found = self._open.pop(name, None)
        if found is None:
            agent = self._agent.within(Session.open(self._store, f"{self._protocol}/{validate_session_name(name)}"))
            agent.approve = answer_later
            found = ClientConversation(agent)
        self._open[name] = found
        for idle in [key for key, each in self._open.items() if not each.is_running][: len(self._open) - _MAX_OPEN]:
            del self._open[idle]
        return found
