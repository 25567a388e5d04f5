"""OpenTelemetry: the listener, its spans of runs, iterations, model requests and tool calls, and its metrics.

Only this module imports OpenTelemetry, and only its API: without an SDK nothing is recorded, at negligible cost.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit import events
from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.errors import MissingExtra
from agentkit.event_rendering import answer_text
from agentkit.messages import Response, ToolCall, ToolResult, UserMessage, arguments_of
from agentkit.redaction import stored_text_redactor
from agentkit.tracing import semantic_conventions as names
from agentkit.tracing.listeners import (
    EmbeddingRequest,
    FailureGuard,
    ModelRequest,
    Origin,
    RunOutcome,
    ToolUse,
    Work,
    origin,
    outcome_of,
)

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanContext, Status, TracerProvider
    from opentelemetry.util.types import AttributeValue

_MAX_LEFT = 1_000
"""Maximum number of paused or interrupted runs whose spans are stored for links."""

_MAX_CHARS = 500


class _OpenRun:
    """A run in progress: its span, the span of the agent it was handed to, and the span of its iteration.

    `waiting` are the calls of the iteration without a result, `done` those that already have spans.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        self.agent: Span | None = None
        self.iteration: Span | None = None
        self.waiting: set[str] = set()
        self.done: set[str] = set()

    @property
    def innermost(self) -> Span:
        return self.iteration or self.agent or self.span

    def end_iteration(self) -> None:
        if self.iteration is not None:
            self.iteration.end()
        self.iteration = None

    def end_if_idle(self) -> None:
        """End the iteration once all its tool calls have results."""
        if not self.waiting:
            self.end_iteration()

    def end_agent(self) -> None:
        self.end_iteration()
        if self.agent is not None:
            self.agent.end()
        self.agent = None


class Spans:
    """The spans of all runs in progress. With `content`, they include texts."""

    def __init__(self, provider: TracerProvider | None, *, content: bool) -> None:
        from opentelemetry import context, trace

        self.contexts, self._trace = context, trace
        self._tracer = trace.get_tracer(names.SCOPE, __version__, provider, names.SCHEMA_URL)
        self._content = content
        self._open: dict[str, _OpenRun] = {}
        self._left: OrderedDict[str, SpanContext] = OrderedDict()

    def record(self, event: events.Event, source: Origin) -> None:
        """Start or end a span, or add the event to the span it belongs to."""
        if isinstance(event, events.RunStarted | events.RunResumed):
            self._begin(event, source)
            return
        run, outcome = self._open.get(source.run), outcome_of(event)
        if run is None:
            return
        if outcome is not None:
            self._finish(run, outcome, event.describe().fields, source)
        elif isinstance(event, events.RunLeft):
            self._abandon(run, event, source)
        else:
            self._advance(run, event, source)

    def begun(self, work: Work) -> Span:
        """Start the span of work that is about to begin."""
        run = self._open.get(work.origin.run)
        context = None if run is None else self._trace.set_span_in_context(run.innermost)
        if isinstance(work, ToolUse):
            if run is not None:
                run.done.add(work.call.id)
            return self._begun_call(work, context)
        if isinstance(work, EmbeddingRequest):  # below the span of its tool call, which is the current one
            known = names.of_model(work.provider, work.model, work.url, names.EMBEDDINGS)
            known |= {names.AGENT_NAME: work.origin.agent, names.ITERATION: work.origin.iteration}
            if (length := work.asked.settings.get("dimensions")) is not None:
                known[names.EMBEDDING_DIMENSIONS] = length
            name = f"{names.EMBEDDINGS} {work.model}"
            return self._tracer.start_span(name, None, self._trace.SpanKind.CLIENT, known)
        known = names.of_model(work.provider, work.model, work.url)
        if run is not None and run.span.is_recording():
            asked = {names.PROVIDER_NAME: known[names.PROVIDER_NAME], names.REQUEST_MODEL: known[names.REQUEST_MODEL]}
            (run.agent or run.span).set_attributes(asked)
        span = self._tracer.start_span(f"{names.CHAT} {work.model}", context, self._trace.SpanKind.CLIENT, known)
        if span.is_recording():
            span.set_attributes(names.of_request(work))
            if self._content:
                request = work.request
                content: dict[str, object] = {names.INPUT_MESSAGES: names.of_messages(request.messages)}
                content |= {names.SYSTEM_INSTRUCTIONS: names.of_text(request.instruction)}
                span.set_attributes(_texts({**content, names.TOOL_DEFINITIONS: names.of_tools(request.tools)}))
        return span

    def entered(self, span: Span) -> Token[Context]:
        """Make a span current; the returned token restores the previous one."""
        return self.contexts.attach(self._trace.set_span_in_context(span))

    def end(self, span: Span, work: Work, error: BaseException | None) -> None:
        """End the span of work, recording its outcome."""
        try:
            if span.is_recording():
                self._add_outcome(span, work, error)
        finally:
            span.end()

    def _begin(self, event: events.RunStarted | events.RunResumed, source: Origin) -> None:
        before = self._left.pop(source.run, None)
        links = [] if before is None else [self._trace.Link(before)]
        name = f"{names.INVOKE_AGENT} {source.agent}"
        span = self._tracer.start_span(name, None, self._trace.SpanKind.INTERNAL, names.of_run(source), links)
        self._open[source.run] = _OpenRun(span)
        if self._content and span.is_recording() and isinstance(event, events.RunStarted):
            span.set_attributes(_texts({names.INPUT_MESSAGES: names.of_messages([UserMessage(event.prompt)])}))

    def _advance(self, run: _OpenRun, event: events.Event, source: Origin) -> None:
        match event:
            case events.RequestStarted(iteration):
                run.end_iteration()
                known: names.Attributes = {names.ITERATION: iteration, names.AGENT_NAME: source.agent}
                run.iteration = self._child(run, f"iteration {iteration}", known)
            case events.ResponseReceived(response):
                if source.is_elsewhere:
                    self._add_afterwards(run, response, source)
                run.waiting = {call.id for call in response.tool_calls}
                run.end_if_idle()
            case events.ToolCallFinished(call, result):
                if call.id not in run.done:
                    self._add_external_call(run, call, result, source)
                run.waiting.discard(call.id)
                run.end_if_idle()
            case events.HandedOff():
                run.end_agent()
                run.agent = self._child(run, f"{names.INVOKE_AGENT} {source.agent}", names.of_run(source))
            case events.StoredEvent(is_span_event=True) if run.innermost.is_recording():
                self._add_event(run.innermost, event)

    def _add_event(self, span: Span, event: events.StoredEvent) -> None:
        """Add an event to a span: its fields and, if content is enabled, its texts."""
        description = event.describe()
        attributes = {
            names.of_field(name): self._shown(value) if isinstance(value, str) else value
            for name, value in description.fields.items()
        }
        if self._content:
            attributes |= _texts({names.of_field(name): each for name, each in description.content.items()})
        span.add_event(f"{names.SCOPE}.{event.event_name}", attributes)

    def _finish(self, run: _OpenRun, outcome: RunOutcome, fields: Mapping[str, Any], source: Origin) -> None:
        """End the span of a finished or paused run."""
        span = run.span
        span.set_attributes({f"agentkit.run.{name}": fields[name] for name in names.OUTCOME if name in fields})
        if outcome.error is not None:
            self._fail(span, outcome.error)
        if self._content and span.is_recording() and outcome.value is not None:
            answer = names.of_answer(answer_text(outcome.value), outcome.status)
            span.set_attributes(_texts({names.OUTPUT_MESSAGES: answer}))
        self._close(run, source, is_done=outcome.status == "done")

    def _abandon(self, run: _OpenRun, event: events.RunLeft, source: Origin) -> None:
        """End the span of a run whose events are no longer consumed."""
        run.span.set_attribute(names.RUN_STATUS, "left")
        if event.error:
            kind = event.error.partition(":")[0]
            run.span.set_attribute(names.ERROR_TYPE, kind)
            run.span.set_status(self._error(self._shown(event.error) if self._content else kind))
        self._close(run, source, is_done=False)

    def _close(self, run: _OpenRun, source: Origin, *, is_done: bool) -> None:
        del self._open[source.run]
        run.end_agent()
        run.span.end()
        if not is_done:
            self._left[source.run] = run.span.get_span_context()
            while len(self._left) > _MAX_LEFT:
                self._left.popitem(last=False)

    def _child(self, run: _OpenRun, name: str, attributes: Mapping[str, AttributeValue]) -> Span:
        context = self._trace.set_span_in_context(run.agent or run.span)
        return self._tracer.start_span(name, context, self._trace.SpanKind.INTERNAL, attributes)

    def _begun_call(self, work: ToolUse, context: Context | None, start: int | None = None) -> Span:
        attributes = names.of_call(work)
        for key in (names.TOOL_NAME, names.TOOL_CALL_ID):  # from the model
            attributes[key] = self._shown(attributes[key])
        name = f"{names.EXECUTE_TOOL} {attributes[names.TOOL_NAME]}"
        kind = self._trace.SpanKind.INTERNAL
        span = self._tracer.start_span(name, context, kind, attributes, start_time=start)
        if span.is_recording():
            decision = work.decision
            texts = {names.DECISION_VERDICT: decision.verdict.value, names.DECISION_RULE: decision.rule}
            if self._content:  # the reason and the evidence can quote calls
                texts |= {names.DECISION_REASON: decision.reason, names.DECISION_EVIDENCE: decision.evidence}
                span.set_attributes(_texts({names.TOOL_CALL_ARGUMENTS: arguments_of(work.call)}))
            span.set_attributes({key: self._shown(text) for key, text in texts.items()})
        return span

    def _add_external_call(self, run: _OpenRun, call: ToolCall, result: ToolResult, source: Origin) -> None:
        """Record a span for a call not made in this process: denied, answered by a person, or made elsewhere."""
        if result.decision is None:
            return
        work = ToolUse(source, call, result.decision, result=result)
        start = time.time_ns() - int(result.seconds * 1e9)
        self.end(self._begun_call(work, self._trace.set_span_in_context(run.innermost), start), work, None)

    def _add_afterwards(self, run: _OpenRun, response: Response, source: Origin) -> None:
        """Record a request made in another process, whose usage is known but not its time."""
        tariff = response.usage.tariff
        known = names.of_model(tariff.provider, tariff.model) if tariff is not None else {}
        model = response.model if tariff is None else tariff.model
        attributes = {names.OPERATION_NAME: names.CHAT, **known, **names.of_response(response)}
        span = self._child(run, f"{names.CHAT} {model}".strip(), {**attributes, names.ITERATION: source.iteration})
        span.end()

    def _add_outcome(self, span: Span, work: Work, error: BaseException | None) -> None:
        if isinstance(work, EmbeddingRequest):
            span.set_attributes(names.of_vectors(work.made))
        elif isinstance(work, ModelRequest) and work.response is not None:
            span.set_attributes(names.of_response(work.response))
            if self._content:
                span.set_attributes(_texts({names.OUTPUT_MESSAGES: names.message_of_response(work.response)}))
        elif isinstance(work, ToolUse) and work.result is not None:
            self._add_result(span, work.result)
        if isinstance(error, GeneratorExit):  # the consumer stopped, which is not a failure
            span.set_attribute(names.RUN_STATUS, "left")
        elif error is not None:
            self._fail(span, error)

    def _add_result(self, span: Span, result: ToolResult) -> None:
        failure = names.of_failure(result)
        span.set_attributes({names.TOOL_STATUS: result.status, **failure})
        if self._content:
            span.set_attributes(_texts({names.TOOL_CALL_RESULT: result.content}))
        if failure:
            span.set_status(self._error(self._shown(result.error or "") if self._content else result.status))

    def _fail(self, span: Span, error: BaseException) -> None:
        """Record an exception: its type, and its message if content is enabled or the message contains none."""
        span.set_attributes(names.of_error(error))
        says_all = self._content or names.is_without_content(error)
        kind = type(error).__name__
        span.set_status(self._error(self._shown(f"{kind}: {error}") if says_all else kind))

    def _error(self, why: str) -> Status:
        return self._trace.Status(self._trace.StatusCode.ERROR, why)

    def _shown(self, text: str) -> str:
        return stored_text_redactor()(text)[:_MAX_CHARS]


def _texts(content: Mapping[str, object]) -> dict[str, str]:
    """Redacted contents as attributes: texts, and JSON for other values; empty ones are left out."""
    clean = stored_text_redactor()
    return {
        name: clean(each) if isinstance(each, str) else names.written(each, clean)
        for name, each in content.items()
        if each
    }


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
        failure = {} if error is None else names.of_error(error)
        if isinstance(work, ToolUse):
            known: names.Attributes = {names.TOOL_NAME: work.call.name}
            known[names.DECISION_VERDICT] = work.decision.verdict.value
            if work.result is not None:
                known |= {names.TOOL_STATUS: work.result.status, **names.of_failure(work.result)}
            self._tool_seconds.record(seconds, {**known, **failure})
            return
        is_embedding = isinstance(work, EmbeddingRequest)
        operation = names.EMBEDDINGS if is_embedding else names.CHAT
        known = names.of_model(work.provider, work.model, work.url, operation)
        answer = work.made if isinstance(work, EmbeddingRequest) else work.response
        if answer is not None and answer.model:
            known[names.RESPONSE_MODEL] = answer.model
        if answer is not None and not answer.usage.unreported:  # an unknown count is not 0
            self._tokens.record(answer.usage.input_tokens, {**known, names.COUNTED_KIND: "input"})
            if not is_embedding:
                self._tokens.record(answer.usage.output_tokens, {**known, names.COUNTED_KIND: "output"})
        if first_chunk is not None:
            self._first_chunk_seconds.record(first_chunk, known)
        self._seconds.record(seconds, {**known, **failure})


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

    def __call__(self, event: events.Event) -> None:
        """Record an event."""
        self._guard.call(self._record, event, origin())

    def _record(self, event: events.Event, source: Origin) -> None:
        if isinstance(event, events.TextDelta | events.ReasoningDelta | events.ToolCallDelta):
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
        self._spans.contexts.detach(doing.token)
        self._spans.end(doing.span, work, error)
        self._instruments.count(work, seconds, doing.first_chunk, error)
