"""Does CONTRIBUTING.md lead to places that there are, and do the pages that it names tell all that is there?"""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from agentkit import Limits
from agentkit.cli.chat.commands import COMMANDS
from agentkit.cli.settings.keys import KEYS
from agentkit.llm.providers.openai import SERVICES
from agentkit.safety.rules import _TESTS, Rule
from agentkit.tools.catalog import all_tools

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PATHS = re.findall(r"`((?:agentkit|benchmarks|docs|examples|tests)/[\w./]+|\w+\.(?:md|toml))`", GUIDE)
ROWS = [
    ("chat.md", [f"| `/{name}" for name in COMMANDS]),
    ("command-line.md", [f"`{name}`" for name in KEYS]),
    ("limits.md", [each.name for each in fields(Limits)]),
    ("models.md", list(SERVICES)),
    ("safety.md", [f"`{name}`" for name in _TESTS]),
    ("tools.md", all_tools.names),
]


@pytest.mark.parametrize("path", sorted(set(PATHS)))
def test_place_that_the_guide_names_exists(path):
    """Every file and folder that the table of changes names is there."""
    assert (ROOT / path).exists(), f"CONTRIBUTING.md names {path}, which there is not"


@pytest.mark.parametrize(("page", "names"), ROWS, ids=[page for page, _ in ROWS])
def test_page_tells_all_there_is(page, names):
    """A command of the chat, a setting, a limit, a service, a test of rules and a tool each stand on their page."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert [name for name in names if name not in text] == [], f"Tell of these in docs/{page}"


def test_rule_tells_its_tests():
    """The docstring of Rule, from which the reference is made, names every test of an argument."""
    missing = [name for name in _TESTS if f"`{name}`" not in Rule.__doc__]
    assert missing == [], "Tell of these in the docstring of Rule, in agentkit/safety/rules.py"
