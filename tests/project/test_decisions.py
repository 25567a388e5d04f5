"""Is every choice that a reader might question written down?"""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ASKED_FOR = {"openai", "duckduckgo-search", "httpx", "wikipedia", "restrictedpython"}


def dependencies():
    """The distributions that agentkit runs or is developed on."""
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    names = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"] + extras}
    return sorted(names - {PROJECT["name"]})


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_has_at_most_forty_lines(path):
    """A record says in at most forty lines what was the case, what was decided and what follows."""
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 40
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert re.search(r"^Status: (accepted|replaced by \[record \d+\]\(\S+\)), \d{4}-\d{2}", text, re.MULTILINE)


def test_records_are_numbered_in_order():
    """Records are numbered from 1 without a gap, in their file names as in their titles."""
    numbers = [int(path.name[:4]) for path in RECORDS]
    titles = [int(re.match(r"# (\d+)\. ", path.read_text("utf-8"))[1]) for path in RECORDS]
    assert numbers == titles == list(range(1, len(RECORDS) + 1)), "Number the newest record next after the last"


def test_index_lists_every_record():
    """The index links to every record."""
    index = (FOLDER / "README.md").read_text("utf-8")
    missing = [path.name for path in RECORDS if f"]({path.name})" not in index]
    assert missing == [], "List these in docs/decisions/README.md"


@pytest.mark.parametrize("name", dependencies())
def test_every_dependency_has_a_record(name):
    """Each dependency has a record that names it and its licence."""
    naming = [text for text in (path.read_text("utf-8") for path in RECORDS) if re.search(rf"\b{name}\b", text)]
    told = f"Write a record in docs/decisions/ that says what {name} is for, and its licence"
    assert any("icence" in text for text in naming), told


@pytest.mark.parametrize("name", sorted(ASKED_FOR))
def test_every_wish_is_answered(name):
    """The index says of each package that was asked for what honours the wish, and why."""
    index = (FOLDER / "README.md").read_text("utf-8")
    rows = [row.strip("| ").split(" | ") for row in index.splitlines() if row.startswith("|")]
    assert [len(row) for row in rows if row[0] == name] == [3]
