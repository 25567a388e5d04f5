"""Is a history valid? Each tool call has an id of its own, and one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentkit.messages import AssistantMessage, Message, ToolMessage


def with_distinct_ids(message: AssistantMessage, taken: set[str]) -> AssistantMessage:
    """The message with an id on every tool call that no other call has; the ids are added to `taken`."""
    calls = []
    for call in message.tool_calls:
        number = len(taken) + 1
        unique = call.id or f"call_{number}"
        while unique in taken:
            unique = f"{call.id or 'call'}_{number}"
            number += 1
        taken.add(unique)
        calls.append(call if unique == call.id else replace(call, id=unique))
    distinct = tuple(calls)
    return message if distinct == message.tool_calls else replace(message, tool_calls=distinct)


def with_distinct_calls(messages: Sequence[Message]) -> list[Message]:
    """A conversation with an id on every tool call that no other call in it has, and the same id on its result."""
    taken: set[str] = set()
    ids: dict[str, list[str]] = {}
    distinct = []
    for message in messages:
        told: Message = message
        if isinstance(message, AssistantMessage):
            told, ids = with_distinct_ids(message, taken), {}
            for old, new in zip(message.tool_calls, told.tool_calls, strict=True):
                ids.setdefault(old.id, []).append(new.id)
        elif isinstance(message, ToolMessage) and ids.get(message.call_id):
            told = replace(message, call_id=ids[message.call_id].pop(0))
        distinct.append(told)
    return distinct


def fault_in(messages: Sequence[Message]) -> str | None:
    """Why this is no valid conversation, in which each tool call has one result before anything else is said."""
    waiting: dict[str, str] = {}
    known: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if waiting.pop(message.call_id, None) is None:
                return f"messages[{index}] is a result of {message.call_id!r}, and no such call waits for one."
            continue
        if waiting:
            return f"messages[{index}] stands where the result of {_first(waiting)} must stand."
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if call.id in known:
                return f"messages[{index}] has a call with the id {call.id!r}, which another call has."
            known.add(call.id)
            waiting[call.id] = call.name
    return f"No result follows {_first(waiting)} at its end." if waiting else None


def _first(waiting: Mapping[str, str]) -> str:
    call_id, tool = next(iter(waiting.items()))
    return f"the call {call_id!r} of {tool!r}"


def with_new_ids(messages: Sequence[Message], ids: Mapping[str, str]) -> list[Message]:
    """The messages with the ids of tool calls, and of their results, that `ids` maps to others."""

    def renamed(message: Message) -> Message:
        if isinstance(message, ToolMessage):
            return replace(message, call_id=ids.get(message.call_id, message.call_id))
        if isinstance(message, AssistantMessage):
            return replace(
                message, tool_calls=tuple(replace(call, id=ids.get(call.id, call.id)) for call in message.tool_calls)
            )
        return message

    return [renamed(message) for message in messages]
