"""What may be read from an agent, and set on it? Its conversation, what it has spent, attributes that are checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, TypeVar

from agentkit.agents import settings, team
from agentkit.agents.facing.spoken import Spoken
from agentkit.agents.result import Resumption, RunFinished
from agentkit.agents.ruling import check_rules
from agentkit.agents.runner import Runner
from agentkit.agents.running.plan import LINEAGE
from agentkit.agents.settings import Prompt, checked_listener
from agentkit.errors import ConfigError
from agentkit.events import Event, HistoryGiven, RunEnded
from agentkit.llm.prices import cost_of
from agentkit.llm.wire.chat.protocol import encode_message
from agentkit.memory.session import Session
from agentkit.messages import Message, without_extra
from agentkit.naming.explaining import explained, no_such
from agentkit.safety.flow import labels_of
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Cost, Limits, Usage

_Kind = TypeVar("_Kind", bound=Event)


@explained("AGENT")
class Conversing(Runner):
    """What an agent has said, spent, and tells to whom. What is set is checked as if the agent was made with it."""

    if TYPE_CHECKING:

        @property
        def tools(self) -> Toolset:
            """What a model may use. Set it to a list or a toolset."""

        @tools.setter
        def tools(self, tools: Iterable[Any] | Callable[..., Any] | None) -> None: ...

    @property
    def history(self) -> list[dict[str, Any]]:
        """The conversation so far as plain dictionaries in the chat format, without the instruction. A copy.

        Set it to go on with a conversation that was kept elsewhere: a list of such dictionaries, or typed messages.
        What was said before is forgotten as by `reset`. Of a tool's result that comes without labels, those of the tool
        are held to be true; of an unknown tool's, that it may hold private data and text of strangers. Raises
        ConfigError for what is no message, and SessionError when a tool call has not exactly one result.
        """
        return [encode_message(without_extra(message)) for message in self.messages]

    @history.setter
    def history(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        said = settings.conversation_from(messages, self.tools)
        Session().append(said)  # what is no conversation is told before the one that is there is put away
        self.reset()
        self.session.append(said)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far as typed messages. A tool that reads them bears the labels of what they hold."""
        messages = self.session.messages
        LINEAGE.get().note(labels_of(messages))
        return messages

    @property
    def usage(self) -> Usage:
        """What all runs of this object have spent so far; `reset` does not undo spending."""
        return self._usage

    @property
    def cost(self) -> Cost | None:
        """What all runs of this object have cost, as far as anybody knows the prices; None when nobody does."""
        return cost_of(self._usage)

    @property
    def holds_back(self) -> bool:
        """Whether an answer of this agent, or of one that may take over, is typed or checked before it may be seen."""
        staff = [self, *team.reachable(self.leads)]
        rules = [each.answer_rules for each in staff if isinstance(each, Conversing)]
        return any(each.output is not None or each.of("output") for each in rules)

    def stream_text(
        self, prompt: Prompt | Resumption, *, limits: Limits | None = None, context: Any = None
    ) -> Generator[str, None, None]:
        """The text of a run as it is written; what the model says around tool calls stands in paragraphs of its own.

        What is typed or checked comes in one piece, when it may. Raises, at its end, what a call of the agent raises.
        """
        spoken = self._spoken(prompt)
        with closing(self.events(prompt, streaming=True, limits=limits, context=context)) as events:
            for event in events:
                if piece := self._said_by(event, spoken):
                    yield piece

    async def astream_text(
        self, prompt: Prompt | Resumption, *, limits: Limits | None = None, context: Any = None
    ) -> AsyncGenerator[str, None]:
        """Like `stream_text`, awaiting."""
        spoken = self._spoken(prompt)
        async with aclosing(self.aevents(prompt, streaming=True, limits=limits, context=context)) as events:
            async for event in events:
                if piece := self._said_by(event, spoken):
                    yield piece

    def _spoken(self, prompt: Prompt | Resumption) -> Spoken:
        """What will be told of a run; one that goes on may have asked for a type of its own."""
        return Spoken(self.holds_back or (isinstance(prompt, Resumption) and prompt.rules is not None))

    def _said_by(self, event: Event, spoken: Spoken) -> str:
        """What an event adds to the text. Raises the error of a run that got to no answer."""
        if isinstance(event, RunFinished):
            return spoken.rest(event.result.raise_for_status().text)
        return spoken.piece(event)

    def stop(self) -> None:
        """End all runs of this object that are going on, from any thread; each raises Cancelled where it was begun.

        A run ends at its next event: a delta, an answer, the result of a tool call; so do those of agents that its
        tools have set to work. A tool that takes long may look at `RunContext.is_stopped`. What was done is kept, and
        `resume` goes on with it.
        """
        vars(self)["_stops"] = self._stops + 1

    def reset(self) -> None:
        """Forget the conversation; a stored one is kept, and begins anew."""
        self.session = self.session.anew()

    def on(self, kind: type[_Kind], listener: Callable[[_Kind], object]) -> Callable[[_Kind], object]:
        """Call `listener` with every event of that kind, in every run from now on. Raises ConfigError."""
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigError(f"on() takes a kind of event, e.g. agent.on(TextDelta, print). Got {kind!r:.200}.")
        if issubclass(kind, HistoryGiven | RunEnded):
            raise ConfigError(
                f"{kind.__name__} is kept with a session, and told to nobody. A run ends with RunFinished."
            )
        checked_listener(listener)

        def heard(event: Event) -> None:
            if isinstance(event, kind):
                listener(event)

        self.listeners.append(heard)
        return listener

    def __setattr__(self, name: str, value: object) -> None:
        """Set what an agent has. Raises ConfigError for a wrong value, AttributeError for what would change nothing."""
        if name in settings.SETTABLE:
            value = settings.SETTABLE[name](value)
            if name in ("policy", "tools"):
                given: dict[str, Any] = {"policy": self.policy, "tools": self.tools, name: value}
                check_rules(**given)
        elif not (name.startswith("_") or hasattr(type(self), name) or self._has_own_attributes):
            raise no_such(self, name, "AGENT")
        object.__setattr__(self, name, value)

    @property
    def _has_own_attributes(self) -> bool:
        """Whether this is an agent of a user's own class, which may have more attributes than ours."""
        return not type(self).__module__.startswith("agentkit.")
