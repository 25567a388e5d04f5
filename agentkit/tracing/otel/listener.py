"""The OpenTelemetry listener and its metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.errors import MissingExtra
from agentkit.events import Event, ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.messages import Response
from agentkit.tracing import semantic_conventions as names
from agentkit.tracing.listeners import FailureGuard, ModelRequest, Origin, ToolUse, Work, origin
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

        meter = get_meter(names.SCOPE, __version__, provider, names.SCHEMA_URL)
        self._tokens = meter.create_histogram(
            names.USAGE_METRIC,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        seconds = partial(meter.create_histogram, unit="s", explicit_bucket_boundaries_advisory=names.SECOND_BUCKETS)
        self._seconds = seconds(names.DURATION_METRIC, description="GenAI operation duration.")
        self._first_chunk_seconds = seconds(
            names.FIRST_CHUNK_METRIC, description="Time to receive the first chunk of a streamed response."
        )
        self._tool_seconds = seconds(names.TOOL_DURATION, description="Duration of a tool call.")

    def count(self, work: Work, seconds: float, first_chunk: float | None, error: BaseException | None) -> None:
        """Record finished or failed work; `first_chunk` is the time until the first chunk in seconds."""
        if isinstance(work, ModelRequest):
            self._count_request(work, seconds, first_chunk, error)
        else:
            self._count_call(work, seconds, error)

    def _count_request(
        self, work: ModelRequest, seconds: float, first_chunk: float | None, error: BaseException | None
    ) -> None:
        known = names.of_model(work.provider, work.model, work.url)
        if work.response is not None and work.response.model:
            known[names.RESPONSE_MODEL] = work.response.model
        self._count_tokens(work.response, known)
        if first_chunk is not None:
            self._first_chunk_seconds.record(first_chunk, known)
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


@dataclass(slots=True)
class _OpenWork:
    """Work in progress: its span, the token that restores the previous span, its start, and that of its first chunk."""

    span: Span
    token: Token[Context]
    began: float
    first_chunk: float | None = None


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
            self._requests: dict[str, _OpenWork] = {}
        except ModuleNotFoundError as error:
            raise MissingExtra("otel", "OpenTelemetry") from error
        self._guard = FailureGuard(
            "Cannot report a run to OpenTelemetry", "Check the span processors of the tracer provider."
        )

    def __call__(self, event: Event) -> None:
        """Record an event."""
        self._guard.call(self._record, event, origin())

    def _record(self, event: Event, source: Origin) -> None:
        if isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
            request = self._requests.get(source.run)
            if request is not None and request.first_chunk is None:
                request.first_chunk = time.perf_counter() - request.began
        else:
            self._spans.record(event, source)

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

    def _begun(self, work: Work) -> _OpenWork:
        span = self._spans.begun(work)
        doing = _OpenWork(span, self._spans.entered(span), time.perf_counter())
        if isinstance(work, ModelRequest):
            self._requests[work.origin.run] = doing
        return doing

    def _ended(self, doing: _OpenWork | None, work: Work, error: BaseException | None) -> None:
        if doing is None:
            return
        seconds = time.perf_counter() - doing.began
        if isinstance(work, ModelRequest):
            self._requests.pop(work.origin.run, None)
        if doing.first_chunk is not None:
            doing.span.set_attribute(names.RESPONSE_FIRST_CHUNK, doing.first_chunk)
        self._spans.left(doing.token)
        self._spans.end(doing.span, work, error)
        self._instruments.count(work, seconds, doing.first_chunk, error)
