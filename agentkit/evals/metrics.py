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
"""The name of the scorer that measures tool-call accuracy."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of one agent's trials.

    `rate` is the share of passed trials among all completed ones: errors, refusals and trials that reached their own
    limit count as not passed; trials left undone by the suite's limits do not count. `score` is the mean score of the
    same trials. `outcomes` counts how trials ended. `seconds` are those of the trials with an answer, ascending.
    `tool_accuracy` is the mean of the tool-call scores, None without any. `decisions` counts the verdicts on tool
    calls, by rule. `judging` is the usage of the scorers, `simulating` that of simulated users. `repeats` contains, for
    each case, which of its trials passed. `remembering` counts, by agent, the trials of a function in which the agent
    had the earlier conversation.
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
        """Compute the metrics of an agent's trials."""
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
        """The cost of the runs, as far as prices are known; None if no price is known."""
        return cost_of(self.usage)

    @property
    def judging_cost(self) -> Cost | None:
        """The cost of the scoring, as far as prices are known."""
        return cost_of(self.judging)

    @property
    def simulating_cost(self) -> Cost | None:
        """The cost of simulated users, as far as prices are known."""
        return cost_of(self.simulating)

    @property
    def most_repeats(self) -> int:
        """The smallest number of repeats of any case: the largest count for `any_of` and `all_of`."""
        return min(map(len, self.repeats), default=0)

    def any_of(self, count: int) -> float:
        """The probability that at least one of `count` repeats passes (pass@k).

        Raises ValueError for too few repeats.
        """
        return any_of(self.repeats, count)

    def all_of(self, count: int) -> float:
        """The probability that all of `count` repeats pass (pass^k). Raises ValueError for too few repeats."""
        return all_of(self.repeats, count)

    @property
    def trials(self) -> int:
        """The number of trials, completed or not."""
        return sum(self.outcomes.values())

    @property
    def verdicts(self) -> Mapping[str, int]:
        """The number of decisions by verdict."""
        counted: Counter[str] = Counter()
        for (verdict, _), times in self.decisions.items():
            counted[verdict] += times
        return counted

    def share(self, outcome: Outcome) -> float:
        """The share of the completed trials that had this outcome."""
        return self.outcomes[outcome] / self.rate.trials if self.rate.trials else 0.0

    def latency(self, share: float) -> float:
        """A percentile of the latency: the seconds within which that share of the answers arrived."""
        return percentile(self.seconds, share)

    def to_data(self) -> dict[str, Any]:
        """Encode the metrics as JSON-compatible data."""
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
    """The trials of a suite, in the order in which they were planned. `began` is an ISO time."""

    suite: str
    trials: tuple[Trial, ...]
    began: str = ""

    @property
    def cases(self) -> list[Case]:
        """The distinct cases."""
        return list({trial.case.id: trial.case for trial in self.trials}.values())

    @property
    def agents(self) -> list[str]:
        """The names of the agents, in order."""
        return list(dict.fromkeys(trial.agent for trial in self.trials))

    @property
    def figures(self) -> list[Metrics]:
        """The metrics of each agent, in order."""
        return [Metrics.of(agent, self.only(agent=agent).trials) for agent in self.agents]

    @property
    def failures(self) -> list[Trial]:
        """The completed trials that did not pass."""
        return [trial for trial in self.trials if trial.outcome not in ("passed", "undone")]

    def only(self, *, agent: str | None = None, tag: str | None = None) -> Self:
        """The part with the trials of one agent, or of the cases with a tag."""
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
    """Encode a cost; an unknown cost is None rather than 0."""
    dollars = None if cost is None else cost.dollars
    return {"dollars": dollars, "text": shown_cost(cost), "unpriced_requests": cost.unpriced_requests if cost else None}
