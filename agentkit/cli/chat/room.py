"""What becomes of a line that was said? A command is done, a prompt is answered, and what came of it is told."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from agentkit.agents.result import Resumption, RunResult
from agentkit.cli.asking.answering import APPROVED, IGNORE_PRICE, ended, is_unpriced, limit_error
from agentkit.cli.asking.question import with_files
from agentkit.cli.chat.commands import OFFLINE, command_in, run_command, tell_session, unescaped
from agentkit.cli.chat.conversation import Conversation
from agentkit.cli.chat.front import Front
from agentkit.cli.chat.stopping import stoppable
from agentkit.cli.exit_codes import ANSWERED, FAILED, INTERRUPTED, LIMIT
from agentkit.cli.terminal import shown_word, tell_error
from agentkit.llm.prices import cost_of
from agentkit.memory.session import Session

if TYPE_CHECKING:
    from agentkit.cli.asking.order import Order
    from agentkit.cli.settings.layers import Settings
    from agentkit.llm.client import LLM

_STOPPED = "Stopped. What was said so far is kept; /retry asks again."


class Room:
    """A conversation and what shows it. Only a person gives commands, and is told how things go on."""

    def __init__(self, order: Order, settings: Settings, llm: LLM, front: Front, *, is_person: bool) -> None:
        self._front, self._is_person = front, is_person
        self.conversation = Conversation(order, settings, llm, front.approve)
        if order.yes:
            front.tell(APPROVED, "yellow")
        if is_person and llm.provider == "offline":
            front.tell(OFFLINE, "yellow")
        if is_person and (self.conversation.messages or self.conversation.has_left_run):
            tell_session(self.conversation, front)

    @property
    def bar(self) -> str:
        """Model, safety level and money, on a line."""
        conversation = self.conversation
        parts = [conversation.llm.model, conversation.settings.of("safety").name.lower()]
        cost = cost_of(conversation.usage)
        parts += [str(cost).partition(" (")[0]] if cost is not None and cost.dollars else []
        return " · ".join([*parts, "/help"])

    def take(self, line: str) -> int:
        """Do what a line says; the exit code that it would end with. Raises AgentKitError, and EOFError to leave."""
        command = command_in(line) if self._is_person else None
        if command is None:
            return self._run(unescaped(line) if self._is_person else line)
        prompt = run_command(*command, self.conversation, self._front)
        return ANSWERED if prompt is None else self._run(prompt)

    def leave(self) -> None:
        """Say how the conversation goes on another day."""
        name = self.conversation.name
        if self._is_person and name and self.conversation.messages:
            later = f"agentkit chat --session {shown_word(name)}"
            self._front.tell(f"Go on with: agentkit chat -c   (later: {later})", "dim")

    def _run(self, prompt: str | Resumption) -> int:
        front, conversation = self._front, self.conversation
        said = with_files(prompt) if self._is_person and isinstance(prompt, str) else None
        front.model = conversation.llm.model
        front.begin()
        try:
            with stoppable(), closing(conversation.stream(prompt, said)) as events:
                for event in events:
                    front.hear(event)
        except KeyboardInterrupt:
            front.rest()
            if not self._is_person:
                raise
            conversation.interrupt(front.said)
            front.tell(_STOPPED, "yellow")
        finally:
            front.rest()
        self._tell_changes()
        if conversation.result is None:
            return INTERRUPTED
        return self._tell_end(conversation.result, conversation.session or Session())

    def _tell_changes(self) -> None:
        changes = self.conversation.changes()
        if changes:
            self._front.diff(changes)
        if changes and self._is_person:
            is_dry = self.conversation.order.dry_run
            self._front.tell("Nothing of this was done: --dry-run." if is_dry else "/undo takes this back.", "dim")

    def _tell_end(self, result: RunResult[str], session: Session) -> int:
        if not self._is_person:
            return ended(result, session)
        if result.status == "paused":
            waiting = ", ".join(dict.fromkeys(pending.tool for pending in result.pending))
            self._front.tell(f"The run waits for your answer about {waiting}. Go on with: /resume", "yellow")
            return INTERRUPTED
        if result.error is None:
            return ANSWERED
        if result.status != "limit":
            tell_error(result.error)
            return FAILED
        tell_error(limit_error(result), IGNORE_PRICE if is_unpriced(result) else "Go on with: /resume")
        return LIMIT
