"""What does a line say of an event? When and in which run it happened, and how much was said: what, only on wish."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    AnswerRefused,
    Approved,
    Event,
    HistoryGiven,
    HostedCallFinished,
    LimitReached,
    Milestone,
    RequestFailed,
    ResponseReceived,
    RunLeft,
    RunResumed,
    RunStarted,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import ToolCall
from agentkit.redaction import redact_data, written_redactor
from agentkit.tracing.endings import Ending, ending_in, text_of
from agentkit.tracing.listening import Origin
from agentkit.usage import Usage
from agentkit.wording import content_text

Data = dict[str, Any]


def is_told(event: Event) -> bool:
    """Whether an event has a line: what a run has done, and how it ended; not the pieces of what is to come."""
    return isinstance(event, Milestone | RunLeft) or ending_in(event) is not None


def line_of(event: Event, source: Origin, seconds: float | None, *, content: bool) -> bytes:
    """An event that is told, as a line of JSON without secrets.

    `seconds` is how long a request took. Without `content`, texts are told by their length.
    """
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    told = {"time": now, "event": type(event).__name__, **_place(source), **_body(event, seconds)}
    told |= {name: text for name, text in _words(event).items() if text} if content else {}
    line = json.dumps(_redacted(told, content=content), ensure_ascii=False, default=str)
    # Half a pair of surrogates, which no file can hold, becomes an escape of JSON: no text may keep its line away.
    return f"{line}\n".encode("utf-8", "backslashreplace")


def _redacted(told: Data, *, content: bool) -> Data:
    """The same without secrets. Where nothing was said, one look at all texts together mostly finds that there is none.

    To look at each by itself takes five times as long.
    """
    clean = written_redactor()
    if not content:
        texts = "\n".join(str(value) for value in told.values())
        if clean(texts) == texts:
            return told
    hidden: Data = redact_data(told, clean)
    return hidden


def _place(source: Origin) -> Data:
    told = {"run": source.run, "parent": source.parent, "session": source.session, "agent": source.agent}
    told = {name: value for name, value in told.items() if value}
    return {**told, "iteration": source.iteration, **({"is_elsewhere": True} if source.is_elsewhere else {})}


def _body(event: Event, seconds: float | None) -> Data:
    """What is always told: names, numbers and decisions."""
    ending = ending_in(event)
    told = _BODIES[type(event)](event) if type(event) in _BODIES else {} if ending is None else _of_ending(ending)
    return told if seconds is None else {**told, "seconds": round(seconds, 6)}


def _words(event: Event) -> Data:
    """What is told on wish alone: all that was said."""
    ending = ending_in(event)
    if ending is not None:
        return {"output": text_of(ending.value), "error": text_of(ending.error)}
    return _WORDS[type(event)](event) if type(event) in _WORDS else {}


def _of_call(call: ToolCall) -> Data:
    return {"tool": call.name, "call": call.id}


def _of_decision(event: ToolCallStarted) -> Data:
    judged = {"verdict": event.decision.verdict, "rule": event.decision.rule}
    return {**_of_call(event.call), **judged, "arguments_chars": len(event.call.arguments)}


def _why(event: ToolCallStarted) -> Data:
    """The arguments, and what may quote them: why the call was judged so, and on what evidence."""
    decision = event.decision
    return {"arguments": event.call.arguments, "reason": decision.reason, "evidence": decision.evidence}


def _of_response(event: ResponseReceived) -> Data:
    response = event.response
    told = {"model": response.model, "finish_reason": response.finish_reason, **_of_usage(response.usage)}
    return {**told, "text_chars": len(response.text), "tool_calls": [call.name for call in response.tool_calls]}


def _of_result(event: ToolCallFinished) -> Data:
    result = event.result
    told = {
        **_of_call(event.call),
        "status": result.status,
        "seconds": round(result.seconds, 6),
        "result_chars": len(result.content),
    }
    return {**told, **_of_usage(result.usage)} if result.usage.requests else told


def _of_ending(ending: Ending) -> Data:
    told: Data = {"status": ending.status, "requests": ending.usage.requests, **_of_usage(ending.usage)}
    told |= {"tool_calls": len(ending.tool_calls), "output_chars": len(text_of(ending.value))}
    told |= {"kind": type(ending.error).__name__} if ending.error is not None else {}
    return {**told, "dollars": ending.cost.dollars} if ending.cost is not None else told


def _of_usage(usage: Usage) -> Data:
    """Tokens; nothing when no server has counted any."""
    if usage.unreported and not usage.total_tokens:
        return {}
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


_BODIES: Mapping[type[Event], Callable[[Any], Data]] = {
    RunStarted: lambda event: {"prompt_chars": len(content_text(event.prompt)), "history": event.history},
    HistoryGiven: lambda event: {"messages": len(event.messages)},
    ResponseReceived: _of_response,
    RequestFailed: lambda event: {"kind": event.kind, "error": event.error},
    Approved: lambda event: {"call": event.call_id, "answer": event.answer},
    ToolCallStarted: _of_decision,
    ToolCallFinished: _of_result,
    HostedCallFinished: _of_result,
    ToolCallPostponed: lambda event: _of_call(event.call),
    Summarised: lambda event: {"messages": event.messages, "text_chars": len(event.text), **_of_usage(event.usage)},
    LimitReached: lambda event: {"limit": event.limit, "reason": event.reason},
    RunLeft: lambda event: {"kind": event.error.partition(":")[0]} if event.error else {},
}
"""Of each kind of event, what is always told beside its name."""

_WORDS: Mapping[type[Event], Callable[[Any], Data]] = {
    RunStarted: lambda event: {"prompt": content_text(event.prompt)},
    RunResumed: lambda event: {"prompt": event.prompt},
    ResponseReceived: lambda event: {"text": event.response.text, "reasoning": event.response.message.reasoning},
    Approved: lambda event: {"text": event.text, "arguments": event.arguments},
    HostedCallFinished: lambda event: {"arguments": event.call.arguments, "error": event.result.error},
    ToolCallStarted: _why,
    ToolCallFinished: lambda event: {"result": event.result.content, "error": event.result.error},
    ToolCallPostponed: lambda event: {"question": event.question},
    AnswerRefused: lambda event: {"reason": event.reason},
    AnswerGiven: lambda event: {"text": event.text},
    AnswerAmended: lambda event: {"text": event.text},
    Summarised: lambda event: {"text": event.text},
    RunLeft: lambda event: {"error": event.error},
}
"""Of each kind of event, what was said."""
