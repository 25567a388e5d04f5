"""The default models are supported by the installed packages, which announce no shutdown."""

import ast
import importlib.util
import re
from pathlib import Path
from typing import get_args

import pytest

from agentkit.settings import DEFAULT_ANTHROPIC_MODEL, DEFAULT_MODEL

RETIRING = ("Announced shutdown date", "Not a supported model")
NOTICES = '''
Models: TypeAlias = Literal["old", "older", "current", "alias"]
"""Deprecated values:

- "old", "old-2025-01-01",
  "older": Announced shutdown
  date: 2027-01-14. See https://example.org for "recommended" replacements.
- "alias": Not a supported model ID. Retained for compatibility.
- "current": The cheapest of its family.
"""
'''


def retiring_models(source):
    """Return the models whose shutdown a package announces, in the string after its list of models."""
    strings = [node.value.value for node in ast.parse(source).body if isinstance(node, ast.Expr)]
    entries = [" ".join(entry.split()) for text in strings for entry in re.split(r"^- ", text, flags=re.MULTILINE)]
    retiring = [entry for entry in entries if any(phrase in entry for phrase in RETIRING)]
    return {name for entry in retiring for name in re.findall(r'"([^"]+)"', entry.partition(": ")[0])}


def test_default_model_is_not_about_to_be_shut_down():
    """The installed openai package does not announce a shutdown of the default model."""
    package = Path(importlib.util.find_spec("openai").origin).parent
    source = (package / "types" / "shared" / "chat_model.py").read_text("utf-8")
    assert DEFAULT_MODEL not in retiring_models(source)


def test_default_model_of_anthropic_is_served():
    """The installed anthropic package lists Anthropic's default model and announces no shutdown of it."""
    from anthropic.resources.messages.messages import DEPRECATED_MODELS
    from anthropic.types import ModelParam

    assert DEFAULT_ANTHROPIC_MODEL in get_args(get_args(ModelParam)[0])
    assert DEFAULT_ANTHROPIC_MODEL not in DEPRECATED_MODELS


@pytest.mark.parametrize(
    ("model", "retires"),
    [("old", True), ("old-2025-01-01", True), ("older", True), ("alias", True), ("current", False)],
)
def test_reading_of_the_notices(model, retires):
    """A notice applies to every model named before its colon."""
    assert (model in retiring_models(NOTICES)) is retires
