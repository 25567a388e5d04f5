"""Of two values of a fact, which one is wider?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.capabilities import orders
from agentkit.capabilities.facts import LEVELS, VERDICTS
from agentkit.capabilities.orders import Way

WIDER, NARROWER = Way.WIDER, Way.NARROWER
BOUNDS = st.none() | st.integers(0, 9) | st.floats(0, 9)
FOLDERS = st.one_of(
    st.none(),
    st.sampled_from([".", "..", "../..", "data", "data/in", "../data", "../data/in", "../../data", "~", "~/data"]),
)


@pytest.mark.parametrize(
    ("order", "values"),
    [
        (orders.ranked(*LEVELS), st.sampled_from(LEVELS)),
        (orders.ranked(*VERDICTS), st.sampled_from(VERDICTS)),
        (orders.ranked(True, False), st.booleans()),
        (orders.bounded, BOUNDS),
    ],
    ids=["levels", "verdicts", "truths", "bounds"],
)
def test_ordered_values_are_wider_one_way_only(order, values):
    """Of two different values that stand in an order one is wider, and the other one narrower."""

    @given(values, values)
    def check(one, two):
        if one != two:
            assert {order(one, two), order(two, one)} == {WIDER, NARROWER}

    check()


@given(FOLDERS, FOLDERS)
def test_folders_are_never_narrower_both_ways(one, two):
    """A folder lies in another, or the other in it, or neither; then it is another place, both ways."""
    if one != two:
        assert (orders.containing(one, two), orders.containing(two, one)) != (NARROWER, NARROWER)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_adding_and_taking_away(one, two):
    """What is only added opens more, and what holds back is missed as soon as one of it is gone."""
    if set(one) < set(two):
        assert (orders.more(one, two), orders.more(two, one)) == (WIDER, NARROWER)
        assert (orders.fewer(one, two), orders.fewer(two, one)) == (NARROWER, WIDER)
    elif set(one) - set(two):
        assert orders.fewer(one, two) == WIDER


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        (".", "data", NARROWER),
        ("data", ".", WIDER),
        ("..", ".", NARROWER),
        ("..", "data", NARROWER),
        (".", "..", WIDER),
        ("../data", ".", WIDER),
        ("../data", "../data/in", NARROWER),
        ("data", "database", WIDER),
        ("~/notes", "~/notes/in", NARROWER),
        ("~/notes", "notes", WIDER),
        ("notes", "~/notes", WIDER),
        ("~", "~/notes", NARROWER),
        ("current folder", ".", WIDER),
        (".", "current folder", WIDER),
        ("elsewhere sha256:aa", "elsewhere sha256:bb", WIDER),
        ("a temporary folder", ".", WIDER),
        (None, "data", WIDER),
        ("data", None, NARROWER),
    ],
)
def test_where_a_folder_lies(before, after, way):
    """A folder within the one before is narrower; one above it, beside it or unknown is wider."""
    assert orders.containing(before, after) == way


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        (["any"], ["public:443"], NARROWER),
        (["public:443"], ["any"], WIDER),
        (["public:443"], [], NARROWER),
        (["10.0.0.0/8"], ["10.1.0.0/16"], NARROWER),
        (["10.1.0.0/16"], ["10.0.0.0/8"], WIDER),
        (["10.0.0.0/8"], ["fd00::/8"], WIDER),
        (["localhost:80"], ["localhost:81"], WIDER),
    ],
)
def test_which_hosts_are_reached(before, after, way):
    """Fewer hosts, or a network within another, are narrower; any host that was not reached before is wider."""
    assert orders.reaching(before, after) == way


@pytest.mark.parametrize(
    ("order", "before", "after", "way"),
    [
        (orders.unread(none_is=NARROWER), None, "code", WIDER),
        (orders.unread(none_is=NARROWER), "code", None, NARROWER),
        (orders.unread(none_is=WIDER), None, "code", NARROWER),
        (orders.unread(none_is=WIDER), "code", None, WIDER),
        (orders.unread(none_is=WIDER), "code", "other", WIDER),
        (orders.answering, None, "always yes: f", WIDER),
        (orders.answering, "f", "always yes: f", WIDER),
        (orders.answering, "always yes: f", "f", NARROWER),
        (orders.answering, "always yes: f", "always yes: g", WIDER),
        (orders.answering, "f", None, NARROWER),
        (orders.named, "environment", "api.openai.com", NARROWER),
        (orders.named, "api.openai.com", "environment", WIDER),
        (orders.named, "one", "two", WIDER),
        (orders.named, "one", None, NARROWER),
        (orders.named, None, "one", WIDER),
        (orders.named, "one", "one, then two", WIDER),
        (orders.named, "one, then two", "two", NARROWER),
        (orders.named, "one, then environment", "two", NARROWER),
        (orders.ranked(), None, "code", WIDER),
        (orders.ranked(), "code", None, WIDER),
        (orders.remarked, "one", "two", Way.OTHER),
    ],
)
def test_what_cannot_be_judged(order, before, after, way):
    """Code, and places, that nobody can compare are wider both ways, so that somebody looks at them."""
    assert order(before, after) == way
