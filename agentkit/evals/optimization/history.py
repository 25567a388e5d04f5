"""The log of a search, from which an interrupted search continues."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import asdict, field, replace
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from agentkit import recording
from agentkit._dataclass import dataclass
from agentkit.agents.agent import Agent
from agentkit.agents.budget import Budget, Spending
from agentkit.agents.prompt_run import remaining_limits
from agentkit.agents.run_config import LINEAGE
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.case import Case
from agentkit.evals.checkpoint import AppendOnlyFile
from agentkit.evals.optimization.candidates import Candidate, FailedCase, failure_of, with_texts
from agentkit.evals.optimization.search import (
    CaseMeasurement,
    EvaluatedCandidate,
    Measure,
    Proposal,
    Propose,
    Proposer,
    SearchStopped,
    Step,
    stop_of,
)
from agentkit.evals.suite import Suite
from agentkit.evals.trial import Trial
from agentkit.llm.client import LLM
from agentkit.llm.pricing import cost_of, price_under
from agentkit.sessions.codec import Data, decode_part, encode_part, from_line, to_line
from agentkit.usage import UNLIMITED, Charge, Limits, Price, Usage

FORMAT = 1
_PREFIX = b'{"agentkit_search"'

Key = tuple[str, str, str]
"""The key of a measurement: its half, the candidate's id, the case's id."""


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """The cost of an answer; `usage` includes scoring."""

    usage: Usage
    tool_calls: int = 0
    seconds: float = 0.0


class SearchLog:
    """The answers given in a search, and each resulting candidate, in a file that only its owner can read.

    `key` identifies the search. Each answer is on disk before it is used. An incomplete last line, left by a crash, is
    removed. Without a path, everything stays in memory. `usage` and `charged` are the totals so far; requests in
    flight count in `charged` at their maximum. Raises SessionError if the file cannot be used, belongs to another
    search, or is in use.
    """

    def __init__(self, path: str | PathLike[str] | None, key: str, about: Mapping[str, str]) -> None:
        self.path = None if path is None else Path(path)
        self.measured: dict[Key, CaseMeasurement] = {}
        self.tried: dict[int, EvaluatedCandidate] = {}
        self.taken: dict[Key | int, AnswerCost] = {}
        self.charged = Charge()
        self._proposals: dict[int, tuple[str, str, Proposal]] = {}
        self._lock = Lock()
        self._file: AppendOnlyFile | None = None
        if self.path is not None:
            self._open(self.path, {"agentkit_search": FORMAT, "key": key, **about})

    @property
    def usage(self) -> Usage:
        """The usage of all answers, including those from before a restart."""
        return sum((taken.usage for taken in self.taken.values()), Usage())

    def proposal(self, question: Propose) -> Proposal | None:
        """The proposal logged for this question before a restart; None if that proposal does not exist."""
        parent, part, proposal = self._proposals.get(question.round, ("", "", None))
        return proposal if (parent, part) == (question.parent.id, question.part) else None

    def add_measured(self, key: Key, measured: CaseMeasurement, taken: AnswerCost, charged: Charge) -> None:
        """Log the measurement of a case, its cost, and the total charge so far."""
        failure = None if measured.failure is None else asdict(measured.failure)
        half, candidate, case = key
        data = {"half": half, "candidate": candidate, "case": case, "score": measured.score, "failure": failure}
        self._add({"measured": data, **_cost_data(taken, charged)})

    def add_proposal(self, question: Propose, proposal: Proposal, taken: AnswerCost, charged: Charge) -> None:
        """Log a proposal, its cost, and the total charge so far."""
        question_data = {"round": question.round, "parent": question.parent.id, "part": question.part}
        self._add({"proposal": question_data | asdict(proposal), **_cost_data(taken, charged)})

    def add_charge(self, charged: Charge) -> None:
        """Log the total charge including requests about to be sent, so that they count even if the search is killed."""
        self._add({"charged": asdict(charged)})

    def add_tried(self, tried: EvaluatedCandidate) -> None:
        """Log the verdict on a round's candidate, with all its texts, unless it is logged already."""
        if tried.candidate.round not in self.tried:
            data = {"id": tried.candidate.id, "verdict": tried.verdict, "score": tried.score}
            self._add({"tried": data | asdict(tried.candidate)})

    def close(self) -> None:
        """Close the file, so that another process can continue the search."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path, header: Data) -> None:
        self._file = file = AppendOnlyFile(path, _PREFIX, "a search")
        try:
            if file.lines or file.is_foreign:
                _check_header(path, file.lines[0] if file.lines else b"", header)
            file.repair()
            if not file.lines:
                self._write(header)
            for number, line in enumerate(file.lines[1:], 2):
                self._load_line(path, number, line)
        except SessionError:
            self.close()
            raise

    def _load_line(self, path: Path, number: int, line: bytes) -> None:
        try:
            self._apply(from_line(line))
        except (KeyError, TypeError, ValueError, AttributeError, SessionError) as error:
            raise SessionError(f"{path}, line {number} is not a valid entry of a search ({error}).") from error

    def _add(self, data: Data) -> None:
        with self._lock:
            self._write(data)
            self._apply(data)

    def _write(self, data: Data) -> None:
        if self._file is not None:
            self._file.add(to_line(data))

    def _apply(self, data: Data) -> None:
        """Apply a line; keys added by later versions are ignored."""
        key: Key | int | None = None
        if (fields := data.get("measured")) is not None:
            key = (fields["half"], fields["candidate"], fields["case"])
            failure = None if fields["failure"] is None else FailedCase(**_tuples(fields["failure"]))
            self.measured[key] = CaseMeasurement(float(fields["score"]), failure)
        if (fields := data.get("proposal")) is not None:
            key = int(fields["round"])
            self._proposals[key] = (fields["parent"], fields["part"], Proposal(fields["text"], fields["reason"]))
        if (fields := data.get("tried")) is not None:
            candidate = Candidate(**_tuples({name: fields[name] for name in _CANDIDATE}))
            self.tried[candidate.round] = EvaluatedCandidate(candidate, fields["verdict"], fields["score"])
        if key is not None:
            fields = data["taken"]
            usage = decode_part(Usage, fields["usage"])
            self.taken[key] = AnswerCost(usage, int(fields["tool_calls"]), float(fields["seconds"]))
        if (fields := data.get("charged")) is not None:
            self.charged = _decode_charge(fields)


_CANDIDATE = ("texts", "parents", "round", "reason")


def _cost_data(taken: AnswerCost, charged: Charge) -> Data:
    data = {"usage": encode_part(taken.usage), "tool_calls": taken.tool_calls, "seconds": taken.seconds}
    return {"taken": data, "charged": asdict(charged)}


def _decode_charge(data: Mapping[str, Any]) -> Charge:
    """Decode the total charge.

    Raises ValueError for negative values, which would raise the limits, and for infinite ones.
    """
    charge = Charge(**_tuples(data))
    counts = (charge.input_tokens, charge.output_tokens, *charge.counts.values(), *charge.dollars)
    if not all(0 <= count < math.inf for count in counts):
        raise ValueError("the cost is negative or not finite")
    return charge


def _check_header(path: Path, line: bytes, expected: Data) -> None:
    """Raise SessionError unless the file belongs to this search."""
    try:
        header = from_line(line)
    except SessionError:
        header = {}
    if header.get("agentkit_search") != FORMAT:
        raise SessionError(f"{path} is not a search that this version of agentkit can continue. Choose another file.")
    if header.get("key") != expected["key"]:
        raise SessionError(
            f"{path} belongs to another search: agent, texts, model, cases or settings differ. Choose another file, or "
            "use the settings of that search."
        )


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the lists in JSON data to tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


TRAIN, HELD_OUT = "train", "held-out"

_SPARE = 1.25
"""Factor for the reserve of the final measurement, applied to the original's cost on the same cases."""

_MIN_PART = 1e-9

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatasetHalf:
    """The cases of one half, and the suite that runs them."""

    suite: Suite
    cases: tuple[Case, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the cases, in order."""
        return tuple(case.id for case in self.cases)


@dataclass(slots=True)
class PersistedSpending(Spending):
    """The spending so far; `on_reserve` is called whenever more is reserved, before it is spent."""

    on_reserve: Callable[[], object] | None = None

    def add(self, input_tokens: int, output_tokens: int, dollars: float, above: Sequence[float] = ()) -> None:
        """Add an amount."""
        Spending.add(self, input_tokens, output_tokens, dollars, above)
        if self.on_reserve is not None and max(input_tokens, output_tokens, dollars) > 0:
            self.on_reserve()


@dataclass(slots=True)
class SearchEnvironment:
    """Runs the agent and the proposer, and logs each answer before it is used.

    `budget` covers all requests; during the search, `search_budget` excludes the reserve of the final measurement.
    """

    agent: Agent[Any]
    halves: Mapping[str, DatasetHalf]
    proposer: Proposer
    lineage: SearchLog
    limits: Limits
    concurrency: int
    progress: Callable[[EvaluatedCandidate], object] | None = None
    budget: Budget = field(init=False)
    search_budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        spent = PersistedSpending()
        self.budget = self.search_budget = Budget(self.limits, LINEAGE.get().budget, recording.clock(), spent)
        self.budget.charge(self.lineage.charged)
        spent.on_reserve = lambda: self.lineage.add_charge(self.budget.charged)

    def answer(self, step: Step) -> Any:
        """Answer a step: measurements, a proposal, or None. A SearchStopped if no answer is possible."""
        match step:
            case Measure(candidate, cases):
                return self.measured(TRAIN, candidate, cases)
            case Propose():
                return self.proposed(step)
            case _:
                self.lineage.add_tried(step)
                return self.progress(step) if self.progress is not None else None

    def measured(
        self, half: str, candidate: Candidate, cases: Iterable[str]
    ) -> dict[str, CaseMeasurement] | SearchStopped:
        """Measure a candidate on the cases."""
        keys = {case: (half, candidate.id, case) for case in cases}
        missing = [case for case, key in keys.items() if key not in self.lineage.measured]
        if missing:
            stop = charged_to(self.search_budget, lambda: self._ask(half, candidate, missing))
            if stop is not None:
                return stop
        return {case: self.lineage.measured[key] for case, key in keys.items()}

    def proposed(self, question: Propose) -> Proposal | SearchStopped:
        """Ask the proposer for a text."""
        known = self.lineage.proposal(question)
        if known is not None:
            return known
        proposal, usage = charged_to(self.search_budget, lambda: self.proposer.propose(question, self.limits))
        if isinstance(proposal, Proposal):
            with self.budget.lock:  # so that the logged charge never decreases
                self.lineage.add_proposal(question, proposal, AnswerCost(usage), self.budget.charged)
        return proposal

    def reserve_final(self, candidate: Candidate) -> None:
        """Exclude the cost of the held-out cases with a candidate, plus a margin, from `search_budget`."""
        answers = [self.lineage.taken[HELD_OUT, candidate.id, case] for case in self.halves[HELD_OUT].ids]
        usage = sum((each.usage for each in answers), Usage())
        cost = cost_of(usage, configured_price(self.limits))
        taken: dict[str, float] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "tool_calls": sum(each.tool_calls for each in answers),
            "cost": cost.dollars if cost else 0.0,
            "seconds": sum(each.seconds for each in answers) / min(self.concurrency, len(answers)),
        }
        left = remaining_limits(self.budget)
        reduced: dict[str, Any] = {name: _reduce_limit(getattr(left, name), spent) for name, spent in taken.items()}
        self.search_budget = Budget(replace(left, **reduced), self.budget, recording.clock())

    def release(self) -> None:
        """Release the reserve for the final measurement."""
        self.search_budget = self.budget

    def _ask(self, half: str, candidate: Candidate, cases: list[str]) -> SearchStopped | None:
        """Run the cases, and log each as it finishes; return why some did not finish."""

        def keep(_done: int, _all: int, trial: Trial) -> None:
            if trial.is_finished:
                failure = failure_of(trial) if half == TRAIN else None
                calls = 0 if trial.result is None else len(trial.result.tool_calls)
                taken = AnswerCost(trial.usage + trial.judging, calls, trial.seconds)
                key = (half, candidate.id, trial.case.id)
                with self.budget.lock:
                    self.lineage.add_measured(key, CaseMeasurement(trial.score, failure), taken, self.budget.charged)

        agent = with_texts(self.agent, candidate.texts)
        suite = self.halves[half].suite
        # lets the suite distinguish a trial that ran out of budget from a failed one
        left = remaining_limits(self.search_budget)
        report = suite.run(agent, cases=cases, concurrency=self.concurrency, limits=left, progress=keep)
        unfinished = next((trial for trial in report.trials if not trial.is_finished), None)
        return None if unfinished is None else stop_of(unfinished.result, unfinished.error, self.limits)


def charged_to(budget: Budget, call: Callable[[], T]) -> T:
    """Run the call with all spending of its runs charged to a budget in advance."""

    def charged() -> T:
        LINEAGE.set(replace(LINEAGE.get(), budget=budget))
        return call()

    return copy_context().run(charged)


def check_prices(limits: Limits, *llms: LLM | None) -> None:
    """Raise ConfigError if the cost is limited, a model's price is unknown, and `unknown_price` does not cover it."""
    if limits.cost is None or limits.unknown_price != "refuse":
        return
    for tariff in (tariff for llm in llms if llm is not None for tariff in llm.tariffs):
        if price_under(tariff) is None:
            raise ConfigError(
                f"The price of {tariff} is unknown, so its cost cannot be limited. Give "
                "LLM(price=Price(...)), Limits(unknown_price=Price(...)), or Limits(unknown_price='free')."
            )


def limits_or_unlimited(limits: Limits | None) -> Limits:
    """The limits of a search; without limits, only the number of rounds ends it."""
    return UNLIMITED if limits is None else limits


def configured_price(limits: Limits) -> Price | None:
    """The price that the user gave for models with unknown prices, if any."""
    return limits.unknown_price if isinstance(limits.unknown_price, Price) else None


def _reduce_limit(left: float | None, taken: float) -> float | None:
    """Reduce a limit by the reserve, but not to 0, which would mean no limit."""
    if left is None:
        return None
    less = left - taken * _SPARE
    return max(less, _MIN_PART) if isinstance(left, float) else max(int(less), 1)
