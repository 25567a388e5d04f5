"""Who answers the search? What is kept of earlier answers, then the suite and the proposer, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import field, replace
from typing import Any, TypeVar

from agentkit import tape
from agentkit.agents.agent import Agent
from agentkit.agents.many.single import left_of
from agentkit.agents.running.budget import UNLIMITED, Budget, Spent
from agentkit.agents.running.plan import LINEAGE
from agentkit.errors import ConfigError
from agentkit.evals.case import Case
from agentkit.evals.optimizing.candidates import Candidate
from agentkit.evals.optimizing.failures import failure_of
from agentkit.evals.optimizing.lineage import Lineage, Taken
from agentkit.evals.optimizing.parts import with_texts
from agentkit.evals.optimizing.proposing import Proposer, stop_of
from agentkit.evals.optimizing.search import Measure, Measured, Proposal, Propose, Step, Stop, Tried
from agentkit.evals.suite import Suite
from agentkit.evals.trial import Trial
from agentkit.llm.client import LLM
from agentkit.llm.prices import cost_of, price_under
from agentkit.slotted import dataclass
from agentkit.usage import Limits, Price, Usage

TRAIN, HELD_OUT = "train", "held-out"

_SPARE = 1.25
"""What is set aside for the last measurement, next to what the same cases have cost the original."""

_LEAST_PART = 1e-9

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Half:
    """The cases of one half, and the suite that runs them."""

    suite: Suite
    cases: tuple[Case, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the cases, in order."""
        return tuple(case.id for case in self.cases)


@dataclass(slots=True)
class KeptSpent(Spent):
    """What was taken so far; `keep` is called whenever more is reserved, before it is spent."""

    keep: Callable[[], object] | None = None

    def add(self, input_tokens: int, output_tokens: int, dollars: float, above: Sequence[float] = ()) -> None:
        """Count so much more."""
        Spent.add(self, input_tokens, output_tokens, dollars, above)
        if self.keep is not None and max(input_tokens, output_tokens, dollars) > 0:
            self.keep()


@dataclass(slots=True)
class World:
    """Asks the agent and the proposer, and keeps what came of it before anybody uses it.

    `budget` is for all that is asked; while the search goes on, `room` leaves out what its last measurement will take.
    """

    agent: Agent[Any]
    halves: Mapping[str, Half]
    proposer: Proposer
    lineage: Lineage
    limits: Limits
    concurrency: int
    progress: Callable[[Tried], object] | None = None
    budget: Budget = field(init=False)
    room: Budget = field(init=False)

    def __post_init__(self) -> None:
        spent = KeptSpent()
        self.budget = self.room = Budget(self.limits, LINEAGE.get().budget, tape.clock(), spent)
        self.budget.charge(self.lineage.charged)
        spent.keep = lambda: self.lineage.add_charge(self.budget.charged)

    def answer(self, step: Step) -> Any:
        """What came of a measurement, or a proposal; a Stop when there can be no answer, None where none is needed."""
        match step:
            case Measure(candidate, cases):
                return self.measured(TRAIN, candidate, cases)
            case Propose():
                return self.proposed(step)
            case _:
                self.lineage.add_tried(step)
                return self.progress(step) if self.progress is not None else None

    def measured(self, half: str, candidate: Candidate, cases: Iterable[str]) -> dict[str, Measured] | Stop:
        """What came of each case with a candidate."""
        keys = {case: (half, candidate.id, case) for case in cases}
        missing = [case for case, key in keys.items() if key not in self.lineage.measured]
        if missing:
            stop = within(self.room, lambda: self._ask(half, candidate, missing))
            if stop is not None:
                return stop
        return {case: self.lineage.measured[key] for case, key in keys.items()}

    def proposed(self, question: Propose) -> Proposal | Stop:
        """What the proposer says."""
        known = self.lineage.proposal(question)
        if known is not None:
            return known
        said, usage = within(self.room, lambda: self.proposer.propose(question, self.limits))
        if isinstance(said, Proposal):
            with self.budget.lock:  # so that no line tells of less than one before it
                self.lineage.add_proposal(question, said, Taken(usage), self.budget.charged)
        return said

    def set_aside(self, candidate: Candidate) -> None:
        """Leave as much out of `room` as the held-out cases have taken with a candidate, and some more."""
        took = [self.lineage.taken[HELD_OUT, candidate.id, case] for case in self.halves[HELD_OUT].ids]
        usage = sum((each.usage for each in took), Usage())
        cost = cost_of(usage, given_price(self.limits))
        taken: dict[str, float] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "tool_calls": sum(each.tool_calls for each in took),
            "cost": cost.dollars if cost else 0.0,
            "seconds": sum(each.seconds for each in took) / min(self.concurrency, len(took)),
        }
        left = left_of(self.budget)
        less: dict[str, Any] = {name: _less(getattr(left, name), spent) for name, spent in taken.items()}
        self.room = Budget(replace(left, **less), self.budget, tape.clock())

    def release(self) -> None:
        """Let the last measurement have what was set aside for it."""
        self.room = self.budget

    def _ask(self, half: str, candidate: Candidate, cases: list[str]) -> Stop | None:
        """Run the cases, and keep each as it finishes; why some did not, if so."""

        def keep(_done: int, _all: int, trial: Trial) -> None:
            if trial.is_finished:
                failure = failure_of(trial) if half == TRAIN else None
                calls = 0 if trial.result is None else len(trial.result.tool_calls)
                taken = Taken(trial.usage + trial.judging, calls, trial.seconds)
                key = (half, candidate.id, trial.case.id)
                with self.budget.lock:
                    self.lineage.add_measured(key, Measured(trial.score, failure), taken, self.budget.charged)

        agent = with_texts(self.agent, candidate.texts)
        suite = self.halves[half].suite
        left = left_of(self.room)  # so that the suite knows a trial that had too little from one that did badly
        report = suite.run(agent, cases=cases, concurrency=self.concurrency, limits=left, progress=keep)
        unfinished = next((trial for trial in report.trials if not trial.is_finished), None)
        return None if unfinished is None else stop_of(unfinished.result, unfinished.error, self.limits)


def within(budget: Budget, call: Callable[[], T]) -> T:
    """What the call gives, with all that its runs spend charged to a budget before it is spent."""

    def charged() -> T:
        LINEAGE.set(replace(LINEAGE.get(), budget=budget))
        return call()

    return copy_context().run(charged)


def check_prices(limits: Limits, *llms: LLM | None) -> None:
    """Raise ConfigError when money is limited and nobody knows the price of a model, and nothing was said of that."""
    if limits.cost is None or limits.unknown_price != "refuse":
        return
    for tariff in (tariff for llm in llms if llm is not None for tariff in llm.tariffs):
        if price_under(tariff) is None:
            raise ConfigError(
                f"Nobody knows the price of {tariff}, so its cost cannot be limited. Give "
                "LLM(price=Price(...)), Limits(unknown_price=Price(...)), or Limits(unknown_price='free')."
            )


def all_limits(limits: Limits | None) -> Limits:
    """What a search may take; without limits nothing but its rounds ends it."""
    return UNLIMITED if limits is None else limits


def given_price(limits: Limits) -> Price | None:
    """The price to reckon with where nobody knows one, if the user has said so."""
    return limits.unknown_price if isinstance(limits.unknown_price, Price) else None


def _less(left: float | None, taken: float) -> float | None:
    """What is left of a limit without what is set aside; a little at least, as nothing would be no limit."""
    if left is None:
        return None
    less = left - taken * _SPARE
    return max(less, _LEAST_PART) if isinstance(left, float) else max(int(less), 1)
