"""Run events as data for the chat page (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from agentkit.agents.result import Pending, RunFinished, RunResult, pending_of
from agentkit.decisions import Decision
from agentkit.event_rendering import content_text, plan_text, value_text, visible
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    Approved,
    Event,
    HistoryGiven,
    Milestone,
    RequestStarted,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.llm.pricing import cost_of
from agentkit.messages import AssistantMessage, Message, UserMessage
from agentkit.redaction import redact
from agentkit.safety.approval import Approval, ApprovalRequest, is_offered
from agentkit.safety.terminal_approver import calls_alike, calls_of_pattern
from agentkit.sessions.state import RunState
from agentkit.sessions.store import SessionEntry
from agentkit.usage import Usage, shown_cost

PageEvent = dict[str, Any]
"""One page event as JSON data: `kind` is its type, the other fields are text and numbers."""

_MOST_CHARS = 20_000


def page_events(event: Event) -> Iterator[PageEvent]:
    """Yield the page event for a run event, if the page shows it."""
    match event:
        case RequestStarted(iteration):
            yield {"kind": "request", "iteration": iteration}
        case TextDelta(text):
            yield {"kind": "text", "text": text}
        case RunFinished(result):
            yield _ended(result)
        case ToolCallStarted() | ToolCallFinished() | ToolCallPostponed() | Approved():
            yield _call(event)
        case Milestone():
            yield from _of_milestone(event)


def _of_milestone(milestone: Milestone) -> Iterator[PageEvent]:
    """Yield the page event for a message or another milestone."""
    match milestone:
        case RunStarted(agent, prompt):
            yield {"kind": "begun", "agent": visible(agent), "prompt": content_text(prompt, "\n")}
        case RunResumed(prompt):
            yield {"kind": "resumed", "prompt": prompt}
        case ResponseReceived(response):
            yield {"kind": "said", "text": response.text, "reasoning": bounded(response.message.reasoning)}
        case AnswerGiven(text):
            yield {"kind": "said", "text": text, "reasoning": ""}
        case AnswerAmended(text):
            yield {"kind": "amended", "text": text}
        case HistoryGiven(messages):
            yield from _history(messages)
        case _:
            description = milestone.describe()
            yield {"kind": "note", "what": description.title, "words": visible(description.text)}


def _call(event: ToolCallStarted | ToolCallFinished | ToolCallPostponed | Approved) -> PageEvent:
    """Build the page event for the progress of a tool call."""
    match event:
        case Approved(call_id, answer, text, arguments):
            return {"kind": "answered", "id": call_id, "answer": answer, "text": text, "edited": arguments is not None}
        case ToolCallPostponed(question=question, asked=call):
            return {"kind": "waits", "id": call.id, "name": visible(call.name), "question": visible(question)}
    named = {"id": event.call.id, "name": visible(event.call.name), "arguments": fields_of(event.call.arguments)}
    if isinstance(event, ToolCallStarted):
        return {"kind": "call", **named, "decision": decision_of(event.decision)}
    result = event.result
    seen = {"status": result.status, "ok": result.ok, "content": bounded(visible(result.error or result.content))}
    figures = {"seconds": round(result.seconds, 3), "decision": decision_of(result.decision)}
    plan = {"plan": bounded(visible(text))} if result.ok and (text := plan_text(event.call)) else {}
    return {"kind": "result", **named, **seen, **figures, **plan}


_OFFERED = (Approval.ONCE, Approval.RUN, Approval.WORKSPACE, Approval.ALWAYS, Approval.PATTERN)


def settled(mark: str) -> PageEvent:
    """Build the page event for an approval request that no longer waits."""
    return {"kind": "settled", "question": mark}


def asked(mark: str, request: ApprovalRequest) -> PageEvent:
    """Build the page event for an approval request, with its possible answers; `mark` identifies the request."""
    arguments = {str(name): value for name, value in request.arguments.items()}
    preview = request.preview
    covered = preview.covers if preview.diff else frozenset[str]()
    return {
        "kind": "asked",
        "question": mark,
        "id": request.call_id,
        "agent": visible(request.agent),
        "name": visible(request.tool),
        "within": visible(request.within),
        "folder": visible(request.folder),
        "arguments": [
            [visible(name), bounded(visible(value_text(value)))]
            for name, value in arguments.items()
            if name not in covered
        ],
        "summary": [visible(each) for each in preview.summary],
        "diff": bounded(visible(preview.diff)),
        "reason": visible(request.reason),
        "json": editable(arguments),
        "decision": decision_of(replace(request.decision, remedy="")),  # a remedy is for the model
        "answers": [str(answer) for answer in _OFFERED if is_offered(answer, request)],
        "pattern": visible(" ".join([*request.first_words, "*"])),
        "like": calls_alike(request),
        "always": calls_of_pattern(request),
    }


def history(entries: Sequence[SessionEntry], left: Sequence[str], undone: Mapping[str, bool]) -> Iterator[PageEvent]:
    """Yield the page events of a stored session, run by run, in the order in which the runs began.

    `left` are the runs that can be resumed; `undone` maps records of changes to whether they were undone.
    """
    order = {run: place for place, run in reversed(list(enumerate(entry.run for entry in entries)))}
    ordered = sorted(entries, key=lambda entry: order[entry.run])
    for run, some in groupby(ordered, key=attrgetter("run")):
        mine = list(some)
        progress = RunState.of(entry.milestone for entry in mine)
        for entry in mine:
            if isinstance(entry.milestone, RunEnded):
                waiting = pending_of(progress) if run in left and entry is mine[-1] else ()
                # Build the page event for the end of a stored run; without a record its changes cannot be
                # undone
                is_undone = undone.get(progress.record)
                changes = visible(redact(entry.milestone.changes))
                record = progress.record if changes and is_undone is not None else ""
                end = {
                    **_end(replace(entry.milestone, changes=changes), waiting, progress.usage, record),
                    "undone": bool(is_undone),
                }
                yield {**end, "run": run}
            else:
                yield from page_events(entry.milestone)


def total(usage: Usage) -> PageEvent:
    """Tokens and cost of a whole session."""
    return {"tokens": usage.total_tokens, "cost": shown_cost(cost_of(usage)) if usage.requests else ""}


def fields_of(arguments: str) -> list[list[str]]:
    """Parse arguments into names and readable values; the name is empty if they are not a JSON object."""
    try:
        loaded = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        loaded = None
    if not isinstance(loaded, dict):
        return [["", bounded(visible(arguments))]]
    return [[visible(name), bounded(visible(value_text(value)))] for name, value in loaded.items()]


def decision_of(decision: Decision | None) -> PageEvent | None:
    """A decision as JSON data, with invisible characters made visible."""
    return None if decision is None else {name: visible(text) for name, text in decision.to_dict().items()}


def editable(value: object) -> str:
    """Render a value as indented JSON for editing; invisible characters are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return "".join(char if char in "\n\t" or visible(char) == char else json.dumps(char)[1:-1] for char in text)


def bounded(text: str) -> str:
    """Truncate a text that is too long for the page."""
    left_out = len(text) - _MOST_CHARS
    return text if left_out <= 0 else f"{text[:_MOST_CHARS]}\n[… {left_out:,} more characters are not shown …]"


def _ended(result: RunResult[Any]) -> PageEvent:
    record = result.record
    changes = visible(result.changes)
    kept = record.id if record is not None and changes else ""
    end = RunEnded(result.status, error=str(result.error or ""), changes=changes)
    return {**_end(end, result.pending, result.usage, kept), "run": result.run_id}


def _end(end: RunEnded, waiting: Sequence[Pending], usage: Usage, record: str) -> PageEvent:
    told = {"kind": "ended", "status": end.status, "error": end.error, "changes": bounded(end.changes)}
    return {**told, "record": record, "undone": False, "pending": list(map(_pending, waiting)), **total(usage)}


def _pending(pending: Pending) -> PageEvent:
    question = {"question": visible(pending.question), "needs_words": pending.needs_answer}
    return {"id": pending.id, "name": visible(pending.tool), **question}


def _history(messages: Sequence[Message]) -> Iterator[PageEvent]:
    """Yield page events for messages from before the session."""
    for message in messages:
        if isinstance(message, UserMessage):
            yield {"kind": "begun", "agent": "", "prompt": content_text(message.content, "\n")}
        elif isinstance(message, AssistantMessage) and message.text:
            yield {"kind": "said", "text": message.text, "reasoning": ""}
