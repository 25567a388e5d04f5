"""Fallback between models, with a circuit breaker for models that fail."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from contextvars import ContextVar
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, cast

from agentkit._dataclass import dataclass
from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized
from agentkit.event_rendering import cut
from agentkit.events import Event, ResponseReceived
from agentkit.llm import providers
from agentkit.llm.compat import merged
from agentkit.llm.protocols.error_mapping import is_spent
from agentkit.messages import Missed, Request, Response, usage_of
from agentkit.usage import NO_USAGE, Tariff, unreported

if TYPE_CHECKING:
    from agentkit.llm.providers import Provider


_NOT_SERVED = frozenset({402, 404, 410})
"""The statuses of a refusal that is not about what was asked: no money, no such model or place, no longer there."""

_NO_MODEL = frozenset(
    {
        "model_not_found",
        "model_not_exist",
        "model_not_available",
        "model_decommissioned",
        "invalid_model",
        "unknown_model",
        "deploymentnotfound",
    }
)
"""The codes with which servers say the same, whatever the status."""

_MOST_CHARS = 600


def goes_on(error: ModelError) -> bool:
    """Whether another model may do better: what is wrong is the service, and not what was asked of it.

    A request that a server understood and refuses, as bad, as too long or for what it says, is not asked elsewhere.
    """
    if not isinstance(error, Rejected):
        return True
    if error.is_too_long:
        return False
    is_unknown = (error.code or "").lower() in _NO_MODEL
    return error.status in _NOT_SERVED or is_unknown or is_spent(f"{error.code} {error}")


def is_lasting(error: ModelError) -> bool:
    """Whether somebody must do something about it before it ends: a wrong key, no money, no such model."""
    return isinstance(error, Unauthorized | Rejected) or is_spent(f"{error.code} {error}")


def missed(name: str, error: ModelError, tariff: Tariff | None) -> Missed:
    """What came of asking a model, with the requests that its server may charge for."""
    return Missed(name, type(error).__name__, str(error), unreported(requests_lost(error), tariff))


def requests_lost(error: ModelError) -> int:
    """How many requests a server was at work on whose answers did not arrive whole: what they cost nobody knows."""
    has_begun = error.status is None and isinstance(error, BadResponse)
    return max(error.unanswered, int(has_begun))


def told_together(last: ModelError, all_missed: Sequence[Missed]) -> ModelError:
    """The error of a request that no model has answered: of the kind of the last, with what each has said."""
    # whoever raised the last may raise it again; copy() would share its attributes where Dask's tblib is at work
    error = type(last).__new__(type(last))
    vars(error).update(vars(last))
    is_refused = not goes_on(last)
    start = "The request was refused" if is_refused else f"None of {len(all_missed)} models has answered"
    error.args = (f"{start}. {' '.join(missed_told(each) for each in all_missed)}",)
    error.missed = tuple(all_missed)
    error.unanswered = usage_of(all_missed).requests
    return error


def missed_told(each: Missed) -> str:
    """Which model gave no answer, and why, as one text."""
    asked = each.model if each.was_asked else f"{each.model}, not asked again so soon"
    return f"[{asked}] {cut(each.error, _MOST_CHARS)}"


FIRST_SECONDS, LONGEST_SECONDS = 30.0, 600.0
"""How long a model is not asked after it has failed once, and at most, as that doubles with each failure."""


class CircuitBreaker:
    """What is remembered of one model that may be away. Any thread may use it.

    It is away for 30 seconds, each time that it fails again for twice as long, and never for less time than finding
    out has taken or than its server asks for; at most for ten minutes, and at once for those where somebody must do
    something about it. Then one request asks it, while others go on to the next model until that is answered.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._lock = now, threading.Lock()
        self._missed: Missed | None = None
        self._pause_seconds = self._until = self._failed_at = 0.0

    @property
    def missed(self) -> Missed | None:
        """Why the model would not be asked now; None when it would."""
        missed = self._missed
        return missed if missed is not None and self._now() < self._until else None

    def claim(self) -> Missed | None:
        """None when the model is to be asked, by whoever gets this answer; else why it is not."""
        if self._missed is None:
            return None
        with self._lock:
            missed, now = self._missed, self._now()
            if missed is not None and now >= self._until:
                self._until = now + self._pause_seconds
                return None
            return missed

    def has_answered(self) -> None:
        """The model is there."""
        if self._missed is not None:
            with self._lock:
                self._missed, self._pause_seconds = None, 0.0

    def has_failed(self, error: ModelError, missed: Missed, asked_at: float) -> None:
        """The model was asked at `asked_at`, and gave no answer."""
        with self._lock:
            now = self._now()
            # Those who were all waiting when it failed have seen one failure, not several.
            is_same = self._missed is not None and asked_at < self._failed_at
            pause = self._pause_seconds if is_same else max(FIRST_SECONDS, 2 * self._pause_seconds)
            wish = error.retry_after_seconds if isinstance(error, RateLimited) else None
            pause = max(pause, now - asked_at, wish or 0.0, LONGEST_SECONDS if is_lasting(error) else 0.0)
            self._pause_seconds = min(pause, LONGEST_SECONDS)
            self._until, self._failed_at = now + self._pause_seconds, now
            self._missed = replace(missed, usage=NO_USAGE, was_asked=False)


@dataclass(frozen=True, slots=True)
class FallbackMember:
    """A model of a chain: what it is called, where it is, what answers for it and is charged, and its own settings."""

    name: str
    address: str
    provider: Provider
    tariff: Tariff
    settings: Mapping[str, Any]
    absence: CircuitBreaker = field(default_factory=CircuitBreaker)

    def sent(self, request: Request) -> Request:
        """The request with the model's own settings, as far as nothing else was said of it."""
        if not self.settings:
            return request
        return replace(request, settings=merged(self.settings, request.settings))


def told_apart(members: Sequence[FallbackMember]) -> tuple[FallbackMember, ...]:
    """The members, those of one name called by their addresses, too."""
    names = [member.name for member in members]
    return tuple(
        member if names.count(member.name) == 1 else replace(member, name=f"{member.name} at {member.address}")
        for member in members
    )


IS_AWAITED: ContextVar[Callable[[], bool]] = ContextVar("IS_AWAITED", default=lambda: True)
"""Whether anybody still waits for the answer to a request: a run whose time is up leaves its thread behind."""


class FallbackProvider:
    """A provider of several others: a request goes to the first, and to the next when that gives no answer.

    Who gave none is remembered, and not asked for a while unless all others fail as well. A stream of which a piece
    was told stays with its model. `now` gives the time in seconds.
    """

    def __init__(self, members: Sequence[FallbackMember], now: Callable[[], float] = time.monotonic) -> None:
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

    def with_settings(self, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> FallbackProvider:
        """The same models, and what is known of them, with other settings."""
        return FallbackProvider(
            [replace(member, settings=changed(member.settings)) for member in self.members], self._now
        )

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

    def _asking(self, request: Request) -> Generator[_Attempt, None, None]:
        """Yield whom to ask; an error thrown in is answered with the next one, or raised when there is none."""
        all_missed: list[Missed] = []
        before: ModelError | None = None
        for member, is_hasty in self._candidates(all_missed):
            asked, began = _Attempt(member, request, tuple(all_missed), is_hasty=is_hasty), self._now()
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

    def _candidates(self, all_missed: list[Missed]) -> Iterator[tuple[FallbackMember, bool]]:
        """The models to ask, in order, and whether in haste. Those that are away come last, if none other answered."""
        away: list[tuple[FallbackMember, Missed]] = []
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


class _Attempt:
    """A model that is asked: what answers for it, what it is sent, and how its answer is told."""

    def __init__(
        self, member: FallbackMember, request: Request, all_missed: tuple[Missed, ...], *, is_hasty: bool
    ) -> None:
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
