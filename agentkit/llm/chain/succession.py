"""Which model is asked, and which one next? Several providers as one: whoever answers first is heard."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

from agentkit.errors import ModelError
from agentkit.events import Event, ResponseReceived
from agentkit.llm import providers
from agentkit.llm.chain.failing import goes_on, missed, told_together
from agentkit.llm.chain.members import Member, told_apart
from agentkit.messages import Missed, Request, Response, usage_of

IS_AWAITED: ContextVar[Callable[[], bool]] = ContextVar("IS_AWAITED", default=lambda: True)
"""Whether anybody still waits for the answer to a request: a run whose time is up leaves its thread behind."""


class Chain:
    """A provider of several others: a request goes to the first, and to the next when that gives no answer.

    Who gave none is remembered, and not asked for a while unless all others fail as well. A stream of which a piece
    was told stays with its model. `now` gives the time in seconds.
    """

    def __init__(self, members: Sequence[Member], now: Callable[[], float] = time.monotonic) -> None:
        self.members, self._now = told_apart(members), now

    @property
    def adjustments(self) -> tuple[str, ...]:
        """What the first is sent differently because its server refused it otherwise."""
        return providers.adjustments_of(self.members[0].provider)

    @property
    def away(self) -> tuple[str, ...]:
        """Who is not asked just now, and why."""
        known = (member.absence.missed for member in self.members)
        return tuple(f"{each.model}: {each.error}" for each in known if each is not None)

    def with_settings(self, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Chain:
        """The same models, and what is known of them, with other settings."""
        return Chain([replace(member, settings=changed(member.settings)) for member in self.members], self._now)

    def prepare(self) -> None:
        """Load what the blocking methods of the first need. Nothing is sent."""
        providers.prepare(self.members[0].provider)

    def close(self) -> None:
        """Close what the blocking methods opened."""
        for member in self.members:
            providers.close(member.provider)

    async def aclose(self) -> None:
        """Close what the awaiting methods opened on the running event loop."""
        for member in self.members:
            await providers.aclose(member.provider)

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        asking = self._asking(request)
        asked = next(asking)
        while True:
            try:
                return asked.response(asked.provider.complete(asked.request))
            except ModelError as error:
                asked = asking.throw(error)

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, awaiting."""
        asking = self._asking(request)
        asked = next(asking)
        while True:
            try:
                return asked.response(await asked.provider.acomplete(asked.request))
            except ModelError as error:
                asked = asking.throw(error)

    def stream(self, request: Request) -> Iterator[Event]:
        """Answer one request piece by piece, blocking."""
        asking = self._asking(request)
        asked = next(asking)
        while True:
            try:
                with closing(providers.streamed(asked.provider, asked.request)) as events:
                    for event in events:
                        yield asked.event(event)
            except ModelError as error:
                asked = asking.throw(error)
            else:
                return

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        """Answer one request piece by piece, awaiting."""
        asking = self._asking(request)
        asked = next(asking)
        while True:
            try:
                inner = cast("AsyncGenerator[Event]", asked.provider.astream(asked.request))
                async with aclosing(inner) as events:
                    async for event in events:
                        yield asked.event(event)
            except ModelError as error:
                asked = asking.throw(error)
            else:
                return

    def _asking(self, request: Request) -> Generator[_Asked, None, None]:
        """Yield whom to ask; an error thrown in is answered with the next one, or raised when there is none."""
        all_missed: list[Missed] = []
        before: ModelError | None = None
        for member, is_hasty in self._candidates(all_missed):
            asked, began = _Asked(member, request, tuple(all_missed), is_hasty=is_hasty), self._now()
            try:
                yield asked
            except ModelError as error:
                failed = error
            all_missed.append(missed(member.name, failed, member.tariff))
            is_away = goes_on(failed)
            if is_away:
                member.absence.has_failed(failed, all_missed[-1], began)
            else:
                member.absence.has_answered()
            failed.__cause__ = failed.__cause__ or before
            before = failed
            if asked.has_begun or not is_away or not IS_AWAITED.get()():
                break
        if len(all_missed) == 1:
            raise failed
        raise told_together(failed, all_missed) from failed

    def _candidates(self, all_missed: list[Missed]) -> Iterator[tuple[Member, bool]]:
        """The models to ask, in order, and whether in haste. Those that are away come last, if none other answered."""
        away: list[tuple[Member, Missed]] = []
        for place, member in enumerate(self.members):
            known = member.absence.claim()
            if known is None:
                yield member, any(later.absence.missed is None for later in self.members[place + 1 :])
            else:
                away.append((member, known))
                all_missed.append(known)
        for member, known in away:
            all_missed.remove(known)
            yield member, True


class _Asked:
    """A model that is asked: what answers for it, what it is sent, and how its answer is told."""

    def __init__(self, member: Member, request: Request, all_missed: tuple[Missed, ...], *, is_hasty: bool) -> None:
        self.provider: providers.Provider = providers.in_haste(member.provider) if is_hasty else member.provider
        self.request = member.sent(request)
        self.has_begun = False
        self._absence, self._missed = member.absence, all_missed

    def response(self, response: Response) -> Response:
        """The response with what was asked in vain before it."""
        self._absence.has_answered()
        if not self._missed:
            return response
        return replace(response, usage=response.usage + usage_of(self._missed), missed=self._missed)

    def event(self, event: Event) -> Event:
        """The event, told by a model that stays with the request from now on."""
        self.has_begun = True
        return ResponseReceived(self.response(event.response)) if isinstance(event, ResponseReceived) else event
