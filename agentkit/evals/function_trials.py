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
from agentkit.agents.prompt_run import Job, Outcome, SharedBudget
from agentkit.agents.result import RunResult
from agentkit.agents.run_config import LINEAGE
from agentkit.errors import AgentKitError, LimitExceeded, RunError
from agentkit.evals.agent_variants import has_room_for
from agentkit.evals.trial import told_by
from agentkit.evals.trials import TrialContext, TrialRun
from agentkit.events import (
    AnswerGiven,
    Approved,
    LimitReached,
    Milestone,
    ResponseReceived,
    RunEnded,
    RunStarted,
    RunStatus,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.llm.pricing import cost_of
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, with_distinct_ids
from agentkit.recording import TAPE, Account, Answer, OpenQuestion, Question, Recording, ScopedRecording, active
from agentkit.sessions.run_state import RunState
from agentkit.tooling.execution import acall, call
from agentkit.tooling.results import rendered, text_of
from agentkit.usage import NO_USAGE, Charge, Price, Usage


@dataclass(slots=True)
class RecordedActivity:
    """What was heard, from any thread: the runs at `depth`, and each answer of a model.

    Runs that a run sets to work are part of it, as they are of any result.
    """

    depth: int = 0
    runs: dict[str, list[Milestone]] = field(default_factory=dict)
    responses: list[Response] = field(default_factory=list)
    told: Counter[Usage] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_milestone(self, run: str, milestone: Milestone) -> None:
        """Take in what a run has done."""
        with self.lock:
            if LINEAGE.get().depth == self.depth:
                self.runs.setdefault(run, []).append(milestone)
            if isinstance(milestone, ResponseReceived):
                self.told[milestone.response.usage] += 1
            elif isinstance(milestone, Summarised):
                self.told[milestone.usage] += 1

    def take_answer(self, question: Question, answer: Answer | None) -> None:
        """Take in what came of a question, if it is a model's answer."""
        if isinstance(question, Request) and isinstance(answer, Response):
            with self.lock:
                self.responses.append(answer)

    @property
    def bare(self) -> list[Response]:
        """The answers of models that the function asked directly, outside of any run."""
        told, bare = self.told.copy(), []
        for response in self.responses:
            if told[response.usage]:
                told[response.usage] -= 1
            else:
                bare.append(response)
        return bare

    @property
    def bare_usage(self) -> Usage:
        """What these have spent."""
        return sum((response.usage for response in self.bare), NO_USAGE)

    def milestones(self, ids: set[str]) -> Iterator[Milestone]:
        """All that was done, run by run in the order of their beginnings, as if it were one run.

        Each tool call has an id that is not among `ids`, to which it is added.
        """
        for run in self.runs.values():
            yield from _part_of_one(run, ids)
        for response in self.bare:
            yield ResponseReceived(replace(response, message=AssistantMessage(response.text)))


@contextmanager
def listening() -> Iterator[RecordedActivity]:
    """Hear what agents and models do in the block."""
    heard = RecordedActivity(LINEAGE.get().depth)
    with active(_RecordingListener(TAPE.get() or Recording(), heard)):
        yield heard


class _RecordingListener(ScopedRecording):
    """Passes everything on, and takes in what is told."""

    def __init__(self, tape: Recording, heard: RecordedActivity) -> None:
        super().__init__(tape)
        self._heard = heard

    def replayed(self, question: Question, account: Account | None = None, /) -> Answer | None:
        answer = super().replayed(question, account)
        self._heard.take_answer(question, answer)
        return answer

    def asked(self, question: Question, /) -> OpenQuestion:
        return _ListenedQuestion(super().asked(question), question, self._heard)

    def told(self, run: str, milestone: Milestone, /) -> None:
        self._heard.take_milestone(run, milestone)
        super().told(run, milestone)


class _ListenedQuestion(OpenQuestion):
    """A question that adds its answer to what was heard, and so do the questions asked while it is answered."""

    def __init__(self, asked: OpenQuestion, question: Question, heard: RecordedActivity) -> None:
        super().__init__(_RecordingListener(asked.tape, heard))
        self._asked, self._question, self._heard = asked, question, heard

    def heard(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool | None:
        self._heard.take_answer(self._question, answer)
        return self._asked.heard(answer, is_live=is_live, charge=charge)

    def left(self, answer: Answer, /) -> None:
        self._heard.take_answer(self._question, answer)
        self._asked.left(answer)


def _part_of_one(run: list[Milestone], ids: set[str]) -> Iterator[Milestone]:
    """The milestones of a run as part of another: with the results that are missing, without a beginning and an end."""
    names: dict[str, str] = {}
    for milestone in (*run, *RunState.of(run).interruptions()):
        match milestone:
            case RunStarted(agent, prompt, history):
                yield RunStarted(agent, prompt, history)
            case RunEnded() | LimitReached():
                continue
            case ResponseReceived(response):
                message = with_distinct_ids(response.message, ids)
                names |= _renamed(response.tool_calls, message.tool_calls)
                yield ResponseReceived(replace(response, message=message))
            case _:
                yield _with_names(milestone, names)


def _renamed(old: tuple[ToolCall, ...], new: tuple[ToolCall, ...]) -> Mapping[str, str]:
    return {one.id: other.id for one, other in zip(old, new, strict=True)}


def _with_names(milestone: Milestone, names: Mapping[str, str]) -> Milestone:
    """The milestone of a tool call by its new id; any other as it is."""
    match milestone:
        case ToolCallStarted(call) | ToolCallFinished(call) | ToolCallPostponed(call):
            return replace(milestone, call=replace(call, id=names.get(call.id, call.id)))
        case Approved(call_id):
            return replace(milestone, call_id=names.get(call_id, call_id))
    return milestone


_MOST_CHARS = 10_000_000


@dataclass(frozen=True, slots=True)
class Returned:
    """What came of a call: a value, or what was raised."""

    value: Any = None
    error: AgentKitError | None = None

    @property
    def status(self) -> RunStatus:
        """How the call ended, as a run does."""
        if self.error is None:
            return "done"
        return "limit" if isinstance(self.error, LimitExceeded) else "failed"

    @property
    def text(self) -> str:
        """The value as the text of an answer: text as it is, anything else as JSON."""
        if self.error is not None:
            return ""
        return self.value if isinstance(self.value, str) else rendered(self.value, _MOST_CHARS, clean=str)[0]


class _Raised:
    """Takes what is raised in the block, whatever it is, but for what stops the program or this task."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self.error = error
        return isinstance(error, Exception | SystemExit)


class FunctionRun(TrialRun):
    """The trial of a function; what agents do inside is part of it."""

    def __init__(self, trials: TrialContext, job: Job, share: SharedBudget, function: Callable[..., Any]) -> None:
        super().__init__(trials, job, share)
        self._function = function
        self._is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))

    def _answered(self) -> Outcome:
        with self._set_up() as heard, _Raised() as raised:
            value = call(self._work, self._seconds(), is_async=self._is_async)
        return self._outcome(heard, self._read(value) if raised.error is None else self._told_of(raised.error))

    async def _aanswered(self) -> Outcome:
        with self._set_up() as heard, _Raised() as raised:
            value = await acall(self._work, self._seconds(), is_async=self._is_async)
        return self._outcome(heard, self._read(value) if raised.error is None else self._told_of(raised.error))

    @contextmanager
    def _set_up(self) -> Iterator[RecordedActivity]:
        """What is done in the block is heard, and agents in it end when all trials are to."""
        TAPE.set(self._tape)
        lineage = LINEAGE.get()
        context = replace(lineage.context, stopping=lambda: self.is_stopped() or lineage.context.is_stopped)
        token = LINEAGE.set(replace(lineage, budget=self.share, context=context))
        try:
            with listening() as heard:
                yield heard
        finally:
            LINEAGE.reset(token)

    def _seconds(self) -> float | None:
        """How long the call may take. Raises LimitExceeded when there is no time left for it."""
        late = self.share.out_of_time()
        if late is not None:
            raise LimitExceeded(late.reason)
        return None if math.isinf(self.share.seconds_left) else max(self.share.seconds_left, 0.001)

    def _work(self) -> Any:
        """Call the function with what the case asks, and with what else it has parameters for."""
        case, stage = self._wanted.case, self._stage
        arguments = {name: _own(value) for name, value in (case.arguments or {}).items()}
        asked = () if case.arguments is not None else (self.job.prompt,)
        given = {"history": stage.talk.history, "workspace": stage.folder, "context": self.agent.context}
        for name, value in given.items():
            if value is not None and has_room_for(self._function, name, asked, **arguments):
                arguments[name] = value
        return self._function(*asked, **arguments)

    def _read(self, value: Any) -> Returned:
        """What was returned; of a run's result, what it holds."""
        if not isinstance(value, RunResult):
            return Returned(value)
        error = None if value.status == "done" else value.error or RunError(f"The run is {value.status}.")
        return Returned(value.value if error is None else None, error)

    def _told_of(self, error: BaseException) -> Returned:
        """What was raised."""
        if isinstance(error, AgentKitError):
            return Returned(error=error)
        text = text_of(error)
        told = RunError(f"{self.agent.name} raised {type(error).__name__}{text and f': {text}'}")
        told.__cause__ = error
        return Returned(error=told)

    def _outcome(self, heard: RecordedActivity, returned: Returned) -> Outcome:
        """What came of the call, told as of a run: undone by the limits of the suite, whatever it made of that."""
        bare, unknown = heard.bare_usage, self.share.limits.unknown_price
        self.share.charge(charge_of(bare, 0, unknown))
        milestones: list[Milestone] = [RunStarted(self.agent.name, content_from(self.job.prompt))]
        milestones += heard.milestones(self._stage.ids)
        reached = self.share.refusal or (self.share.out_of_time() if returned.error is not None else None)
        if reached is not None:
            returned = Returned(error=LimitExceeded(reached.reason))
            milestones.append(reached)
        text = returned.text
        if returned.error is None and RunState.of(milestones).text != text:
            milestones.append(AnswerGiven(text))
        why = "" if returned.error is None else str(returned.error)
        progress = RunState.of([*milestones, RunEnded(returned.status, text, why)])
        result = replace(
            told_by(progress, uuid.uuid4().hex), value=returned.value, error=returned.error, context=self.agent.context
        )
        self.milestones = list(result.milestones)
        return Outcome(result, must_wait=self.share.refusal is not None)


def charge_of(usage: Usage, tool_calls: int, unknown: Price | str) -> Charge:
    """What a usage counts against limits; `unknown` stands in for prices that nobody knows."""
    cost = cost_of(usage, unknown if isinstance(unknown, Price) else None)
    return Charge(usage.input_tokens, usage.output_tokens, tool_calls, () if cost is None else (cost.dollars,))


def _own(value: Any) -> Any:
    """The value with lists, dictionaries and sets of its own, so that no call changes what another one gets."""
    if isinstance(value, dict):
        return {name: _own(each) for name, each in value.items()}
    return type(value)(map(_own, value)) if type(value) in (list, tuple, set) else value
