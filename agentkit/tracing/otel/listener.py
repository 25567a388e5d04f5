"""The OpenTelemetry listener and its metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from agentkit._dataclass import dataclass
from agentkit.errors import MissingExtra
from agentkit.events import Event
from agentkit.messages import Response
from agentkit.tracing import semantic_conventions as names
from agentkit.tracing.listeners import FailureGuard, ModelRequest, ToolUse, Work, origin
from agentkit.tracing.otel.spans import Spans

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider


class Instruments:
    """The metrics of all runs."""

    def __init__(self, provider: MeterProvider | None) -> None:
        from opentelemetry.metrics import get_meter

        meter = get_meter(names.SCOPE, meter_provider=provider)
        self._tokens = meter.create_histogram(
            names.USAGE_METRIC,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        seconds = partial(meter.create_histogram, unit="s", explicit_bucket_boundaries_advisory=names.SECOND_BUCKETS)
        self._seconds = seconds(names.DURATION_METRIC, description="GenAI operation duration.")
        self._tool_seconds = seconds(names.TOOL_DURATION, description="Duration of a tool call.")

    def count(self, work: Work, seconds: float, error: BaseException | None) -> None:
        """Record finished or failed work."""
        if isinstance(work, ModelRequest):
            self._count_request(work, seconds, error)
        else:
            self._count_call(work, seconds, error)

    def _count_request(self, work: ModelRequest, seconds: float, error: BaseException | None) -> None:
        known = names.of_model(work.provider, work.model, work.url)
        if work.response is not None and work.response.model:
            known[names.RESPONSE_MODEL] = work.response.model
        self._count_tokens(work.response, known)
        self._seconds.record(seconds, known if error is None else {**known, **names.of_error(error)})

    def _count_tokens(self, response: Response | None, known: names.Attributes) -> None:
        """Record tokens only as counted by the server: an unknown count is not 0."""
        if response is not None and not response.usage.unreported:
            usage = response.usage
            self._tokens.record(usage.input_tokens, {**known, names.COUNTED_KIND: "input"})
            self._tokens.record(usage.output_tokens, {**known, names.COUNTED_KIND: "output"})

    def _count_call(self, work: ToolUse, seconds: float, error: BaseException | None) -> None:
        known: names.Attributes = {names.TOOL_NAME: work.call.name, names.DECISION_VERDICT: work.decision.verdict.value}
        if work.result is not None:
            known |= {names.TOOL_STATUS: work.result.status, **names.of_failure(work.result)}
        self._tool_seconds.record(seconds, known if error is None else {**known, **names.of_error(error)})


@dataclass(frozen=True, slots=True)
class _Doing:
    """Work in progress: its span, the token that restores the previous span, and its start time."""

    span: Span
    token: Token[Context]
    began: float


class OpenTelemetry:
    """A listener that reports runs to OpenTelemetry: `Agent(..., listeners=[OpenTelemetry()])`.

    One instance can listen to any number of agents. It never raises into a run: the first failure is logged as a
    warning in `agentkit.tracing`.

    Args:
        content: Whether to add prompts, answers, arguments and results to the spans, with detected secrets redacted.
        tracer_provider: The tracer provider; by default the global one.
        meter_provider: The meter provider; by default the global one.

    Raises:
        MissingExtra: The extra `otel` is not installed.
    """

    def __init__(
        self,
        *,
        content: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            self._spans = Spans(tracer_provider, content=content)
            self._instruments = Instruments(meter_provider)
        except ModuleNotFoundError as error:
            raise MissingExtra("otel", "OpenTelemetry") from error
        self._guard = FailureGuard(
            "Cannot report a run to OpenTelemetry", "Check the span processors of the tracer provider."
        )

    def __call__(self, event: Event) -> None:
        """Record an event."""
        self._guard.call(self._spans.record, event, origin())

    @contextmanager
    def around(self, work: Work) -> Iterator[None]:
        """Open a span for the work, which is the current span meanwhile."""
        doing = self._guard.call(self._begun, work)
        try:
            yield
        except BaseException as error:
            self._guard.call(self._ended, doing, work, error)
            raise
        self._guard.call(self._ended, doing, work, None)

    def _begun(self, work: Work) -> _Doing:
        span = self._spans.begun(work)
        return _Doing(span, self._spans.entered(span), time.perf_counter())

    def _ended(self, doing: _Doing | None, work: Work, error: BaseException | None) -> None:
        if doing is None:
            return
        seconds = time.perf_counter() - doing.began
        self._spans.left(doing.token)
        self._spans.end(doing.span, work, error)
        self._instruments.count(work, seconds, error)
