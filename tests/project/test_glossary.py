"""The glossary explains the terms of the code."""

import ast
import re
from pathlib import Path

import pytest

import agentkit

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()
ROWS = [line.strip("| ").split(" | ") for line in LINES if line.startswith("| ")][1:]
WORDS = [word.strip() for row in ROWS for word in row[0].split(",")]


def plain(name):
    """Return a name in lower case without blanks and underscores: `tool call` matches `ToolCall` and `tool_call`."""
    return re.sub(r"[ _]", "", name).lower()


def names_in_code():
    """Return the names of all modules, classes, functions and arguments of the package."""
    for path in (ROOT / "agentkit").rglob("*.py"):
        yield path.stem
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "name", None) or getattr(node, "arg", None)
            if isinstance(name, str):
                yield name


def test_terms_of_the_glossary_are_names_in_the_code():
    """Each term of the glossary is a name in the code."""
    names = set(map(plain, names_in_code()))
    assert [word for word in WORDS if not {plain(word), f"{plain(word)}s"} & names] == []


def test_public_classes_are_explained():
    """Each public class except errors is explained under its first word."""
    classes = [name for name in agentkit.__all__ if isinstance(getattr(agentkit, name), type)]
    classes = [name for name in classes if not issubclass(getattr(agentkit, name), Exception)]
    words = tuple(map(plain, WORDS))
    assert [name for name in classes if not plain(name).startswith(words)] == []


def test_glossary_is_in_alphabetical_order():
    """The glossary is sorted and has no duplicates."""
    first = [row[0].lower() for row in ROWS]
    assert first == sorted(set(first))
