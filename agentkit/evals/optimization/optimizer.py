"""`optimize`: improve the texts of an agent within a budget, and report the gain."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from hashlib import sha256
from os import PathLike
from statistics import fmean
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from agentkit._dataclass import dataclass
from agentkit.agents.agent import Agent
from agentkit.agents.run_config import LINEAGE
from agentkit.errors import ConfigError
from agentkit.evals.case import Case
from agentkit.evals.metrics import bootstrap, permutation
from agentkit.evals.optimization.candidates import INSTRUCTION, TOOLS, Candidate, texts_of, with_texts
from agentkit.evals.optimization.history import (
    HELD_OUT,
    TRAIN,
    DatasetHalf,
    SearchEnvironment,
    SearchLog,
    check_prices,
    configured_price,
    limits_or_unlimited,
)
from agentkit.evals.optimization.search import KEPT, EvaluatedCandidate, Proposer, Search, SearchStopped, Writer
from agentkit.evals.run_config import instruction_key
from agentkit.evals.suite import Suite
from agentkit.event_rendering import count_text
from agentkit.llm.client import LLM
from agentkit.llm.pricing import cost_of
from agentkit.suggestions import check_unknown_arguments
from agentkit.usage import Cost, Limits, Price, Usage, format_cost

T = TypeVar("T")

_LIKELY_CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean scores of the same cases before and after, their difference with its 95 % interval, and its p-value.

    The interval is from a paired bootstrap, the p-value from a paired permutation test.
    """

    before: float
    after: float
    difference: float
    low: float
    high: float
    p_value: float
    cases: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Gain:
        """Compute the gain from pairs of scores, one per case."""
        differences = [after - before for before, after in pairs]
        before, after = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
        low, high = bootstrap(differences)
        return cls(before, after, fmean(differences), low, high, permutation(differences), len(pairs))

    def __str__(self) -> str:
        """`0.40 -> 0.80 on 20 cases: a difference of +0.40 (95 %: +0.15 to +0.65, p = 0.004)`."""
        interval = f"95 %: {self.low:+.2f} to {self.high:+.2f}, p = {self.p_value:.2g}"
        cases = count_text(self.cases, "case")
        return f"{self.before:.2f} -> {self.after:.2f} on {cases}: {self.difference:+.2f} ({interval})"


@dataclass(frozen=True, slots=True)
class Improvement(Generic[T]):
    """The result of a search.

    `agent` has the improved texts, or is the unchanged original if nothing better was found. `best` is the best
    candidate on the training cases, with its mean `trained_after`; `gain` is its gain on the held-out cases, None if
    that could not be measured. `tried` contains every candidate with its verdict, `ended` says why the search ended,
    `usage` and `cost` are the totals.
    """

    agent: Agent[T] = field(repr=False)
    original: Candidate
    best: Candidate
    gain: Gain | None
    tried: tuple[EvaluatedCandidate, ...] = field(repr=False)
    trained_before: float | None
    trained_after: float | None
    ended: str
    usage: Usage
    cost: Cost | None = None

    @classmethod
    def of(
        cls, agent: Agent[Any], search: Search, lineage: SearchLog, gain: Gain | None, unknown_price: Price | None
    ) -> Improvement[Any]:
        """Build the result of a search; `unknown_price` replaces unknown prices."""
        pool = search.pool
        before, after = (pool.mean(pool.original), pool.mean(pool.best)) if pool.candidates else (None, None)
        cost = cost_of(lineage.usage, unknown_price)
        course = (tuple(lineage.tried.values()), before, after, search.ended, lineage.usage, cost)
        found = cls(agent, search.original, search.best, gain, *course)
        return replace(found, agent=with_texts(agent, search.best.texts)) if found.is_better else found

    @property
    def is_better(self) -> bool:
        """Whether `agent` has new texts: better on the training cases, and not shown useless on the held-out ones."""
        return self.best is not self.original and (self.gain is None or self.gain.difference > 0)

    def diff(self) -> str:
        """The changes as a unified diff; empty if the original won."""
        return self.original.diff(self.best) if self.is_better else ""

    def __str__(self) -> str:
        """Render a short report."""
        return "\n".join((*self._verdict(), *self._course()))

    def _verdict(self) -> list[str]:
        if self.trained_before is None:
            return ["No training case was measured, so the original stays in use."]
        if self.best is self.original:
            return ["No gain: no candidate was better than the original, so the original stays in use."]
        if self.gain is None:
            return [
                "Better on the training cases, but not measured on the held-out cases, so the gain is unknown.",
            ]
        if not self.is_better:
            return [f"No gain on the held-out cases, so the original stays in use: {self.gain}"]
        doubt = (
            ["The difference may be due to chance; more cases would show whether it is real."]
            if self.gain.p_value > _LIKELY_CHANCE
            else []
        )
        return [f"Held-out cases: {self.gain}", *doubt]

    def _course(self) -> list[str]:
        trained = "not measured"
        if self.trained_before is not None and self.trained_after is not None:
            trained = f"{self.trained_before:.2f} -> {self.trained_after:.2f}"
        usage = self.usage
        kept = f"{sum(each.verdict == KEPT for each in self.tried)} of {len(self.tried)} candidates were accepted"
        return [
            f"Training cases: {trained}; {kept}. The search ended: {self.ended}",
            f"Spent: {usage.requests:,} requests, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, "
            f"cost {format_cost(self.cost)}",
        ]


class SearchOptions(TypedDict, total=False):
    """The further keyword arguments of `optimize`."""

    rounds: int
    batch: int
    seed: int
    path: str | PathLike[str] | None
    concurrency: int
    progress: Callable[[EvaluatedCandidate], object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """The validated options. Raises ConfigError."""

    rounds: int = 20
    batch: int = 6
    seed: int = 0
    path: str | PathLike[str] | None = None
    concurrency: int = 8
    progress: Callable[[EvaluatedCandidate], object] | None = None

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        check_unknown_arguments(optimize, given, SearchOptions.__annotations__)

    def __post_init__(self) -> None:
        for name in ("rounds", "batch", "concurrency"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name}= takes a whole number of at least 1. Got {value!r:.200}.")


def optimize(
    agent: Agent[T],
    suite: Suite,
    *,
    limits: Limits | None = None,
    proposer: LLM | Writer | None = None,
    improve: str | Iterable[str] = (INSTRUCTION, TOOLS),
    held_out: float | Suite = 0.5,
    **options: Unpack[SearchOptions],
) -> Improvement[T]:
    """Improve an agent's instruction and tool descriptions, guided by the cases of a suite that it fails.

    Each round picks a candidate on the Pareto front, shows the proposer traces of training cases that it fails, and
    tests the proposed text: first on a mini-batch and, if it is better there, on all training cases. The candidate with
    the best mean is compared with the original on held-out cases, which neither the proposer nor the search has seen,
    and is used only if it is better there. Only texts change: tools, schemas, levels, judges, policy and limits stay
    the same.

    Args:
        agent: The agent, which is not modified.
        suite: The cases and scorers.
        limits: Limits of the whole search, in tokens, money and so on: the agent's runs, their scoring and the
            proposer.
        proposer: An LLM, by default the agent's own, or a function (part, text, failures) -> text, whose own spending
            is not counted.
        improve: `instruction`, `tools`, or the names of single tools.
        held_out: The share of the cases that is held out, stratified by tags; or a suite of other cases.
        options: `rounds` (20), the maximum number of proposals; `batch` (6), the size of a mini-batch; `seed` (0);
            `path`, a log file from which an interrupted search continues without paying again; `concurrency` (8) of the
            runs; `progress`, called with each EvaluatedCandidate.

    Raises:
        ConfigError: An argument is invalid, or a model has a limited cost and an unknown price.
        NoProvider: The agent has no model.
        SessionError: The file cannot be used, or belongs to another search.
    """
    settings = OptimizerConfig(**options)
    given: object = agent
    if not isinstance(given, Agent):
        raise ConfigError(
            f"optimize() takes an Agent, whose texts it changes; a function has none. Got {given!r:.200}."
        )
    halves = halves_of(suite, held_out)
    original = Candidate(texts_of(agent, improve))
    asked = Proposer(agent.llm if proposer is None else proposer)
    chosen = limits_or_unlimited(limits)
    check_prices(chosen, agent.llm, asked.llm)
    check_prices(agent.limits, agent.llm)
    key = _key(agent, original, halves, settings)
    lineage = SearchLog(settings.path, key, {"agent": agent.name, "suite": suite.name})
    try:
        world = SearchEnvironment(agent, halves, asked, lineage, chosen, settings.concurrency, settings.progress)
        search = Search(original, halves[TRAIN].ids, settings.rounds, settings.batch, settings.seed)
        return _improved(world, search)
    finally:
        lineage.close()


async def aoptimize(
    agent: Agent[T],
    suite: Suite,
    *,
    limits: Limits | None = None,
    proposer: LLM | Writer | None = None,
    improve: str | Iterable[str] = (INSTRUCTION, TOOLS),
    held_out: float | Suite = 0.5,
    **options: Unpack[SearchOptions],
) -> Improvement[T]:
    """Async version of `optimize`. The search runs in a thread, in which `progress` is called.

    On cancellation, its runs end at their next event; answers that were paid for are stored in the file `path`.
    """
    stopped = threading.Event()

    def search() -> Improvement[T]:
        above = LINEAGE.get()
        context = replace(above.context, stopping=lambda: stopped.is_set() or above.context.is_stopped)
        LINEAGE.set(replace(above, context=context))
        return optimize(agent, suite, limits=limits, proposer=proposer, improve=improve, held_out=held_out, **options)

    work = asyncio.ensure_future(asyncio.to_thread(search))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.gather(work, return_exceptions=True)  # so that the file is free for the next process
        raise


def halves_of(suite: Suite, held_out: float | Suite) -> dict[str, DatasetHalf]:
    """Split the cases into training and held-out ones. Raises ConfigError if a half is empty, or both share a case.

    The split depends on the ids only, and is as even as possible among the cases with the same tags. Cases with the
    same prompt stay together.
    """
    if isinstance(held_out, Suite):
        known = {case.text for case in suite.cases}
        shared = next((case for case in held_out.cases if case.text in known), None)
        if shared is not None:
            raise ConfigError(
                f"The case {shared.id!r} is held out, but its prompt is also among the training cases; held-out cases "
                "must be new to the search."
            )
        return {TRAIN: DatasetHalf(suite, suite.cases), HELD_OUT: DatasetHalf(held_out, held_out.cases)}
    if not isinstance(held_out, int | float) or not 0 < held_out < 1:
        raise ConfigError(f"held_out= takes a share between 0 and 1, or a Suite. Got {held_out!r:.200}.")
    groups: dict[str, list[Case]] = {}
    for case in sorted(suite.cases, key=lambda case: sha256(case.id.encode("utf-8", "replace")).digest()):
        groups.setdefault(case.text, []).append(case)
    held: set[str] = set()
    for place, group in enumerate(sorted(groups.values(), key=lambda group: sorted(group[0].tags))):
        if int((place + 1) * held_out) > int(place * held_out):
            held.update(case.id for case in group)
    halves = {
        TRAIN: DatasetHalf(suite, tuple(case for case in suite.cases if case.id not in held)),
        HELD_OUT: DatasetHalf(suite, tuple(case for case in suite.cases if case.id in held)),
    }
    if not all(half.cases for half in halves.values()):
        raise ConfigError(
            f"The suite {suite.name!r} has too few cases to hold some out; add cases, or give held_out=Suite."
        )
    return halves


def drive(search: Search, answer: Callable[[Any], Any]) -> None:
    """Answer the search's steps until it ends, or no answer is possible."""
    steps = search.steps()
    answered: Any = None
    while True:
        try:
            answered = answer(steps.send(answered))
        except StopIteration:
            return
        if isinstance(answered, SearchStopped):
            search.ended = answered.reason
            steps.close()
            return


def _improved(world: SearchEnvironment, search: Search) -> Improvement[Any]:
    """Measure the original on the held-out cases, run the search, and measure the best candidate there."""
    original, held = search.original, world.halves[HELD_OUT].ids
    gain = None
    before = world.measured(HELD_OUT, original, held)
    if isinstance(before, SearchStopped):
        search.ended = before.reason
    else:
        world.reserve_final(original)
        drive(search, world.answer)
        world.release()
        best = search.best
        after = before if best is original else world.measured(HELD_OUT, best, held)
        if not isinstance(after, SearchStopped):
            gain = Gain.of([(before[case].score, after[case].score) for case in held])
    return Improvement.of(world.agent, search, world.lineage, gain, configured_price(world.limits))


def _key(agent: Agent[Any], original: Candidate, halves: dict[str, DatasetHalf], settings: OptimizerConfig) -> str:
    """The key of the search: a hash of agent, texts, model, cases, scorers, seed and batch size."""
    tools = [[tool.name, tool.parameters, tool.level.name] for tool in agent.tools]
    parts = [[half.suite.digest, half.ids] for half in halves.values()]
    texts = [instruction_key(agent), *(tool.description for tool in agent.tools)]
    entries = [original.id, texts, str(agent.llm.tariff), tools, parts, settings.seed, settings.batch]
    return sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
