"""Could this call carry private data to a stranger? What the conversation has read decides, nothing finer (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentkit.decisions import Decision, Label, Verdict
from agentkit.messages import AssistantMessage, Message, ToolMessage, UserMessage

_SHOWN_CHARS = 80
_CARRIES_NOTHING = 1_000
_CAUSES = (Label.UNTRUSTED, Label.PRIVATE)


def judge_flow(messages: Sequence[Message], arguments: Mapping[str, Any], decision: Decision) -> Decision:
    """The decision, or `ask` when the call could carry out what a run with both labels has read.

    A call whose arguments are the person's own words cannot: what is in them was there before anything was read.
    """
    if decision.denied or not decision.egress or _is_said(messages, arguments):
        return decision
    causes = [_cause(messages, label) for label in _CAUSES]
    if None in causes:
        return decision
    reason = (
        f"The call could carry data out of a run that has read untrusted text, by {causes[0]}, "
        f"and private data, by {causes[1]}."
    )
    if not decision.allowed:
        reason = f"{reason} {decision.reason}"
    remedy = "A person must approve it; or start a new conversation that has not read both."
    return replace(decision, verdict=Verdict.ASK, rule="flow", reason=reason, remedy=remedy)


def _cause(messages: Sequence[Message], label: Label) -> str | None:
    """The first call whose result has the label, as a person would write it; None when there is none."""
    for message in messages:
        if isinstance(message, ToolMessage) and label in message.labels:
            return f"{message.name}({_arguments_of(messages, message.call_id)})"
    return None


def _arguments_of(messages: Sequence[Message], call_id: str) -> str:
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if call.id == call_id:
                return " ".join(call.arguments[:_SHOWN_CHARS].split())
    return ""


def _is_said(messages: Sequence[Message], arguments: Mapping[str, Any]) -> bool:
    """Whether everything that could leave was written by the person: each text and number of the arguments."""
    said = "\n".join(_words(messages))
    leaving = list(_leaves(list(arguments.values())))
    return bool(leaving) and all(text in said for text in leaving)


def _words(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, UserMessage):
            parts = (message.content,) if isinstance(message.content, str) else message.content
            yield from (part for part in parts if isinstance(part, str))


def _leaves(value: Any) -> Iterator[str]:
    """Every text and number in a value, as it would be written; not what is too small to carry anything."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif not (isinstance(value, int | None) and abs(value or 0) < _CARRIES_NOTHING):
        yield value if isinstance(value, str) else json.dumps(value, default=str)
