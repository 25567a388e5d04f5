"""Metrics of the trials of one agent, with confidence intervals and significance tests (pure)."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from operator import mul
from statistics import NormalDist
from typing import Any, Self

from agentkit._dataclass import dataclass
from agentkit.evals.case import Case
from agentkit.evals.trial import Trial, TrialOutcome
from agentkit.llm.pricing import cost_of
from agentkit.usage import NO_USAGE, Cost, Usage, format_cost

OUTCOMES: tuple[TrialOutcome, ...] = ("passed", "failed", "refused", "limit", "error", "undone")
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

    def share(self, outcome: TrialOutcome) -> float:
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
    return {
        "dollars": dollars,
        "text": format_cost(cost),
        "unpriced_requests": cost.unpriced_requests if cost else None,
    }


RESAMPLES = 10_000
_MAX_EXACT = 14
"""Up to this number of non-zero differences, all combinations of signs are enumerated: 16,384."""

_CLOSE = 1e-12

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rate:
    """A share from 0 to 1 with its interval, and the numbers of trials and cases."""

    value: float
    low: float
    high: float
    trials: int
    cases: int

    def __str__(self) -> str:
        """`75 % (53-89)`."""
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f}-{100 * self.high:.0f})"


def wilson(successes: float, trials: float, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a share: always within 0 to 1, and valid for few trials, too.

    Without trials, the interval is 0 to 1. Numbers can be fractional. Raises ValueError for more successes than trials,
    and for a confidence outside of 0 to 1.
    """
    if not 0 <= successes <= trials or not 0 < confidence < 1:
        raise ValueError("wilson() takes 0 <= successes <= trials, and a confidence between 0 and 1.")
    if trials == 0:
        return 0.0, 1.0
    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    share = successes / trials
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = math.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials * trials))) / (1 + z2 / trials)
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    return low, 1.0 if successes == trials else min(1.0, middle + half)


def rate(cases: Sequence[Sequence[bool]], confidence: float = 0.95) -> Rate:
    """The share of successes among the trials of all cases, each case with its repeats.

    Repeats of a case are correlated, so they carry less information than as many cases. Wilson's interval is therefore
    computed for the effective sample size, which is at least the number of cases and at most that of trials. With one
    trial per case, it is Wilson's own interval.
    """
    nonempty = [case for case in cases if case]
    trials, successes = sum(map(len, nonempty)), sum(map(sum, nonempty))
    if not trials:
        return Rate(0.0, 0.0, 1.0, 0, 0)
    share = successes / trials
    effective = _effective_size(nonempty, share, trials)
    low, high = wilson(share * effective, effective, confidence)
    return Rate(share, low, high, trials, len(nonempty))


def any_of(cases: Sequence[Sequence[bool]], count: int) -> float:
    """The unbiased estimate of pass@k: the probability that at least one of k repeats succeeds, averaged over cases.

    Raises ValueError if a case has fewer repeats than `count`.
    """
    return _mean_chance(
        cases, count, lambda case: 1 - math.comb(len(case) - sum(case), count) / math.comb(len(case), count)
    )


def all_of(cases: Sequence[Sequence[bool]], count: int) -> float:
    """The unbiased estimate of pass^k: the probability that all of k repeats succeed, averaged over cases.

    Raises ValueError if a case has fewer repeats than `count`.
    """
    return _mean_chance(cases, count, lambda case: math.comb(sum(case), count) / math.comb(len(case), count))


def _mean_chance(cases: Sequence[Sequence[bool]], count: int, chance: Callable[[Sequence[bool]], float]) -> float:
    nonempty = [case for case in cases if case]
    if count < 1 or any(len(case) < count for case in nonempty):
        raise ValueError(f"{count} repeats cannot be drawn where a case has fewer.")
    return math.fsum(map(chance, nonempty)) / len(nonempty) if nonempty else 0.0


def _effective_size(cases: Sequence[Sequence[bool]], share: float, trials: int) -> float:
    """The effective sample size: the number of independent trials with the same variance as these clustered ones."""
    count = len(cases)
    if count == trials:
        return trials
    if count == 1 or share in (0.0, 1.0):
        return count
    spread = math.fsum((sum(case) - share * len(case)) ** 2 for case in cases)
    variance = count / (count - 1) * spread / trials**2
    return min(max(share * (1 - share) / variance, count), trials) if variance else trials


def mcnemar(better: int, worse: int) -> float:
    """The exact two-sided p-value of McNemar's test: the probability of so uneven a split if neither side is better.

    `better` and `worse` count the pairs that changed either way; unchanged pairs carry no information.
    """
    changed = better + worse
    if changed == 0:
        return 1.0
    tail = sum(math.comb(changed, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / (1 << changed))


def bootstrap(differences: Sequence[float]) -> Interval:
    """The 95 % percentile interval of the mean of paired differences, over cases resampled with a fixed seed.

    If all differences are equal, resampling has no spread; the interval then extends to both sides as far as Wilson's
    for no success in as many trials.
    """
    if len(set(differences)) < 2:
        middle, margin = next(iter(differences), 0.0), wilson(0, len(differences))[1]
        return max(-1.0, middle - margin), min(1.0, middle + margin)
    chance = random.Random(0)
    count = len(differences)
    means = sorted(math.fsum(chance.choices(differences, k=count)) / count for _ in range(RESAMPLES))
    return percentile(means, 0.025), percentile(means, 0.975)


def permutation(differences: Sequence[float], *, seed: int = 0) -> float:
    """The two-sided p-value of paired differences: how often their mean is as far from 0 with random signs.

    Exact for up to 14 non-zero differences, from 10,000 draws for more.
    """
    changed = [difference for difference in differences if difference]
    observed = abs(math.fsum(changed)) - _CLOSE
    if not changed:
        return 1.0
    if len(changed) <= _MAX_EXACT:
        sums = [math.fsum(map(mul, signs, changed)) for signs in product((1, -1), repeat=len(changed))]
        return sum(abs(each) >= observed for each in sums) / len(sums)
    chance = random.Random(seed)
    draws = (math.fsum(each if chance.random() < 0.5 else -each for each in changed) for _ in range(RESAMPLES))
    return (sum(abs(each) >= observed for each in draws) + 1) / (RESAMPLES + 1)


def percentile(values: Sequence[float], share: float) -> float:
    """The quantile of the values at `share`, linearly interpolated; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    lower = math.floor(position)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (position - lower)
