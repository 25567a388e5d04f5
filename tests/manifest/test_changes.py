"""Is each change of a program judged by what it means?"""

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
"""What is said of changes that must be looked at whichever way they go."""


def of_way(found, way):
    """The differences of this way."""
    return [each for each in found if each.way == way]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["name"])
def test_what_is_said_of_a_change(change, manifest):
    """A change is called wider when the agent may do more than before, narrower when it may only do less."""
    before, after = manifest(change["before"]), manifest(change["after"])
    found = differences(before, after)
    ways = {each.way for each in found}
    if not change["way"]:
        assert (found, str(before)) == ((), str(after))
    else:
        assert any(change["words"] in str(each) for each in of_way(found, change["way"])), [*map(str, found)]
        assert change["way"] == ChangeDirection.WIDER or ChangeDirection.WIDER not in ways


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["name"])
def test_which_line_is_told(change, manifest):
    """The line that is told is the one that does not hold any more, or that behind which something new would stand."""
    before, after = manifest(change["before"]), manifest(change["after"])
    old, new = str(before).splitlines(), str(after).splitlines()
    for each in differences(before, after):
        line = old[each.line - 1]
        if each.is_new:
            assert line.rstrip(",") in [other.rstrip(",") for other in new] or line in old
            assert each.line == len(old) - 1 or old[each.line] > line
        else:
            assert line not in new or each.way == ChangeDirection.OTHER
            name = line.split('"')[1].split("/")
            assert any(part in each.text for part in name[1:]) or "rules" in name or name == ["agent"]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["name"])
def test_a_change_taken_back(change, manifest):
    """What is taken back is told the other way round, unless it is something that nobody can judge."""
    before, after = manifest(change["before"]), manifest(change["after"])
    there, back = differences(before, after), differences(after, before)
    assert len(there) == len(back)
    if not any(word in str(each) for each in there for word in UNREADABLE):
        assert sorted(UNDONE[each.way] for each in there) == sorted(each.way for each in back)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["name"])
def test_no_change(change, manifest):
    """A manifest that was written and read again says the same, and nothing is different from itself."""
    derived = manifest(change["after"])
    read = Manifest.parse(str(derived))
    assert (read.facts, read.lines, str(read)) == (derived.facts, derived.lines, str(derived))
    assert differences(derived, read) == ()


def test_how_well_changes_are_told_apart(manifest):
    """All that lets an agent do more is found, and nothing else is taken for it; a text diff tells none apart."""
    pairs = [(change["way"], manifest(change["before"]), manifest(change["after"])) for change in CHANGES]
    flagged = [
        (way, any(each.way == ChangeDirection.WIDER for each in differences(old, new))) for way, old, new in pairs
    ]
    by_text = [(way, str(old) != str(new)) for way, old, new in pairs]
    assert [is_found for way, is_found in flagged if way == ChangeDirection.WIDER].count(True) == 71
    assert [is_found for way, is_found in flagged if way != ChangeDirection.WIDER].count(True) == 0
    assert [is_found for way, is_found in by_text if way != ChangeDirection.WIDER].count(True) == 11
    assert len([way for way, _ in by_text if way != ChangeDirection.WIDER]) == 22
    assert all(change["before"] != change["after"] for change in CHANGES)
