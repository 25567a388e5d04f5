"""Which classes may guarded code make, and which may a pattern look into?"""

import builtins
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, GenericAlias, resolve_bases
from typing import Any

from agentkit.sandbox.guard.attributes import Guard
from agentkit.sandbox.guard.ending import Refused, RefusedAttribute
from agentkit.sandbox.guard.likeness import Kind, TypeFunction, likened
from agentkit.sandbox.guard.names import DELICATE, is_own, may_be_matched
from agentkit.sandbox.guard.privacy import HINT, names_given, texts_in


def class_builder(guard: Guard) -> Callable[..., type]:
    """What the `class` statement calls."""

    def build_class(body: Any, name: str, /, *bases: Any, metaclass: Any = None, **keywords: Any) -> type:
        for base in bases:
            is_class = issubclass(type(base), type | TypeFunction)  # one of typing's among them, as a protocol is
            of_typing = type(base).__module__ == "typing" or type(base) in {GenericAlias, FunctionType}
            if not is_class and (not of_typing or guard.is_own(base)):
                raise Refused(f"class {name!r} cannot derive from this {type(base).__name__!r}")
        resolved = () if guard.type in bases else resolve_bases(bases)
        offered = metaclass is None or (
            type(metaclass) in {Kind, TypeFunction} and issubclass(likened(metaclass), type)
        )
        if not offered or guard.type in bases or any(issubclass(base, type) for base in resolved):
            raise Refused("metaclasses are not available here", "use a class decorator or __init_subclass__")
        check_mixture(resolved)
        check_privacy(guard, body.__code__, resolved)
        if metaclass is not None and metaclass is not guard.type:
            keywords["metaclass"] = likened(metaclass)
        return guard.own_class(builtins.__build_class__(body, name, *bases, **keywords))

    return build_class


def check_privacy(guard: Guard, body: CodeType, bases: Iterable[type]) -> None:
    """Refuse a class that uses or overrides private names of Python's classes, before any hook can use it."""
    kinds = {kind for base in bases for kind in base.__mro__}
    if any(issubclass(kind, super) for kind in kinds):
        raise Refused("a class cannot derive from super here")
    own = {kind for kind in kinds if guard.is_own_class(kind)}
    inner = {name for kind in kinds - own for name in guard.privacy.of_python(kind)}
    taken = inner.intersection(texts_in(body)).union(*(names_given(kind) & inner for kind in own))
    if taken:
        raise RefusedAttribute(f"the name {min(taken)!r} cannot be used in this class", HINT)


def check_mixture(bases: Iterable[type]) -> None:
    """Refuse a class of texts or errors that has an annotated field with a delicate name.

    Annotations are looked at, as they stand before any subclass does, and a class may become a dataclass later.
    """
    kinds = {kind for base in bases for kind in base.__mro__}
    if any(issubclass(kind, str | BaseException) for kind in kinds):
        for kind in kinds:
            check_fields(DELICATE.intersection(getattr(kind, "__annotations__", ())), plain=not is_plain(kind))


def matchable(kind: Any, count: int) -> Any:
    """The class of a pattern with so many positional parts, whose attributes Python then reads without a guard."""
    if count and issubclass(type(kind), type):
        names = getattr(kind, "__match_args__", ())
        if type(names) is tuple:
            check_fields(names[:count], plain=is_plain(kind), private=False)
    return kind


def is_plain(kind: type) -> bool:
    """Whether only real objects of a class pass for such, and delicate names mean nothing special on them."""
    return type(kind) is type and not issubclass(kind, str | BaseException)


def check_fields(names: Iterable[Any], *, plain: bool, private: bool = True) -> None:
    """Refuse fields that a pattern such as `Point(x, y)`, or a generated method, must not read off an object."""
    for name in names:
        if type(name) is not str or not (
            may_be_matched(name) or (private and is_own(name)) or (plain and name in DELICATE)
        ):
            raise RefusedAttribute(f"a field cannot be called {name!r} here")
