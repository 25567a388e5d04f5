"""Confidence intervals and significance tests (pure)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import product
from operator import mul
from statistics import NormalDist

from agentkit._dataclass import dataclass

RESAMPLES = 10_000
_MOST_EXACT = 14
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
    kept = [case for case in cases if case]
    trials, successes = sum(map(len, kept)), sum(map(sum, kept))
    if not trials:
        return Rate(0.0, 0.0, 1.0, 0, 0)
    share = successes / trials
    worth = _worth(kept, share, trials)
    low, high = wilson(share * worth, worth, confidence)
    return Rate(share, low, high, trials, len(kept))


def any_of(cases: Sequence[Sequence[bool]], count: int) -> float:
    """The unbiased estimate of pass@k: the probability that at least one of k repeats succeeds, averaged over cases.

    Raises ValueError if a case has fewer repeats than `count`.
    """
    return _drawn(cases, count, lambda case: 1 - math.comb(len(case) - sum(case), count) / math.comb(len(case), count))


def all_of(cases: Sequence[Sequence[bool]], count: int) -> float:
    """The unbiased estimate of pass^k: the probability that all of k repeats succeed, averaged over cases.

    Raises ValueError if a case has fewer repeats than `count`.
    """
    return _drawn(cases, count, lambda case: math.comb(sum(case), count) / math.comb(len(case), count))


def _drawn(cases: Sequence[Sequence[bool]], count: int, chance: Callable[[Sequence[bool]], float]) -> float:
    kept = [case for case in cases if case]
    if count < 1 or any(len(case) < count for case in kept):
        raise ValueError(f"{count} repeats cannot be drawn where a case has fewer.")
    return math.fsum(map(chance, kept)) / len(kept) if kept else 0.0


def _worth(cases: Sequence[Sequence[bool]], share: float, trials: int) -> float:
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
        middle, doubt = next(iter(differences), 0.0), wilson(0, len(differences))[1]
        return max(-1.0, middle - doubt), min(1.0, middle + doubt)
    chance = random.Random(0)
    count = len(differences)
    means = sorted(math.fsum(chance.choices(differences, k=count)) / count for _ in range(RESAMPLES))
    return percentile(means, 0.025), percentile(means, 0.975)


def permutation(differences: Sequence[float], *, seed: int = 0) -> float:
    """The two-sided p-value of paired differences: how often their mean is as far from 0 with random signs.

    Exact for up to 14 non-zero differences, from 10,000 draws for more.
    """
    changed = [difference for difference in differences if difference]
    seen = abs(math.fsum(changed)) - _CLOSE
    if not changed:
        return 1.0
    if len(changed) <= _MOST_EXACT:
        turned = [math.fsum(map(mul, signs, changed)) for signs in product((1, -1), repeat=len(changed))]
        return sum(abs(each) >= seen for each in turned) / len(turned)
    chance = random.Random(seed)
    draws = (math.fsum(each if chance.random() < 0.5 else -each for each in changed) for _ in range(RESAMPLES))
    return (sum(abs(each) >= seen for each in draws) + 1) / (RESAMPLES + 1)


def percentile(values: Sequence[float], share: float) -> float:
    """The quantile of the values at `share`, linearly interpolated; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    lower = math.floor(place)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (place - lower)
