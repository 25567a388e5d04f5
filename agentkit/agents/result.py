"""`RunResult`, the outcome of a run; its resumption; and `RunStream`, the events of an active run."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Generic, Self, TypeVar, cast

from agentkit._dataclass import dataclass
from agentkit.agents.guardrails import AnswerValidator
from agentkit.decisions import Decision
from agentkit.errors import AgentKitError, ConfigError, RunError, SessionError, short_traceback
from agentkit.event_rendering import answer_text, count_text, tokens_text
from agentkit.events import Event, EventDescription, RunStatus, Severity, StoredEvent, ToolCallFinished, token_counts
from agentkit.llm.pricing import cost_of
from agentkit.messages import Content, Message
from agentkit.redaction import redact
from agentkit.safety.approval import Approval, ApprovalRequest, Approver, ApproverReply
from agentkit.sessions.codec import decode, decode_message, encode, encode_part, from_line, to_line
from agentkit.sessions.session import is_record_of
from agentkit.sessions.state import RunState, Step, history_problem
from agentkit.sessions.transfer import unexecuted_approvals
from agentkit.suggestions import closest
from agentkit.tooling.run_context import ContextType, RunContext
from agentkit.undo import Undone
from agentkit.usage import Cost, Limits, Usage
from agentkit.workspace.journal import Record

_FORMAT = 1
_ALIKE = 0.8
"""Similarity from which the name of a tool counts as a misspelling of another."""

T = TypeVar("T")

GivenApprover = (
    Approver | Callable[[ApprovalRequest, RunContext[ContextType]], ApproverReply | Awaitable[ApproverReply]]
)
"""The type of `approve=`: an approver, which can have a parameter annotated RunContext."""

Answers = bool | Approval | str | GivenApprover | Mapping[str, ApproverReply]
"""Answers to waiting calls: one for all, a function, or a mapping from call ids to answers."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A tool call that waits for a person. `question` is the text shown to the person.

    `needs_answer` is True for a call that waits for a text, which becomes its result, rather than for approval.
    `within` is the tool that made the call, such as `run_program`; empty for calls of the model.
    """

    id: str
    tool: str
    arguments: str
    question: str
    needs_answer: bool = False
    within: str = ""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A run to resume, in place of a prompt: the saved run, the answers to its waiting calls, and its new limits.

    `saved` is a result, its text, or the id of a run in `session.unfinished`; None for the newest interrupted or paused
    run of the agent's session. `agents` are agents that a tool of the run returned.
    """

    saved: RunResult[Any] | str | None = None
    answers: Answers | None = None
    limits: Limits | None = None
    agents: Sequence[Any] = ()
    max_iterations: int | None = None

    def __post_init__(self) -> None:
        saved: object = self.saved
        if isinstance(saved, Approval) or not isinstance(saved, RunResult | str | None):
            raise ConfigError(
                "resume() takes a result, its text or its id, or None for the newest run of the session. "
                f"Got {saved!r:.200}. To answer waiting calls, write agent.resume(answers=True)."
            )

    @property
    def context(self) -> Any:
        """The context of the run, if its result has it."""
        return self.saved.context if isinstance(self.saved, RunResult) else None

    @property
    def session(self) -> Any:
        """The session of the run, if it is not that of its agent and its result has it."""
        agent = self.saved.last_agent if isinstance(self.saved, RunResult) else None
        return getattr(agent, "session", None) if hasattr(agent, "agent") else None

    @property
    def rules(self) -> AnswerValidator | None:
        """The answer rules that the run itself requested, if its result has them."""
        rules = self.saved.rules if isinstance(self.saved, RunResult) else None
        return rules if rules is not None and rules.is_of_run else None

    @property
    def returned_agents(self) -> list[Any]:
        """The agents returned by tools of the run, if its result has them."""
        used = self.saved.tool_calls if isinstance(self.saved, RunResult) else ()
        return [each.result.value for each in used if each.result.handoff_to and each.result.value is not None]

    @property
    def state(self) -> tuple[str, RunState, tuple[Message, ...]] | None:
        """The run's id, its state, and the conversation before it. Raises SessionError for an invalid text."""
        if self.saved is None:
            return None
        saved = self.saved if isinstance(self.saved, RunResult) else RunResult.from_json(self.saved)
        return saved.run_id, RunState.of(saved.events), saved.history


_MAYBE_CALL = re.compile(r"[<\[]|\A\s*[{`]")
_PROCESS_FIELDS = ("last_agent", "context", "rules")


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Generic[T]):
    """The result of a run, whatever its status.

    `value` is the answer: a value of the agent's output type, or the last text that the model wrote, even if the run
    did not finish; None without either. `output` is the same, but raises an error without a value. `messages` are those
    of this run; `tool_calls` holds each call with its result, in the order requested; `error` says why the status is
    not `done`, `limit` which limit was hit; `pending` are the calls that wait for a person; `agent` is the
    agent that was active last; `record` is the record of changes in the workspace, None without changes; `events` holds
    all stored events, `history` the conversation before. `context` is the context of the run, `rules` its answer rules.

    A result can be pickled and copied, without its agent, context and rules, and without values of tool calls that
    cannot be pickled.
    """

    value: T | None
    status: RunStatus
    messages: tuple[Message, ...] = field(repr=False)
    tool_calls: tuple[ToolCallFinished, ...] = field(repr=False)
    iterations: int
    usage: Usage
    error: AgentKitError | None = None
    record: Record | None = field(default=None, repr=False, compare=False)
    limit: str | None = None
    pending: tuple[Pending, ...] = ()
    agent: str = field(default="", repr=False)
    run_id: str = field(default="", repr=False)
    events: tuple[StoredEvent, ...] = field(default=(), repr=False, compare=False)
    history: tuple[Message, ...] = field(default=(), repr=False, compare=False)
    last_agent: Any = field(default=None, repr=False, compare=False)
    context: Any = field(default=None, repr=False, compare=False)
    rules: AnswerValidator | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_json(cls, text: str) -> RunResult[Any]:
        """Load the run that `to_json` saved, to inspect its waiting calls; `agent.resume(result, answers)` resumes it.

        Raises SessionError for an invalid text, and for one in which waiting calls are already approved: a run is never
        saved like that, and only a person can approve.
        """
        run_id, progress, history = read_saved(text)
        reason = "" if progress.ended is None else progress.ended.error
        return RunResult.of(progress, run_id, history, RunError(reason) if reason else None, value=progress.text)

    @classmethod
    def of(
        cls,
        progress: RunState,
        run_id: str,
        history: tuple[Message, ...],
        error: AgentKitError | None,
        **known: Any,
    ) -> RunResult[T]:
        """Create the result from the run's state; `known` holds further fields: value, last_agent, record, …."""
        result = cls(
            status=progress.status or "interrupted",
            messages=progress.valid_messages(),
            tool_calls=tuple(progress.tool_calls),
            iterations=progress.iterations,
            usage=progress.usage,
            error=error,
            limit=None if progress.limit is None else progress.limit.limit,
            pending=pending_calls(progress) if progress.steps else (),
            agent=progress.agent,
            run_id=run_id,
            events=tuple(progress.events),
            history=history,
            **known,
        )
        if isinstance(error, RunError):
            error.result = result
        return result

    def __getstate__(self) -> dict[str, Any]:
        """All fields except those bound to the process: agent, context and rules."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _PROCESS_FIELDS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in {**state, **dict.fromkeys(_PROCESS_FIELDS)}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """A summary: the answer, status and usage; fields such as `messages` are left out."""
        fields: dict[str, object] = {"output": self.value, "status": self.status, "iterations": self.iterations}
        fields["tool_calls"] = [used.call.name for used in self.tool_calls]
        fields |= {name: getattr(self, name) for name in ("limit", "pending", "error") if getattr(self, name)}
        fields["tokens"] = self.usage.total_tokens
        return f"RunResult({', '.join(f'{name}={value!r}' for name, value in fields.items())})"

    @property
    def output(self) -> T:
        """The answer: a text, or a value of the output type.

        Raises the run's error if the run failed, and RunError if it has no value, for example while it is paused. What
        the model had written by then is in `value` and `text`.
        """
        if self.status == "failed" or (self.value is None and self.status != "done"):
            self.raise_for_status()
            raise RunError(f"The run has no answer: its status is {self.status}.", self)
        return cast(T, self.value)

    @property
    def text(self) -> str:
        """The answer as text, other values as JSON; empty without an answer."""
        if self.value is None and self.status != "done":
            return ""
        return (self.rules or AnswerValidator.with_agent(type(self.value), ())).render(self.value)

    def values(self, tool: str) -> list[Any]:
        """The return values of the successful calls of a tool in this run, in order.

        Raises ConfigError for a misspelled name: a tool that neither the run has called nor the agent has.
        """
        called = {used.call.name for used in self.tool_calls}
        known = called if self.last_agent is None else called.union(self.last_agent.tools.names)
        if tool not in known and (intended := closest(tool, sorted(known), _ALIKE)):
            raise ConfigError(f"No tool of this run is named {tool!r}. Did you mean {intended!r}?")
        return [used.result.value for used in self.tool_calls if used.call.name == tool and used.result.ok]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision on each tool call, in the order of `tool_calls`."""
        return tuple(used.result.decision for used in self.tool_calls if used.result.decision is not None)

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the answer: that the model wrote a tool call as text, which was not run."""
        if not isinstance(self.value, str) or _MAYBE_CALL.search(self.value) is None:
            return ()
        from agentkit.llm.prompted_tools.native_formats import NOTICE, has_call

        return (NOTICE,) if has_call(self.value) else ()

    @property
    def cost(self) -> Cost | None:
        """The cost of the run, as far as prices are known; None if no price is known."""
        return cost_of(self.usage)

    @property
    def changes(self) -> str:
        """The changes in the workspace as a unified diff; in a dry run, those it would make. Unaffected by undo."""
        return "" if self.record is None else redact(self.record.diff)

    def undo(self) -> Undone:
        """Revert the changes of the run; returns what was restored and removed.

        Raises ToolError, and changes nothing, if a file was changed since.
        """
        return Undone() if self.record is None else self.record.undo()

    def resume(
        self, answers: Answers | None = None, *, limits: Limits | None = None, max_iterations: int | None = None
    ) -> RunResult[T]:
        """Resume the run, blocking: after a pause, a limit or a failure.

        `answers` decides waiting calls: True or False for all, a text that is the reason for a refusal or the answer,
        or a mapping from `pending` ids to True, False, an Approval, such a text, or a dictionary of other arguments.
        Calls it does not name keep waiting, unless the agent has an approver; so do questions answered with True or
        False for all. Answers apply to these calls only; a function, as for `approve=`, is also asked about later ones.
        `limits` and `max_iterations` apply to the rest of the run. Raises ConfigError for invalid answers, and
        SessionError if the run was resumed since.
        """
        result: RunResult[T] = self._resuming_agent().run(
            self.resumption(answers, limits=limits, max_iterations=max_iterations)
        )
        return result

    async def aresume(
        self, answers: Answers | None = None, *, limits: Limits | None = None, max_iterations: int | None = None
    ) -> RunResult[T]:
        """Async version of `resume`."""
        result: RunResult[T] = await self._resuming_agent().arun(
            self.resumption(answers, limits=limits, max_iterations=max_iterations)
        )
        return result

    def resumption(
        self, answers: Answers | None = None, *, limits: Limits | None = None, max_iterations: int | None = None
    ) -> Resumption:
        """The run to resume, which an agent's `run`, `arun`, `stream` and `astream` take in place of a prompt."""
        return Resumption(self, answers, limits, max_iterations=max_iterations)

    def to_json(self) -> str:
        """Serialise the run, to resume it elsewhere with `agent.resume(text, answers)`. Contains the conversation.

        Protect it like a session file. An attacker who can change it can change the conversation, the active agent,
        what the waiting calls do and in which folder, and whether what was read counts as private or untrusted; but not
        what the policy denies, nor what is approved. A function as `answers` is asked about the call as it would run.
        An agent whose session contains the run uses its session, and refuses a text with other waiting calls.
        """
        saved = {
            "agentkit_run": _FORMAT,
            "run": self.run_id,
            "agent": self.agent,
            "status": self.status,
            "history": [encode_part(message) for message in self.history],
            "events": [encode(event) for event in self.events],
        }
        return to_line(saved)

    def raise_for_status(self) -> RunResult[T]:
        """Return the result if the run finished; raise its error otherwise."""
        with short_traceback:
            if self.error is not None:
                raise self.error
            if self.status == "paused":
                waiting = "; ".join(pending.question for pending in self.pending)
                raise RunError(f"The run waits for a person: {waiting} Continue with result.resume(answers).", self)
            return self

    def _resuming_agent(self) -> Any:
        if self.last_agent is None:
            raise RunError("This result has no reference to its agent. Use agent.resume(result).", self)
        return self.last_agent


@dataclass(frozen=True, slots=True)
class RunFinished(Event, Generic[T]):
    """The run has ended or paused. The last event of every stream."""

    result: RunResult[T]

    def describe(self) -> EventDescription:
        """Return how the event is displayed and logged."""
        result = self.result
        usage, cost, error, output = result.usage, result.cost, result.error, answer_text(result.value)
        figures = [
            count_text(usage.requests, "request"),
            count_text(len(result.tool_calls), "tool call"),
            tokens_text(usage),
            *([f"cost {cost}"] if cost is not None else []),
        ]
        return EventDescription(
            result.status,
            "" if error is None or result.status == "limit" else str(error),
            _SEVERITIES.get(result.status, "error"),
            figures=tuple(figures),
            fields={
                "status": result.status,
                "iterations": result.iterations,
                "requests": usage.requests,
                **token_counts(usage),
                "tool_calls": len(result.tool_calls),
                "output_chars": len(output),
                **({} if error is None else {"kind": type(error).__name__}),
                **({} if cost is None else {"dollars": cost.dollars}),
            },
            content={"output": output, "error": "" if error is None else str(error)},
        )


_SEVERITIES: Mapping[RunStatus, Severity] = {"done": "info", "paused": "warning"}


def final_result(events: Sequence[Event]) -> RunResult[Any]:
    """The result in the last event of a run."""
    return next(event.result for event in reversed(events) if isinstance(event, RunFinished))


def pending_calls(progress: RunState) -> tuple[Pending, ...]:
    """The calls of a run that wait for a person."""
    return tuple(map(_pending, progress.waiting))


def read_saved(text: str) -> tuple[str, RunState, tuple[Message, ...]]:
    """Parse the output of `to_json`: run id, state, and conversation before. Raises SessionError."""
    try:
        data = from_line(text)
        version = data["agentkit_run"]
        history = tuple(decode_message(message) for message in data["history"])
        run_id, progress = str(data["run"]), RunState.of(map(decode, data["events"]))
    except (KeyError, TypeError, SessionError) as error:
        raise SessionError(f"The text is not a run saved by RunResult.to_json() ({error}).") from error
    if version != _FORMAT:
        remedy = " Update agentkit." if isinstance(version, int) and version > _FORMAT else ""
        raise SessionError(f"The run was saved in format {version!r:.20}; this version reads {_FORMAT}.{remedy}")
    problem = _tampering(run_id, progress, history)
    if problem is not None:
        raise SessionError(f"This saved run was changed: {problem}")
    undecided = set(
        map(id, unexecuted_approvals(progress.events, progress))
    )  # for example of a program with a waiting call
    return run_id, RunState.of(each for each in progress.events if id(each) not in undecided), history


def _tampering(run_id: str, progress: RunState, history: tuple[Message, ...]) -> str | None:
    """An inconsistency that shows that a saved run was edited, if any."""
    if not run_id:
        return "it has no run id."
    if any(step.answer is not None and step.result is None for step in progress.steps.values()):
        return "it marks waiting calls as approved."
    ids = [step.pending_call.id for step in progress.waiting]
    if len(set(ids)) < len(ids):
        return "two of its waiting calls have the same id."
    if progress.record and not is_record_of(run_id, progress.record):
        return "its record of changes belongs to another run, which undo() would revert."
    return history_problem([*history, *progress.valid_messages()])


def _pending(step: Step) -> Pending:
    call, within = step.pending_call, step.call.name if step.inner is not None else ""
    return Pending(call.id, call.name, call.arguments, step.question, step.needs_text, within)


def to_agentkit_error(error: Exception) -> AgentKitError:
    """Convert an exception to the error of a result."""
    if isinstance(error, AgentKitError):
        return error
    ended = RunError(f"The run was ended by an exception ({type(error).__name__}: {error}).")
    ended.__cause__ = error
    return ended


_ENDED = "The run has ended, so it cannot be steered. Send the message as the next prompt."


class Inbox:
    """Messages sent into a run while it is running. Thread-safe."""

    def __init__(self) -> None:
        self._messages: deque[Content] = deque()
        self._lock = threading.Lock()
        self._is_closed = False

    def put(self, message: Content) -> None:
        """Add a message. Raises RunError if the run has ended."""
        with self._lock:
            if self._is_closed:
                raise RunError(_ENDED)
            self._messages.append(message)

    def take(self) -> Content | None:
        """Remove and return the oldest message; None if there are none."""
        with self._lock:
            return self._messages.popleft() if self._messages else None

    def close(self) -> list[Content]:
        """Accept no more messages; returns those that were not read."""
        with self._lock:
            self._is_closed = True
            return list(self._messages)

    def close_if_empty(self) -> bool:
        """Accept no more messages, unless there are unread ones; returns whether it was closed."""
        with self._lock:
            self._is_closed = not self._messages
            return self._is_closed


class _Sender:
    def __init__(self, inbox: Inbox, content_from: Callable[[Any], Content]) -> None:
        self._inbox, self._content_from = inbox, content_from

    def send(self, message: Any) -> None:
        """Send a message into the run, from any thread or task; the next request to the model contains it.

        If the model has just answered, the run continues with the message. Raises ConfigError for an invalid message,
        RunError if the run has ended.
        """
        self._inbox.put(self._content_from(message))


class RunStream(_Sender, Generic[T]):
    """The events of a run; the last is RunFinished. Leaving the loop, or `close()`, interrupts the run."""

    def __init__(
        self, events: Generator[Event, None, None], inbox: Inbox, content_from: Callable[[Any], Content]
    ) -> None:
        super().__init__(inbox, content_from)
        self._events = events

    def __iter__(self) -> Iterator[Event | RunFinished[T]]:
        return self

    def __next__(self) -> Event | RunFinished[T]:
        return next(self._events)

    def close(self) -> None:
        """Interrupt the run unless it has ended."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRunStream(_Sender, Generic[T]):
    """Async version of `RunStream`; use it as `async with` to leave it early."""

    def __init__(
        self, events: AsyncGenerator[Event, None], inbox: Inbox, content_from: Callable[[Any], Content]
    ) -> None:
        super().__init__(inbox, content_from)
        self._events = events

    def __aiter__(self) -> AsyncIterator[Event | RunFinished[T]]:
        return self

    async def __anext__(self) -> Event | RunFinished[T]:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Interrupt the run unless it has ended."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
