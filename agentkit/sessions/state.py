"""The state of runs and of the conversations of sessions, folded from their events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    AnswerRefused,
    Approved,
    HandedOff,
    HistoryGiven,
    HostedCallFinished,
    InputReceived,
    LimitReached,
    RequestFailed,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStatus,
    StoredEvent,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import (
    AssistantMessage,
    Content,
    FinishReason,
    MadeCall,
    Message,
    Response,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    calls_in,
    failure_content,
    read_more_call,
    with_distinct_ids,
)
from agentkit.sessions.store import SessionEntry
from agentkit.usage import NO_USAGE, Usage

INTERRUPTED = "The run was interrupted before this call had a result; whether it took effect is unknown."

_WAITING = "This call waits for a person and has no result yet."
_SECOND_HANDOFF = (
    "The conversation was handed off to {} by another call of the same response, and only the first handoff of a "
    "response counts; {} was not called."
)
_NOT_STARTED = "The run was interrupted before this call started; it has not taken effect."


@dataclass(slots=True)
class Step:
    """The state of one tool call of the newest response.

    `answer` is a person's answer since the call was postponed, `consent` the answer about the call itself. `made`
    contains the nested calls that its tool made before it was postponed.
    """

    call: ToolCall
    decision: Decision | None = None
    answer: Approved | None = None
    postponed: ToolCallPostponed | None = None
    result: ToolResult | None = None
    consent: Approved | None = None
    made: tuple[MadeCall, ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Whether the call waits for a person."""
        return self.postponed is not None and self.answer is None and self.result is None

    @property
    def needs_text(self) -> bool:
        """Whether it was postponed for text from a person, which becomes its result, rather than for approval."""
        return self.postponed is not None and self.postponed.decision is None

    @property
    def inner(self) -> ToolCall | None:
        """The waiting nested call, made by this call's tool; None if no nested call waits."""
        return None if self.postponed is None else self.postponed.inner

    @property
    def pending_call(self) -> ToolCall:
        """The call that a person decides about: this one, or one nested in it."""
        return self.inner or self.call

    @property
    def within(self) -> Step:
        """The waiting nested call as a step with its answer; without one, this step."""
        if self.postponed is None or self.postponed.inner is None:
            return self
        postponed = replace(self.postponed, call=self.postponed.inner, inner=None, made=())
        return Step(self.pending_call, answer=self.answer, postponed=postponed, consent=self.answer)

    @property
    def question(self) -> str:
        """The question to the person; empty if the call was not postponed."""
        return "" if self.postponed is None else self.postponed.question


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, written by a model, of the first `count` messages of a conversation; `last` is the last of these."""

    count: int
    last: Message
    text: str

    def covers(self, messages: Sequence[Message]) -> bool:
        """Whether `messages` belong to the summarised conversation and continue after it."""
        return len(messages) > self.count and messages[self.count - 1] == self.last


@dataclass(slots=True)
class RunState:
    """The state of a run, folded from its stored events: only `apply` changes it.

    `messages` are those of the run. While a call in `steps`, the calls of the newest response, lacks a result, the
    results of all of them are missing from `messages`; `results` contains them once all are available, until the next
    step of the run. `inputs` are messages sent into the run that follow those results. `events` contains all
    applied stored events in order.
    """

    events: list[StoredEvent] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    steps: dict[str, Step] = field(default_factory=dict)
    results: tuple[ToolCallFinished, ...] = ()
    tool_calls: list[ToolCallFinished] = field(default_factory=list)
    prompt: Content | None = None
    agent: str = ""
    history: int = 0
    record: str = ""
    iterations: int = 0
    refusals: int = 0
    usage: Usage = NO_USAGE
    finish_reason: FinishReason = "stop"
    text: str = ""
    summarised: Summarised | None = None
    limit: LimitReached | None = None
    ended: RunEnded | None = None
    inputs: list[UserMessage] = field(default_factory=list)

    @classmethod
    def of(cls, recorded: Iterable[StoredEvent]) -> RunState:
        """Fold stored events to a state."""
        progress = cls()
        for event in recorded:
            progress.apply(event)
        return progress

    @property
    def status(self) -> RunStatus | None:
        """How the run ended; None while it is in progress."""
        return None if self.ended is None else self.ended.status

    @property
    def waiting(self) -> tuple[Step, ...]:
        """The calls that wait for a person."""
        return tuple(step for step in self.steps.values() if step.is_waiting)

    @property
    def is_answered(self) -> bool:
        """Whether the last message is an answer that was not rejected."""
        last = self.messages[-1] if self.messages else None
        return not self.steps and isinstance(last, AssistantMessage)

    def apply(self, event: StoredEvent) -> None:
        """Apply a stored event."""
        self.events.append(event)
        match event:
            case ResponseReceived(response):
                self._take(response)
            case RunStarted() | RunResumed() | LimitReached() | RunEnded():
                self._bound(event)
            case HostedCallFinished():
                self.tool_calls.append(event)
            case ToolCallStarted() | Approved() | ToolCallPostponed() | ToolCallFinished():
                self._advance(event)
            case InputReceived(content):
                self.inputs.append(UserMessage(content))
                self._flush_inputs()
            case _:
                self._converse(event)

    def interruptions(self) -> Iterator[ToolCallFinished]:
        """Yield, for each call without a result, a result that says that the run was interrupted."""
        for step in self.steps.values():
            if step.result is None:
                yield ToolCallFinished(step.call, _interrupted_result(step))

    def valid_messages(self) -> tuple[Message, ...]:
        """The messages, each tool call with exactly one result; a missing result is replaced by a notice."""
        waiting = [_tool_message(step, self.agent) for step in self.steps.values()] if self.steps else []
        return (*self.messages, *waiting)

    def summary_of(self, history: Sequence[Message]) -> Summary | None:
        """The newest summary that the run's model has written of a conversation starting with `history`."""
        summarised, known = self.summarised, (*history, *self.messages)
        if summarised is None or summarised.messages > len(known):
            return None
        return Summary(summarised.messages, known[summarised.messages - 1], summarised.text)

    def _bound(self, event: RunStarted | RunResumed | LimitReached | RunEnded) -> None:
        """Apply the start, resumption, limit or end of the run."""
        match event:
            case RunStarted(agent, prompt, history, record):
                self.agent, self.prompt, self.history, self.record = agent, prompt, history, record
            case RunResumed(prompt):
                self.ended = self.limit = None
                self.refusals = 0
                self.messages += [UserMessage(prompt)] if prompt else []
            case LimitReached():
                self.limit = event
            case _:
                self.ended = event

    def _converse(self, event: StoredEvent) -> None:
        """Apply a change of the conversation."""
        match event:
            case HistoryGiven(messages):
                self.messages += messages
            case AnswerRefused(reason):
                self.refusals += 1
                self.messages.append(UserMessage(reason, by_person=False))
            case AnswerGiven(text):
                self.text, self.results = text, ()
                self.messages.append(AssistantMessage(text, agent=self.agent))
            case AnswerAmended(text):
                self.text = text
                last = self.messages[-1:]
                self.messages[-1:] = [
                    replace(each, text=text) if isinstance(each, AssistantMessage) else each for each in last
                ]
            case HandedOff(agent):
                self.agent, self.results = agent, ()
            case Summarised(_, count, usage):
                self.usage += usage
                self.summarised = event if count else self.summarised
            case _:
                self.usage += event.usage if isinstance(event, RequestFailed) else NO_USAGE

    def _flush_inputs(self) -> None:
        """Add the messages sent into the run, once the tool calls of the newest response have their results."""
        if not self.steps:
            self._flush_prompt()
            self.messages += self.inputs
            self.inputs = []

    def _flush_prompt(self) -> None:
        """Add the prompt to the messages, once it is sent; an empty one adds nothing."""
        self.messages += [UserMessage(self.prompt)] if self.prompt not in (None, ()) else []
        self.prompt = None

    def _take(self, response: Response) -> None:
        self._flush_prompt()
        self.iterations += 1
        self.usage += response.usage
        self.finish_reason = response.finish_reason
        self.text = response.text or self.text
        message = response.message
        self.messages.append(message.with_agent(self.agent))
        self.steps, self.results = {call.id: Step(call) for call in response.tool_calls}, ()

    def _advance(self, event: ToolCallStarted | Approved | ToolCallPostponed | ToolCallFinished) -> None:
        if isinstance(event, Approved):
            answered = (step for step in self.steps.values() if step.pending_call.id == event.call_id)
            step = next(answered, None)
        else:
            step = self.steps.get(event.call.id)
        if step is None:
            return
        match event:
            case ToolCallStarted():
                step.call, step.decision = event.call, event.decision  # a person may have edited the arguments
                if step.inner is not None:  # the answer about a nested call is used up
                    step.postponed = step.answer = None
            case Approved(call_id):
                step.answer = event
                step.consent = event if call_id == step.call.id else step.consent
            case ToolCallPostponed():
                _postpone(step, event)
                self.usage += event.usage
            case _:
                step.result = event.result
                self.usage += event.result.usage
        # from the end, since results mostly arrive in order and a response can contain thousands of calls
        if all(step.result is not None for step in reversed(self.steps.values())):
            self._close()

    def _close(self) -> None:
        """Add the results of all calls, in call order. Only the first of several handoffs takes effect."""
        steps = self.steps.values()
        receiver = ""
        for step in steps:
            if step.result is not None and step.result.handoff_to:
                if receiver:
                    error = _SECOND_HANDOFF.format(receiver, step.result.handoff_to)
                    content = failure_content(step.result.tool, error)
                    denied: dict[str, Any] = {"status": "denied", "value": None, "handoff_to": ""}
                    step.result = replace(step.result, content=content, error=error, **denied)
                receiver = receiver or step.result.handoff_to
        self.results = tuple(ToolCallFinished(step.call, step.result) for step in steps if step.result is not None)
        self.tool_calls += self.results
        self.messages += [_tool_message(step, self.agent) for step in steps]
        self.steps = {}
        if self.inputs:
            self._flush_inputs()


def _postpone(step: Step, postponed: ToolCallPostponed) -> None:
    """Apply a postponement: a call waiting for approval has not started, one waiting for text has done its work."""
    step.postponed, step.answer = postponed, None
    step.made += postponed.made
    if postponed.inner is not None or postponed.decision is not None:
        step.decision = None


def _tool_message(step: Step, agent: str) -> ToolMessage:
    """Build the tool message for a call."""
    if step.is_waiting:
        return ToolMessage(step.call.id, step.call.name, _WAITING, agent=agent)
    result = step.result or _interrupted_result(step)
    shown = result.labels, result.images, result.files
    return ToolMessage(step.call.id, step.call.name, result.content, *shown, agent=agent)


def _interrupted_result(step: Step) -> ToolResult:
    """Build the result of a call that was interrupted or not started."""
    is_running = step.decision is not None and step.decision.allowed and not step.is_waiting
    began = is_running or bool(step.made)
    error = INTERRUPTED if began else _NOT_STARTED
    content = failure_content(step.call.name, error)
    return ToolResult(step.call.name, "interrupted", content, error=error, decision=step.decision)


_MAX_FULL_TEXTS = 50


@dataclass(slots=True, eq=False, repr=False)
class Conversation:
    """The state of a session, folded from its entries. A run's messages are added as one block when the run ends.

    `active_runs` contains the runs that are in progress, paused or were killed; the state of an ended run is dropped,
    except for its messages. `count` is the number of entries applied; `full_texts` maps call ids to the newest full
    texts of results that were shown in part; `summary` is the newest summary that a model has written of the
    conversation. `call_ids` are the ids of all tool calls, including those of runs in progress.
    """

    messages: list[Message] = field(default_factory=list)
    active_runs: dict[str, RunState] = field(default_factory=dict)
    resumptions: dict[str, int] = field(default_factory=dict)
    count: int = 0
    full_texts: dict[str, str] = field(default_factory=dict)
    summary: Summary | None = None
    call_ids: set[str] = field(default_factory=set)
    _entered: dict[str, int] = field(default_factory=dict)
    _run_usages: dict[str, Usage] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    _foreign: dict[str, tuple[Message, ...]] = field(default_factory=dict)

    def messages_with(self, left: Iterable[str]) -> tuple[Message, ...]:
        """The messages, followed by those of runs that were cut off, as they would be added."""
        left = tuple(left)
        if not left:
            return tuple(self.messages)
        messages, owners = list(self.messages), dict(self._owners)
        for run in left:
            new, ids = _new_messages(run, self.active_runs[run], self._entered.get(run, 0), owners)
            messages += new
            owners.update((call_id, run) for call_id in ids.values())
        return tuple(messages)

    def usage_with(self, left: Iterable[str]) -> Usage:
        """The usage of all ended runs and of those that were cut off."""
        usages = self._run_usages | {run: self.active_runs[run].usage for run in left}
        return sum(usages.values(), NO_USAGE)

    def has_entered(self, run: str) -> bool:
        """Whether the run has ended, even if it was resumed since."""
        return run in self._entered

    def apply_entry(self, entry: SessionEntry, reread: Callable[[str], RunState]) -> None:
        """Apply the next entry. `reread` loads the final state of a run that was dropped."""
        run, event = entry.run, entry.event
        state = self.active_runs.get(run)
        if state is None:
            state = self.active_runs[run] = reread(run) if run in self._entered else RunState()
        state.apply(event)
        self.count += 1
        if isinstance(event, ResponseReceived):
            for call in event.response.message.tool_calls:
                self.call_ids.add(call.id)
        elif isinstance(event, RunResumed):
            self.resumptions[run] = self.resumptions.get(run, 0) + 1
        elif isinstance(event, RunEnded) and event.status != "paused":
            self.add_ended(run, state)

    def add_ended(self, run: str, progress: RunState) -> None:
        """Add the messages that an ended run has produced since they were last added."""
        new, ids = _new_messages(run, progress, self._entered.get(run, 0), self._owners)
        if progress.summarised is not None:
            self.summary = progress.summary_of(self.history_of(run, progress.history)) or self.summary
        self.messages += new
        self.active_runs.pop(run, None)
        self._entered[run] = self._entered.get(run, 0) + len(new)
        self._run_usages[run] = progress.usage
        for call_id in ids.values():
            self.call_ids.add(call_id)
            self._owners[call_id] = run
        for used in progress.tool_calls:
            if used.result.full_content is not None:
                self.full_texts[ids.get(used.call.id, used.call.id)] = used.result.full_content
        while len(self.full_texts) > _MAX_FULL_TEXTS:
            del self.full_texts[next(iter(self.full_texts))]

    def adopt(self, run: str, history: Sequence[Message], recorded: Iterable[StoredEvent]) -> None:
        """Store the history of a run from another session, and reserve its call ids and those of the run."""
        if not self.has_entered(run):
            self._foreign[run] = tuple(history)
        responses = [event.response for event in recorded if isinstance(event, ResponseReceived)]
        self.call_ids.update(call.id for response in responses for call in response.tool_calls)
        self.call_ids.update(call.id for call in calls_in(history))

    def history_of(self, run: str, count: int) -> tuple[Message, ...]:
        """The messages before a run whose history has `count` messages."""
        return self._foreign.get(run) or tuple(self.messages[:count])


def _new_messages(
    run: str, progress: RunState, entered: int, owners: Mapping[str, str]
) -> tuple[Sequence[Message], dict[str, str]]:
    """The messages of a run after its first `entered`, and the ids that its calls have in the conversation.

    A call gets a new id if `owners` says that a run in another process has used its id in the meantime.
    """
    messages = progress.valid_messages()
    call_ids = [call.id for call in calls_in(messages)]
    clashing = {call_id: f"{call_id}_{run[:8]}" for call_id in call_ids if owners.get(call_id, run) != run}
    new: Sequence[Message] = messages[entered:]
    new = [_with_new_ids(message, clashing) for message in new] if clashing else new
    return new, {call_id: clashing.get(call_id, call_id) for call_id in call_ids}


def _with_new_ids(message: Message, ids: Mapping[str, str]) -> Message:
    """Replace the ids of tool calls according to `ids`, including the reading handle in a result."""
    if isinstance(message, AssistantMessage):
        calls = (replace(call, id=ids.get(call.id, call.id)) for call in message.tool_calls)
        return replace(message, tool_calls=tuple(calls))
    if isinstance(message, ToolMessage) and message.call_id in ids:
        new, content = ids[message.call_id], message.content
        old_messages, new_messages = (
            read_more_call(message.call_id)[:-1],
            read_more_call(new)[:-1],
        )  # without the end: an offset can follow
        for old, other in (
            (old_messages, new_messages),
            (json.dumps(old_messages, ensure_ascii=False)[1:-1], json.dumps(new_messages, ensure_ascii=False)[1:-1]),
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


def history_problem(messages: Sequence[Message]) -> str | None:
    """Explain why a conversation is invalid, or return None: each call needs one result before any other message."""
    waiting: dict[str, str] = {}
    known: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if waiting.pop(message.call_id, None) is None:
                problem = "which does not exist or already has one"
                return f"messages[{index}] is a result of the call {message.call_id!r}, {problem}."
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
