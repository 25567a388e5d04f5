"""Rules about decision records and dependencies: few, short, listed and explained."""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DEPENDENCIES = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
REQUESTED = {"openai", "httpx", "duckduckgo-search", "wikipedia", "restrictedpython"}


def dependencies():
    """Return the names of the packages that agentkit depends on, including extras."""
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    return {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"] + extras} - {PROJECT["name"]}


def rows(text):
    """Return the cells of each row of a page's tables."""
    return [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("|")]


def test_records_have_at_most_forty_lines():
    """A record has a status, context, decision and consequences in at most forty lines."""
    texts = {path.name: path.read_text("utf-8") for path in RECORDS}
    assert [name for name, text in texts.items() if len(text.splitlines()) > 40] == []
    headings = ["Context", "Decision", "Consequences"]
    assert [name for name, text in texts.items() if re.findall(r"^## (.+)$", text, re.MULTILINE) != headings] == []
    status = re.compile(r"^Status: accepted, \d{4}-\d{2}", re.MULTILINE)
    assert [name for name, text in texts.items() if not status.search(text)] == []


def test_records_are_few_and_numbered():
    """There are at most twenty records, numbered consecutively from 1."""
    numbers = [int(path.name[:4]) for path in RECORDS]
    titles = [int(re.match(r"# (\d+)\. ", path.read_text("utf-8"))[1]) for path in RECORDS]
    assert numbers == titles == list(range(1, len(RECORDS) + 1)), "Give the newest record the next number"
    assert len(RECORDS) <= 20, "Delete a record that no longer matters; git keeps it"


def test_index_lists_every_record():
    """The index links to every record."""
    index = (FOLDER / "README.md").read_text("utf-8")
    assert [path.name for path in RECORDS if f"]({path.name})" not in index] == []


def test_dependencies_are_explained():
    """The page on dependencies has a row with the licence of each package."""
    licensed = [
        " | ".join(row) for row in rows(DEPENDENCIES) if re.search("MIT|BSD|Apache|MPL|PSF|LGPL|ZPL", " ".join(row))
    ]
    missing = [name for name in sorted(dependencies()) if not any(re.search(rf"\b{name}\b", row) for row in licensed)]
    assert missing == [], "Add these to docs/dependencies.md"


def test_requested_packages_are_explained():
    """The page on dependencies explains which package replaces each requested one."""
    assert {row[0] for row in rows(DEPENDENCIES) if len(row) == 3} >= REQUESTED
