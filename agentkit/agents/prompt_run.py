"""The run of one prompt of a batch, in a session that records whether it has run before."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import field, replace
from itertools import product
from typing import Any

from agentkit import errors
from agentkit._dataclass import dataclass
from agentkit.agents.budget import MIN_TOKENS, Budget, RequestPrice
from agentkit.agents.guardrails import AnswerValidator
from agentkit.agents.options import Prompt, content_from
from agentkit.agents.result import Resumption, RunFinished, RunResult, to_agentkit_error
from agentkit.agents.run_config import LINEAGE, find_agent
from agentkit.agents.runner import ResumingAgent, Runner
from agentkit.errors import AgentKitError, Cancelled, LimitExceeded, MissingExtra, RunError, SessionError
from agentkit.events import Event, LimitReached, RequestFailed, RunEnded, RunStarted, StoredEvent, ToolCallStarted
from agentkit.llm.client import LLM
from agentkit.llm.pricing import prices_under
from agentkit.recording import TAPE, ScopedRecording, clock
from agentkit.sessions.session import Session
from agentkit.sessions.state import RunState
from agentkit.sessions.store import SessionEntry
from agentkit.usage import COUNTED_LIMITS, LIMITS, RESERVED_LIMITS, UNLIMITED, Limits, Price


@dataclass(frozen=True, slots=True)
class Job:
    """One prompt of a batch: its index from 0, how often an executor lost it, and the result so far if it had to wait.

    `saved` is the result so far, serialised for another process; `is_alone` is True if no other run of the batch is
    active. `options` are those of each run; their `session` is the parent of the runs' sessions. `answers` are those of
    a person to the calls that wait in an earlier run.
    """

    index: int
    prompt: Prompt
    failures: int = 0
    earlier: RunResult[Any] | None = None
    saved: str = ""
    is_alone: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    answers: Any = None


def answers_under(answers: Any, name: str) -> Any:
    """The person's answers whose ids begin with `name/`, by the rest of the ids; or the one answer to all."""
    if not isinstance(answers, Mapping):
        return answers
    parts = {str(key).partition("/")[::2]: value for key, value in answers.items()}
    matching = {rest: value for (first, rest), value in parts.items() if first == name}
    return matching.get("", matching or None)


@dataclass(slots=True)
class SharedBudget(Budget):
    """One run's view of the budget that all runs of a batch share.

    `refusal` is the limit that a request would exceed in the worst case of the other runs: the run then reserves
    nothing more while others are active, and continues when they have ended. `is_narrowed` is True if the budget
    shortened the newest answer.
    """

    has_others: bool = False
    refusal: LimitReached | None = None
    is_narrowed: bool = False

    @classmethod
    def of(cls, shared: Budget, *, is_alone: bool) -> SharedBudget:
        """A view with the same limits and the same spending."""
        share = cls(shared.limits, shared.parent, shared.clock, shared.spent, has_others=not is_alone)
        share.started, share.lock = shared.started, shared.lock
        return share

    def max_answer(self, input_tokens: int, price: Price | None, min_tokens: int) -> tuple[int, str] | LimitReached:
        """Like `Budget.max_answer`; while other runs are active, an earlier refusal is repeated."""
        self.is_narrowed = False
        refused = self.refusal if self.has_others else None
        available = refused or Budget.max_answer(self, input_tokens, price, min_tokens)
        self.refusal = available if isinstance(available, LimitReached) else self.refusal
        return available

    def narrow(self, limit: str) -> LimitReached:
        """Like `Budget.narrow`, and recorded in `is_narrowed`."""
        self.is_narrowed = True
        return Budget.narrow(self, limit)

    def was_too_small(self, limit: str) -> bool:
        """Whether a larger budget would have let a run that hit this limit continue."""
        if limit in COUNTED_LIMITS:
            return self.exhausted(limit) is not None
        return limit in RESERVED_LIMITS and (self.refusal is not None or self.is_narrowed)


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """A result; `must_wait` is True if other runs can leave more budget for this one once they have ended."""

    result: RunResult[Any]
    must_wait: bool


@dataclass(slots=True)
class PromptRun:
    """The run of one job. It ends at the next event after `is_stopped` returns True.

    After `run` or `arun`, `events` are those of the result; the first `known` of them are older than this run.
    """

    agent: Runner
    job: Job
    share: SharedBudget
    is_stopped: Callable[[], bool] = field(default=lambda: False)
    session: Session = field(default_factory=Session)
    events: list[StoredEvent] = field(default_factory=list)
    known: int = 0
    result: RunResult[Any] | None = None

    def run(self) -> PromptOutcome:
        """Run, blocking. Exceptions are returned in the outcome."""
        try:
            start = self._start()
            if not isinstance(start, RunResult):
                with closing(self.agent.events(start, **self._options)) as events:
                    for event in events:
                        self._collect(event)
                        if self.is_stopped():
                            break
        except Exception as error:
            return PromptOutcome(self._failed_result(error), must_wait=False)
        return self._final_outcome()

    async def arun(self) -> PromptOutcome:
        """Async version of `run`."""
        try:
            start = self._start()
            if not isinstance(start, RunResult):
                async with aclosing(self.agent.aevents(start, **self._options)) as events:
                    async for event in events:
                        self._collect(event)
        except Exception as error:
            return PromptOutcome(self._failed_result(error), must_wait=False)
        return self._final_outcome()

    @property
    def _options(self) -> dict[str, Any]:
        return {**self.job.options, "session": self.session}

    def _start(self) -> Prompt | Resumption | RunResult[Any]:
        """The prompt, the interrupted run to resume, or the result of an earlier finished run."""
        LINEAGE.set(replace(LINEAGE.get(), budget=self.share))
        tape = TAPE.get()
        if tape is not None:  # runs are concurrent, so each records its own timeouts
            TAPE.set(ScopedRecording(tape, f"map {self.job.index}"))
            self.share.clock = clock()
        self.session = job_session(self.agent, self.job)
        earlier = self.job.earlier or earlier_result(self.agent, self.session, self.job.prompt)
        if earlier is not None:
            self.events, self.known = list(earlier.events), len(earlier.events)
        if earlier is None or earlier.status != "done":
            limit = exhausted_limit(self.share, price_function(self.job.options.get("llm") or self.agent.llm))
            if limit is None:
                answers = self.job.answers if earlier is not None and earlier.status == "paused" else None
                return self.job.prompt if earlier is None else Resumption(earlier, answers)
            run = _run_id(self.session) if earlier is None else earlier.run_id
            events = self.events or [_run_started(self.agent, self.job)]
            earlier = stopped_result(self.agent, self.session, run, [*events, limit])
        self.result, self.known = earlier, len(earlier.events)
        return earlier

    def _collect(self, event: Event) -> None:
        if isinstance(event, StoredEvent):
            self.events.append(event)
        elif isinstance(event, RunFinished):
            self.result = event.result

    def _final_outcome(self) -> PromptOutcome:
        """The outcome; for a stopped run, the results so far."""
        if self.result is None:
            return PromptOutcome(
                self._failed_result(Cancelled("The run was cancelled by its caller.")), must_wait=False
            )
        self.events = list(self.result.events)
        return PromptOutcome(self.result, must_wait=self.result.status == "limit" and self.share.refusal is not None)

    def _failed_result(self, error: Exception) -> RunResult[Any]:
        failure = to_agentkit_error(error)
        progress = RunState.of(self.events)
        for interrupted in tuple(progress.interruptions()):
            progress.apply(interrupted)
        progress.apply(RunEnded("failed", progress.text, str(failure)))
        self.events = progress.events
        return rebuild_result(self.agent, self.session, _run_id(self.session), progress, error=failure)


def job_session(agent: Runner, job: Job) -> Session:
    """The session of a job's run: stored as a child of the agent's session, or in memory."""
    own = job.options.get("session") or agent.session
    return Session() if own.store is None else Session(f"{own.name}/{job.index:04d}", own.store)


def earlier_result(agent: Runner, session: Session, prompt: Prompt) -> RunResult[Any] | None:
    """The result of an earlier run of the prompt in the session; None if there was no earlier run.

    Raises SessionError if the session belongs to another prompt. Prompts that guardrails can amend are not compared.
    """
    entries = _stored_entries(session)
    if not entries:
        return None
    run = entries[0].run
    progress = RunState.of(entry.event for entry in entries if entry.run == run)
    stored = next((each.prompt for each in progress.events if isinstance(each, RunStarted)), None)
    if stored is None or (stored != content_from(prompt) and not agent.answer_validator.of("prompt")):
        raise SessionError(
            f"The session {session.name!r} belongs to another prompt. Map these prompts with another session= of the "
            f"agent, or delete that one with Session.open(store, {session.name!r}).delete()."
        )
    return rebuild_result(agent, session, run, progress)


def rebuild_result(
    agent: Runner, session: Session, run: str, progress: RunState, *, error: AgentKitError | None = None
) -> RunResult[Any]:
    """Rebuild the result from stored events, parsing the answer again. Raises SessionError if it cannot be parsed."""
    rules = _rules(agent, progress.agent)
    value: Any = None if rules.output is not None else progress.text
    if progress.status == "done":
        try:
            value = rules.parse(progress.text)
        except ValueError as failure:
            raise SessionError(
                f"The answer stored in {session.name!r} does not match the agent's output type: {failure}"
            ) from failure
    has_calls = any(isinstance(event, ToolCallStarted) for event in progress.events)
    workspace = agent.workspace.for_run(
        progress.record or None, label=agent.name, dry_run=agent.dry_run, is_new=not has_calls
    )
    record = workspace.begun_record
    known = {"last_agent": ResumingAgent(agent, session), "record": record, "rules": rules}
    return RunResult.of(progress, run, (), error or _error_of(progress), value=value, **known)


def _rules(agent: Runner, name: str) -> AnswerValidator:
    """The answer rules of the agent of that name, which was active last."""
    target = None if name in ("", agent.name) else find_agent(name, agent.handoff_targets)
    return (
        target.answer_validator.or_type_of(agent.answer_validator)
        if isinstance(target, Runner)
        else agent.answer_validator
    )


def stopped_result(agent: Runner, session: Session, run: str, events: Sequence[StoredEvent]) -> RunResult[Any]:
    """The result of a run that hit a limit before it could continue, with what was done so far. It can be resumed."""
    so_far = RunState.of(events)
    reason = "" if so_far.limit is None else so_far.limit.reason
    return rebuild_result(agent, session, run, RunState.of([*events, RunEnded("limit", so_far.text, reason)]))


def failed_result(
    agent: Runner, job: Job, error: AgentKitError, earlier: RunResult[Any] | None = None
) -> RunResult[Any]:
    """The result of a prompt that ended with an error; `earlier` is the result stored in its session."""
    session = job_session(agent, job)
    known = [_run_started(agent, job)] if earlier is None else earlier.events
    progress = RunState.of([*known, RunEnded("failed", "", str(error))])
    return rebuild_result(agent, session, _run_id(session), progress, error=error)


def recreate_error(kind: str, text: str) -> AgentKitError:
    """Recreate an error from its class name and text; a RunError if that is not possible."""
    kind_class = getattr(errors, kind, None)
    if isinstance(kind_class, type) and issubclass(kind_class, AgentKitError) and kind_class is not MissingExtra:
        return kind_class(text)
    return RunError(text)


def price_function(llm: LLM) -> Callable[[], RequestPrice]:
    """A function that returns the prices of the models."""
    return lambda: prices_under(llm.tariffs)


def exhausted_limit(budget: Budget, price: Callable[[], RequestPrice]) -> LimitReached | None:
    """The limit that prevents another run, if any."""
    counted = filter(None, map(budget.exhausted, COUNTED_LIMITS))
    if (limit := next(counted, None)) is not None:
        return limit
    reserved = budget.reserve(0, lambda: MIN_TOKENS, price)
    if isinstance(reserved, LimitReached):
        return reserved
    budget.release(reserved)
    return None


def remaining_limits(budget: Budget) -> Limits:
    """The remaining budget for other runs, after `exhausted_limit` found no exhausted limit."""
    left: dict[str, Any] = {}
    for each, name in product(budget.chain(), SHARED):
        limit = getattr(each.limits, name)
        if limit is not None:
            minimum = 1 if LIMITS[name].is_whole else _MIN_DOLLARS
            left[name] = max(min(limit - each.spent.of(name), left.get(name, limit)), minimum)
    seconds = None if math.isinf(budget.seconds_left) else max(budget.seconds_left, _MIN_SECONDS)
    return replace(UNLIMITED, **left, seconds=seconds, unknown_price=budget.limits.unknown_price)


def reserve_part(budget: Budget, runs: int) -> Limits | None:
    """Reserve one of `runs` equal parts of the remaining budget; None if it is too small to divide."""
    with budget.lock:
        left = remaining_limits(budget)
        limited = {name: getattr(left, name) for name in SHARED if getattr(left, name) is not None}
        parts = {name: limit // runs if LIMITS[name].is_whole else limit / runs for name, limit in limited.items()}
        if not all(parts.values()):
            return None
        part = replace(left, **parts)
        budget.reserve_part(part)
        return part


SHARED = (*COUNTED_LIMITS, *RESERVED_LIMITS)
"""The limits that can be divided among runs; time passes for all runs at once."""

_MIN_DOLLARS, _MIN_SECONDS = 1e-9, 1e-3


def _error_of(progress: RunState) -> AgentKitError | None:
    """The reason why the run did not finish."""
    ended = progress.ended
    if ended is None or ended.status in ("done", "paused"):
        return None
    if progress.limit is not None:
        return LimitExceeded(progress.limit.reason)
    before = progress.events[-2] if len(progress.events) > 1 else None
    if isinstance(before, RequestFailed):
        return recreate_error(before.kind, before.error)
    return RunError(ended.error or f"The run was {ended.status}.")


def _run_id(session: Session) -> str:
    """The id of the run stored in the session, or a new one."""
    try:
        entries = _stored_entries(session)
    except SessionError:
        entries = []
    return entries[0].run if entries else uuid.uuid4().hex


def _stored_entries(session: Session) -> list[SessionEntry]:
    """The stored entries of the session. Raises SessionError."""
    return [] if session.store is None else session.entries


def _run_started(agent: Runner, job: Job) -> RunStarted:
    """The first stored event of the job's run; an invalid prompt is shown as text."""
    try:
        return RunStarted(agent.name, content_from(job.prompt))
    except AgentKitError:
        return RunStarted(agent.name, repr(job.prompt))
