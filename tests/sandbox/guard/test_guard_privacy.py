"""Tests for underscore names of Python's classes in classes of the program."""

import contextlib
import queue
import statistics
import textwrap
from types import CodeType

import pytest

from agentkit.sandbox.guard.errors import RefusedAttribute
from agentkit.sandbox.guard.name_rules import (
    Privacy,
    defined_names,
    functions_in,
    names_in_code,
    nested_codes,
    private_names,
)


class Stack(contextlib.ExitStack):
    """A class of the program that derives from one of Python's."""

    _mine: int = 1


PRIVACY = Privacy(lambda kind: kind is Stack)


def test_private_methods_and_attributes_are_found():
    """Private methods of a standard library class and private attributes its methods set are both found."""
    assert {"_push_cm_exit", "_create_exit_wrapper"} <= PRIVACY.names(Stack)
    assert "_exit_callbacks" in PRIVACY.names(Stack)
    assert {"_mu", "_sigma"} <= private_names(statistics.NormalDist)


def test_names_for_subclasses_are_not_private():
    """A subclass of a queue overrides `_put` and similar methods."""
    assert not private_names(queue.Queue) & {"_init", "_qsize", "_put", "_get"}


def test_documentation_is_not_a_name():
    """A string that begins with an underscore, such as a docstring, is not treated as a name."""
    assert all(name.isidentifier() for name in private_names(textwrap.TextWrapper))


def test_private_names_are_refused():
    """Private names are refused on objects, on classes and through super; those of the program are not."""
    for value in (Stack(), Stack, super(Stack, Stack())):
        with pytest.raises(RefusedAttribute):
            PRIVACY.check(value, "_push_cm_exit")
    PRIVACY.check(Stack(), "_mine")
    PRIVACY.check(super(Stack), "_push_cm_exit")
    PRIVACY.check(3, "_push_cm_exit")


def test_private_names_of_subclasses_are_refused():
    """A private name of a subclass cannot be set on its base class."""

    class Base:
        """A class without a base of Python's."""

    class Heir(Base, contextlib.ExitStack):
        """A class with a base of Python's."""

    privacy = Privacy(lambda kind: kind in {Base, Heir})
    privacy.check(Base, "_push_cm_exit")
    with pytest.raises(RefusedAttribute):
        privacy.check_setting(Base, "_push_cm_exit")
    privacy.check_setting(Heir(), "_mine")


def test_fields_are_names_given():
    """A field without a value is a name of the program."""
    assert "_mine" in defined_names(Stack)


def test_names_in_nested_functions_are_found():
    """Names in nested functions and in lazily evaluated annotations are found."""
    outer = compile("def f():\n    def __annotate__():\n        return x._late, '_text', 1\n", "f", "exec")
    (function,) = [constant for constant in outer.co_consts if type(constant) is CodeType]
    assert len(list(nested_codes(outer))) == 3
    assert "_late" in set(names_in_code(function))
    assert "_late" not in set(names_in_code(outer))


def test_wrapped_functions_are_found():
    """Functions in properties and classmethods are found."""
    function = test_fields_are_names_given
    assert list(functions_in(function)) == [function]
    assert list(functions_in(property(function))) == list(functions_in(classmethod(function)))[:1] == [function]
    assert list(functions_in(3)) == []
