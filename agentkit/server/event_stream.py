"""Run events as data for the chat page (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from agentkit.agents.result import Pending, RunFinished, RunResult, pending_calls
from agentkit.decisions import Decision
from agentkit.event_rendering import collapse, content_text, escape_invisible, plan_text, value_text
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    Approved,
    Event,
    HistoryGiven,
    RequestStarted,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    StoredEvent,
    TextDelta,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.llm.pricing import cost_of
from agentkit.messages import AssistantMessage, Message, UserMessage
from agentkit.redaction import redact
from agentkit.safety.approval import MAX_TASK_CHARS, Approval, ApprovalRequest, is_offered
from agentkit.safety.terminal_approver import calls_alike, calls_of_pattern
from agentkit.sessions.state import RunState
from agentkit.sessions.store import SessionEntry
from agentkit.usage import Usage, format_cost

PageEvent = dict[str, Any]
"""One page event as JSON data: `kind` is its type, the other fields are text and numbers."""

_MAX_CHARS = 20_000


def page_events(event: Event) -> Iterator[PageEvent]:
    """Yield the page event for a run event, if the page shows it."""
    match event:
        case RequestStarted(iteration):
            yield {"kind": "request", "iteration": iteration}
        case TextDelta(text):
            yield {"kind": "text", "text": text}
        case RunFinished(result):
            yield _finished_event(result)
        case ToolCallStarted() | ToolCallFinished() | ToolCallPostponed() | Approved():
            yield _call(event)
        case StoredEvent():
            yield from _stored_event(event)


def _stored_event(event: StoredEvent) -> Iterator[PageEvent]:
    """Yield the page event for a message or another stored event."""
    match event:
        case RunStarted(agent, prompt):
            yield {"kind": "started", "agent": escape_invisible(agent), "prompt": content_text(prompt, "\n")}
        case RunResumed(prompt):
            yield {"kind": "resumed", "prompt": prompt}
        case ResponseReceived(response):
            yield {"kind": "message", "text": response.text, "reasoning": truncate(response.message.reasoning)}
        case AnswerGiven(text):
            yield {"kind": "message", "text": text, "reasoning": ""}
        case AnswerAmended(text):
            yield {"kind": "replaced", "text": text}
        case HistoryGiven(messages):
            yield from _history(messages)
        case _:
            description = event.describe()
            yield {"kind": "note", "title": description.title, "text": escape_invisible(description.text)}


def _call(event: ToolCallStarted | ToolCallFinished | ToolCallPostponed | Approved) -> PageEvent:
    """Build the page event for the progress of a tool call."""
    match event:
        case Approved(call_id, answer, text, arguments):
            return {"kind": "answered", "id": call_id, "answer": answer, "text": text, "edited": arguments is not None}
        case ToolCallPostponed(question=question, pending_call=call):
            return {
                "kind": "waiting",
                "id": call.id,
                "name": escape_invisible(call.name),
                "question": escape_invisible(question),
            }
    named = {
        "id": event.call.id,
        "name": escape_invisible(event.call.name),
        "arguments": argument_fields(event.call.arguments),
    }
    if isinstance(event, ToolCallStarted):
        return {"kind": "call", **named, "decision": decision_data(event.decision)}
    result = event.result
    outcome = {
        "status": result.status,
        "ok": result.ok,
        "content": truncate(escape_invisible(result.error or result.content)),
    }
    figures = {"seconds": round(result.seconds, 3), "decision": decision_data(result.decision)}
    plan = {"plan": truncate(escape_invisible(text))} if result.ok and (text := plan_text(event.call)) else {}
    return {"kind": "result", **named, **outcome, **figures, **plan}


_OFFERED = (Approval.ONCE, Approval.RUN, Approval.WORKSPACE, Approval.ALWAYS, Approval.PATTERN)


def settled_event(question_id: str) -> PageEvent:
    """Build the page event for an approval request that no longer waits."""
    return {"kind": "settled", "question": question_id}


def question_event(question_id: str, request: ApprovalRequest) -> PageEvent:
    """Build the page event for an approval request, with its possible answers; `question_id` identifies the request."""
    arguments = {str(name): value for name, value in request.arguments.items()}
    preview = request.preview
    covered = preview.covers if preview.diff else frozenset[str]()
    return {
        "kind": "question",
        "question": question_id,
        "id": request.call_id,
        "agent": escape_invisible(request.agent),
        "name": escape_invisible(request.tool),
        "within": escape_invisible(request.within),
        "task": collapse(request.task, MAX_TASK_CHARS),
        "folder": escape_invisible(request.folder),
        "arguments": [
            [escape_invisible(name), truncate(escape_invisible(value_text(value)))]
            for name, value in arguments.items()
            if name not in covered
        ],
        "summary": [escape_invisible(each) for each in preview.summary],
        "diff": truncate(escape_invisible(preview.diff)),
        "reason": escape_invisible(request.reason),
        "json": editable(arguments),
        "decision": decision_data(replace(request.decision, remedy="")),  # a remedy is for the model
        "answers": [str(answer) for answer in _OFFERED if is_offered(answer, request)],
        "pattern": escape_invisible(" ".join([*request.first_words, "*"])),
        "like": calls_alike(request),
        "always": calls_of_pattern(request),
    }


def history(
    entries: Sequence[SessionEntry], resumable: Sequence[str], undone: Mapping[str, bool]
) -> Iterator[PageEvent]:
    """Yield the page events of a stored session, run by run, in the order in which the runs began.

    `resumable` are the runs that can be resumed; `undone` maps records of changes to whether they were undone.
    """
    positions = {run: place for place, run in reversed(list(enumerate(entry.run for entry in entries)))}
    ordered = sorted(entries, key=lambda entry: positions[entry.run])
    for run, some in groupby(ordered, key=attrgetter("run")):
        run_entries = list(some)
        progress = RunState.of(entry.event for entry in run_entries)
        for entry in run_entries:
            if isinstance(entry.event, RunEnded):
                waiting = pending_calls(progress) if run in resumable and entry is run_entries[-1] else ()
                # Build the page event for the end of a stored run; without a record its changes cannot be
                # undone
                is_undone = undone.get(progress.record)
                changes = escape_invisible(redact(entry.event.changes))
                record = progress.record if changes and is_undone is not None else ""
                end = {
                    **_end_event(replace(entry.event, changes=changes), waiting, progress.usage, record),
                    "undone": bool(is_undone),
                }
                yield {**end, "run": run}
            else:
                yield from page_events(entry.event)


def total(usage: Usage) -> PageEvent:
    """Tokens and cost of a whole session."""
    return {"tokens": usage.total_tokens, "cost": format_cost(cost_of(usage)) if usage.requests else ""}


def argument_fields(arguments: str) -> list[list[str]]:
    """Parse arguments into names and readable values; the name is empty if they are not a JSON object."""
    try:
        loaded = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        loaded = None
    if not isinstance(loaded, dict):
        return [["", truncate(escape_invisible(arguments))]]
    return [[escape_invisible(name), truncate(escape_invisible(value_text(value)))] for name, value in loaded.items()]


def decision_data(decision: Decision | None) -> PageEvent | None:
    """A decision as JSON data, with invisible characters made visible."""
    return None if decision is None else {name: escape_invisible(text) for name, text in decision.to_dict().items()}


def editable(value: object) -> str:
    """Render a value as indented JSON for editing; invisible characters are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return "".join(
        char if char in "\n\t" or escape_invisible(char) == char else json.dumps(char)[1:-1] for char in text
    )


def truncate(text: str) -> str:
    """Truncate a text that is too long to show."""
    omitted = len(text) - _MAX_CHARS
    return text if omitted <= 0 else f"{text[:_MAX_CHARS]}\n[… {omitted:,} more characters are not shown …]"


def _finished_event(result: RunResult[Any]) -> PageEvent:
    record = result.record
    changes = escape_invisible(result.changes)
    record_id = record.id if record is not None and changes else ""
    end = RunEnded(result.status, error=str(result.error or ""), changes=changes)
    return {**_end_event(end, result.pending, result.usage, record_id), "run": result.run_id}


def _end_event(end: RunEnded, waiting: Sequence[Pending], usage: Usage, record: str) -> PageEvent:
    event = {"kind": "ended", "status": end.status, "error": end.error, "changes": truncate(end.changes)}
    return {**event, "record": record, "undone": False, "pending": list(map(_pending, waiting)), **total(usage)}


def _pending(pending: Pending) -> PageEvent:
    question = {"question": escape_invisible(pending.question), "needs_text": pending.needs_answer}
    return {"id": pending.id, "name": escape_invisible(pending.tool), **question}


def _history(messages: Sequence[Message]) -> Iterator[PageEvent]:
    """Yield page events for messages from before the session."""
    for message in messages:
        if isinstance(message, UserMessage):
            yield {"kind": "started", "agent": "", "prompt": content_text(message.content, "\n")}
        elif isinstance(message, AssistantMessage) and message.text:
            yield {"kind": "message", "text": message.text, "reasoning": ""}
