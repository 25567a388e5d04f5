"""Tests for the differences between manifests of changed programs."""

import tomllib
from pathlib import Path

import pytest

from agentkit.manifest import ChangeDirection, Manifest, differences

CHANGES = tomllib.loads(Path(__file__).with_name("changes.toml").read_text("utf-8"))["change"]
UNDONE = {
    ChangeDirection.WIDER: ChangeDirection.NARROWER,
    ChangeDirection.NARROWER: ChangeDirection.WIDER,
    ChangeDirection.OTHER: ChangeDirection.OTHER,
}
UNREADABLE = (
    "has changed",
    "-> other",
    "another agent",
    "made_by",
    "class",
    "client",
    "provider ollama",
    "api.openai",
    "policy",
    "5 and 10",
    "deny note",
)
"""The words for changes that need a review in both directions."""


def of_way(found, mode):
    """Return the differences in this direction."""
    return [each for each in found if each.way == mode]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["name"])
def test_change_is_classified_and_located(change, manifest):
    """A change is wider if the agent may do more, is reported at its line, and is reversed when it is undone."""
    before, after = manifest(change["before"]), manifest(change["after"])
    found, undone = differences(before, after), differences(after, before)
    assert_classified(change, before, after, found)
    assert_located(before, after, found)
    assert len(found) == len(undone)
    if not any(word in str(each) for each in found for word in UNREADABLE):
        assert sorted(UNDONE[each.way] for each in found) == sorted(each.way for each in undone)
    assert_parsed_back(after)


def assert_classified(change, before, after, found):
    """Assert that a change is wider, narrower or neutral, as stated in its row."""
    modes = {each.way for each in found}
    if not change["way"]:
        assert (found, str(before)) == ((), str(after))
    else:
        assert any(change["words"] in str(each) for each in of_way(found, change["way"])), [*map(str, found)]
        assert change["way"] == ChangeDirection.WIDER or ChangeDirection.WIDER not in modes


def assert_located(before, after, found):
    """Assert that each difference names the removed line, or the line before the new one."""
    old, new = str(before).splitlines(), str(after).splitlines()
    for each in found:
        line = old[each.line - 1]
        if each.is_new:
            assert line.rstrip(",") in [other.rstrip(",") for other in new] or line in old
            assert each.line == len(old) - 1 or old[each.line] > line
        else:
            assert line not in new or each.way == ChangeDirection.OTHER
            name = line.split('"')[1].split("/")
            assert any(part in each.text for part in name[1:]) or "rules" in name or name == ["agent"]


def assert_parsed_back(derived):
    """Assert that a manifest is unchanged after it was written and parsed."""
    read = Manifest.parse(str(derived))
    assert (read.facts, read.lines, str(read)) == (derived.facts, derived.lines, str(derived))
    assert differences(derived, read) == ()


def test_only_widening_changes_are_flagged(manifest):
    """Every change that widens an agent's permissions is flagged, and no other change is, unlike in a text diff."""
    pairs = [(change["way"], manifest(change["before"]), manifest(change["after"])) for change in CHANGES]
    flagged = [
        (mode, any(each.way == ChangeDirection.WIDER for each in differences(old, new))) for mode, old, new in pairs
    ]
    by_text = [(mode, str(old) != str(new)) for mode, old, new in pairs]
    assert [is_found for mode, is_found in flagged if mode == ChangeDirection.WIDER].count(True) == 71
    assert [is_found for mode, is_found in flagged if mode != ChangeDirection.WIDER].count(True) == 0
    assert [is_found for mode, is_found in by_text if mode != ChangeDirection.WIDER].count(True) == 11
    assert len([mode for mode, _ in by_text if mode != ChangeDirection.WIDER]) == 22
    assert all(change["before"] != change["after"] for change in CHANGES)
