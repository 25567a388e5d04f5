"""The history and unfinished runs of a session, computed from its entries (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from agentkit.events import Milestone, ResponseReceived, RunEnded, RunResumed
from agentkit.messages import AssistantMessage, Message, ToolMessage, calls_in, reading_call, with_distinct_ids
from agentkit.sessions.run_state import RunState, Summary
from agentkit.sessions.store import SessionEntry
from agentkit.usage import NO_USAGE, Usage

_MOST_WHOLES = 50


class Conversation:
    """The state of a session, folded from its entries. A run's messages are added as one block when the run ends.

    `unended` contains the runs that are in progress, paused or were killed; the state of an ended run is dropped,
    except for its messages. `count` is the number of entries applied; `wholes` maps call ids to the newest full texts
    of results that were shown in part; `summary` is the newest summary that a model has written of the conversation.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.unended: dict[str, RunState] = {}
        self.resumptions: dict[str, int] = {}
        self.count = 0
        self._entered: dict[str, int] = {}
        self._usages: dict[str, Usage] = {}
        self._ids: set[str] = set()
        self._owners: dict[str, str] = {}
        self._foreign: dict[str, tuple[Message, ...]] = {}
        self.wholes: dict[str, str] = {}
        self.summary: Summary | None = None

    def messages_with(self, left: Iterable[str]) -> tuple[Message, ...]:
        """The messages, followed by those of runs that were cut off, as they would be added."""
        left = tuple(left)
        if not left:
            return tuple(self.messages)
        messages, owners = list(self.messages), dict(self._owners)
        for run in left:
            new, ids = _new_messages(run, self.unended[run], self._entered.get(run, 0), owners)
            messages += new
            owners.update((call_id, run) for call_id in ids.values())
        return tuple(messages)

    def usage_with(self, left: Iterable[str]) -> Usage:
        """The usage of all ended runs and of those that were cut off."""
        usages = self._usages | {run: self.unended[run].usage for run in left}
        return sum(usages.values(), NO_USAGE)

    def has_entered(self, run: str) -> bool:
        """Whether the run has ended, even if it was resumed since."""
        return run in self._entered

    def take_in(self, entry: SessionEntry, reread: Callable[[str], RunState]) -> None:
        """Apply the next entry. `reread` loads the final state of a run that was dropped."""
        run, milestone = entry.run, entry.milestone
        state = self.unended.get(run)
        if state is None:
            state = self.unended[run] = reread(run) if run in self._entered else RunState()
        state.apply(milestone)
        self.count += 1
        if isinstance(milestone, ResponseReceived):
            for call in milestone.response.message.tool_calls:
                self._ids.add(call.id)
        elif isinstance(milestone, RunResumed):
            self.resumptions[run] = self.resumptions.get(run, 0) + 1
        elif isinstance(milestone, RunEnded) and milestone.status != "paused":
            self.enter(run, state)

    def enter(self, run: str, progress: RunState) -> None:
        """Add the messages that an ended run has produced since they were last added."""
        new, ids = _new_messages(run, progress, self._entered.get(run, 0), self._owners)
        if progress.summarised is not None:
            self.summary = progress.summary_of(self.before(run, progress.history)) or self.summary
        self.messages += new
        self.unended.pop(run, None)
        self._entered[run] = self._entered.get(run, 0) + len(new)
        self._usages[run] = progress.usage
        for call_id in ids.values():
            self._ids.add(call_id)
            self._owners[call_id] = run
        for used in progress.tool_calls:
            if used.result.whole is not None:
                self.wholes[ids.get(used.call.id, used.call.id)] = used.result.whole
        while len(self.wholes) > _MOST_WHOLES:
            del self.wholes[next(iter(self.wholes))]

    def adopt(self, run: str, history: Sequence[Message], milestones: Iterable[Milestone]) -> None:
        """Store the history of a run from another session, and reserve its call ids and those of the run."""
        if not self.has_entered(run):
            self._foreign[run] = tuple(history)
        responses = [milestone.response for milestone in milestones if isinstance(milestone, ResponseReceived)]
        self._ids.update(call.id for response in responses for call in response.tool_calls)
        self._ids.update(call.id for call in calls_in(history))

    def before(self, run: str, count: int) -> tuple[Message, ...]:
        """The messages before a run whose history has `count` messages."""
        return self._foreign.get(run) or tuple(self.messages[:count])

    def tell_apart(self, message: AssistantMessage) -> AssistantMessage:
        """Make the ids of the tool calls unique within the session, including runs in progress."""
        return with_distinct_ids(message, self._ids)


def _new_messages(
    run: str, progress: RunState, entered: int, owners: Mapping[str, str]
) -> tuple[Sequence[Message], dict[str, str]]:
    """The messages of a run after its first `entered`, and the ids that its calls have in the conversation.

    A call gets a new id if `owners` says that a run in another process has used its id in the meantime.
    """
    messages = progress.valid_messages()
    own = [call.id for call in calls_in(messages)]
    clashing = {call_id: f"{call_id}_{run[:8]}" for call_id in own if owners.get(call_id, run) != run}
    new: Sequence[Message] = messages[entered:]
    new = [_with_new_ids(message, clashing) for message in new] if clashing else new
    return new, {call_id: clashing.get(call_id, call_id) for call_id in own}


def _with_new_ids(message: Message, ids: Mapping[str, str]) -> Message:
    """Replace the ids of tool calls according to `ids`, including the reading handle in a result."""
    if isinstance(message, AssistantMessage):
        calls = (replace(call, id=ids.get(call.id, call.id)) for call in message.tool_calls)
        return replace(message, tool_calls=tuple(calls))
    if isinstance(message, ToolMessage) and message.call_id in ids:
        new, content = ids[message.call_id], message.content
        was, now = reading_call(message.call_id)[:-1], reading_call(new)[:-1]  # without the end: an offset can follow
        for old, other in (
            (was, now),
            (json.dumps(was, ensure_ascii=False)[1:-1], json.dumps(now, ensure_ascii=False)[1:-1]),
        ):
            content = content.replace(old, other)  # in a note, or within JSON
        return replace(message, call_id=new, content=content)
    return message


def with_distinct_calls(messages: Sequence[Message]) -> list[Message]:
    """Make the id of each tool call, and of its result, unique within a conversation."""
    taken: set[str] = set()
    ids: dict[str, list[str]] = {}
    distinct = []
    for message in messages:
        renamed: Message = message
        if isinstance(message, AssistantMessage):
            renamed, ids = with_distinct_ids(message, taken), {}
            for old, new in zip(message.tool_calls, renamed.tool_calls, strict=True):
                ids.setdefault(old.id, []).append(new.id)
        elif isinstance(message, ToolMessage) and ids.get(message.call_id):
            renamed = replace(message, call_id=ids[message.call_id].pop(0))
        distinct.append(renamed)
    return distinct


def fault_in(messages: Sequence[Message]) -> str | None:
    """Explain why a conversation is invalid, or return None: each call needs one result before any other message."""
    waiting: dict[str, str] = {}
    known: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if waiting.pop(message.call_id, None) is None:
                fault = "which does not exist or already has one"
                return f"messages[{index}] is a result of the call {message.call_id!r}, {fault}."
            continue
        if waiting:
            return f"messages[{index}] must be the result of {_first(waiting)}."
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if call.id in known:
                return f"messages[{index}] has a call with the id {call.id!r} of another call."
            known.add(call.id)
            waiting[call.id] = call.name
    return f"The result of {_first(waiting)} is missing at the end." if waiting else None


def _first(waiting: Mapping[str, str]) -> str:
    call_id, tool = next(iter(waiting.items()))
    return f"the call {call_id!r} of {tool!r}"
