"""Trials of plain functions, with the model requests and agent runs inside them recorded."""

from __future__ import annotations

import inspect
import math
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from types import TracebackType
from typing import Any, Self

from agentkit._dataclass import dataclass
from agentkit.agents.options import content_from
from agentkit.agents.prompt_run import Job, PromptOutcome, SharedBudget
from agentkit.agents.result import RunResult
from agentkit.agents.run_config import LINEAGE
from agentkit.errors import AgentKitError, LimitExceeded, RunError
from agentkit.evals.run_config import accepts_argument
from agentkit.evals.trial import result_from_state
from agentkit.evals.trial_run import TrialContext, TrialRun
from agentkit.events import (
    AnswerGiven,
    Approved,
    LimitReached,
    ResponseReceived,
    RunEnded,
    RunStarted,
    RunStatus,
    StoredEvent,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.llm.pricing import cost_of
from agentkit.messages import AssistantMessage, Request, Response, with_distinct_ids
from agentkit.recording import TAPE, Account, Answer, OpenQuestion, Question, Recording, ScopedRecording, active
from agentkit.sessions.state import RunState
from agentkit.tooling.execution import acall, call
from agentkit.tooling.results import render, text_of
from agentkit.usage import NO_USAGE, Charge, Price, Usage


@dataclass(slots=True)
class RecordedActivity:
    """The activity observed in all threads: the stored events of runs at `depth`, and the responses of models.

    Nested runs are part of the run that started them, as in any result.
    """

    depth: int = 0
    runs: dict[str, list[StoredEvent]] = field(default_factory=dict)
    responses: list[Response] = field(default_factory=list)
    reported: Counter[Usage] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_event(self, run: str, event: StoredEvent) -> None:
        """Add a stored event of a run."""
        with self.lock:
            if LINEAGE.get().depth == self.depth:
                self.runs.setdefault(run, []).append(event)
            if isinstance(event, ResponseReceived):
                self.reported[event.response.usage] += 1
            elif isinstance(event, Summarised):
                self.reported[event.usage] += 1

    def add_answer(self, question: Question, answer: Answer | None) -> None:
        """Add the answer to a question, if it is a model's response."""
        if isinstance(question, Request) and isinstance(answer, Response):
            with self.lock:
                self.responses.append(answer)

    @property
    def unattributed(self) -> list[Response]:
        """The responses to requests that the function sent directly, outside of any run."""
        counts, bare = self.reported.copy(), []
        for response in self.responses:
            if counts[response.usage]:
                counts[response.usage] -= 1
            else:
                bare.append(response)
        return bare

    @property
    def unattributed_usage(self) -> Usage:
        """The usage of these responses."""
        return sum((response.usage for response in self.unattributed), NO_USAGE)

    def events(self, ids: set[str]) -> Iterator[StoredEvent]:
        """All stored events as those of one run, run by run in the order in which they began.

        Tool calls get ids that are not in `ids`, and these are added to `ids`.
        """
        for run in self.runs.values():
            yield from _without_run_frame(run, ids)
        for response in self.unattributed:
            yield ResponseReceived(replace(response, message=AssistantMessage(response.text)))


@contextmanager
def recorded_activity() -> Iterator[RecordedActivity]:
    """Observe what agents and models do in the block."""
    activity = RecordedActivity(LINEAGE.get().depth)
    with active(_RecordingListener(TAPE.get() or Recording(), activity)):
        yield activity


class _RecordingListener(ScopedRecording):
    """Forwards everything to the active recording, and observes it."""

    def __init__(self, tape: Recording, activity: RecordedActivity) -> None:
        super().__init__(tape)
        self._activity = activity

    def replay(self, question: Question, account: Account | None = None, /) -> Answer | None:
        answer = super().replay(question, account)
        self._activity.add_answer(question, answer)
        return answer

    def open_question(self, question: Question, /) -> OpenQuestion:
        return _ObservedQuestion(super().open_question(question), question, self._activity)

    def record_event(self, run: str, event: StoredEvent, /) -> None:
        self._activity.add_event(run, event)
        super().record_event(run, event)


class _ObservedQuestion(OpenQuestion):
    """Records its answer as activity, and those of nested questions."""

    def __init__(self, asked: OpenQuestion, question: Question, heard: RecordedActivity) -> None:
        super().__init__(_RecordingListener(asked.tape, heard))
        self._asked, self._question, self._activity = asked, question, heard

    def record_answer(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool | None:
        self._activity.add_answer(self._question, answer)
        return self._asked.record_answer(answer, is_live=is_live, charge=charge)

    def record_partial(self, answer: Answer, /) -> None:
        self._activity.add_answer(self._question, answer)
        self._asked.record_partial(answer)


def _without_run_frame(run: list[StoredEvent], ids: set[str]) -> Iterator[StoredEvent]:
    """The stored events of a run as part of a larger one: missing results are added, start and end are removed."""
    names: dict[str, str] = {}
    for event in (*run, *RunState.of(run).interruptions()):
        match event:
            case RunStarted(agent, prompt, history):
                yield RunStarted(agent, prompt, history)
            case RunEnded() | LimitReached():
                continue
            case ResponseReceived(response):
                message = with_distinct_ids(response.message, ids)
                names |= {one.id: other.id for one, other in zip(response.tool_calls, message.tool_calls, strict=True)}
                yield ResponseReceived(replace(response, message=message))
            case _:
                yield _with_names(event, names)


def _with_names(event: StoredEvent, names: Mapping[str, str]) -> StoredEvent:
    """Replace the id of a tool call in its stored event; other stored events are unchanged."""
    match event:
        case ToolCallStarted(call) | ToolCallFinished(call) | ToolCallPostponed(call):
            return replace(event, call=replace(call, id=names.get(call.id, call.id)))
        case Approved(call_id):
            return replace(event, call_id=names.get(call_id, call_id))
    return event


_MAX_CHARS = 10_000_000


@dataclass(frozen=True, slots=True)
class Returned:
    """The outcome of a call: a value or an error."""

    value: Any = None
    error: AgentKitError | None = None

    @property
    def status(self) -> RunStatus:
        """The outcome as a run status."""
        if self.error is None:
            return "done"
        return "limit" if isinstance(self.error, LimitExceeded) else "failed"

    @property
    def text(self) -> str:
        """The value as the text of an answer: text unchanged, anything else as JSON."""
        if self.error is not None:
            return ""
        return self.value if isinstance(self.value, str) else render(self.value, _MAX_CHARS, clean=str)[0]


class _Raised:
    """Captures any exception raised in the block, except those that stop the program or the task."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self.error = error
        return isinstance(error, Exception | SystemExit)


class FunctionTrialRun(TrialRun):
    """The trial of a function, including the agents it runs."""

    def __init__(self, trials: TrialContext, job: Job, share: SharedBudget, function: Callable[..., Any]) -> None:
        super().__init__(trials, job, share)
        self._function = function
        self._is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))

    def _run_prompt(self) -> PromptOutcome:
        with self._set_up() as observed, _Raised() as raised:
            value = call(self._call_function, self._seconds(), is_async=self._is_async)
        return self._outcome(
            observed, self._wrap_value(value) if raised.error is None else self._wrap_error(raised.error)
        )

    async def _arun_prompt(self) -> PromptOutcome:
        with self._set_up() as observed, _Raised() as raised:
            value = await acall(self._call_function, self._seconds(), is_async=self._is_async)
        return self._outcome(
            observed, self._wrap_value(value) if raised.error is None else self._wrap_error(raised.error)
        )

    @contextmanager
    def _set_up(self) -> Iterator[RecordedActivity]:
        """Observe the block, and let agents in it stop with the batch."""
        TAPE.set(self._tape)
        lineage = LINEAGE.get()
        context = replace(lineage.context, stopping=lambda: self.is_stopped() or lineage.context.is_stopped)
        token = LINEAGE.set(replace(lineage, budget=self.share, context=context))
        try:
            with recorded_activity() as observed:
                yield observed
        finally:
            LINEAGE.reset(token)

    def _seconds(self) -> float | None:
        """The seconds left for the call. Raises LimitExceeded if the time is used up."""
        late = self.share.out_of_time()
        if late is not None:
            raise LimitExceeded(late.reason)
        return None if math.isinf(self.share.seconds_left) else max(self.share.seconds_left, 0.001)

    def _call_function(self) -> Any:
        """Call the function with the input of the case, and with the optional arguments it accepts."""
        case, environment = self._planned.case, self._environment
        arguments = {name: _copy(value) for name, value in (case.arguments or {}).items()}
        positional = () if case.arguments is not None else (self.job.prompt,)
        optional = {
            "history": environment.conversation.history,
            "workspace": environment.folder,
            "context": self.agent.context,
        }
        for name, value in optional.items():
            if value is not None and accepts_argument(self._function, name, positional, **arguments):
                arguments[name] = value
        return self._function(*positional, **arguments)

    def _wrap_value(self, value: Any) -> Returned:
        """Wrap a return value; a run's result is unwrapped."""
        if not isinstance(value, RunResult):
            return Returned(value)
        error = None if value.status == "done" else value.error or RunError(f"The run is {value.status}.")
        return Returned(value.value if error is None else None, error)

    def _wrap_error(self, error: BaseException) -> Returned:
        """Wrap an exception."""
        if isinstance(error, AgentKitError):
            return Returned(error=error)
        text = text_of(error)
        failure = RunError(f"{self.agent.name} raised {type(error).__name__}{text and f': {text}'}")
        failure.__cause__ = error
        return Returned(error=failure)

    def _outcome(self, activity: RecordedActivity, returned: Returned) -> PromptOutcome:
        """Build the result of the call as that of a run.

        If a limit of the suite was reached, the run fails, even if the function handled the error.
        """
        unattributed, unknown = activity.unattributed_usage, self.share.limits.unknown_price
        self.share.charge(charge_of(unattributed, 0, unknown))
        events: list[StoredEvent] = [RunStarted(self.agent.name, content_from(self.job.prompt))]
        events += activity.events(self._environment.ids)
        exceeded = self.share.refusal or (self.share.out_of_time() if returned.error is not None else None)
        if exceeded is not None:
            returned = Returned(error=LimitExceeded(exceeded.reason))
            events.append(exceeded)
        text = returned.text
        if returned.error is None and RunState.of(events).text != text:
            events.append(AnswerGiven(text))
        error_text = "" if returned.error is None else str(returned.error)
        progress = RunState.of([*events, RunEnded(returned.status, text, error_text)])
        result = replace(
            result_from_state(progress, uuid.uuid4().hex),
            value=returned.value,
            error=returned.error,
            context=self.agent.context,
        )
        self.events = list(result.events)
        return PromptOutcome(result, must_wait=self.share.refusal is not None)


def charge_of(usage: Usage, tool_calls: int, unknown: Price | str) -> Charge:
    """Convert a usage to a charge against limits; `unknown` replaces unknown prices."""
    cost = cost_of(usage, unknown if isinstance(unknown, Price) else None)
    dollars = () if cost is None else (cost.dollars,)
    return Charge(usage.input_tokens, usage.output_tokens, {"tool_calls": tool_calls}, dollars)


def _copy(value: Any) -> Any:
    """Copy lists, dictionaries and sets, so that a call cannot change the arguments of another one."""
    if isinstance(value, dict):
        return {name: _copy(each) for name, each in value.items()}
    return type(value)(map(_copy, value)) if type(value) in (list, tuple, set) else value
