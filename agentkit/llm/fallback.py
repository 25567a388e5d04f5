"""Fallback between models, with a circuit breaker for models that fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized
from agentkit.event_rendering import truncate
from agentkit.llm import pipeline
from agentkit.llm.pipeline import Provider, Stage, StageSteps, is_cancelled, steps_of
from agentkit.llm.protocols.error_mapping import is_quota_exhausted
from agentkit.llm.request_settings import merge_settings
from agentkit.messages import FailedModel, Request, Response, usage_of
from agentkit.usage import NO_USAGE, Tariff, unreported

_NOT_SERVED = frozenset({402, 404, 410})
"""Statuses that concern the service and not the request: payment required, model or path not found, gone."""

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
"""Error codes for an unavailable model, whatever the status."""

_MAX_CHARS = 600


def should_try_next(error: ModelError) -> bool:
    """Whether to try the next model: the service failed, rather than the request being invalid.

    A request that a server understood and rejected (invalid, too long, or for its content) goes to no other model.
    """
    if not isinstance(error, Rejected):
        return True
    if error.is_too_long:
        return False
    is_unknown = (error.code or "").lower() in _NO_MODEL
    is_unsupported = error.status is not None and error.status >= 500
    return error.status in _NOT_SERVED or is_unsupported or is_unknown or is_quota_exhausted(f"{error.code} {error}")


def is_permanent(error: ModelError) -> bool:
    """Whether the error persists until someone acts: a wrong key, no credit, an unknown model."""
    return isinstance(error, Unauthorized | Rejected) or is_quota_exhausted(f"{error.code} {error}")


def failed_model(name: str, error: ModelError, tariff: Tariff | None) -> FailedModel:
    """Record a failed call to a model, including the requests that its server could charge for."""
    return FailedModel(name, type(error).__name__, str(error), unreported(count_lost_requests(error), tariff))


def count_lost_requests(error: ModelError) -> int:
    """Number of requests that a server started but did not answer completely; their cost is unknown."""
    has_started = error.status is None and isinstance(error, BadResponse)
    return max(error.unanswered, int(has_started))


def all_failed_error(last: ModelError, all_missed: Sequence[FailedModel]) -> ModelError:
    """Build the error raised when every model failed: the type of the last error, with the message of each failure."""
    # The caller can raise `last` again, so it is not modified; copy() would share attributes with Dask's tblib patch.
    error = type(last).__new__(type(last))
    vars(error).update(vars(last))
    is_refused = not should_try_next(last)
    start = "The request was refused" if is_refused else f"None of the {len(all_missed)} models answered"
    error.args = (f"{start}. {' '.join(format_failed_model(each) for each in all_missed)}",)
    error.missed = tuple(all_missed)
    error.unanswered = usage_of(all_missed).requests
    return error


def format_failed_model(each: FailedModel) -> str:
    """Format a failed call as one text: the model and the reason."""
    model_text = each.model if each.was_tried else f"{each.model}, skipped after a recent failure"
    return f"[{model_text}] {truncate(each.error, _MAX_CHARS)}"


FIRST_SECONDS, MAX_SECONDS = 30.0, 600.0
"""The pause in seconds after the first failure, and the maximum; the pause doubles with each failure."""


class CircuitBreaker:
    """Circuit breaker for one model. Thread-safe.

    The circuit opens for 30 seconds, twice as long after each further failure, and at least as long as the failed call
    took or as the server's Retry-After asks; at most ten minutes, and for ten minutes at once after an error that
    persists until someone acts. Then one request probes the model, while others use the next one until it is answered.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._lock = now, threading.Lock()
        self._missed: FailedModel | None = None
        self._pause_seconds = self._paused_until = self._failed_at = 0.0

    @property
    def missed(self) -> FailedModel | None:
        """The failure for which the model is currently skipped; None if it can be called."""
        missed = self._missed
        return missed if missed is not None and self._now() < self._paused_until else None

    def claim(self) -> FailedModel | None:
        """None if the caller should call the model (or probe it after a pause), otherwise the failure to report."""
        if self._missed is None:
            return None
        with self._lock:
            missed, now = self._missed, self._now()
            if missed is not None and now >= self._paused_until:
                self._paused_until = now + self._pause_seconds
                return None
            return missed

    def record_success(self) -> None:
        """Record a success: close the circuit."""
        if self._missed is not None:
            with self._lock:
                self._missed, self._pause_seconds = None, 0.0

    def record_failure(self, error: ModelError, missed: FailedModel, sent_at: float) -> None:
        """Record a failure of a call that began at `sent_at`."""
        with self._lock:
            now = self._now()
            # Concurrent calls that were in flight at the time of the failure count as one failure.
            is_same = self._missed is not None and sent_at < self._failed_at
            pause = self._pause_seconds if is_same else max(FIRST_SECONDS, 2 * self._pause_seconds)
            retry_after = error.retry_after_seconds if isinstance(error, RateLimited) else None
            pause = max(pause, now - sent_at, retry_after or 0.0, MAX_SECONDS if is_permanent(error) else 0.0)
            self._pause_seconds = min(pause, MAX_SECONDS)
            self._paused_until, self._failed_at = now + self._pause_seconds, now
            self._missed = replace(missed, usage=NO_USAGE, was_tried=False)


@dataclass(frozen=True, slots=True)
class FallbackMember:
    """A model of a fallback chain: display name, address, provider, tariff, its own settings and circuit breaker."""

    name: str
    address: str
    provider: Provider
    tariff: Tariff
    settings: Mapping[str, Any]
    circuit_breaker: CircuitBreaker = field(default_factory=CircuitBreaker)

    def sent(self, request: Request) -> Request:
        """The request with the model's own settings merged in; settings of the request take precedence."""
        if not self.settings:
            return request
        return replace(request, settings=merge_settings(self.settings, request.settings))


def with_distinct_names(members: Sequence[FallbackMember]) -> tuple[FallbackMember, ...]:
    """The members, with the address appended to names that are not unique."""
    names = [member.name for member in members]
    return tuple(
        member if names.count(member.name) == 1 else replace(member, name=f"{member.name} at {member.address}")
        for member in members
    )


class FallbackProvider(Stage):
    """A provider that sends a request to the first of several models, and to the next one when it fails.

    A model that failed is skipped for a while unless all others fail too. Once a stream has emitted an event it stays
    with its model. `now` returns the time in seconds.
    """

    def __init__(self, members: Sequence[FallbackMember], now: Callable[[], float] = time.monotonic) -> None:
        self.members, self._now = with_distinct_names(members), now

    @property
    def adjustments(self) -> tuple[str, ...]:
        """The adjustments that the first model's provider makes to requests."""
        return pipeline.adjustments_of(self.members[0].provider)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The models that are currently skipped, with the reason."""
        known = (member.circuit_breaker.missed for member in self.members)
        return tuple(f"{each.model}: {each.error}" for each in known if each is not None)

    def with_settings(self, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> FallbackProvider:
        """A provider with the same models and circuit breakers, but other settings."""
        return FallbackProvider(
            [replace(member, settings=changed(member.settings)) for member in self.members], self._now
        )

    def prepare(self) -> None:
        """Load the HTTP client of the first model. Nothing is sent."""
        pipeline.prepare(self.members[0].provider)

    def close(self) -> None:
        """Close the connections of the blocking methods."""
        for member in self.members:
            pipeline.close(member.provider)

    async def aclose(self) -> None:
        """Close the connections of the async methods on the running event loop."""
        for member in self.members:
            await pipeline.aclose(member.provider)

    def steps(self, request: Request, *, streaming: bool, has_fallback: bool = False) -> StageSteps[Response]:
        """The steps that answer a request: those of each model in turn, until one answers."""
        all_missed: list[FailedModel] = []
        before: ModelError | None = None
        for member, has_next in self._candidates(all_missed):
            missed_before, began = tuple(all_missed), self._now()
            try:
                response = yield from steps_of(
                    member.provider, member.sent(request), streaming=streaming, has_fallback=has_next or has_fallback
                )
            except ModelError as error:
                failed = error
            else:
                member.circuit_breaker.record_success()
                return _with_failed(response, missed_before)
            all_missed.append(failed_model(member.name, failed, member.tariff))
            is_unavailable = should_try_next(failed)
            if is_unavailable:
                member.circuit_breaker.record_failure(failed, all_missed[-1], began)
            else:
                member.circuit_breaker.record_success()
            failed.__cause__ = failed.__cause__ or before
            before = failed
            if failed.partial is not None or not is_unavailable or is_cancelled():
                break
        if len(all_missed) == 1:
            raise failed
        raise all_failed_error(failed, all_missed) from failed

    def _candidates(self, all_missed: list[FailedModel]) -> Iterator[tuple[FallbackMember, bool]]:
        """The models in order, each with `has_fallback`. Those with an open circuit come last, if all others failed."""
        skipped: list[tuple[FallbackMember, FailedModel]] = []
        for place, member in enumerate(self.members):
            known = member.circuit_breaker.claim()
            if known is None:
                yield member, any(other.circuit_breaker.missed is None for other in self.members[place + 1 :])
            else:
                skipped.append((member, known))
                all_missed.append(known)
        for member, known in skipped:
            all_missed.remove(known)
            yield member, True


def _with_failed(response: Response, all_missed: tuple[FailedModel, ...]) -> Response:
    """The response with the earlier failed attempts and their usage added."""
    if not all_missed:
        return response
    return replace(response, usage=response.usage + usage_of(all_missed), missed=all_missed)
