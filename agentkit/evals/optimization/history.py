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
from agentkit.agents.budget import UNLIMITED, Budget, Spending
from agentkit.agents.prompt_run import left_of
from agentkit.agents.run_config import LINEAGE
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.case import Case
from agentkit.evals.checkpoint import AppendOnlyFile
from agentkit.evals.optimization.candidates import Candidate, FailedCase, failure_of, with_texts
from agentkit.evals.optimization.proposals import Proposer, stop_of
from agentkit.evals.optimization.search import (
    CaseMeasurement,
    EvaluatedCandidate,
    Measure,
    Proposal,
    Propose,
    SearchStopped,
    Step,
)
from agentkit.evals.suite import Suite
from agentkit.evals.trial import Trial
from agentkit.llm.client import LLM
from agentkit.llm.pricing import cost_of, price_under
from agentkit.sessions.codec import Data, decode_part, encode_part, from_line, to_line
from agentkit.usage import Charge, Limits, Price, Usage

FORMAT = 1
_BEGINS = b'{"agentkit_search"'

Key = tuple[str, str, str]
"""What tells a trial from all others: its half, the candidate's id, the case's."""


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """What the answer to a question took; `usage` includes what its scoring has spent."""

    usage: Usage
    tool_calls: int = 0
    seconds: float = 0.0


class SearchLog:
    """The answers that a search was given, and each candidate that came of them, in a file of its owner's alone.

    `key` tells one search from another. Each answer is on the disk before it is used. A last line that a crash has cut
    off is taken away. Without a path all is kept in memory. `usage` and `charged` are what all has cost so far; what
    was under way counts in `charged` at its worst. Raises SessionError when the file cannot be used, is another
    search's, or is in use.
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
        """What all questions have spent, those of earlier lives of the search among them."""
        return sum((taken.usage for taken in self.taken.values()), Usage())

    def proposal(self, question: Propose) -> Proposal | None:
        """What was proposed in an earlier life of the search; None when nothing was."""
        parent, part, proposal = self._proposals.get(question.round, ("", "", None))
        return proposal if (parent, part) == (question.parent.id, question.part) else None

    def add_measured(self, key: Key, measured: CaseMeasurement, taken: AnswerCost, charged: Charge) -> None:
        """Keep what came of a case, what it took, and what all has cost until then."""
        failure = None if measured.failure is None else asdict(measured.failure)
        half, candidate, case = key
        told = {"half": half, "candidate": candidate, "case": case, "score": measured.score, "failure": failure}
        self._add({"measured": told, **_spent(taken, charged)})

    def add_proposal(self, question: Propose, proposal: Proposal, taken: AnswerCost, charged: Charge) -> None:
        """Keep a proposal, what it took, and what all has cost until then."""
        asked = {"round": question.round, "parent": question.parent.id, "part": question.part}
        self._add({"proposal": asked | asdict(proposal), **_spent(taken, charged)})

    def add_charge(self, charged: Charge) -> None:
        """Keep what all has cost with what is about to be sent, so that a search that is killed there has paid it."""
        self._add({"charged": asdict(charged)})

    def add_tried(self, tried: EvaluatedCandidate) -> None:
        """Keep what became of the candidate of a round, with all its texts, unless that is known."""
        if tried.candidate.round not in self.tried:
            told = {"id": tried.candidate.id, "verdict": tried.verdict, "score": tried.score}
            self._add({"tried": told | asdict(tried.candidate)})

    def close(self) -> None:
        """Let others go on with the search."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path, header: Data) -> None:
        self._file = file = AppendOnlyFile(path, _BEGINS, "a search")
        try:
            if file.lines or file.is_foreign:
                _check_header(path, file.lines[0] if file.lines else b"", header)
            file.mend()
            if not file.lines:
                self._write(header)
            for number, line in enumerate(file.lines[1:], 2):
                self._take(path, number, line)
        except SessionError:
            self.close()
            raise

    def _take(self, path: Path, number: int, line: bytes) -> None:
        try:
            self._apply(from_line(line))
        except (KeyError, TypeError, ValueError, AttributeError, SessionError) as error:
            raise SessionError(f"{path}, line {number} is no part of a search ({error}).") from error

    def _add(self, data: Data) -> None:
        with self._lock:
            self._write(data)
            self._apply(data)

    def _write(self, data: Data) -> None:
        if self._file is not None:
            self._file.add(to_line(data))

    def _apply(self, data: Data) -> None:
        """Take in what a line says; what a later version has added is passed over."""
        key: Key | int | None = None
        if (told := data.get("measured")) is not None:
            key = (told["half"], told["candidate"], told["case"])
            failure = None if told["failure"] is None else FailedCase(**_tuples(told["failure"]))
            self.measured[key] = CaseMeasurement(float(told["score"]), failure)
        if (told := data.get("proposal")) is not None:
            key = int(told["round"])
            self._proposals[key] = (told["parent"], told["part"], Proposal(told["text"], told["reason"]))
        if (told := data.get("tried")) is not None:
            candidate = Candidate(**_tuples({name: told[name] for name in _CANDIDATE}))
            self.tried[candidate.round] = EvaluatedCandidate(candidate, told["verdict"], told["score"])
        if key is not None:
            told = data["taken"]
            usage = decode_part(Usage, told["usage"])
            self.taken[key] = AnswerCost(usage, int(told["tool_calls"]), float(told["seconds"]))
        if (told := data.get("charged")) is not None:
            self.charged = _charge_in(told)


_CANDIDATE = ("texts", "parents", "round", "reason")


def _spent(taken: AnswerCost, charged: Charge) -> Data:
    told = {"usage": encode_part(taken.usage), "tool_calls": taken.tool_calls, "seconds": taken.seconds}
    return {"taken": told, "charged": asdict(charged)}


def _charge_in(told: Mapping[str, Any]) -> Charge:
    """What all has cost. Raises ValueError for less than nothing, which would give limits more room than they have."""
    charge = Charge(**_tuples(told))
    counts = (charge.input_tokens, charge.output_tokens, charge.tool_calls, *charge.dollars)
    if not all(0 <= count < math.inf for count in counts):
        raise ValueError("less than nothing was charged, or more than anything")
    return charge


def _check_header(path: Path, line: bytes, wanted: Data) -> None:
    """Raise SessionError unless the file is this very search's."""
    try:
        header = from_line(line)
    except SessionError:
        header = {}
    if header.get("agentkit_search") != FORMAT:
        raise SessionError(f"{path} is no search that this version of agentkit can go on with. Give another file.")
    if header.get("key") != wanted["key"]:
        raise SessionError(
            f"{path} belongs to another search: agent, texts, model, cases or settings are not the same. "
            "Give another file, or optimise as it was begun."
        )


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists where we have tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


TRAIN, HELD_OUT = "train", "held-out"

_SPARE = 1.25
"""What is set aside for the last measurement, next to what the same cases have cost the original."""

_LEAST_PART = 1e-9

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
    """What was taken so far; `keep` is called whenever more is reserved, before it is spent."""

    keep: Callable[[], object] | None = None

    def add(self, input_tokens: int, output_tokens: int, dollars: float, above: Sequence[float] = ()) -> None:
        """Count so much more."""
        Spending.add(self, input_tokens, output_tokens, dollars, above)
        if self.keep is not None and max(input_tokens, output_tokens, dollars) > 0:
            self.keep()


@dataclass(slots=True)
class SearchEnvironment:
    """Asks the agent and the proposer, and keeps what came of it before anybody uses it.

    `budget` is for all that is asked; while the search goes on, `room` leaves out what its last measurement will take.
    """

    agent: Agent[Any]
    halves: Mapping[str, DatasetHalf]
    proposer: Proposer
    lineage: SearchLog
    limits: Limits
    concurrency: int
    progress: Callable[[EvaluatedCandidate], object] | None = None
    budget: Budget = field(init=False)
    room: Budget = field(init=False)

    def __post_init__(self) -> None:
        spent = PersistedSpending()
        self.budget = self.room = Budget(self.limits, LINEAGE.get().budget, recording.clock(), spent)
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

    def measured(
        self, half: str, candidate: Candidate, cases: Iterable[str]
    ) -> dict[str, CaseMeasurement] | SearchStopped:
        """What came of each case with a candidate."""
        keys = {case: (half, candidate.id, case) for case in cases}
        missing = [case for case, key in keys.items() if key not in self.lineage.measured]
        if missing:
            stop = within(self.room, lambda: self._ask(half, candidate, missing))
            if stop is not None:
                return stop
        return {case: self.lineage.measured[key] for case, key in keys.items()}

    def proposed(self, question: Propose) -> Proposal | SearchStopped:
        """What the proposer says."""
        known = self.lineage.proposal(question)
        if known is not None:
            return known
        said, usage = within(self.room, lambda: self.proposer.propose(question, self.limits))
        if isinstance(said, Proposal):
            with self.budget.lock:  # so that no line tells of less than one before it
                self.lineage.add_proposal(question, said, AnswerCost(usage), self.budget.charged)
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
        self.room = Budget(replace(left, **less), self.budget, recording.clock())

    def release(self) -> None:
        """Let the last measurement have what was set aside for it."""
        self.room = self.budget

    def _ask(self, half: str, candidate: Candidate, cases: list[str]) -> SearchStopped | None:
        """Run the cases, and keep each as it finishes; why some did not, if so."""

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
