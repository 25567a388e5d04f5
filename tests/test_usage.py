"""Tests for usage, prices, costs and limits."""

import math
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import Usage
from agentkit.errors import ConfigError
from agentkit.usage import (
    LIMITS,
    LONG_REQUESTS,
    NO_USAGE,
    UNLIMITED,
    Cost,
    Limits,
    Price,
    Tariff,
    format_cost,
    highest_price,
    unreported,
)

COUNTS = [st.integers(0, 10**9)] * 7
TARIFFS = st.builds(
    Tariff,
    st.sampled_from(["openai", "azure"]),
    st.sampled_from(["gpt-a", "gpt-b"]),
    st.sampled_from(["", "gpt-a-2026"]),
    st.sampled_from([0, 272_000]),
    st.sampled_from([None, Price(1, 2)]),
)
USAGES = st.builds(Usage, *COUNTS, st.none() | TARIFFS)
SUMS = st.builds(sum, st.lists(USAGES, max_size=4), st.just(Usage()))
TIERED = Price(1, 10, 0.1, written=1.25, tiers=((200_000, Price(2, 15, 0.2, written=2.5)),))
SMALL, LARGE = (Tariff("openai", "gpt-a", "", over) for over in (0, 200_000))


def figures(usage):
    """Return the counts of a usage in order."""
    return astuple(usage)[:7]


@given(SUMS, SUMS, SUMS)
def test_sums_do_not_depend_on_order(one, two, three):
    """The sum of usages does not depend on their order."""
    assert one + two == two + one
    assert hash(one + two) == hash(two + one)
    assert (one + two) + three == one + (two + three)
    assert figures(one + two) == tuple(map(sum, zip(figures(one), figures(two), strict=True)))


@given(SUMS)
def test_empty_usage_does_not_change_a_sum(usage):
    """Adding an empty usage does not change a sum."""
    assert usage + Usage() == usage
    assert sum([usage, usage], Usage()) == usage + usage


def test_unreported_requests_are_counted():
    """Requests without reported usage are counted as unreported."""
    assert unreported(2, SMALL) == Usage(requests=2, unreported=2, tariff=SMALL)
    assert unreported(2, SMALL).tariff is SMALL
    assert unreported(0, SMALL) is NO_USAGE


@given(st.lists(USAGES, max_size=6))
def test_sum_has_a_part_for_each_tariff(usages):
    """The sum of usages with several tariffs has a part for each tariff."""
    total = sum(usages, Usage())
    used = {usage.tariff for usage in usages if usage != Usage()}
    assert {part.tariff for part in total.by_tariff} == used
    assert len(total.by_tariff) == len(used)
    for part in total.by_tariff:
        assert part == sum((usage for usage in usages if usage.tariff == part.tariff), Usage())
    assert sum(total.by_tariff, Usage()) == total


def test_one_tariff_needs_no_parts():
    """The sum of usages with one tariff has that tariff and no parts."""
    usage = Usage(10, 5, requests=1).with_tariff(SMALL)
    assert usage + usage == Usage(20, 10, requests=2, tariff=SMALL)
    assert Usage().by_tariff == ()


def test_total_counts_tokens_once():
    """The total is the input and output tokens, which include cached and reasoning tokens."""
    usage = Usage(input_tokens=10, output_tokens=5, cached_tokens=8, reasoning_tokens=3, requests=1, written_tokens=2)
    assert usage.total_tokens == 15


@pytest.mark.parametrize(
    ("input_tokens", "over"), [(0, 0), (32_000, 0), (32_001, 32_000), (272_000, 256_000), (10**7, LONG_REQUESTS[-1])]
)
def test_request_is_charged_by_its_length(input_tokens, over):
    """The tariff of a request contains the length tier that it exceeds."""
    tariff = Tariff("openai", "gpt-a", price=TIERED).of_request("gpt-a-2026", input_tokens)
    assert tariff == Tariff("openai", "gpt-a", "gpt-a-2026", over, TIERED)


@pytest.mark.parametrize(
    ("served", "text"), [("", "azure:mine"), ("mine", "azure:mine"), ("gpt-a", "azure:mine (gpt-a)")]
)
def test_tariff_names_provider_and_model(served, text):
    """A tariff is shown as provider and model, with the served model if it differs."""
    assert str(Tariff("azure", "mine", served)) == text


def test_each_kind_of_token_has_its_price():
    """Input, cached input, cache writes and output are charged at separate rates."""
    price = Price(1, 10, 0.1, written=1.25)
    assert price.dollars(1_000_000, 0) == 1
    assert price.dollars(1_000_000, 0, 1_000_000) == pytest.approx(0.1)
    assert price.dollars(1_000_000, 0, 0, 1_000_000) == 1.25
    assert price.dollars(0, 1_000_000) == 10
    assert price.dollars(1_000_000, 100_000, 400_000, 200_000) == pytest.approx(0.4 + 0.04 + 0.25 + 1)


def test_cached_input_costs_the_input_price_by_default():
    """Without cache prices all input is charged at the input price."""
    assert Price(1, 10).dollars(1_000_000, 0, 400_000, 200_000) == 1


def test_cached_tokens_are_limited_to_sent_tokens():
    """Cached tokens are limited to the number of sent tokens."""
    assert Price(1, 10, 0.5).dollars(1_000_000, 0, 5_000_000, 5_000_000) == 0.5


def test_tier_price_applies_to_the_whole_request():
    """A request above the start of a tier is charged at its price as a whole."""
    assert TIERED.dollars(200_000, 0) == pytest.approx(0.2)
    assert TIERED.dollars(200_001, 0) == pytest.approx(0.400002)
    assert TIERED.at(200_000) == Price(1, 10, 0.1, written=1.25)
    assert TIERED.at(200_001) is TIERED.tiers[0][1]
    assert Price(1, 2).at(10**9) == Price(1, 2)


def test_tiered_prices_apply_to_each_request():
    """Tiered prices apply to each request and not to the sum of requests."""
    short = Usage(1_000_000, 0, requests=10).with_tariff(SMALL)
    long = Usage(1_000_000, 0, requests=4).with_tariff(LARGE)
    assert TIERED.dollars_of(short) == 1
    assert TIERED.dollars_of(long) == 2
    assert TIERED.dollars_of(short + long) == 3
    assert TIERED.dollars_of(Usage(1_000_000, 100_000, 500_000, written_tokens=500_000)) == pytest.approx(1.675)
    assert TIERED.dollars_of(Usage()) == 0


RATES = st.floats(0, 100)
PRICES = st.builds(Price, RATES, RATES, st.none() | RATES, written=st.none() | RATES)
TIERS = st.lists(st.tuples(st.integers(0, 10**6), PRICES), max_size=3)
TOKENS = st.integers(0, 10**6)
TIERED_PRICES = st.builds(
    lambda price, tiers: replace(price, tiers=tuple(sorted(tiers, key=lambda tier: tier[0]))), PRICES, TIERS
)


@given(PRICES, TIERS, TOKENS, TOKENS, st.tuples(TOKENS, TOKENS))
def test_worst_case_is_never_exceeded(price, tiers, input_tokens, output_tokens, of_cache):
    """No request costs more than the worst case, whatever its cache and tier."""
    rates = {"cached": price.cached, "written": price.written}
    tiered = Price(price.input, price.output, **rates, tiers=tuple(sorted(tiers, key=lambda tier: tier[0])))
    worst = tiered.worst_case(input_tokens, output_tokens)
    for share in (1, 2, 10):
        real = tiered.dollars(input_tokens // share, output_tokens // share, *of_cache)
        assert real <= worst * (1 + 1e-9)


@given(st.lists(TIERED_PRICES, min_size=1, max_size=3), TOKENS, TOKENS)
def test_most_expensive_of_several_prices(prices, input_tokens, output_tokens):
    """No price of several costs more than the most expensive of them."""
    worst = highest_price(prices).worst_case(input_tokens, output_tokens)
    assert all(price.worst_case(input_tokens, output_tokens) <= worst * (1 + 1e-9) for price in prices)


def test_most_expensive_of_one_price():
    """The most expensive of one price is the price itself."""
    assert highest_price([TIERED]) is TIERED


@pytest.mark.parametrize(
    ("price", "is_free"),
    [
        (Price(0, 0), True),
        (Price(0, 1), False),
        (Price(0, 0, written=1), False),
        (Price(0, 0, tiers=((1, TIERED),)), False),
    ],
)
def test_price_is_free_if_all_tokens_are(price, is_free):
    """A price is free if every kind of token costs nothing at any length."""
    assert price.is_free is is_free


@pytest.mark.parametrize("rate", [-1, math.nan, math.inf, "1", True, None])
def test_invalid_price_is_rejected(rate):
    """A negative, infinite or non-numeric price raises an error with its name."""
    with pytest.raises(ConfigError, match=r"Price\(output=\) takes US dollars per million tokens"):
        Price(1, rate)


@pytest.mark.for_each(
    ("cost", "text"),
    [
        (Cost(0.0123, "genai-prices 1.2", "2026-11-03"), "≈ $0.0123 (genai-prices 1.2, 2026-11-03)"),
        (Cost(1_234.5, "given"), "≈ $1,234.50 (given)"),
        (Cost(0.5), "≈ $0.5000"),
        (Cost(0.0000123, "given"), "≈ $0.000012 (given)"),
        (Cost(0.25, "given", "", 1), "at least ≈ $0.2500 (given, 1 request of unknown price)"),
        (Cost(2.0, "given", "", 3), "at least ≈ $2.00 (given, 3 requests of unknown price)"),
        (Cost(0.0, "free"), "$0 (free)"),
        (Cost(0.0), "$0"),
        (None, "unknown"),
    ],
)
def test_cost_is_shown_with_its_source(cost, text):
    """A cost is shown as an estimate with its source and date, a lower bound or unknown."""
    assert format_cost(cost) == text


@pytest.mark.for_each("name", ["tool_calls", "input_tokens", "repeated_calls"])
@pytest.mark.for_each("value", [0, -1, 1.5, True, "3"])
def test_limit_on_a_count_must_be_an_integer(name, value):
    """A limit on a count must be a positive integer."""
    with pytest.raises(ConfigError, match=rf"Limits\({name}=\) takes a whole number of at least 1"):
        Limits(**{name: value})


@pytest.mark.for_each("name", ["cost", "seconds"])
@pytest.mark.for_each("value", [0, -0.5, math.nan, math.inf, True, "3"])
def test_limit_on_cost_or_time_must_be_positive(name, value):
    """A limit on cost or time must be a positive number."""
    with pytest.raises(ConfigError, match=rf"Limits\({name}=\) takes a number above 0"):
        Limits(**{name: value})


def test_limits_can_be_set_and_lifted():
    """Limits can be set to numbers or None, with a price for unknown ones."""
    limits = Limits(cost=0.5, seconds=None, tool_calls=3, unknown_price=Price(1, 2))
    assert (limits.cost, limits.seconds, limits.tool_calls) == (0.5, None, 3)
    assert limits.unknown_price == Price(1, 2)


@pytest.mark.parametrize("value", ["ignore", None, 3])
def test_invalid_unknown_price_is_rejected(value):
    """An invalid `unknown_price` raises a ConfigError."""
    with pytest.raises(ConfigError, match="takes 'refuse', 'free' or a Price"):
        Limits(unknown_price=value)


def test_limits_are_documented():
    """Each limit has a row in docs/limits.md with the description of its field."""
    page = (Path(__file__).parents[1] / "docs/limits.md").read_text("utf-8")
    rows = [f"| `{name}` | {declared.counts} |" for name, declared in LIMITS.items()]
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("tool_calls", 1_000, "1,000 tool calls"), ("cost", 0.5, "≈ $0.5"), ("seconds", 2.5, "2.5 seconds")],
)
def test_limits_are_rendered(name, value, text):
    """A limit is rendered with its value and unit."""
    assert Limits(**{name: value}).format_limit(name) == text


def test_unlimited():
    """`UNLIMITED` disables every declared limit."""
    assert {getattr(UNLIMITED, name) for name in LIMITS} == {None}
