"""How is a function tried? It is called with what a case asks, within the suite's limits, and told of as a run is."""

from __future__ import annotations

import inspect
import math
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from agentkit.agents.many.single import Job, Outcome, Share
from agentkit.agents.result import RunResult
from agentkit.agents.running.plan import LINEAGE
from agentkit.agents.settings import content_from
from agentkit.errors import AgentKitError, LimitExceeded, RunError
from agentkit.evals.trial import told_by
from agentkit.evals.trying.listening import Heard, listening
from agentkit.evals.trying.single import TrialRun, Trying
from agentkit.evals.variants import has_room_for
from agentkit.events import AnswerGiven, Milestone, RunEnded, RunStarted, RunStatus
from agentkit.llm.prices import cost_of
from agentkit.memory.progress import Progress
from agentkit.slotted import dataclass
from agentkit.tape import TAPE
from agentkit.tooling.rendering import rendered, text_of
from agentkit.tooling.running import acall, call
from agentkit.usage import Charge, Price, Usage

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

    def __init__(self, trials: Trying, job: Job, share: Share, function: Callable[..., Any]) -> None:
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
    def _set_up(self) -> Iterator[Heard]:
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

    def _outcome(self, heard: Heard, returned: Returned) -> Outcome:
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
        if returned.error is None and Progress.of(milestones).text != text:
            milestones.append(AnswerGiven(text))
        why = "" if returned.error is None else str(returned.error)
        progress = Progress.of([*milestones, RunEnded(returned.status, text, why)])
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
