"""Tests for guarded attributes whose objects a program must not access."""

import sys
from types import SimpleNamespace

import pytest

from agentkit.sandbox.guard.attributes import Guard
from agentkit.sandbox.guard.errors import RefusedAttribute
from agentkit.sandbox.guard.module_facades import Importer, import_for_python


@pytest.mark.parametrize("held", [sys, sys._getframe(), (lambda: 0).__code__], ids=["module", "frame", "code"])
def test_internal_objects_are_not_returned(held):
    """A module, frame or code object is not returned, whatever the attribute is called."""
    with pytest.raises(RefusedAttribute):
        Guard({}).read_plain(SimpleNamespace(held=held), "held")


def test_class_of_classes_is_replaced():
    """Access to `type` returns a function that only returns the class of an object."""
    guard = Guard({})
    assert guard.read_plain(SimpleNamespace(held=type), "held") is guard.type


def test_built_in_functions_import_what_they_need_only():
    """Built-in functions may import their own helpers, and nothing else."""
    assert import_for_python("_strptime").__name__ == "_strptime"
    with pytest.raises(ImportError, match="'os' is not available"):
        import_for_python("os")


def test_underscore_attributes_of_own_classes():
    """Underscore attributes are accessible in classes of the program, but not in Python's."""
    guard = Guard({})
    own = guard.own_class(type("Own", (), {"_x": 1}))
    assert guard.read_own(own(), "_x") == guard.read_own(own, "_x") == 1
    with pytest.raises(RefusedAttribute):
        guard.read_own(3, "_x")


def test_facade_is_frozen():
    """A module facade cannot be changed, even without a guard."""
    facade = Importer({}, lambda _: None).facade("math")
    with pytest.raises(RefusedAttribute):
        facade.pi = 3
    assert repr(facade) == "<module 'math'>"
