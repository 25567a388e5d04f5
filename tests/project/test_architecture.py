"""Rules about dependencies, import contracts and layers."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def required_distributions():
    """Return the names of the packages that agentkit depends on, including extras."""
    extras = SETTINGS["project"]["optional-dependencies"]
    lines = SETTINGS["project"]["dependencies"] + [
        line for name, lines in extras.items() if name not in {"dev", "docs"} for line in lines
    ]
    return {re.match(r"[\w-]+", line)[0].lower() for line in lines}


def protected_modules():
    """Return the third-party modules whose importers are named by a contract."""
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    return {
        module for contract in contracts if contract["type"] == "protected" for module in contract["protected_modules"]
    }


def test_every_dependency_has_an_import_contract():
    """Import contracts name the only importers of each third-party package."""
    providers = packages_distributions()
    covered = {name.replace("_", "-").lower() for module in protected_modules() for name in providers[module]}
    missing = sorted(required_distributions() - covered)
    assert missing == [], "Write a protected contract in pyproject.toml that names the only importers of these"


def test_developers_have_every_extra():
    """The `dev` extra installs all other extras, so that no test is skipped for a missing package."""
    extras = SETTINGS["project"]["optional-dependencies"]
    taken = re.search(r"\[(.+)\]", extras["dev"][0])[1].split(",")
    assert sorted({*extras} - {"dev", *taken}) == [], "Name these in the first line of dev in pyproject.toml"


def test_every_folder_of_the_package_is_in_a_layer():
    """The layers are exhaustive, and no contract ignores an import."""
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["type"] == "layers")
    assert layers["exhaustive"] is True
    assert not any("ignore_imports" in contract for contract in contracts)
    assert "exclude_type_checking_imports" not in SETTINGS["tool"]["importlinter"]


def test_guide_matches_the_layers():
    """The layers drawn in CONTRIBUTING.md match the contract."""
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    drawn = "```text\n" + "\n".join(layers) + "\n```"
    assert drawn in (ROOT / "CONTRIBUTING.md").read_text("utf-8"), (
        "Draw the layers of pyproject.toml in CONTRIBUTING.md"
    )
