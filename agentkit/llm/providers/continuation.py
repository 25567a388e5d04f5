"""The part of a remote model that has an answer brought to its end, in as many requests as its server wants."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.events import Event, ResponseReceived, TextDelta
from agentkit.llm.wire.messages.hosted import is_paused

if TYPE_CHECKING:
    from agentkit.llm.wire.paragraphs import Paragraphs
    from agentkit.messages import Request, Response


class Continuation:
    """Answers by parts that follow each other: one, unless a server pauses."""

    @abstractmethod
    def complete_part(self, request: Request) -> Response:
        """Answer one request once, blocking."""

    @abstractmethod
    async def acomplete_part(self, request: Request) -> Response:
        """Like `complete_part`, awaiting."""

    @abstractmethod
    def stream_part(self, request: Request) -> Generator[Event]:
        """Like `complete_part`, piece by piece; the last event is ResponseReceived."""

    @abstractmethod
    def astream_part(self, request: Request) -> AsyncGenerator[Event]:
        """Like `stream_part`, awaiting."""

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        parts = _Parts(request)
        while parts.asked:
            parts.take(self.complete_part(parts.asked))
        return parts.answer

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, awaiting."""
        parts = _Parts(request)
        while parts.asked:
            parts.take(await self.acomplete_part(parts.asked))
        return parts.answer

    def stream(self, request: Request) -> Iterator[Event]:
        """Answer one request piece by piece, blocking."""
        parts = _Parts(request)
        while parts.asked:
            with closing(self.stream_part(parts.asked)) as events:
                for event in events:
                    if told := parts.told(event):
                        yield told

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        """Answer one request piece by piece, awaiting."""
        parts = _Parts(request)
        while parts.asked:
            async with aclosing(self.astream_part(parts.asked)) as events:
                async for event in events:
                    if told := parts.told(event):
                        yield told


class _Parts:
    """The parts of one answer. `asked` is what is to be asked now, until there is the whole `answer`."""

    answer: Response

    def __init__(self, request: Request) -> None:
        self._request = request
        self.asked: Request | None = request
        self._paragraphs: Paragraphs | None = None
        self._pauses = 0

    def take(self, part: Response) -> None:
        """Take in what came. A part that the server has only paused is sent back, for it to go on."""
        is_over = not is_paused(part.raw)
        if is_over and not self._pauses:
            self.asked, self.answer = None, part
            return
        from agentkit.llm.wire.messages import turns

        self.answer = turns.joined(self.answer, part) if self._pauses else part
        self._pauses += 1
        if is_over or self._pauses > turns.MOST_PAUSES:
            self.asked, self.answer = None, turns.ended(self.answer)
            return
        self.asked = replace(self._request, messages=[*self._request.messages, self.answer.message])
        self._paragraphs = turns.paragraphs_behind(self.answer)

    def told(self, event: Event) -> Event | None:
        """The event as it is told of the whole answer; None for one that is told at its end only."""
        if isinstance(event, ResponseReceived):
            self.take(event.response)
            return None if self.asked else ResponseReceived(self.answer)
        if self._paragraphs is None or not isinstance(event, TextDelta):
            return event
        return TextDelta(self._paragraphs.add(event.text))
