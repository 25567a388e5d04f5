"""CONTRIBUTING.md names existing files, and pages list everything they promise to list."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from agentkit import Limits, evals
from agentkit.cli.chat.commands import COMMANDS
from agentkit.cli.main import cli
from agentkit.cli.settings import KEYS
from agentkit.llm.providers.openai import SERVICES
from agentkit.safety.rules import _TESTS, Rule
from agentkit.tools.catalog import all_tools

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PATHS = re.findall(r"`((?:agentkit|benchmarks|docs|examples|tests)/[\w./]+|\w+\.(?:md|toml))`", GUIDE)
NAMES_IN = re.compile(r"(?P<names>`[\w.]+`(?:(?:, | and )`[\w.]+`)*) in `(?P<place>[\w./]+)`")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PACKAGES = PROJECT["dependencies"] + [line for name, lines in EXTRAS.items() if name != "dev" for line in lines]
SCORERS = [name for name in evals.__all__ if ".scoring." in getattr(evals, name).__module__ and name.islower()]
ROWS = [
    ("README.md", [f"`{name}`" for name in EXTRAS]),
    ("chat.md", [f"| `/{name}" for name in COMMANDS]),
    ("command-line.md", [f"`{name}`" for name in KEYS] + [f"agentkit {name}" for name in cli.list_commands()]),
    ("dependencies.md", [re.match(r"[\w-]+", line)[0] for line in PACKAGES] + [f"`{name}`" for name in EXTRAS]),
    ("evals.md", [f"`{name}(" for name in SCORERS]),
    ("index.md", [f"({path.name})" for path in (ROOT / "docs").glob("*.md") if path.name != "index.md"]),
    ("limits.md", [each.name for each in fields(Limits)]),
    ("models.md", list(SERVICES)),
    ("safety.md", [f"`{name}`" for name in _TESTS]),
    ("tools.md", all_tools.names),
]


def test_files_named_in_the_guide_exist():
    """Every file and folder named in CONTRIBUTING.md exists."""
    assert [path for path in sorted(set(PATHS)) if not (ROOT / path).exists()] == []


def test_names_in_the_guide_are_in_their_files(subtests):
    """Each name that CONTRIBUTING.md places in a file exists in that file."""
    for found in NAMES_IN.finditer(GUIDE):
        path = ROOT / found["place"]
        text = "\n".join(file.read_text("utf-8") for file in ([path] if path.is_file() else path.rglob("*.py")))
        for name in re.findall(r"`(?:\w+\.)*(\w+)`", found["names"]):
            with subtests.test(name=name, file=found["place"]):
                assert re.search(rf"\b{name}\b", text)


@pytest.mark.parametrize(("page", "names"), ROWS, ids=[page for page, _ in ROWS])
def test_page_is_complete(page, names):
    """Commands, settings, packages, scorers, limits, services, tests of rules, tools and pages are on their page."""
    path = ROOT / page if (ROOT / page).exists() else ROOT / "docs" / page
    text = path.read_text("utf-8")
    missing = [name for name in names if name not in text]
    assert missing == [], f"Add these to {path.relative_to(ROOT)}"


def test_rule_documents_its_tests():
    """The docstring of Rule names every test of an argument."""
    missing = [name for name in _TESTS if f"`{name}`" not in Rule.__doc__]
    assert missing == [], "Add these to the docstring of Rule, in agentkit/safety/rules.py"
