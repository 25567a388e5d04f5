"""Order of the values of facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.manifest import facts
from agentkit.manifest.facts import LEVELS, VERDICTS, ChangeDirection

WIDER, NARROWER = ChangeDirection.WIDER, ChangeDirection.NARROWER
BOUNDS = st.none() | st.integers(0, 9) | st.floats(0, 9)
FOLDERS = st.one_of(
    st.none(),
    st.sampled_from([".", "..", "../..", "data", "data/in", "../data", "../data/in", "../../data", "~", "~/data"]),
)


@pytest.mark.parametrize(
    ("order", "values"),
    [
        (facts.ranked(*LEVELS), st.sampled_from(LEVELS)),
        (facts.ranked(*VERDICTS), st.sampled_from(VERDICTS)),
        (facts.ranked(True, False), st.booleans()),
        (facts.bounded, BOUNDS),
    ],
    ids=["levels", "verdicts", "truths", "bounds"],
)
def test_ordered_values_are_wider_one_way_only(order, values):
    """Of two ordered values one is wider and the other narrower."""

    @given(values, values)
    def check(one, two):
        if one != two:
            assert {order(one, two), order(two, one)} == {WIDER, NARROWER}

    check()


@given(FOLDERS, FOLDERS)
def test_folders_are_never_narrower_both_ways(one, two):
    """A folder lies in another, or the other in it, or neither; then it is another place, both ways."""
    if one != two:
        assert (facts.containing(one, two), facts.containing(two, one)) != (NARROWER, NARROWER)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_adding_and_taking_away(one, two):
    """Added permissions are wider, and removed restrictions are wider."""
    if set(one) < set(two):
        assert (facts.more(one, two), facts.more(two, one)) == (WIDER, NARROWER)
        assert (facts.fewer(one, two), facts.fewer(two, one)) == (NARROWER, WIDER)
    elif set(one) - set(two):
        assert facts.fewer(one, two) == WIDER


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
    """A subfolder is narrower; a parent, sibling or unknown folder is wider."""
    assert facts.containing(before, after) == way


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
    assert facts.reaching(before, after) == way


@pytest.mark.parametrize(
    ("order", "before", "after", "way"),
    [
        (facts.unread(none_is=NARROWER), None, "code", WIDER),
        (facts.unread(none_is=NARROWER), "code", None, NARROWER),
        (facts.unread(none_is=WIDER), None, "code", NARROWER),
        (facts.unread(none_is=WIDER), "code", None, WIDER),
        (facts.unread(none_is=WIDER), "code", "other", WIDER),
        (facts.answering, None, "always yes: f", WIDER),
        (facts.answering, "f", "always yes: f", WIDER),
        (facts.answering, "always yes: f", "f", NARROWER),
        (facts.answering, "always yes: f", "always yes: g", WIDER),
        (facts.answering, "f", None, NARROWER),
        (facts.named, "environment", "api.openai.com", NARROWER),
        (facts.named, "api.openai.com", "environment", WIDER),
        (facts.named, "one", "two", WIDER),
        (facts.named, "one", None, NARROWER),
        (facts.named, None, "one", WIDER),
        (facts.named, "one", "one, then two", WIDER),
        (facts.named, "one, then two", "two", NARROWER),
        (facts.named, "one, then environment", "two", NARROWER),
        (facts.ranked(), None, "code", WIDER),
        (facts.ranked(), "code", None, WIDER),
        (facts.remarked, "one", "two", ChangeDirection.OTHER),
    ],
)
def test_what_cannot_be_judged(order, before, after, way):
    """Code and locations that cannot be compared are wider in both directions."""
    assert order(before, after) == way
