"""Which underscore names of a class are Python's own business, though a program derived a class from it?

Python's own methods hand inner objects to each other under such names, and read what a program may not: whoever
calls them, or takes the place of one, sees all of that.
"""

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from agentkit.sandbox.guard.ending import RefusedAttribute
from agentkit.sandbox.guard.names import OF_TUPLES, is_own, words

# Underscore names that Python's manual, or use, gives to those who derive from a class.
FOR_HEIRS = OF_TUPLES | words("_denominator _from_iterable _get _hash _init _mapping _numerator _put _qsize")
# What Python writes into the classes that a program makes.
WRITTEN_BY_PYTHON = words("_abc_impl _is_protocol _is_runtime_protocol")


HINT = "it belongs to a class of Python that this one derives from: choose another name"
SELF_CLASS: Any = vars(super)["__self_class__"]


class Privacy:
    """What the classes of one program have from classes of Python's own, and may not be used or replaced."""

    def __init__(self, is_own_class: Callable[[type], bool]) -> None:
        self._is_own_class = is_own_class
        self._of_python: dict[type, frozenset[str]] = {object: frozenset(), type: frozenset()}
        self.inner: dict[type, frozenset[str]] = {}  # of the program's own classes, each when it is first needed

    def of_python(self, kind: type) -> frozenset[str]:
        """The underscore names that a class of Python's own keeps for itself."""
        if kind not in self._of_python:
            self._of_python[kind] = private_names(kind)
        return self._of_python[kind]

    def names(self, kind: type) -> frozenset[str]:
        """The private names that a class of the program inherits from Python's classes; none for any other class."""
        if not self._is_own_class(kind):
            return frozenset()
        if kind not in self.inner:
            metaclass: type = type(kind)
            bases = [base for base in (*kind.__mro__, *metaclass.__mro__) if not self._is_own_class(base)]
            self.inner[kind] = frozenset(name for base in bases for name in self.of_python(base))
        return self.inner[kind]

    def check(self, value: Any, name: str) -> None:
        """Refuse such a name of an object of the program, or of one of its classes."""
        kind = value if issubclass(type(value), type) else type(value)
        if kind is super:
            kind = SELF_CLASS.__get__(value) or super
        if name in self.names(kind):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", HINT)

    def check_given(self, value: Any, name: str) -> None:
        """Refuse such a name for setting: what a class is given, those that derive from it have too."""
        self.check(value, name)
        if issubclass(type(value), type):
            for heir in type.__subclasses__(value):
                self.check_given(heir, name)


def private_names(kind: type) -> frozenset[str]:
    """The underscore names that a class of Python's own defines, or that its methods use on any object."""
    found = set(vars(kind))
    for value in vars(kind).values():
        for function in functions_in(value):
            used = {name for code in codes_in(function.__code__) for name in texts_in(code)}
            found |= used - function.__globals__.keys()
    return frozenset(name for name in found if is_own(name) and name.isidentifier() and name.strip("_")) - FOR_HEIRS


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The functions of Python code behind what stands in a class."""
    for name in ("__func__", "fget", "fset", "fdel", "func", "__wrapped__"):
        inner = getattr(value, name, None)
        if type(inner) is FunctionType:
            yield inner
    if type(value) is FunctionType:
        yield value


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code, and the code of the functions in it."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from codes_in(constant)


def texts_in(code: CodeType) -> Iterator[str]:
    """The names that code uses or sets, and the texts that may be names."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is str:
            yield constant
        elif type(constant) is CodeType and constant.co_name == "__annotate__":  # annotations that are made later
            yield from texts_in(constant)


def names_given(kind: type) -> set[str]:
    """The names that the program gave a class of its own, fields among them."""
    return {*vars(kind), *vars(kind).get("__annotations__", ())} - WRITTEN_BY_PYTHON
