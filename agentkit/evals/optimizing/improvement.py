"""Improvement: what came of a search, with its gain on cases that the search has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from statistics import fmean
from typing import Any, Generic, TypeVar

from agentkit.agents.agent import Agent
from agentkit.evals.optimizing.candidates import Candidate
from agentkit.evals.optimizing.lineage import Lineage
from agentkit.evals.optimizing.parts import with_texts
from agentkit.evals.optimizing.search import KEPT, Search, Tried
from agentkit.evals.statistics import bootstrap, permutation
from agentkit.llm.prices import cost_of
from agentkit.slotted import dataclass
from agentkit.usage import Cost, Price, Usage, shown_cost
from agentkit.wording import count_text

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
    tried: tuple[Tried, ...] = field(repr=False)
    trained_before: float | None
    trained_after: float | None
    ended: str
    usage: Usage
    cost: Cost | None = None

    @classmethod
    def of(
        cls, agent: Agent[Any], search: Search, lineage: Lineage, gain: Gain | None, unknown_price: Price | None
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
