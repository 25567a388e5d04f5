"""The state of a chat: agent, session and settings, each of which can be replaced."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.agents.agent import Agent
from agentkit.agents.result import Resumption, RunFinished, RunResult
from agentkit.cli.ask import build_agent
from agentkit.cli.ask_options import text_of
from agentkit.cli.conversations import new_session, select_session
from agentkit.cli.settings import Settings
from agentkit.errors import SessionError, ToolError
from agentkit.events import Event, ResponseReceived, RunStarted, TextDelta
from agentkit.messages import AssistantMessage, Content, Message, UserMessage
from agentkit.redaction import redact
from agentkit.safety.approval import Approver
from agentkit.sessions.session import Session
from agentkit.usage import Usage
from agentkit.workspace.journal import Journal, Record

if TYPE_CHECKING:
    from agentkit.cli.ask_options import AskOptions
    from agentkit.llm.client import LLM

INTERRUPTED = "[The person has interrupted this answer.]"
"""The text appended to an interrupted answer, for the model."""


class ChatState:
    """The session of a chat and its agent, built from the flags; flags can change while the session stays.

    Unless a session is named, one is created for the first prompt and named after it.
    """

    def __init__(self, options: AskOptions, settings: Settings, llm: LLM, approve: Approver | None) -> None:
        self.options, self.settings, self.llm = options, settings, llm
        self.result: RunResult[str] | None = None
        self._approve = approve
        self._agent: Agent[str] | None = None
        self._earlier = Usage()
        self._content: Content = ""
        self.switch(select_session(options, settings))

    @property
    def session(self) -> Session | None:
        """The session; None before the first prompt of a new one."""
        return self._session

    @property
    def name(self) -> str:
        """The name under which the session is stored; empty if it is not stored."""
        return self._session.name if self._session is not None and self._session.store is not None else ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the session."""
        return () if self._session is None else self._session.messages

    @property
    def usage(self) -> Usage:
        """The usage since the program started."""
        return self._earlier + (Usage() if self._agent is None else self._agent.usage)

    @property
    def has_unfinished_run(self) -> bool:
        """Whether a run of the session waits for a person or was killed."""
        return self._session is not None and bool(self._session.unfinished)

    def stream(self, prompt: str | Resumption, content: Content | None = None) -> Generator[Event, None, None]:
        """Run a prompt and yield its events. `content` is the prompt with the files it names. Raises AgentKitError."""
        agent = self._agent_for(prompt)
        self.result = None
        self._has_response = False
        if isinstance(prompt, str):
            self.prompt, self._content, self._prompt_index = prompt, content or prompt, len(agent.session.messages)
        with closing(agent.stream(prompt if content is None else content)) as events:
            for event in events:
                self._observe(event)
                yield from _without_deltas(event) if agent.withholds_text else (event,)

    def resumption(self) -> Resumption:
        """Resume the last run, or else an unfinished run of the session. Raises SessionError without such a run."""
        if self.result is not None and self.result.status != "done":
            return Resumption(self.result)
        if not self.has_unfinished_run:
            raise SessionError("There is nothing to resume: no run is waiting, was interrupted, or reached a limit.")
        return Resumption()

    def interrupt(self, partial_answer: str) -> None:
        """Store the partial answer of an interrupted run, so that the model sees it in later requests."""
        if self._session is None:
            return
        self._session.begin().leave()  # stores the interrupted run, so that the answer comes after it
        answer = AssistantMessage("\n\n".join(filter(None, (partial_answer.strip(), INTERRUPTED))))
        prompts = [] if self._has_response or len(self.messages) > self._prompt_index else [UserMessage(self._content)]
        self._session.append([*prompts, answer])

    def retry(self) -> str:
        """Cut the conversation before the last prompt, and return that prompt to be sent again. Raises SessionError.

        The removed messages stay in a separate session.
        """
        if not self.prompt:
            raise SessionError("There is no prompt to repeat yet. Send one first.")
        if self._session is not None and len(self._session.messages) > self._prompt_index:
            prompt, index = self.prompt, self._prompt_index
            self.switch(self._session.without_last_run())
            self.prompt, self._prompt_index = prompt, index
        return self.prompt

    def changes(self) -> str:
        """The changes of the last run, or those a dry run would have made, as a unified diff."""
        if self.result is not None:
            return self.result.changes
        record = _find_record(self._runs[-1]) if self._runs else None
        return "" if record is None else redact(record.diff)

    def last_record(self) -> Record | None:
        """The record of the last run in this conversation whose changes are not undone."""
        found = (_find_record(run) for run in reversed(self._runs))
        records = (record for record in found if record is not None)
        return next((record for record in records if record.changes and not record.is_undone), None)

    def change(self, **flags: Any) -> None:
        """Apply other flags in the same session. Raises ConfigError, NoProvider and UnknownTool."""
        options = replace(self.options, **flags)
        settings = options.settings
        _ = settings.tools
        llm = settings.llm()
        self.llm = self.llm if self.llm.equals(llm) else llm
        self.options, self.settings = options, settings
        self._forget_agent()

    def switch(self, session: Session | None) -> None:
        """Switch to a session; None for a new one."""
        self._forget_agent()
        self._session = session
        self.result = None
        self._has_response = True
        prompts = [(at, each) for at, each in enumerate(self.messages) if isinstance(each, UserMessage)]
        self._prompt_index, self.prompt = (prompts[-1][0], text_of(prompts[-1][1].content)) if prompts else (0, "")
        self._content = self.prompt
        entries = [] if session is None else session.entries
        self._runs = [each.event.record for each in entries if isinstance(each.event, RunStarted)]

    def _forget_agent(self) -> None:
        """Drop the agent, so that the next run creates another; its usage is added to the total."""
        self._earlier = self.usage
        self._agent = None

    def _agent_for(self, prompt: str | Resumption) -> Agent[str]:
        if self._session is None:
            self._session = new_session(self.options.store, prompt if isinstance(prompt, str) else "")
        if self._agent is None:
            self._agent = build_agent(self.options, self.settings, self._session, self._approve)
            self._agent.llm = self.llm
        return self._agent

    def _observe(self, event: Event) -> None:
        match event:
            case RunStarted(record=record):
                self._runs.append(record)
            case ResponseReceived():
                self._has_response = True
            case RunFinished(result):
                self.result = result


def _without_deltas(event: Event) -> Iterator[Event]:
    """Replace the text deltas of an agent that checks its answers by one delta at the end of the run."""
    if isinstance(event, RunFinished) and event.result.value is not None:
        yield TextDelta(event.result.text)
    if not isinstance(event, TextDelta):
        yield event


def _find_record(run: str) -> Record | None:
    """The record of a run's changes; None if the run is unknown."""
    try:
        return Journal.of_this_machine().find(run) if run else None
    except ToolError:
        return None
