"""What was spent?"""

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from agentkit import Usage

USAGES = st.builds(Usage, *[st.integers(0, 10**9)] * 6)


@given(USAGES, USAGES, USAGES)
def test_sums_do_not_depend_on_order(one, two, three):
    """What requests cost adds up field by field, in whatever order."""
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert astuple(one + two) == tuple(map(sum, zip(astuple(one), astuple(two), strict=True)))


@given(USAGES)
def test_nothing_adds_nothing(usage):
    """A usage of nothing changes no sum, so that usages can be summed."""
    assert usage + Usage() == usage
    assert sum([usage, usage], Usage()) == usage + usage


def test_total_counts_nothing_twice():
    """Cached tokens are part of the input and reasoning tokens of the output: the total is input and output."""
    usage = Usage(input_tokens=10, output_tokens=5, cached_tokens=8, reasoning_tokens=3, requests=1)
    assert usage.total_tokens == 15
