"""Attribute access and class creation in guarded code.

Public attributes can be read unless they lead to frames, code or modules; underscore names are available on the classes
that the code itself defines, and only those can be changed. All decisions use `type(x)`, which an object cannot forge.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GenericAlias,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    SimpleNamespace,
    TracebackType,
    resolve_bases,
)
from typing import Any

from agentkit.sandbox.guard.errors import Refused, RefusedAttribute, RefusedCall
from agentkit.sandbox.guard.name_rules import (
    CLASS_NAMES,
    COPIES,
    DELICATE,
    EXCEPTION_NAMES,
    HINT,
    METHODS,
    OWN_METHODS,
    READABLE_BY_TEXT,
    SETTERS,
    TEXTS,
    TUPLE_NAMES,
    Privacy,
    defined_names,
    is_dunder,
    is_own,
    may_be_matched,
    may_read,
    may_set,
    names_in_code,
    normalise_name,
)
from agentkit.sandbox.guard.proxies import Attributes, ClassProxy, TypeFunction, class_of_proxy

# Implementation module of `string`, which takes longer to import.
PARSER = import_module("_string")
Read = Callable[[Any, str], Any]


def format_text(read: Read, template: str, positional: Sequence[Any] | None, named: Mapping[str, Any]) -> str:
    """Implement `template.format(*positional, **named)`, reading each attribute with `read`.

    If `positional` is None, implement `template.format_map(named)`.
    """
    if "." in template or "[" in template:
        return _Formatting(read, positional or (), named).expand(template, depth=2)
    # All fields are names or numbers, so Python's own formatting does not access attributes.
    return template.format_map(named) if positional is None else template.format(*positional, **named)


class _Formatting:
    def __init__(self, read: Read, positional: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.read = read
        self.positional = positional
        self.named = named
        self.counted: int | None = None  # the last number assigned by `{}`; None if no such field occurred yet
        self.numbered = False

    def expand(self, template: str, depth: int) -> str:
        """Replace the fields of the template; a format spec can contain fields as well."""
        if not depth:
            raise ValueError("Max string recursion exceeded")
        pieces = []
        for literal, field, spec, conversion in PARSER.formatter_parser(template):
            pieces.append(literal)
            if field is not None:
                value = convert(self.find(field), conversion)
                pieces.append(format(value, self.expand(spec, depth - 1) if spec else ""))
        return "".join(pieces)

    def find(self, field: str) -> Any:
        """Return the value of a field such as `0.name[key]`."""
        first, rest = PARSER.formatter_field_name_split(field)
        value = self.argument(first)
        for is_attribute, key in rest:
            value = self.read(value, key) if is_attribute else value[key]
        return value

    def argument(self, first: int | str) -> Any:
        """Return the positional or named argument that a field starts with."""
        if first == "":
            if self.numbered:
                raise ValueError("cannot switch from manual field specification to automatic field numbering")
            first = self.counted = 0 if self.counted is None else self.counted + 1
        elif isinstance(first, int):
            if self.counted is not None:
                raise ValueError("cannot switch from automatic field numbering to manual field specification")
            self.numbered = True
        if isinstance(first, str):
            return self.named[first]
        if first >= len(self.positional):
            raise IndexError(f"Replacement index {first} out of range for positional args tuple")
        return self.positional[first]


def convert(value: Any, conversion: str | None) -> Any:
    """Apply the conversion `!r`, `!s` or `!a`."""
    match conversion:
        case None:
            return value
        case "r":
            return repr(value)
        case "s":
            return str(value)
        case "a":
            return ascii(value)
    raise ValueError(f"Unknown conversion specifier {conversion}")


MAIN = "__main__"
CLOSED_TYPES = frozenset({CellType, CodeType, FrameType, ModuleType, TracebackType})
INSPECTED_TYPES = CLOSED_TYPES | {FunctionType}
DESCRIPTOR_TYPES = frozenset({property, cached_property})  # their functions were written for objects of one class
OWN_HINT = "underscore names can be used on objects of classes that the code itself defines"


def unavailable(name: str) -> RefusedAttribute:
    """The error for an attribute that can be read on the program's own objects only."""
    return RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)


class Guard:
    """Tracks which objects belong to the program and decides on attribute access."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """`namespace` is the program's globals: a function with these globals belongs to the program."""
        self._namespace = namespace
        self._own_classes: set[type] = set()
        self._known_classes: set[type] = {NoneType, type(NotImplemented), type(Ellipsis)}
        self._replacements: dict[type, type] = {}
        self.privacy = Privacy(self.is_own_class)
        self._private_names = self.privacy.inherited
        self._settable: dict[type, frozenset[str] | None] = {SimpleNamespace: None}
        self.type = TypeFunction(self.type_of)
        self._kinds: dict[type, Any] = {Attributes: dict, ClassProxy: self.type, TypeFunction: self.type}
        self._readers = {
            **dict.fromkeys(TEXTS, self._read_text),
            **dict.fromkeys(COPIES, self._read_copy),
            **dict.fromkeys(CLASS_NAMES | {"mro"}, self._read_of_own_class),
            **dict.fromkeys(EXCEPTION_NAMES, read_of_exception),
            **dict.fromkeys(OWN_METHODS | {"__wrapped__"}, self._read_own_function),
            **dict.fromkeys(SETTERS, self._read_setter),
            **dict.fromkeys(METHODS, self.read_plain),
            "__set_name__": self._read_own_function,
            "__members__": getattr,
            "__init__": self._read_init,
            **dict.fromkeys(DELICATE - {"mro", "obj"}, self._read_own_delicate),
            "format": self._read_format,
            "format_map": self._read_format,
            "obj": self._read_obj,
            "__class__": lambda value, _: self.type_of(value),
        }

    # Ownership

    def own_class(self, new: type) -> type:
        """Register a class as the program's own."""
        self._own_classes.add(new)
        return new

    def register(self, value: Any) -> None:
        """Register a class that the program received, so that `type(x)` can return it."""
        if isinstance(value, type):
            self._known_classes.add(value)

    def allow_replacement(self, original: type, replacement: type) -> None:
        """Present the replacement wherever the original class would appear among the bases of another class."""
        self._replacements[original] = replacement

    def allow_setting(self, kind: type, names: frozenset[str] | None = None) -> None:
        """Permit setting attributes of objects of exactly this class, or only the given names."""
        self._settable[kind] = names

    def is_own_class(self, kind: type) -> bool:
        """Whether the program defined the class or one of its bases."""
        if kind in self._own_classes:
            return True
        # Hooks of its bases use a class during its creation; its `__module__` identifies where it was defined.
        if any(base in self._own_classes or vars(base).get("__module__") == MAIN for base in kind.__mro__):
            self._own_classes.add(kind)
            return True
        return False

    def is_own_function(self, value: Any) -> bool:
        """Whether the value is a function or method that the program defined."""
        while type(value) is MethodType:
            value = value.__func__
        return type(value) is FunctionType and value.__globals__ is self._namespace

    def is_own(self, value: Any) -> bool:
        """Whether the value is a class or function that the program defined, or an instance of such a class."""
        if issubclass(type(value), type):
            return self.is_own_class(value)
        return self.is_own_class(type(value)) or self.is_own_function(value)

    # Reading

    def read_plain(self, value: Any, name: str) -> Any:
        """Read an attribute whose name is harmless on every object."""
        found = getattr(value, name)
        if type(found) in INSPECTED_TYPES or found is type:
            return self._checked_function(value, found, name)
        return found

    def read(self, value: Any, name: str) -> Any:
        """Read an attribute of any name."""
        if type(name) is not str:
            raise TypeError("attribute name must be string, not " + repr(type(name).__name__))
        if not may_read(normalise_name(name)):
            raise unavailable(name)
        reader = self._readers.get(name)
        if reader:
            return reader(value, name)
        if name.startswith("_"):
            kind = value if issubclass(type(value), type) else type(value)
            if not (kind is super or (name in TUPLE_NAMES and issubclass(kind, tuple)) or self.is_own(value)):
                raise unavailable(name)
            self.privacy.check(value, name)
        return self.read_plain(value, name)

    def read_own(self, value: Any, name: str) -> Any:
        """Read an attribute with an underscore name of the kind programs use for their own attributes."""
        inner = self._private_names.get(type(value))
        return (self.read if inner is None or name in inner else self.read_plain)(value, name)

    def read_by_text(self, value: Any, name: str) -> Any:
        """Read an attribute by a name computed at run time; fewer special names are allowed than in source code."""
        readable = type(name) is not str or not is_dunder(normalise_name(name)) or name in READABLE_BY_TEXT
        if not readable and not (name == "__dict__" and self.is_own(value)):
            raise RefusedAttribute(f"the attribute {name!r} cannot be read by its name as text", OWN_HINT)
        return self.read(value, name)

    def _checked_function(self, value: Any, found: Any, name: str) -> Any:
        if found is type:
            return self.type
        if type(found) is FunctionType and type(value) not in DESCRIPTOR_TYPES:
            return found if self.is_own_function(found) else self._method(value, found, name)
        if self.is_own_function(found):
            return found
        raise RefusedAttribute(
            f"the attribute {name!r} is not available here", "it is a part of Python's own machinery"
        )

    def _method(self, value: Any, found: Any, name: str) -> Any:
        """Wrap a method read from a class to accept only objects of that class: it could write to any object."""
        kind = class_behind(value)
        holder = next((base for base in kind.__mro__ if name in vars(base)), None) if kind else None
        if not holder or type(vars(holder)[name]) is staticmethod:
            return found
        if self.is_own_class(holder) and not name.startswith("_"):
            return found

        def method(*arguments: Any, **keywords: Any) -> Any:
            if not arguments or kind not in type(arguments[0]).__mro__:
                raise RefusedCall(f"{name}() of {kind.__name__!r} is called on objects of that class only")
            return found(*arguments, **keywords)

        method.__name__, method.__qualname__, method.__doc__ = found.__name__, found.__qualname__, found.__doc__
        return method

    def _read_text(self, value: Any, name: str) -> Any:
        found = getattr(value, name)
        if type(found) not in {str, NoneType} and not self.is_own(value):
            raise unavailable(name)
        return found

    def _read_copy(self, value: Any, name: str) -> Any:
        if not self.is_own(value) and type(value) is not SimpleNamespace:
            raise unavailable(name)
        if name == "__dict__" and issubclass(type(value), type):
            raise RefusedAttribute("`__dict__` of a class is not available here", "use dir(cls) and getattr")
        found = getattr(value, name)
        if name == "__dict__":
            return Attributes(found, self.privacy.names(type(value)))
        return type(found)(found)

    def _read_init(self, value: Any, name: str) -> Any:
        if issubclass(type(value), type) or type(value) is super or self.is_own(value):
            return self.read_plain(value, name)
        raise RefusedAttribute(f"{name!r} of this {type(value).__name__!r} is not available here", OWN_HINT)

    def _read_of_own_class(self, value: Any, name: str) -> Any:
        kind = class_behind(value)
        if kind and not self.is_own_class(kind):
            raise RefusedAttribute(f"{name!r} of {kind.__name__!r} is not available here", OWN_HINT)
        found = getattr(value, name)
        if name == "mro":
            return found
        return tuple(dict.fromkeys(self._replacements.get(base, base) for base in found))

    def _read_own_function(self, value: Any, name: str) -> Any:
        found = getattr(value, name)
        if not self.is_own_function(found):
            raise unavailable(name)
        return found

    def _read_own_delicate(self, value: Any, name: str) -> Any:
        if not self.is_own(value):
            raise unavailable(name)
        return self.read_plain(value, name)

    def _read_obj(self, value: Any, name: str) -> Any:
        if issubclass(type(value), BaseException):  # whose `obj` can be any object
            raise RefusedAttribute("`obj` of an exception is not available here", "use str(error) and error.args")
        return self.read_plain(value, name)

    def _read_format(self, value: Any, name: str) -> Any:
        """Replace `str.format`, which accesses attributes in C, by a version that reads them through the guard."""
        found = getattr(value, name)
        if type(found) is MethodDescriptorType and issubclass(found.__objclass__, str):
            text: Any = None
        elif type(found) is BuiltinFunctionType and issubclass(type(found.__self__), str):
            text = found.__self__
        else:
            return self.read_plain(value, name)
        return _formatting(self.read_by_text, text, name)

    def _read_setter(self, value: Any, name: str) -> Any:
        """Wrap `__setattr__` or `__delattr__` of a built-in class with the checks of an assignment."""
        found = getattr(value, name)
        if self.is_own_function(found):
            return found
        bound_to = [found.__self__] if hasattr(found, "__self__") else []

        def set_checked(*arguments: Any) -> None:
            target, attribute, *_ = [*bound_to, *arguments]
            self.check_set(target, attribute)
            found(*arguments)

        return set_checked

    # Setting

    def write(self, value: Any, name: str = "") -> Any:
        """Return the object if its attributes can be set; `name` is the attribute if it is private."""
        kind = type(value)
        if name and name not in self._private_names.get(kind, (name,)):
            return value
        if name:
            self.privacy.check_setting(value, name)
        if kind in self._own_classes or kind in self._settable:
            return value
        if self.is_own(value) or issubclass(kind, BaseException):
            return value
        raise RefusedAttribute(f"attributes of this {kind.__name__!r} cannot be set here", OWN_HINT)

    def check_set(self, value: Any, name: str) -> None:
        """Refuse to set or delete an attribute that must not be changed."""
        if type(name) is not str:
            raise TypeError("attribute name must be string, not " + repr(type(name).__name__))
        if not may_set(normalise_name(name)):
            raise RefusedAttribute(f"the attribute {name!r} cannot be set here", OWN_HINT)
        self.write(value, name)
        names = self._settable.get(type(value))
        if names is not None and name not in names:
            raise RefusedAttribute(f"the attribute {name!r} of this {type(value).__name__!r} cannot be set here")

    # Classes

    def type_of(self, value: Any) -> Any:
        """Implement `type(value)` and `value.__class__`: return the class if the program can have it, else a proxy."""
        kind = type(value)
        if issubclass(kind, type):
            return self.type
        if kind in self._known_classes or self.is_own_class(kind):
            return kind
        if kind in {FunctionType, MethodType} and value.__module__.startswith(__package__):
            kind = BuiltinFunctionType
        return self.proxy_of(kind)

    def proxy_of(self, kind: type) -> Any:
        """Return the proxy of a class; each class has one, so that identity comparisons work."""
        return self._kinds.get(kind) or self._kinds.setdefault(kind, ClassProxy(kind))


def class_behind(value: Any) -> Any:
    """Return the class that a value is, aliases (as in `list[int]`) or starts at (`super`); None for other values."""
    while type(value) is GenericAlias or (
        type(value).__module__ == "typing" and not issubclass(type(value), type | super)
    ):
        value = getattr(value, "__origin__", None)
    if type(value) is super:
        started: Any = value
        value = started.__thisclass__ if issubclass(type(started.__self__), type) else None
    return value if issubclass(type(value), type) else None


def read_of_exception(value: Any, name: str) -> Any:
    """Read an attribute that only exceptions have."""
    if not issubclass(type(value), BaseException):
        raise unavailable(name)
    return getattr(value, name)


def _formatting(read: Callable[[Any, str], Any], text: Any, name: str) -> Callable[..., str]:
    """Create the method `format` or `format_map`, bound to a text or taking it as the first argument."""

    def format_bound(*positional: Any, **named: Any) -> str:
        template, *arguments = positional if text is None else (text, *positional)
        template = str.__str__(template)
        if name == "format":
            return format_text(read, template, arguments, named)
        (mapping,) = arguments
        return format_text(read, template, None, mapping)

    return format_bound


def class_builder(guard: Guard) -> Callable[..., type]:
    """Create the function that the `class` statement calls."""

    def build_class(body: Any, name: str, /, *bases: Any, metaclass: Any = None, **keywords: Any) -> type:
        for base in bases:
            is_class = issubclass(type(base), type | TypeFunction)  # including classes of typing, such as protocols
            of_typing = type(base).__module__ == "typing" or type(base) in {GenericAlias, FunctionType}
            if not is_class and (not of_typing or guard.is_own(base)):
                raise Refused(f"class {name!r} cannot derive from this {type(base).__name__!r}")
        resolved = () if guard.type in bases else resolve_bases(bases)
        offered = metaclass is None or (
            type(metaclass) in {ClassProxy, TypeFunction} and issubclass(class_of_proxy(metaclass), type)
        )
        if not offered or guard.type in bases or any(issubclass(base, type) for base in resolved):
            raise Refused("metaclasses are not available here", "use a class decorator or __init_subclass__")
        check_mixture(resolved)
        check_privacy(guard, body.__code__, resolved)
        if metaclass is not None and metaclass is not guard.type:
            keywords["metaclass"] = class_of_proxy(metaclass)
        return guard.own_class(builtins.__build_class__(body, name, *bases, **keywords))

    return build_class


def check_privacy(guard: Guard, body: CodeType, bases: Iterable[type]) -> None:
    """Refuse a class that uses or overrides private names of Python's classes, before any hook can use it."""
    kinds = {kind for base in bases for kind in base.__mro__}
    if any(issubclass(kind, super) for kind in kinds):
        raise Refused("a class cannot derive from super here")
    own = {kind for kind in kinds if guard.is_own_class(kind)}
    inner = {name for kind in kinds - own for name in guard.privacy.of_python(kind)}
    taken = inner.intersection(names_in_code(body)).union(*(defined_names(kind) & inner for kind in own))
    if taken:
        raise RefusedAttribute(f"the name {min(taken)!r} cannot be used in this class", HINT)


def check_mixture(bases: Iterable[type]) -> None:
    """Refuse a subclass of str or BaseException that has an annotated field with a delicate name.

    Annotations are checked before any subclass exists, since a class can become a dataclass later.
    """
    kinds = {kind for base in bases for kind in base.__mro__}
    if any(issubclass(kind, str | BaseException) for kind in kinds):
        for kind in kinds:
            check_fields(DELICATE.intersection(getattr(kind, "__annotations__", ())), plain=not is_plain(kind))


def matchable(kind: Any, count: int) -> Any:
    """Return the class of a pattern with `count` positional parts, whose attributes Python reads without a guard."""
    if count and issubclass(type(kind), type):
        names = getattr(kind, "__match_args__", ())
        if type(names) is tuple:
            check_fields(names[:count], plain=is_plain(kind), private=False)
    return kind


def is_plain(kind: type) -> bool:
    """Whether only real instances pass isinstance for this class and delicate names are harmless on them."""
    return type(kind) is type and not issubclass(kind, str | BaseException)


def check_fields(names: Iterable[Any], *, plain: bool, private: bool = True) -> None:
    """Refuse field names that a pattern such as `Point(x, y)`, or a generated method, must not read from an object."""
    for name in names:
        if type(name) is not str or not (
            may_be_matched(name) or (private and is_own(name)) or (plain and name in DELICATE)
        ):
            raise RefusedAttribute(f"a field cannot be called {name!r} here")
