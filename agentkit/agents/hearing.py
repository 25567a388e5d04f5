"""Who hears a run? Its agent's listeners: of each event, with where it comes from, and around its work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from agentkit.agents.running.loop import Loop
from agentkit.agents.running.plan import LINEAGE
from agentkit.agents.running.questions import AskModel, Steps, UseTools
from agentkit.agents.running.tool_call import JudgedCall
from agentkit.events import (
    Event,
    HandedOff,
    RequestFailed,
    ResponseReceived,
    RunLeft,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
)
from agentkit.memory.session import Session
from agentkit.messages import Response, ToolResult
from agentkit.tracing.listening import (
    Listener,
    ModelRequest,
    Origin,
    Surrounding,
    ToolUse,
    is_surrounding,
    surrounded,
    tell,
)
from agentkit.usage import Usage
from agentkit.wording import error_text


class Hearing:
    """The listeners of one run; the list is the agent's own, which may grow."""

    def __init__(self, listeners: Sequence[Listener], loop: Loop, session: Session) -> None:
        self._listeners, self._loop, self._session = listeners, loop, session
        self._parent = LINEAGE.get().context.run
        self.is_over = False

    def origin(self) -> Origin:
        """Where what happens in the run just now comes from."""
        loop, session = self._loop, self._session
        return Origin(loop.run.id, loop.plan.agent, self._parent, kept_name(session), loop.iteration)

    def tell(self, event: Event, *, is_last: bool = False) -> None:
        """Let the listeners hear an event."""
        self.is_over = is_last
        if self._listeners:
            tell(tuple(self._listeners), event, self.origin())

    @contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Let the listeners hear when the run is left before its end within the block."""
        try:
            yield
        except BaseException as error:
            if not self.is_over:
                self.tell(RunLeft("" if isinstance(error, GeneratorExit) else error_text(error)), is_last=True)
            raise

    def attached(self, steps: Steps) -> Steps:
        """The steps of the run; around what they ask of the world stands what the listeners put there."""
        listeners = [listener for listener in self._listeners if is_surrounding(listener)]
        return self._attached(steps, listeners) if listeners else steps

    def _attached(self, steps: Steps, listeners: Sequence[Surrounding]) -> Steps:
        for step in steps:
            if isinstance(step, AskModel):
                step.around = partial(self._around_request, listeners, step)
            elif isinstance(step, UseTools):
                step.around = partial(self._around_call, listeners, step.results)
                step.lineage = replace(step.lineage, attached=partial(self._attached, listeners=listeners))
            yield step

    @contextmanager
    def _around_request(self, listeners: Sequence[Surrounding], asked: AskModel) -> Iterator[None]:
        llm = asked.llm()
        where, request = llm.describe(), llm.request_of(asked.request)
        work = ModelRequest(self.origin(), request, where.provider, where.model, where.endpoint, asked.is_streamed)
        with surrounded(listeners, work):
            yield
            work.response = asked.answer if isinstance(asked.answer, Response) else None

    @contextmanager
    def _around_call(
        self, listeners: Sequence[Surrounding], results: Mapping[str, ToolResult], judged: JudgedCall
    ) -> Iterator[None]:
        description = "" if judged.tool is None else judged.tool.description
        work = ToolUse(self.origin(), judged.call, judged.decision, description)
        with surrounded(listeners, work):
            yield
            work.result = results.get(judged.call.id)


def tell_afterwards(
    listeners: Sequence[Listener], known: Iterable[Event], new: Iterable[Event], source: Origin
) -> None:
    """Let the listeners hear what a run in another process has done, of which they know a part."""
    source = replace(source, is_elsewhere=True)
    for event in known:
        source = _after(event, source)
    for event in new:
        source = _after(event, source)
        tell(tuple(listeners), event, source)


def _after(event: Event, source: Origin) -> Origin:
    """Where an event comes from that follows another one from there."""
    if isinstance(event, ResponseReceived):
        return replace(source, iteration=source.iteration + 1)
    return replace(source, agent=event.agent) if isinstance(event, HandedOff) else source


def kept_name(session: Session) -> str:
    """The name under which a conversation is kept; empty when it is not."""
    return "" if session.store is None else session.name


def spent_in(event: Event) -> Usage | None:
    """What an event tells of tokens spent."""
    match event:
        case ResponseReceived(response):
            return response.usage
        case ToolCallFinished(_, result):
            return result.usage
        case ToolCallPostponed(usage=usage):
            return usage
        case Summarised(_, _, usage) | RequestFailed(_, _, usage):
            return usage
    return None
