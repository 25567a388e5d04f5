"""Tests for intervals and significance tests, compared with values of scipy 1.17."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.evals.metrics import all_of, any_of, bootstrap, mcnemar, percentile, permutation, rate, wilson

WILSON = [  # scipy.stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    (0, 1, 0.95, 0.0, 0.7934506856),
    (1, 1, 0.95, 0.2065493144, 1.0),
    (0, 10, 0.9, 0.0, 0.2129419701),
    (8, 10, 0.95, 0.4901624715, 0.9433178485),
    (17, 20, 0.9, 0.6781719243, 0.9384175895),
    (50, 100, 0.95, 0.4038315304, 0.5961684696),
    (81, 263, 0.95, 0.2552885199, 0.366209577),  # the example of Newcombe's paper of 1998
    (1, 1000, 0.95, 0.0001765464, 0.0056425586),
]
MCNEMAR = [  # scipy.stats.binomtest(better, better + worse).pvalue
    (0, 0, 1.0),
    (1, 0, 1.0),
    (5, 0, 0.0625),
    (10, 3, 0.09228515625),
    (3, 10, 0.09228515625),
    (7, 7, 1.0),
    (59, 6, 4.964650327128616e-12),
    (120, 80, 0.005685155996750306),
]
PERMUTATION = [  # scipy.stats.permutation_test((differences,), sum, permutation_type="samples"), all of them
    ([1, 1, 0, -1, 1, 1, 0, 1], 0.21875),
    ([0.5, -0.25, 0.75, 0.25, 1.0, -0.5], 0.34375),
    ([0.25] * 5, 0.0625),
    ([1, 1, 1, 1, 1, 1, 1, 1, -1, -1], 0.109375),
]
MANY = [*[1] * 23, *[-1] * 12, *[0] * 25]
SHARES = st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=20)


@pytest.mark.for_each(("successes", "trials", "confidence", "low", "high"), WILSON)
def test_wilsons_interval(successes, trials, confidence, low, high):
    """Wilson's interval equals the one computed by scipy."""
    assert wilson(successes, trials, confidence) == pytest.approx((low, high), abs=1e-9)


def test_wilsons_interval_of_nothing():
    """Without trials Wilson's interval is from 0 to 1."""
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("arguments", [(2, 1), (-1, 3), (1, 2, 1.0), (1, 2, 0)])
def test_invalid_arguments_of_wilsons_interval(arguments):
    """More successes than trials or an invalid confidence raises an error."""
    with pytest.raises(ValueError, match="wilson"):
        wilson(*arguments)


@given(st.integers(0, 200), st.integers(0, 200))
def test_wilsons_interval_contains_the_share(one, other):
    """Wilson's interval contains the observed share, stays within 0 and 1, and is symmetric."""
    successes, trials = min(one, other), max(one, other)
    low, high = wilson(successes, trials)
    assert 0 <= low <= (successes / trials if trials else 0.5) <= high <= 1
    assert wilson(trials - successes, trials) == pytest.approx((1 - high, 1 - low))


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_rate_without_repeats(passed):
    """With one trial per case, the interval of a rate is Wilson's."""
    found = rate([[each] for each in passed])
    assert (found.low, found.high) == pytest.approx(wilson(sum(passed), len(passed)))
    assert (found.value, found.trials, found.cases) == (sum(passed) / len(passed), len(passed), len(passed))


def test_identical_repeats_barely_narrow_the_interval():
    """Ten identical repeats leave the interval nearly as wide as one repeat."""
    once, often = [[True]] * 12 + [[False]] * 8, [[True] * 10] * 12 + [[False] * 10] * 8
    assert rate(often).high - rate(often).low == pytest.approx(rate(once).high - rate(once).low, rel=0.05)


def test_independent_repeats_count_as_trials():
    """Repeats that differ randomly within each case count as independent trials."""
    found = rate([[True, False]] * 20)
    assert (found.low, found.high) == pytest.approx(wilson(20, 40))


def test_rate_by_hand():
    """The design effect matches a ratio estimator calculated by hand."""
    cases = [[True, True, False], [True, False, False], [True, True, True]]
    share = 6 / 9
    spread = (2 - 3 * share) ** 2 + (1 - 3 * share) ** 2 + (3 - 3 * share) ** 2
    worth = share * (1 - share) / (3 / 2 * spread / 81)
    assert worth == pytest.approx(6.0)
    assert (rate(cases).low, rate(cases).high) == pytest.approx(wilson(4, 6))


@given(SHARES)
def test_rate_lies_between_the_extremes(cases):
    """The interval is between that of independent trials and that of the cases alone."""
    found = rate(cases)
    narrow = wilson(found.value * found.trials, found.trials)
    wide = wilson(found.value * found.cases, found.cases)
    assert narrow[1] - narrow[0] - 1e-9 <= found.high - found.low <= wide[1] - wide[0] + 1e-9


def test_rate_of_one_case_or_none():
    """The repeats of a single case count as one trial, and without cases the interval is from 0 to 1."""
    assert (rate([[True, False, True]]).low, rate([[True, False, True]]).high) == pytest.approx(wilson(2 / 3, 1))
    assert (rate([]).low, rate([[]]).high, rate([]).trials) == (0.0, 1.0, 0)


def test_rate_as_text():
    """A rate shows its interval in whole per cent."""
    assert str(rate([[True]] * 8 + [[False]] * 2)) == "80 % (49-94)"


@pytest.mark.for_each(("better", "worse", "p_value"), MCNEMAR)
def test_mcnemars_test(better, worse, p_value):
    """McNemar's exact p-value equals the one computed by scipy."""
    assert mcnemar(better, worse) == pytest.approx(p_value, rel=1e-9)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemars_test_is_symmetric(better, worse):
    """McNemar's p-value is a probability and symmetric."""
    assert 0 < mcnemar(better, worse) == mcnemar(worse, better) <= 1


@pytest.mark.parametrize(("differences", "p_value"), PERMUTATION)
def test_permutation_test(differences, p_value):
    """The exact permutation test of paired differences equals the one of scipy."""
    assert permutation(differences) == pytest.approx(p_value)


def test_permutation_test_of_many_differences():
    """With many differences the p-value is sampled, reproducible and close to the exact one."""
    assert permutation(MANY) == permutation(MANY) == pytest.approx(mcnemar(23, 12), abs=0.015)
    assert permutation(MANY, seed=1) != permutation(MANY, seed=2)


def test_permutation_test_of_nothing():
    """Without differences the p-value is 1."""
    assert permutation([]) == permutation([0.0, 0.0]) == 1.0


@given(st.integers(0, 7), st.integers(0, 7))
def test_permutation_test_of_whole_changes_is_mcnemars(better, worse):
    """For passed and failed cases the permutation test equals McNemar's."""
    assert permutation([*[1.0] * better, *[-1.0] * worse, 0.0]) == pytest.approx(mcnemar(better, worse))


def test_bootstrap():
    """The bootstrap interval is reproducible and close to the one of scipy."""
    row = [1, 1, 0, -1, 1, 1, 0, 1, 0, 0, 1, -1, 0, 1, 1, 0, 0, 0, 1, 1]
    assert bootstrap(row * 3) == bootstrap(row * 3) == pytest.approx((0.2333333, 0.5666667), abs=0.02)


@settings(max_examples=15)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=8))
def test_bootstrap_interval_contains_the_mean(differences):
    """The bootstrap interval contains the mean and stays within the differences or their uncertainty."""
    low, high = bootstrap(differences)
    assert -1 <= low <= sum(differences) / len(differences) + 1e-9
    assert sum(differences) / len(differences) - 1e-9 <= high <= 1


def test_bootstrap_where_all_are_alike():
    """Without differences the interval reflects the number of cases."""
    assert bootstrap([0.0] * 3) == pytest.approx((-0.5614970, 0.5614970))
    assert bootstrap([1.0] * 10) == pytest.approx((1 - 0.2775328, 1.0))
    assert bootstrap([]) == (-1.0, 1.0)


def test_percentiles():
    """Percentiles are interpolated like those of numpy, and are 0 without values."""
    values = [0.2, 1.5, 3, 9.5, 4]
    assert [percentile(values, share) for share in (0, 0.5, 0.9, 0.99, 1)] == pytest.approx([0.2, 3.0, 7.3, 9.28, 9.5])
    assert percentile([], 0.5) == 0.0


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=6), min_size=1, max_size=5), st.integers(1, 3))
def test_repeats_that_pass(cases, count):
    """The probability of passing repeats is the share among all possible draws."""
    drawn = [list(combinations(case, count)) for case in cases]
    some, each = ([sum(map(all_any, case)) / len(case) for case in drawn] for all_any in (any, all))
    assert any_of(cases, count) == pytest.approx(sum(some) / len(cases))
    assert all_of(cases, count) == pytest.approx(sum(each) / len(cases))


def test_too_few_repeats_raise_an_error():
    """Fewer repeats than requested raise a ValueError, and no cases give 0."""
    for chance in (any_of, all_of):
        assert chance([], 3) == 0.0
        for count in (0, 2):
            with pytest.raises(ValueError, match="cannot be drawn"):
                chance([[True], [True, False]], count)
