"""Metrics of the trials of one agent: rates, times, tokens, costs and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Self

from agentkit._dataclass import dataclass
from agentkit.evals.case import Case
from agentkit.evals.statistics import Rate, all_of, any_of, percentile, rate
from agentkit.evals.trial import Outcome, Trial
from agentkit.llm.pricing import cost_of
from agentkit.usage import NO_USAGE, Cost, Usage, shown_cost

OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "refused", "limit", "error", "undone")
TOOL_CALLS = "tool_calls"
"""The name of the scorer that tells tool-call accuracy."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What the trials of one agent come to.

    `rate` is the share of trials that passed, among all that were done: errors, refusals and trials that met a limit of
    their own count as not passed; those that the suite's limits left undone do not count. `score` is the mean score of
    the same trials. `outcomes` counts how trials ended. `seconds` are
    those of the trials with an answer, ascending. `tool_accuracy` is the mean of the tool-call scores, None without.
    `decisions` counts the verdicts on tool calls, each with its rule. `judging` is what scoring has spent on models,
    `simulating` what simulated users have. `repeats` says of each case which of its trials passed. `remembering` counts
    the trials of a function in which an agent of that name knew what was said before.
    """

    agent: str
    model: str
    rate: Rate
    score: float
    outcomes: Mapping[str, int]
    seconds: tuple[float, ...]
    usage: Usage
    judging: Usage
    tool_accuracy: float | None
    decisions: Mapping[tuple[str, str], int]
    simulating: Usage = NO_USAGE
    repeats: tuple[tuple[bool, ...], ...] = ()
    remembering: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, agent: str, trials: Sequence[Trial], confidence: float = 0.95) -> Metrics:
        """The figures of an agent's trials."""
        run = [trial for trial in trials if trial.outcome != "undone"]
        counted = Counter(trial.outcome for trial in trials)
        repeats = tuple(map(tuple, _by_case(run).values()))
        decisions: Counter[tuple[str, str]] = Counter()
        for trial in run:
            decisions.update(trial.decisions)
        return cls(
            agent,
            next((trial.model for trial in trials), ""),
            rate(repeats, confidence),
            _mean([trial.score for trial in run]) or 0.0,
            {outcome: counted[outcome] for outcome in OUTCOMES},
            tuple(sorted(trial.seconds for trial in run if trial.outcome in ("passed", "failed"))),
            sum((trial.usage for trial in trials), Usage()),
            sum((trial.judging for trial in trials), Usage()),
            _mean([score.value for trial in run for score in trial.scores if score.name == TOOL_CALLS]),
            dict(sorted(decisions.items())),
            sum((trial.simulating for trial in trials), NO_USAGE),
            repeats,
            Counter(agent for trial in run for agent in sorted(trial.remembering)),
        )

    @property
    def cost(self) -> Cost | None:
        """What the runs have cost, as far as anybody knows the prices; None when nobody does."""
        return cost_of(self.usage)

    @property
    def judging_cost(self) -> Cost | None:
        """What the scoring has cost, as far as anybody knows."""
        return cost_of(self.judging)

    @property
    def simulating_cost(self) -> Cost | None:
        """What simulated users have cost, as far as anybody knows."""
        return cost_of(self.simulating)

    @property
    def most_repeats(self) -> int:
        """The fewest repeats of any case: the largest count that `any_of` and `all_of` can take."""
        return min(map(len, self.repeats), default=0)

    def any_of(self, count: int) -> float:
        """How likely at least one of so many repeats of a case passes (pass@k). Raises ValueError for too few."""
        return any_of(self.repeats, count)

    def all_of(self, count: int) -> float:
        """How likely each of so many repeats of a case passes (pass^k). Raises ValueError for too few."""
        return all_of(self.repeats, count)

    @property
    def trials(self) -> int:
        """How many trials there are, run or not."""
        return sum(self.outcomes.values())

    @property
    def verdicts(self) -> Mapping[str, int]:
        """How often each verdict fell."""
        counted: Counter[str] = Counter()
        for (verdict, _), times in self.decisions.items():
            counted[verdict] += times
        return counted

    def share(self, outcome: Outcome) -> float:
        """The share of the completed trials that had this outcome."""
        return self.outcomes[outcome] / self.rate.trials if self.rate.trials else 0.0

    def latency(self, share: float) -> float:
        """A percentile of the latency: the seconds within which that share of the answers came."""
        return percentile(self.seconds, share)

    def to_data(self) -> dict[str, Any]:
        """The figures as JSON-able data."""
        return {
            "agent": self.agent,
            "model": self.model,
            "success_rate": self.rate.value,
            "interval": [self.rate.low, self.rate.high],
            "trials": self.rate.trials,
            "cases": self.rate.cases,
            "score": self.score,
            "outcomes": dict(self.outcomes),
            "latency_seconds": {f"p{share}": self.latency(share / 100) for share in (50, 90, 99)},
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "requests": self.usage.requests,
            "unreported_requests": self.usage.unreported,
            "cost": _cost_data(self.cost),
            "judging_tokens": self.judging.total_tokens,
            "judging_cost": _cost_data(self.judging_cost),
            "simulating_tokens": self.simulating.total_tokens,
            "simulating_cost": _cost_data(self.simulating_cost),
            "repeats": self.most_repeats,
            "any_of_repeats": self.any_of(self.most_repeats) if self.most_repeats else None,
            "all_of_repeats": self.all_of(self.most_repeats) if self.most_repeats else None,
            "tool_accuracy": self.tool_accuracy,
            "decisions": [
                {"verdict": verdict, "rule": rule, "times": times} for (verdict, rule), times in self.decisions.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class Reported:
    """The trials of a suite, in the order in which they were ordered. `began` is an ISO time."""

    suite: str
    trials: tuple[Trial, ...]
    began: str = ""

    @property
    def cases(self) -> list[Case]:
        """The cases, each once."""
        return list({trial.case.id: trial.case for trial in self.trials}.values())

    @property
    def agents(self) -> list[str]:
        """What the agents are called, in order."""
        return list(dict.fromkeys(trial.agent for trial in self.trials))

    @property
    def figures(self) -> list[Metrics]:
        """The figures of each agent, in order."""
        return [Metrics.of(agent, self.only(agent=agent).trials) for agent in self.agents]

    @property
    def failures(self) -> list[Trial]:
        """The trials that were run and did not pass."""
        return [trial for trial in self.trials if trial.outcome not in ("passed", "undone")]

    def only(self, *, agent: str | None = None, tag: str | None = None) -> Self:
        """The part of it that is of one agent, or of the cases with a tag."""
        of_agent = (trial for trial in self.trials if agent in (None, trial.agent))
        return replace(self, trials=tuple(each for each in of_agent if tag is None or tag in each.case.tags))


def _by_case(trials: Iterable[Trial]) -> dict[str, list[bool]]:
    """Which repeats of each case passed."""
    cases: dict[str, list[bool]] = {}
    for trial in trials:
        cases.setdefault(trial.case.id, []).append(trial.passed)
    return cases


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _cost_data(cost: Cost | None) -> dict[str, Any]:
    """A cost as data; where nobody knows it, that is said, and it is not 0."""
    dollars = None if cost is None else cost.dollars
    return {"dollars": dollars, "text": shown_cost(cost), "unpriced_requests": cost.unpriced_requests if cost else None}
