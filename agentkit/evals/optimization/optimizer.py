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
from agentkit.evals.agent_variants import standing_order
from agentkit.evals.case import Case
from agentkit.evals.optimization.candidates import INSTRUCTION, TOOLS, Candidate, texts_of, with_texts
from agentkit.evals.optimization.history import (
    HELD_OUT,
    TRAIN,
    DatasetHalf,
    SearchEnvironment,
    SearchLog,
    all_limits,
    check_prices,
    given_price,
)
from agentkit.evals.optimization.proposals import Proposer, Writer
from agentkit.evals.optimization.search import KEPT, EvaluatedCandidate, Search, SearchStopped
from agentkit.evals.statistics import bootstrap, permutation
from agentkit.evals.suite import Suite
from agentkit.event_rendering import count_text
from agentkit.llm.client import LLM
from agentkit.llm.pricing import cost_of
from agentkit.suggestions import refuse_made
from agentkit.usage import Cost, Limits, Price, Usage, shown_cost

T = TypeVar("T")

_LIKELY_CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean scores of the same cases before and after, their difference with its 95 % interval, and its p-value.

    The interval is the paired bootstrap's, the p-value the paired permutation test's.
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
        """The gain in pairs of scores, one a case."""
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
    """What came of a search.

    `agent` has the improved texts, and is the original as it was when nothing better was found. `best` is the candidate
    that did best on the training cases, with its mean `trained_after`; `gain` is what it does on those held out, None
    when that could not be measured. `tried` is every candidate with what became of it, `ended` says why the search
    ended, `usage` and `cost` are what all of it has spent.
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
        """The improvement that a search has found; `unknown_price` stands in for prices that nobody knows."""
        pool = search.pool
        before, after = (pool.mean(pool.original), pool.mean(pool.best)) if pool.candidates else (None, None)
        cost = cost_of(lineage.usage, unknown_price)
        course = (tuple(lineage.tried.values()), before, after, search.ended, lineage.usage, cost)
        found = cls(agent, search.original, search.best, gain, *course)
        return replace(found, agent=with_texts(agent, search.best.texts)) if found.is_better else found

    @property
    def is_better(self) -> bool:
        """Whether `agent` has other texts: better on the training cases, and not shown to be no better elsewhere."""
        return self.best is not self.original and (self.gain is None or self.gain.difference > 0)

    def diff(self) -> str:
        """What was changed, as a unified diff; empty when the original was kept."""
        return self.original.diff(self.best) if self.is_better else ""

    def __str__(self) -> str:
        """The report, in a few lines."""
        return "\n".join((*self._verdict(), *self._course()))

    def _verdict(self) -> list[str]:
        if self.trained_before is None:
            return ["Nothing was measured on the training cases, so the original is kept."]
        if self.best is self.original:
            return ["No gain: nothing better than the original was found, so it is kept."]
        if self.gain is None:
            return [
                "Better on the training cases, but not measured on those held out: whether it is a gain is unknown.",
            ]
        if not self.is_better:
            return [f"No gain on the held-out cases, so the original is kept: {self.gain}"]
        doubt = ["The difference may be chance: more cases would tell."] if self.gain.p_value > _LIKELY_CHANCE else []
        return [f"Held-out cases: {self.gain}", *doubt]

    def _course(self) -> list[str]:
        trained = "not measured"
        if self.trained_before is not None and self.trained_after is not None:
            trained = f"{self.trained_before:.2f} -> {self.trained_after:.2f}"
        usage = self.usage
        kept = f"{sum(each.verdict == KEPT for each in self.tried)} of {len(self.tried)} candidates were kept"
        return [
            f"Training cases: {trained}; {kept}. The search ended: {self.ended}",
            f"Spent: {usage.requests:,} requests, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, "
            f"cost {shown_cost(self.cost)}",
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
    """The options, checked. Raises ConfigError."""

    rounds: int = 20
    batch: int = 6
    seed: int = 0
    path: str | PathLike[str] | None = None
    concurrency: int = 8
    progress: Callable[[EvaluatedCandidate], object] | None = None

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        refuse_made(optimize, given, SearchOptions.__annotations__)

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
    """Improve an agent's instruction and the descriptions of its tools by what a suite finds wrong with it.

    Each round takes a candidate of the Pareto set, shows the proposer traces of training cases that fail with it, and
    tries the text that comes back: on a mini-batch first, and where that is better on all training cases. The one with
    the best mean is compared with the original on cases that neither the proposer nor the search has seen, and is kept
    unless it is no better there. Nothing but texts changes: not tools, schemas, levels, judges, policy or limits.

    Args:
        agent: The agent, which stays as it is.
        suite: What it should do.
        limits: What the whole search may take: the agent's runs, their scoring and the proposer, tokens and money.
        proposer: An LLM, by default the agent's own, or a function (part, text, failures) -> text, whose own spending
            nobody counts.
        improve: `instruction`, `tools`, or the names of single tools.
        held_out: The share of the cases that is held out, alike of each set of tags; or a suite of other cases.
        options: `rounds` (20), how many proposals there are at most; `batch` (6), the size of a mini-batch; `seed` (0);
            `path`, a file that keeps all, and with which a search that was cut off goes on without paying again;
            `concurrency` (8), of the runs; `progress`, called with each Tried.

    Raises:
        ConfigError: An argument cannot be right, or nobody knows the price of a model whose cost is limited.
        NoProvider: The agent has no model.
        SessionError: The file cannot be used, or is another search's.
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
    chosen = all_limits(limits)
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
    """Like `optimize`, awaiting: the search has a thread of its own, in which `progress` is called.

    When it is cancelled, its runs end at their next event; what was paid for is kept in the file that `path` names.
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
        await asyncio.gather(work, return_exceptions=True)  # so that the file is free for whoever goes on
        raise


def halves_of(suite: Suite, held_out: float | Suite) -> dict[str, DatasetHalf]:
    """The training cases and those held out. Raises ConfigError when one half is empty, or both share a case.

    Who goes where is decided by the ids alone, as evenly as can be among the cases of the same tags. Cases with the
    same prompt stay together.
    """
    if isinstance(held_out, Suite):
        _refuse_shared(suite, held_out)
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
    """Have the search's steps answered until it ends, or there is no answer."""
    steps = search.steps()
    said: Any = None
    while True:
        try:
            said = answer(steps.send(said))
        except StopIteration:
            return
        if isinstance(said, SearchStopped):
            search.ended = said.reason
            steps.close()
            return


def _improved(world: SearchEnvironment, search: Search) -> Improvement[Any]:
    """Measure the original on what is held out, search, and measure the best there, too."""
    original, held = search.original, world.halves[HELD_OUT].ids
    gain = None
    before = world.measured(HELD_OUT, original, held)
    if isinstance(before, SearchStopped):
        search.ended = before.reason
    else:
        world.set_aside(original)
        drive(search, world.answer)
        world.release()
        best = search.best
        after = before if best is original else world.measured(HELD_OUT, best, held)
        if not isinstance(after, SearchStopped):
            gain = Gain.of([(before[case].score, after[case].score) for case in held])
    return Improvement.of(world.agent, search, world.lineage, gain, given_price(world.limits))


def _refuse_shared(suite: Suite, held_out: Suite) -> None:
    known = {case.text for case in suite.cases}
    shared = next((case for case in held_out.cases if case.text in known), None)
    if shared is not None:
        raise ConfigError(
            f"The case {shared.id!r} is held out, and its prompt is among the training cases, too; "
            "what is held out must be new to the search."
        )


def _key(agent: Agent[Any], original: Candidate, halves: dict[str, DatasetHalf], settings: OptimizerConfig) -> str:
    """What tells this search from all others: agent, texts, model, cases, scorers, seed and size of batches."""
    tools = [[tool.name, tool.parameters, tool.level.name] for tool in agent.tools]
    parts = [[half.suite.digest, half.ids] for half in halves.values()]
    texts = [standing_order(agent), *(tool.description for tool in agent.tools)]
    told = [original.id, texts, str(agent.llm.tariff), tools, parts, settings.seed, settings.batch]
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
