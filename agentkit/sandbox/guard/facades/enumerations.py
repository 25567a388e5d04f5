"""Which enumerations may guarded code make by a call? Those whose members have plain public names and values."""

import enum
from collections.abc import Callable, Mapping
from typing import Any

from agentkit.sandbox.guard.ending import Refused

MIXED_IN = frozenset({None, int, str, float})


def enumerations(main: str, let_stand: Callable[[type, type], object]) -> dict[str, Any]:
    """`Enum` and its like; what a call makes says that it is of the module `main`."""
    roots: dict[type, type] = {}

    class GuardedType(enum.EnumType):
        """The class of the enumerations of one run."""

        def __call__(cls, value: Any, *arguments: Any, **keywords: Any) -> Any:
            if not keywords and (not arguments or cls.__members__):
                return super().__call__(value, *arguments)
            names = keywords.pop("names", arguments[0] if arguments else None)
            if len(arguments) > 1 or keywords.get("type") not in MIXED_IN or "module" in keywords:
                raise Refused("an enumeration cannot be made like this", "write a class statement")
            return super().__call__(value, members(names), **keywords, module=main)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, roots[cls]) if cls in roots else super().__instancecheck__(value)

        def __subclasscheck__(cls, kind: Any) -> bool:
            return issubclass(kind, roots[cls]) if cls in roots else super().__subclasscheck__(kind)

    def guarded(original: Any) -> Any:
        body = GuardedType.__prepare__(original.__name__, (original,))
        body["__module__"], body["__doc__"] = "enum", original.__doc__
        made = GuardedType(original.__name__, (original,), body)
        roots[made] = original
        let_stand(original, made)
        return made

    return {name: guarded(getattr(enum, name)) for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")}


def members(names: Any) -> list[Any]:
    """The members that a call asks for, each name looked at."""
    if type(names) is str:
        found: list[Any] = names.replace(",", " ").split()
    else:
        found = [*names.items()] if isinstance(names, Mapping) else [*names]
        found = [item if type(item) is str else tuple(item) for item in found]
    for item in found:
        name = item if type(item) is str else item[0]
        if type(name) is not str or not name.isidentifier() or name.startswith("_"):
            raise Refused(f"a member cannot be called {name!r} here")
    return found
