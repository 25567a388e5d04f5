"""Tests for the public names of `agentkit.testing`, which are imported on first use."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import agentkit.testing

ROOT = Path(agentkit.testing.__file__)
IMPORTED = {
    alias.asname: node.module
    for node in ast.walk(ast.parse(ROOT.read_text("utf-8")))
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
    if alias.asname
}


@pytest.mark.for_each("name", agentkit.testing.__all__)
def test_public_names_can_be_imported(name):
    """Every public name is the object of the module that defines it, and `dir` lists it."""
    assert getattr(agentkit.testing, name) is getattr(import_module(IMPORTED[name]), name)
    assert name in dir(agentkit.testing)


def test_names_for_type_checkers_are_the_public_ones():
    """Type checkers see exactly the public names."""
    assert set(IMPORTED) == set(agentkit.testing.__all__)


def test_unknown_name_raises_attribute_error():
    """An unknown name raises an AttributeError that contains it."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = agentkit.testing.no_such_name


def test_plugin_imports_nothing_else():
    """Starting pytest imports the plugin's module, and none of its dependencies."""
    code = "import sys, agentkit.testing.pytest_plugin; print(*(m for m in sys.modules if m.startswith('agentkit')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    parts = ["agentkit._version", "agentkit", "agentkit.testing", "agentkit.testing.pytest_plugin"]
    assert done.stdout.split() == parts
