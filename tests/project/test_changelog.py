"""The changelog follows the format it names."""

import re
import tomllib
from pathlib import Path

import pytest

import agentkit

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
VERSION = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


def versions():
    """Return the versions of the changelog, newest first, with their dates."""
    return [(match["version"], match["date"]) for match in VERSION.finditer(CHANGELOG)]


def test_unreleased_comes_first():
    """Unreleased changes come first, under Unreleased."""
    assert versions()[0] == ("Unreleased", None)


def test_every_section_is_a_version_with_its_date():
    """Each further section has a version and a release date, newest first."""
    assert len(re.findall(r"^## ", CHANGELOG, re.MULTILINE)) == len(versions())
    dates = [date for _, date in versions()[1:]]
    assert None not in dates
    assert dates == sorted(dates, reverse=True)


def test_every_change_is_of_a_known_kind():
    """Changes are listed under Added, Changed, Deprecated, Removed, Fixed or Security."""
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) <= KINDS


def test_no_heading_is_empty():
    """Each kind of change has at least one line."""
    bodies = re.split(r"^### .+$", CHANGELOG, flags=re.MULTILINE)[1:]
    assert all(re.match(r"\s*- \S", body) for body in bodies)


def test_released_version_is_the_package_version():
    """The newest released section, if any, has the version of the package."""
    package_version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert agentkit.__version__ == package_version
    released = [version for version, _ in versions() if version != "Unreleased"]
    assert released[:1] in ([], [package_version])
