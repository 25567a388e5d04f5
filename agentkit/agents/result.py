"""`RunResult`, the outcome of a run, and how a paused or unfinished run is resumed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Generic, TypeVar, cast

from agentkit._dataclass import dataclass
from agentkit.agents.guardrails import AnswerValidator
from agentkit.decisions import Decision
from agentkit.errors import AgentKitError, ConfigError, RunError, SessionError
from agentkit.events import Event, Milestone, RunStatus, ToolCallFinished
from agentkit.llm.pricing import cost_of
from agentkit.messages import Message
from agentkit.redaction import redact
from agentkit.safety.approval import Approval, ApprovalRequest, Approver, Said
from agentkit.sessions.codec import decode, decode_message, encode, encode_part, from_line, to_line
from agentkit.sessions.conversation import fault_in
from agentkit.sessions.export import unmade_approvals
from agentkit.sessions.run_log import SessionRun, is_record_of
from agentkit.sessions.run_state import RunState, Step
from agentkit.suggestions.attribute_errors import explained
from agentkit.tooling.run_context import RunContext
from agentkit.undo import Undone
from agentkit.usage import Cost, Limits, Usage
from agentkit.workspace.journal import Record

_FORMAT = 1

T = TypeVar("T")

GivenApprover = Approver | Callable[[ApprovalRequest, RunContext[Any]], Said | Awaitable[Said]]
"""What `approve=` takes: an approver, of which a parameter that is annotated RunContext gets that of the run."""

Answers = bool | Approval | str | GivenApprover | Mapping[str, Said]
"""What is said of calls that wait: the same of all, a function that is asked, or what is said of each by its id."""


@explained("WAITING")
@dataclass(frozen=True, slots=True)
class Pending:
    """A tool call that waits for a person. `question` is what the person is asked.

    `needs_answer` tells a call that waits for words, which become its result, from one that waits for approval.
    `within` is the tool whose call makes this one, such as `run_program`; empty where the model makes it.
    """

    id: str
    tool: str
    arguments: str
    question: str
    needs_answer: bool = False
    within: str = ""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A run to go on with, in place of a prompt: what it was, what is said of its waiting calls, and its new limits.

    `saved` is a result, the text of one, or the id of a run in `session.unfinished`; None for the newest run of the
    agent's session that was cut off or is paused. `agents` are those that a tool of the run may have returned.
    """

    saved: RunResult[Any] | str | None = None
    answers: Answers | None = None
    limits: Limits | None = None
    agents: Sequence[Any] = ()

    def __post_init__(self) -> None:
        given: object = self.saved
        if isinstance(given, Approval) or not isinstance(given, RunResult | str | None):
            raise ConfigError(
                "What an agent resumes is a result, its text or its id, or else the newest run of its session; "
                f"got {given!r:.200}. What is said of waiting calls has a name: agent.resume(answers=True)."
            )

    @property
    def context(self) -> Any:
        """What the run was given, as far as its result knows it."""
        return self.saved.context if isinstance(self.saved, RunResult) else None

    @property
    def rules(self) -> AnswerValidator | None:
        """What its answer must be where the run had asked for that, as far as its result knows it."""
        rules = self.saved.rules if isinstance(self.saved, RunResult) else None
        return rules if rules is not None and rules.is_of_run else None

    @property
    def returned(self) -> list[Any]:
        """The agents that tools of the run have returned, as far as its result knows them."""
        used = self.saved.tool_calls if isinstance(self.saved, RunResult) else ()
        return [each.result.value for each in used if each.result.lead and each.result.value is not None]

    @property
    def state(self) -> tuple[str, RunState, tuple[Message, ...]] | None:
        """The run's id, how far it has come, and the conversation before it. Raises SessionError for another text."""
        if self.saved is None:
            return None
        saved = self.saved if isinstance(self.saved, RunResult) else RunResult.from_json(self.saved)
        return saved.run_id, RunState.of(saved.milestones), saved.history


_STAYS = ("lead", "context", "rules")


@explained("RESULT")
@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Generic[T]):
    """A run from its prompt to its end, whatever the end was.

    `value` is the answer, None when there is none: the last text that the model wrote, also when the run did not get to
    an answer, or a value of the agent's output type; `output` is the same, and raises when there is none. `messages`
    are those of this run; `tool_calls` holds each call with its result, in the order asked; `error` says why the status
    is not `done`, `limit` which limit was hit; `pending` are the calls that wait for a person; `agent` is the one that
    had the last word; `record` is what the run changed in its workspace; `milestones` is all that happened, `history`
    the conversation before. `context` is what the run was given, `rules` what its answer must be.

    A result can be pickled and copied: it leaves its agent, context and rules behind, and the values of tool calls that
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
    milestones: tuple[Milestone, ...] = field(default=(), repr=False, compare=False)
    history: tuple[Message, ...] = field(default=(), repr=False, compare=False)
    lead: Any = field(default=None, repr=False, compare=False)
    context: Any = field(default=None, repr=False, compare=False)
    rules: AnswerValidator | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, run: SessionRun, error: AgentKitError | None, value: T | None, **known: Any) -> RunResult[T]:
        """The result of a run that has ended; `known` is what else is known of it: lead, record, context, rules."""
        result = cls._told_by(run.progress, run.id, run.history, error, value=value, **known)
        if isinstance(error, RunError):
            error.result = result
        return result

    @classmethod
    def from_json(cls, text: str) -> RunResult[Any]:
        """The run that `to_json` saved, to look at what waits; `agent.resume(result, answers)` goes on with it.

        Raises SessionError for another text, and for one that says that waiting calls were approved: a run is never
        saved like that, and only a person may say so.
        """
        run_id, progress, history = read_saved(text)
        why = "" if progress.ended is None else progress.ended.error
        return RunResult._told_by(progress, run_id, history, RunError(why) if why else None, value=progress.text)

    @classmethod
    def _told_by(
        cls,
        progress: RunState,
        run_id: str,
        history: tuple[Message, ...],
        error: AgentKitError | None,
        **known: Any,
    ) -> RunResult[T]:
        """The result that progress tells of, with what else is known of it: its value, and perhaps record and lead."""
        return cls(
            status=progress.status or "interrupted",
            messages=progress.valid_messages(),
            tool_calls=tuple(progress.tool_calls),
            iterations=progress.iterations,
            usage=progress.usage,
            error=error,
            limit=None if progress.limit is None else progress.limit.limit,
            pending=pending_of(progress),
            agent=progress.agent,
            run_id=run_id,
            milestones=tuple(progress.milestones),
            history=history,
            **known,
        )

    def __getstate__(self) -> dict[str, Any]:
        """All but what stays in its process: the agent, and what the run was given."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _STAYS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in {**state, **dict.fromkeys(_STAYS)}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """What came of it in short: the answer, how it ended, what it took; `messages` and the like have all."""
        told: dict[str, object] = {"output": self.value, "status": self.status, "iterations": self.iterations}
        told["tool_calls"] = [used.call.name for used in self.tool_calls]
        told |= {name: getattr(self, name) for name in ("limit", "pending", "error") if getattr(self, name)}
        told["tokens"] = self.usage.total_tokens
        return f"RunResult({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    @property
    def output(self) -> T:
        """The answer. Of an agent without an output type it is a text, what it had said when it got to no answer.

        Raises the run's error when there is no value of the output type; `value` is None then.
        """
        if self.value is None and self.status != "done":
            self.raise_for_status()
            raise RunError(f"The run has no answer: it is {self.status}.", self)
        return cast(T, self.value)

    @property
    def text(self) -> str:
        """The answer as text, a value that is none as JSON; empty where there is no answer."""
        if self.value is None and self.status != "done":
            return ""
        return (self.rules or AnswerValidator.of_agent(type(self.value), ())).read(self.value)

    def values(self, tool: str) -> list[Any]:
        """What the tool of that name has returned in this run: the value of each call that succeeded, in order."""
        return [used.result.value for used in self.tool_calls if used.call.name == tool and used.result.ok]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The judgment on each tool call, in the order of `tool_calls`."""
        return tuple(used.result.decision for used in self.tool_calls if used.result.decision is not None)

    @property
    def cost(self) -> Cost | None:
        """What the run has cost, as far as anybody knows the prices; None when nobody does."""
        return cost_of(self.usage)

    @property
    def changes(self) -> str:
        """What the run changed in its workspace, or would have in a dry run, as a unified diff; also after undo."""
        return "" if self.record is None else redact(self.record.diff)

    def undo(self) -> Undone:
        """Take back what the run changed, and say what was restored and removed.

        Raises ToolError, and changes nothing, when a file was changed since.
        """
        return Undone() if self.record is None else self.record.undo()

    def resume(self, answers: Answers | None = None, *, limits: Limits | None = None) -> RunResult[T]:
        """Go on where the run was left, blocking: after a pause, a limit or a failure.

        `answers` says what waiting calls may do: True or False for all, words that say why not or that are the answer,
        or a mapping from `pending` ids to True, False, an Approval, such words, or a dictionary of other arguments.
        Those it does not name go on waiting, unless the agent has an approver; so do questions that are told True or
        False for all. What is said is of these calls and no later ones; a function, as `approve=` takes, is asked about
        later ones, too. `limits` are for what is still to come. Raises ConfigError for other answers, and SessionError
        when the run has gone on since.
        """
        result: RunResult[T] = self._lead().run(self.resumption(answers, limits=limits))
        return result

    async def aresume(self, answers: Answers | None = None, *, limits: Limits | None = None) -> RunResult[T]:
        """Like `resume`, awaiting."""
        result: RunResult[T] = await self._lead().arun(self.resumption(answers, limits=limits))
        return result

    def resumption(self, answers: Answers | None = None, *, limits: Limits | None = None) -> Resumption:
        """What `run`, `arun`, `stream` and `astream` of an agent take in place of a prompt to go on with this run."""
        return Resumption(self, answers, limits)

    def to_json(self) -> str:
        """The run as text, to go on with it elsewhere: `agent.resume(text, answers)`. It holds the conversation.

        Keep it as safe as a session's file. Whoever can change it can change what was said, which of the agents leads,
        what the calls that wait are to do and in which folder, and whether what was read counts as private or
        untrusted; not what the policy denies, nor what is approved. Who answers with a function is asked about the call
        as it would run. An agent whose session knows the run believes its session, and refuses a text in which other
        calls wait.
        """
        saved = {
            "agentkit_run": _FORMAT,
            "run": self.run_id,
            "agent": self.agent,
            "status": self.status,
            "history": [encode_part(message) for message in self.history],
            "milestones": [encode(milestone) for milestone in self.milestones],
        }
        return to_line(saved)

    def raise_for_status(self) -> RunResult[T]:
        """The result itself when the run got to its answer; raises its error otherwise."""
        if self.error is not None:
            raise self.error
        if self.status == "paused":
            waiting = "; ".join(pending.question for pending in self.pending)
            raise RunError(f"The run waits for a person: {waiting} Go on with result.resume(answers).", self)
        return self

    def _lead(self) -> Any:
        if self.lead is None:
            raise RunError("This result does not know its agent; use agent.resume(result).", self)
        return self.lead


@dataclass(frozen=True, slots=True)
class RunFinished(Event, Generic[T]):
    """The run is over, or paused. The last event of every stream."""

    result: RunResult[T]


def result_in(events: Sequence[Event]) -> RunResult[Any]:
    """The result that the events of a run end with."""
    return next(event.result for event in reversed(events) if isinstance(event, RunFinished))


def pending_of(progress: RunState) -> tuple[Pending, ...]:
    """The calls of a run that wait for a person."""
    return tuple(map(_pending, progress.waiting))


def read_saved(text: str) -> tuple[str, RunState, tuple[Message, ...]]:
    """What `to_json` wrote: the run's id, how far it has come, and the conversation before it. Raises SessionError."""
    try:
        data = from_line(text)
        version = data["agentkit_run"]
        history = tuple(decode_message(message) for message in data["history"])
        run_id, progress = str(data["run"]), RunState.of(map(decode, data["milestones"]))
    except (KeyError, TypeError, SessionError) as error:
        raise SessionError(f"This text is no saved run, as RunResult.to_json() makes one ({error}).") from error
    if version != _FORMAT:
        remedy = " Update agentkit." if isinstance(version, int) and version > _FORMAT else ""
        raise SessionError(f"The run was saved in format {version!r:.20}; this version reads {_FORMAT}.{remedy}")
    fault = _change_in(run_id, progress, history)
    if fault is not None:
        raise SessionError(f"This saved run was changed: {fault}")
    unmade = set(map(id, unmade_approvals(progress.milestones, progress)))  # as of a program that a call of it waits in
    return run_id, RunState.of(each for each in progress.milestones if id(each) not in unmade), history


def _change_in(run_id: str, progress: RunState, history: tuple[Message, ...]) -> str | None:
    """What a saved run says that no run says, if it does."""
    if not run_id:
        return "it names no run."
    if any(step.answer is not None and step.result is None for step in progress.steps.values()):
        return "it says that calls that wait were approved."
    ids = [step.asked.id for step in progress.waiting]
    if len(set(ids)) < len(ids):
        return "two of its calls that wait have one id."
    if progress.record and not is_record_of(run_id, progress.record):
        return "the record of its changes is another run's, which undo() would take back."
    return fault_in([*history, *progress.valid_messages()])


def _pending(step: Step) -> Pending:
    call, within = step.asked, step.call.name if step.inner is not None else ""
    return Pending(call.id, call.name, call.arguments, step.question, step.needs_words, within)
