"""What does a program add to its agents to see them in OpenTelemetry? One listener."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentkit.errors import MissingExtra
from agentkit.events import Event
from agentkit.slotted import dataclass
from agentkit.tracing.listening import Work, origin
from agentkit.tracing.otel.instruments import Instruments
from agentkit.tracing.otel.spans import Spans
from agentkit.tracing.silence import Silence

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider


@dataclass(frozen=True, slots=True)
class _Doing:
    """Work that is being done: its span, what made that the current one, and when it began."""

    span: Span
    token: Token[Context]
    began: float


class OpenTelemetry:
    """A listener that tells OpenTelemetry of runs: `Agent(..., listeners=[OpenTelemetry()])`.

    One may listen to any number of agents. It never raises into a run: what goes wrong in it is a warning in the log
    `agentkit.tracing`, once.

    Args:
        content: Put prompts, answers, arguments and results into the spans, too, without secrets that are recognised.
        tracer_provider: Whose spans; by default the program's own.
        meter_provider: Whose metrics; by default the program's own.

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
        self._silence = Silence("A run could not be told to OpenTelemetry", "Look at the processors of its spans.")

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        self._silence.call(self._spans.hear, event, origin())

    @contextmanager
    def around(self, work: Work) -> Iterator[None]:
        """The span of the work, which is the current one while it is done."""
        doing = self._silence.call(self._begun, work)
        try:
            yield
        except BaseException as error:
            self._silence.call(self._ended, doing, work, error)
            raise
        self._silence.call(self._ended, doing, work, None)

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
