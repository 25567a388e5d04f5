"""Spans of runs, iterations, model requests and tool calls."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentkit._version import __version__
from agentkit.event_rendering import answer_text
from agentkit.events import (
    Event,
    HandedOff,
    Milestone,
    RequestStarted,
    ResponseReceived,
    RunLeft,
    RunResumed,
    RunStarted,
    ToolCallFinished,
)
from agentkit.messages import Response, ToolCall, ToolResult, arguments_of
from agentkit.redaction import written_redactor
from agentkit.tracing import message_content
from agentkit.tracing import semantic_conventions as names
from agentkit.tracing.listeners import ModelRequest, Origin, RunOutcome, ToolUse, Work, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Status, TracerProvider
    from opentelemetry.util.types import AttributeValue

_MAX_LEFT = 1_000
"""Maximum number of paused or interrupted runs whose spans are remembered for links."""

_MAX_CHARS = 500


class _Open:
    """A run in progress: its span, the span of the agent it was handed to, and the span of its iteration.

    `waiting` are the calls of the iteration without a result, `done` those that already have spans.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        self.lead: Span | None = None
        self.iteration: Span | None = None
        self.waiting: set[str] = set()
        self.done: set[str] = set()

    @property
    def innermost(self) -> Span:
        return self.iteration or self.lead or self.span

    def end_iteration(self) -> None:
        if self.iteration is not None:
            self.iteration.end()
        self.iteration = None

    def end_lead(self) -> None:
        self.end_iteration()
        if self.lead is not None:
            self.lead.end()
        self.lead = None


class Spans:
    """The spans of all runs in progress. With `content`, they include texts."""

    def __init__(self, provider: TracerProvider | None, *, content: bool) -> None:
        from opentelemetry import context, trace

        self._contexts, self._trace = context, trace
        self._tracer = trace.get_tracer(names.SCOPE, __version__, provider, names.SCHEMA_URL)
        self._content = content
        self._open: dict[str, _Open] = {}
        self._left: OrderedDict[str, SpanContext] = OrderedDict()

    def record(self, event: Event, source: Origin) -> None:
        """Start or end a span, or add the event to the span it belongs to."""
        if isinstance(event, RunStarted | RunResumed):
            self._begin(event, source)
            return
        run, outcome = self._open.get(source.run), outcome_of(event)
        if run is None:
            return
        if outcome is not None:
            self._finish(run, outcome, event.describe().fields, source)
        elif isinstance(event, RunLeft):
            self._leave(run, event, source)
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
        known = names.of_model(work.provider, work.model, work.url)
        if run is not None and run.span.is_recording():
            asked = {names.PROVIDER_NAME: known[names.PROVIDER_NAME], names.REQUEST_MODEL: known[names.REQUEST_MODEL]}
            (run.lead or run.span).set_attributes(asked)
        span = self._tracer.start_span(f"{names.CHAT} {work.model}", context, self._trace.SpanKind.CLIENT, known)
        if span.is_recording():
            span.set_attributes(names.of_request(work))
            self._add_request(span, work)
        return span

    def entered(self, span: Span) -> Token[Context]:
        """Make a span current; the returned token restores the previous one."""
        return self._contexts.attach(self._trace.set_span_in_context(span))

    def left(self, token: Token[Context]) -> None:
        """Restore the previous current span."""
        self._contexts.detach(token)

    def end(self, span: Span, work: Work, error: BaseException | None) -> None:
        """End the span of work, recording its outcome."""
        try:
            if span.is_recording():
                self._add_outcome(span, work, error)
        finally:
            span.end()

    def _begin(self, event: RunStarted | RunResumed, source: Origin) -> None:
        before = self._left.pop(source.run, None)
        links = [] if before is None else [self._trace.Link(before)]
        name = f"{names.INVOKE_AGENT} {source.agent}"
        span = self._tracer.start_span(name, None, self._trace.SpanKind.INTERNAL, names.of_run(source), links)
        self._open[source.run] = _Open(span)
        if self._content and span.is_recording() and isinstance(event, RunStarted):
            self._set_content(span, {names.INPUT_MESSAGES: message_content.of_user(event.prompt)})

    def _advance(self, run: _Open, event: Event, source: Origin) -> None:
        match event:
            case RequestStarted(iteration):
                run.end_iteration()
                run.iteration = self._child(run, f"iteration {iteration}", {names.ITERATION: iteration})
            case ResponseReceived(response):
                if source.is_elsewhere:
                    self._add_afterwards(run, response, source)
                run.waiting = {call.id for call in response.tool_calls}
                self._end_if_idle(run)
            case ToolCallFinished(call, result):
                if call.id not in run.done:
                    self._add_unmade(run, call, result, source)
                run.waiting.discard(call.id)
                self._end_if_idle(run)
            case HandedOff():
                run.end_lead()
                run.lead = self._child(run, f"{names.INVOKE_AGENT} {source.agent}", names.of_run(source))
            case Milestone(is_span_event=True) if run.innermost.is_recording():
                attributes = names.of_fields(event.describe().fields)
                shown = {
                    name: self._shown(text) if isinstance(text, str) else text for name, text in attributes.items()
                }
                run.innermost.add_event(f"{names.SCOPE}.{event.event_name}", shown)

    def _end_if_idle(self, run: _Open) -> None:
        """End the iteration once all its tool calls have results."""
        if not run.waiting:
            run.end_iteration()

    def _finish(self, run: _Open, outcome: RunOutcome, fields: Mapping[str, Any], source: Origin) -> None:
        """End the span of a finished or paused run."""
        span = run.span
        span.set_attributes(names.of_outcome(fields))
        if outcome.error is not None:
            self._fail(span, outcome.error)
        if self._content and span.is_recording() and outcome.value is not None:
            self._set_content(
                span, {names.OUTPUT_MESSAGES: message_content.of_answer(answer_text(outcome.value), outcome.status)}
            )
        self._close(run, source, is_done=outcome.status == "done")

    def _leave(self, run: _Open, event: RunLeft, source: Origin) -> None:
        """End the span of a run whose events are no longer consumed."""
        run.span.set_attribute(names.RUN_STATUS, "left")
        if event.error:
            kind = event.error.partition(":")[0]
            run.span.set_attribute(names.ERROR_TYPE, kind)
            run.span.set_status(self._error(self._shown(event.error) if self._content else kind))
        self._close(run, source, is_done=False)

    def _close(self, run: _Open, source: Origin, *, is_done: bool) -> None:
        del self._open[source.run]
        run.end_lead()
        run.span.end()
        if not is_done:
            self._left[source.run] = run.span.get_span_context()
            while len(self._left) > _MAX_LEFT:
                self._left.popitem(last=False)

    def _child(self, run: _Open, name: str, attributes: Mapping[str, AttributeValue]) -> Span:
        context = self._trace.set_span_in_context(run.lead or run.span)
        return self._tracer.start_span(name, context, self._trace.SpanKind.INTERNAL, attributes)

    def _begun_call(self, work: ToolUse, context: Context | None, start: int | None = None) -> Span:
        attributes = names.of_call(work)
        attributes |= {
            name: self._shown(attributes[name]) for name in (names.TOOL_NAME, names.TOOL_CALL_ID)
        }  # from the model
        name = f"{names.EXECUTE_TOOL} {attributes[names.TOOL_NAME]}"
        kind = self._trace.SpanKind.INTERNAL
        span = self._tracer.start_span(name, context, kind, attributes, start_time=start)
        if span.is_recording():
            span.set_attributes({name: self._shown(value) for name, value in names.of_decision(work.decision).items()})
            if self._content:
                span.set_attribute(names.DECISION_REASON, self._shown(work.decision.reason))
                span.set_attribute(names.DECISION_EVIDENCE, self._shown(work.decision.evidence))
                self._set_content(span, {names.TOOL_CALL_ARGUMENTS: arguments_of(work.call)})
        return span

    def _add_unmade(self, run: _Open, call: ToolCall, result: ToolResult, source: Origin) -> None:
        """Record a span for a call not made in this process: denied, answered by a person, or made elsewhere."""
        if result.decision is None:
            return
        work = ToolUse(source, call, result.decision, result=result)
        start = time.time_ns() - int(result.seconds * 1e9)
        self.end(self._begun_call(work, self._trace.set_span_in_context(run.innermost), start), work, None)

    def _add_afterwards(self, run: _Open, response: Response, source: Origin) -> None:
        """Record a request made in another process, whose usage is known but not its time."""
        tariff = response.usage.tariff
        known = names.of_model(tariff.provider, tariff.model) if tariff is not None else {}
        model = response.model if tariff is None else tariff.model
        attributes = {names.OPERATION_NAME: names.CHAT, **known, **names.of_response(response)}
        span = self._child(run, f"{names.CHAT} {model}".strip(), {**attributes, names.ITERATION: source.iteration})
        span.end()

    def _add_request(self, span: Span, work: ModelRequest) -> None:
        if self._content:
            request = work.request
            attributes = {names.INPUT_MESSAGES: message_content.of_messages(request.messages)}
            attributes |= {names.SYSTEM_INSTRUCTIONS: message_content.of_instruction(request.instruction)}
            self._set_content(span, {**attributes, names.TOOL_DEFINITIONS: message_content.of_tools(request.tools)})

    def _add_outcome(self, span: Span, work: Work, error: BaseException | None) -> None:
        if isinstance(work, ModelRequest) and work.response is not None:
            span.set_attributes(names.of_response(work.response))
            if self._content:
                self._set_content(span, {names.OUTPUT_MESSAGES: message_content.of_response(work.response)})
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
            self._set_content(span, {names.TOOL_CALL_RESULT: result.content})
        if failure:
            reason = self._shown(result.error or "") if self._content else result.status
            span.set_status(self._error(reason))

    def _fail(self, span: Span, error: BaseException) -> None:
        """Record an exception: its type, and its message if content is enabled or the message contains none."""
        span.set_attributes(names.of_error(error))
        says_all = self._content or names.is_without_content(error)
        kind = type(error).__name__
        span.set_status(self._error(self._shown(f"{kind}: {error}") if says_all else kind))

    def _error(self, why: str) -> Status:
        return self._trace.Status(self._trace.StatusCode.ERROR, why)

    def _set_content(self, span: Span, content: Mapping[str, object]) -> None:
        """Set redacted contents as span attributes, without empty ones."""
        clean = written_redactor()
        texts = {
            name: clean(each) if isinstance(each, str) else message_content.written(each, clean)
            for name, each in content.items()
        }
        span.set_attributes({name: text for name, text in texts.items() if content[name]})

    def _shown(self, text: str) -> str:
        return written_redactor()(text)[:_MAX_CHARS]
