"""Permitted names and underscore names in guarded code.

Python's own methods pass internal objects to each other under underscore names and read attributes that a program must
not: code that calls or overrides such a method would get access to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from agentkit.sandbox.guard.errors import RefusedAttribute


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def dunders(text: str) -> frozenset[str]:
    """The words of a text, written `__like_this__`."""
    return frozenset(f"__{word}__" for word in text.split())


# Attributes that lead from a value to frames, code or modules, by kind of object.
INSPECTING = words(
    """
    ag_await ag_code ag_frame ag_running cr_await cr_code cr_frame cr_origin cr_running
    gi_code gi_frame gi_running gi_yieldfrom
    f_back f_builtins f_code f_generator f_globals f_lasti f_lineno f_locals f_trace f_trace_lines f_trace_opcodes
    tb_frame tb_lasti tb_lineno tb_next
    co_code co_cellvars co_consts co_filename co_flags co_freevars co_lines co_lnotab co_names co_positions co_varnames
    func_closure func_code func_defaults func_dict func_globals im_class im_func im_self
    """
)
# Ordinary names that are dangerous on some objects only; checked once the object is known.
DELICATE = frozenset({"evaluate", "evaluate_bound", "evaluate_value", "format", "format_map", "mro", "obj"})

# The functions of a property can write to any object they are called on.
PROPERTY_FUNCTIONS = frozenset({"fget", "fset", "fdel"})

# Methods that Python calls implicitly. Classes can define them, and code can call them.
METHODS = dunders(
    """
    init new post_init repr str format bytes bool hash len length_hint iter next reversed contains missing
    getitem setitem delitem call enter exit int float complex index round trunc floor ceil
    eq ne lt le gt ge neg pos abs invert
    add sub mul truediv floordiv mod divmod pow matmul lshift rshift and or xor
    radd rsub rmul rtruediv rfloordiv rmod rdivmod rpow rmatmul rlshift rrshift rand ror rxor
    iadd isub imul itruediv ifloordiv imod ipow imatmul ilshift irshift iand ior ixor
    init_subclass class_getitem set_name aiter anext aenter aexit await
    """
)
# Classes can define these too, but only methods that the code itself defined can be called by name.
OWN_METHODS = dunders("getattr get set delete del copy deepcopy dir sizeof")
SETTERS = frozenset({"__setattr__", "__delattr__"})
DEFINABLE = METHODS | OWN_METHODS | SETTERS
# Must be string literals in a class body, so that their values are known before the run.
LITERALS = frozenset({"__slots__", "__match_args__"})

TEXTS = frozenset({"__name__", "__qualname__", "__doc__", "__module__"})
COPIES = frozenset({"__dict__", "__annotations__", "__dataclass_fields__", "__slots__", "__match_args__"})
CLASS_NAMES = frozenset({"__mro__", "__bases__"})
EXCEPTION_NAMES = frozenset({"__cause__", "__notes__", "__suppress_context__"})
READABLE = DEFINABLE | TEXTS | COPIES | CLASS_NAMES | EXCEPTION_NAMES | {"__class__", "__members__", "__wrapped__"}
# Readable by getattr, operator.attrgetter and format templates, whose names are computed at run time.
READABLE_BY_TEXT = TEXTS | METHODS - {"__init__", "__new__", "__init_subclass__", "__class_getitem__", "__set_name__"}
SETTABLE = DEFINABLE | {"__name__", "__qualname__", "__doc__", "__wrapped__"}

TUPLE_NAMES = frozenset({"_asdict", "_field_defaults", "_fields", "_make", "_replace"})
ENUM_NAMES = frozenset({"_generate_next_value_", "_ignore_", "_missing_", "_name_", "_order_", "_value_"})
# Module metadata; Python ignores these names in a program that is not imported.
MODULE_METADATA = dunders("all author copyright credits date email license version")
# Names of guards in other engines. Ours cannot be spelled, but programs do not need these either.
RESERVED = frozenset({"_print", "_tmp"})


def is_dunder(name: str) -> bool:
    """Whether the name is written `__like_this__`."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def is_own(name: str) -> bool:
    """Whether it is an underscore name that programs use for their own attributes: `_x`, `__x`, `_`, but not `_x_`."""
    return name.startswith("_") and (not name.endswith("_") or name.strip("_") == "") and name not in RESERVED


def mangled(name: str, class_name: str | None) -> str:
    """Apply Python's name mangling to a private `__name` of a class."""
    if not class_name or not name.startswith("__") or name.endswith("__") or not class_name.strip("_"):
        return name
    return f"_{class_name.lstrip('_')}{name}"


def normalise_name(name: str) -> str:
    """Normalise a name as Python's parser does: other widths and styles of letters become plain ones."""
    if name.isascii():
        return name
    from unicodedata import normalize

    return normalize("NFKC", name)


def may_read(name: str) -> bool:
    """Whether an attribute of this name can be read on any object."""
    return _is_accessible(name, READABLE)


def may_set(name: str) -> bool:
    """Whether an attribute of this name can be set on any object."""
    return _is_accessible(name, SETTABLE)


def _is_accessible(name: str, special: frozenset[str]) -> bool:
    if name in INSPECTING:
        return False
    return not name.startswith("_") or name in special or name in ENUM_NAMES or is_own(name)


def may_be_matched(name: str) -> bool:
    """Whether a pattern can read an attribute of this name on every object."""
    return not name.startswith("_") and name not in INSPECTING | DELICATE | PROPERTY_FUNCTIONS


# Underscore names that are documented or customary for subclasses.
SUBCLASS_NAMES = TUPLE_NAMES | words("_denominator _from_iterable _get _hash _init _mapping _numerator _put _qsize")
# Names that Python writes into the classes of a program.
WRITTEN_BY_PYTHON = words("_abc_impl _is_protocol _is_runtime_protocol")


HINT = "it belongs to a class of Python that this one derives from: choose another name"
SELF_CLASS: Any = vars(super)["__self_class__"]


class Privacy:
    """The private names that a program's classes inherit from Python's classes, which must not be used or replaced."""

    def __init__(self, is_own_class: Callable[[type], bool]) -> None:
        self._is_own_class = is_own_class
        self._of_python: dict[type, frozenset[str]] = {object: frozenset(), type: frozenset()}
        self.inherited: dict[type, frozenset[str]] = {}  # by class of the program, filled on first use

    def of_python(self, kind: type) -> frozenset[str]:
        """The private underscore names of one of Python's classes."""
        if kind not in self._of_python:
            self._of_python[kind] = private_names(kind)
        return self._of_python[kind]

    def names(self, kind: type) -> frozenset[str]:
        """The private names that a program's class inherits from Python's classes; empty for any other class."""
        if not self._is_own_class(kind):
            return frozenset()
        if kind not in self.inherited:
            metaclass: type = type(kind)
            bases = [base for base in (*kind.__mro__, *metaclass.__mro__) if not self._is_own_class(base)]
            self.inherited[kind] = frozenset(name for base in bases for name in self.of_python(base))
        return self.inherited[kind]

    def check(self, value: Any, name: str) -> None:
        """Refuse a private name on an object or class of the program."""
        kind = value if issubclass(type(value), type) else type(value)
        if kind is super:
            kind = SELF_CLASS.__get__(value) or super
        if name in self.names(kind):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", HINT)

    def check_setting(self, value: Any, name: str) -> None:
        """Refuse a private name for setting on a value and, if it is a class, on its subclasses, which inherit it."""
        self.check(value, name)
        if issubclass(type(value), type):
            for subclass in type.__subclasses__(value):
                self.check_setting(subclass, name)


def private_names(kind: type) -> frozenset[str]:
    """The underscore names that one of Python's classes defines, or that its methods use on any object."""
    found = set(vars(kind))
    for value in vars(kind).values():
        for function in functions_in(value):
            used = {name for code in nested_codes(function.__code__) for name in names_in_code(code)}
            found |= used - function.__globals__.keys()
    return (
        frozenset(name for name in found if is_own(name) and name.isidentifier() and name.strip("_")) - SUBCLASS_NAMES
    )


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The Python functions behind a class attribute."""
    for name in ("__func__", "fget", "fset", "fdel", "func", "__wrapped__"):
        inner = getattr(value, name, None)
        if type(inner) is FunctionType:
            yield inner
    if type(value) is FunctionType:
        yield value


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """The code and the code of its nested functions."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from nested_codes(constant)


def names_in_code(code: CodeType) -> Iterator[str]:
    """The names that code uses or sets, and the strings that can be names."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is str:
            yield constant
        elif type(constant) is CodeType and constant.co_name == "__annotate__":  # lazily evaluated annotations
            yield from names_in_code(constant)


def defined_names(kind: type) -> set[str]:
    """The names that the program defined in a class, including fields."""
    return {*vars(kind), *vars(kind).get("__annotations__", ())} - WRITTEN_BY_PYTHON
