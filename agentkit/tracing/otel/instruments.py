"""What is measured? Tokens and seconds, in the histograms of the GenAI conventions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentkit.messages import Response
from agentkit.tracing import attributes as names
from agentkit.tracing.listening import ModelRequest, ToolUse, Work

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


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
        """Count work that is done, or that has failed."""
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
        """Tokens only as the server has counted them: what nobody knows is not 0."""
        if response is not None and not response.usage.unreported:
            usage = response.usage
            self._tokens.record(usage.input_tokens, {**known, names.COUNTED_KIND: "input"})
            self._tokens.record(usage.output_tokens, {**known, names.COUNTED_KIND: "output"})

    def _count_call(self, work: ToolUse, seconds: float, error: BaseException | None) -> None:
        known: names.Attributes = {names.TOOL_NAME: work.call.name, names.DECISION_VERDICT: work.decision.verdict.value}
        if work.result is not None:
            known |= {names.TOOL_STATUS: work.result.status, **names.of_failure(work.result)}
        self._tool_seconds.record(seconds, known if error is None else {**known, **names.of_error(error)})
