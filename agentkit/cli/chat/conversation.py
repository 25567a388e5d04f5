"""The state of a chat: agent, session and settings, each of which can be replaced."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.agents.agent import Agent
from agentkit.agents.result import Resumption, RunFinished, RunResult
from agentkit.cli.ask import agent_of
from agentkit.cli.ask_options import chosen_session, new_session, text_of
from agentkit.cli.settings import Settings
from agentkit.errors import SessionError, ToolError
from agentkit.events import Event, ResponseReceived, RunStarted, TextDelta
from agentkit.messages import AssistantMessage, Content, Message, UserMessage
from agentkit.redaction import redact
from agentkit.safety.approval import Approver
from agentkit.sessions.export import old_name
from agentkit.sessions.session import Session
from agentkit.usage import Usage
from agentkit.workspace.journal import Journal, Record

if TYPE_CHECKING:
    from agentkit.cli.ask_options import AskOptions
    from agentkit.llm.client import LLM

INTERRUPTED = "[The person has interrupted this answer.]"
"""What the model finds behind an answer that was stopped."""


class ChatState:
    """A session and the agent that talks in it, as the flags say; a flag may change while the session stays.

    Without a session that was named, one is made when the first prompt is there to name it after.
    """

    def __init__(self, order: AskOptions, settings: Settings, llm: LLM, approve: Approver | None) -> None:
        self.order, self.settings, self.llm = order, settings, llm
        self.result: RunResult[str] | None = None
        self._approve = approve
        self._agent: Agent[str] | None = None
        self._earlier = Usage()
        self._said: Content = ""
        self.switch(chosen_session(order, settings))

    @property
    def session(self) -> Session | None:
        """The session; None before the first prompt of a new one."""
        return self._session

    @property
    def name(self) -> str:
        """What the session is kept as; empty when it is not."""
        return self._session.name if self._session is not None and self._session.store is not None else ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What has been said."""
        return () if self._session is None else self._session.messages

    @property
    def usage(self) -> Usage:
        """What has been spent since the program began."""
        return self._earlier + (Usage() if self._agent is None else self._agent.usage)

    @property
    def has_left_run(self) -> bool:
        """Whether a run of the session waits for a person, or was killed."""
        return self._session is not None and bool(self._session.unfinished)

    def stream(self, prompt: str | Resumption, said: Content | None = None) -> Generator[Event, None, None]:
        """The events of a run. `said` is the prompt with the files that it names. Raises AgentKitError."""
        agent = self._agent_for(prompt)
        self.result = None
        self._is_heard = False
        if isinstance(prompt, str):
            self.prompt, self._said, self._cut = prompt, said or prompt, len(agent.session.messages)
        with closing(agent.stream(prompt if said is None else said)) as events:
            for event in events:
                self._note(event)
                yield from _whole(event) if agent.holds_back else (event,)

    def resumption(self) -> Resumption:
        """What goes on with the last run, or else with one that was left. Raises SessionError when there is none."""
        if self.result is not None and self.result.status != "done":
            return Resumption(self.result)
        if not self.has_left_run:
            raise SessionError("There is nothing to go on with: no run waits, was cut off, or hit a limit.")
        return Resumption()

    def interrupt(self, said: str) -> None:
        """Enter what the model had said when it was stopped, so that both know it from now on."""
        if self._session is None:
            return
        self._session.begin().leave()  # enters the run that was cut off, so that this comes behind it
        answer = AssistantMessage("\n\n".join(filter(None, (said.strip(), INTERRUPTED))))
        asked = [] if self._is_heard or len(self.messages) > self._cut else [UserMessage(self._said)]
        self._session.append([*asked, answer])

    def retry(self) -> str:
        """The last prompt, to be asked again: the conversation is cut off before it. Raises SessionError.

        What is cut off stays in a session of its own, as it does when a session begins anew.
        """
        if not self.prompt:
            raise SessionError("Nothing has been asked yet.")
        if self._session is not None and len(self._session.messages) > self._cut:
            prompt, cut = self.prompt, self._cut
            self.switch(_cut_off(self._session, cut))
            self.prompt, self._cut = prompt, cut
        return self.prompt

    def changes(self) -> str:
        """What the last run changed, or would have in a dry run, as a unified diff."""
        if self.result is not None:
            return self.result.changes
        record = _record(self._runs[-1]) if self._runs else None
        return "" if record is None else redact(record.diff)

    def last_record(self) -> Record | None:
        """What the last run of this conversation changed that is not taken back yet."""
        known = (_record(run) for run in reversed(self._runs))
        records = (record for record in known if record is not None)
        return next((record for record in records if record.changes and not record.is_undone), None)

    def change(self, **flags: Any) -> None:
        """Go on with other flags, in the same session. Raises ConfigError, NoProvider and UnknownTool."""
        order = replace(self.order, **flags)
        settings = order.settings
        _ = settings.tools
        llm = settings.llm()
        self.llm = self.llm if self.llm.equals(llm) else llm
        self.order, self.settings = order, settings
        self._forget_agent()

    def switch(self, session: Session | None) -> None:
        """Be in that session from now on; None for a new one."""
        self._forget_agent()
        self._session = session
        self.result = None
        self._is_heard = True
        asked = [(at, each) for at, each in enumerate(self.messages) if isinstance(each, UserMessage)]
        self._cut, self.prompt = (asked[-1][0], text_of(asked[-1][1].content)) if asked else (0, "")
        self._said = self.prompt
        entries = [] if session is None else session.entries
        self._runs = [each.milestone.record for each in entries if isinstance(each.milestone, RunStarted)]

    def _forget_agent(self) -> None:
        """Make another one next time; what this one has spent is remembered."""
        self._earlier = self.usage
        self._agent = None

    def _agent_for(self, prompt: str | Resumption) -> Agent[str]:
        if self._session is None:
            self._session = new_session(self.order.place, prompt if isinstance(prompt, str) else "")
        if self._agent is None:
            self._agent = agent_of(self.order, self.settings, self._session, self._approve)
            self._agent.llm = self.llm
        return self._agent

    def _note(self, event: Event) -> None:
        match event:
            case RunStarted(record=record):
                self._runs.append(record)
            case ResponseReceived():
                self._is_heard = True
            case RunFinished(result):
                self.result = result


def _whole(event: Event) -> Iterator[Event]:
    """An event of an agent whose answers are shown when they have been checked, and not while they are written."""
    if isinstance(event, RunFinished) and event.result.value is not None:
        yield TextDelta(event.result.text)
    if not isinstance(event, TextDelta):
        yield event


def _cut_off(session: Session, at: int) -> Session:
    """The session with its first `at` messages; all of it is kept under its name with the time."""
    if session.store is None:
        return session.fork(session.name, at)
    if not at:
        return session.anew()
    name = session.name
    session.rename(old_name(name))
    return session.fork(name, at)


def _record(run: str) -> Record | None:
    """What a run changed; None when nothing is known of it."""
    try:
        return Journal.of_this_machine().find(run) if run else None
    except ToolError:
        return None
