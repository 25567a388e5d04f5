"""Does CONTRIBUTING.md lead to places that there are, and do the pages that it names tell all that is there?"""

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


@pytest.mark.parametrize("path", sorted(set(PATHS)))
def test_place_that_the_guide_names_exists(path):
    """Every file and folder that the table of changes names is there."""
    assert (ROOT / path).exists(), f"CONTRIBUTING.md names {path}, which there is not"


@pytest.mark.parametrize("found", list(NAMES_IN.finditer(GUIDE)), ids=lambda found: found["names"].replace("`", ""))
def test_name_that_the_guide_gives_stands_in_its_file(found):
    """Where the table of changes says that a name stands in a file, it does."""
    folders = re.findall(r"`((?:agentkit|tests)/[\w/]+/)", GUIDE[: found.start()].rpartition("\n")[2])
    place = next(path for folder in ["", *reversed(folders)] if (path := ROOT / folder / found["place"]).exists())
    sources = [place] if place.is_file() else place.rglob("*.py")
    text = "\n".join(path.read_text("utf-8") for path in sources)
    names = [name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", found["names"])]
    missing = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert missing == [], f"CONTRIBUTING.md says that these stand in {found['place']}"


@pytest.mark.parametrize(("page", "names"), ROWS, ids=[page for page, _ in ROWS])
def test_page_tells_all_there_is(page, names):
    """Commands, settings, packages, scorers, limits, services, tests of rules, tools and pages stand on their page."""
    path = ROOT / page if (ROOT / page).exists() else ROOT / "docs" / page
    text = path.read_text("utf-8")
    missing = [name for name in names if name not in text]
    assert missing == [], f"Tell of these in {path.relative_to(ROOT)}"


def test_rule_tells_its_tests():
    """The docstring of Rule, from which the reference is made, names every test of an argument."""
    missing = [name for name in _TESTS if f"`{name}`" not in Rule.__doc__]
    assert missing == [], "Tell of these in the docstring of Rule, in agentkit/safety/rules.py"
