"""Tests for the order of the values of facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.manifest import schema
from agentkit.manifest.schema import LEVELS, VERDICTS, ChangeDirection

WIDER, NARROWER = ChangeDirection.WIDER, ChangeDirection.NARROWER
BOUNDS = st.none() | st.integers(0, 9) | st.floats(0, 9)
FOLDERS = st.one_of(
    st.none(),
    st.sampled_from([".", "..", "../..", "data", "data/in", "../data", "../data/in", "../../data", "~", "~/data"]),
)


@pytest.mark.parametrize(
    ("order", "values"),
    [
        (schema.ranked(*LEVELS), st.sampled_from(LEVELS)),
        (schema.ranked(*VERDICTS), st.sampled_from(VERDICTS)),
        (schema.ranked(True, False), st.booleans()),
        (schema.maximum, BOUNDS),
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
    """A folder is inside another, contains it, or is a different place in both directions."""
    if one != two:
        assert (schema.folders(one, two), schema.folders(two, one)) != (NARROWER, NARROWER)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_additions_and_removals(one, two):
    """Added permissions are wider, and removed restrictions are wider."""
    if set(one) < set(two):
        assert (schema.permissions(one, two), schema.permissions(two, one)) == (WIDER, NARROWER)
        assert (schema.restrictions(one, two), schema.restrictions(two, one)) == (NARROWER, WIDER)
    elif set(one) - set(two):
        assert schema.restrictions(one, two) == WIDER


@pytest.mark.for_each(
    ("before", "after", "mode"),
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
def test_subfolders_are_narrower(before, after, mode):
    """A subfolder is narrower; a parent, sibling or unknown folder is wider."""
    assert schema.folders(before, after) == mode


@pytest.mark.parametrize(
    ("before", "after", "mode"),
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
def test_fewer_hosts_are_narrower(before, after, mode):
    """Fewer hosts, or a network within another, are narrower; any additional host is wider."""
    assert schema.hosts(before, after) == mode


@pytest.mark.for_each(
    ("order", "before", "after", "mode"),
    [
        (schema.hashed(none_is=NARROWER), None, "code", WIDER),
        (schema.hashed(none_is=NARROWER), "code", None, NARROWER),
        (schema.hashed(none_is=WIDER), None, "code", NARROWER),
        (schema.hashed(none_is=WIDER), "code", None, WIDER),
        (schema.hashed(none_is=WIDER), "code", "other", WIDER),
        (schema.approver, None, "always yes: f", WIDER),
        (schema.approver, "f", "always yes: f", WIDER),
        (schema.approver, "always yes: f", "f", NARROWER),
        (schema.approver, "always yes: f", "always yes: g", WIDER),
        (schema.approver, "f", None, NARROWER),
        (schema.location, "environment", "api.openai.com", NARROWER),
        (schema.location, "api.openai.com", "environment", WIDER),
        (schema.location, "one", "two", WIDER),
        (schema.location, "one", None, NARROWER),
        (schema.location, None, "one", WIDER),
        (schema.location, "one", "one, then two", WIDER),
        (schema.location, "one, then two", "two", NARROWER),
        (schema.location, "one, then environment", "two", NARROWER),
        (schema.ranked(), None, "code", WIDER),
        (schema.ranked(), "code", None, WIDER),
        (schema.description, "one", "two", ChangeDirection.OTHER),
    ],
)
def test_incomparable_changes_are_wider(order, before, after, mode):
    """Code and locations that cannot be compared count as wider in both directions."""
    assert order(before, after) == mode
