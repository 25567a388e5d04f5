"""Attribute errors that suggest the intended attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type[Any])

_ASKED_LAST = "__getattr__"


def explained(table: str) -> Callable[[Kind], Kind]:
    """Class decorator: suggest the equivalent of another toolkit's attribute, from a table of `other_toolkits.py`.

    It sets `__getattr__` dynamically: type checkers accept every attribute of a class that defines it statically.
    """

    def missing(owner: object, name: str) -> Any:
        if hasattr(type(owner), name):  # a property raised AttributeError: evaluate it again for its own error
            return object.__getattribute__(owner, name)
        raise no_such(owner, name, table)

    def decorate(kind: Kind) -> Kind:
        setattr(kind, _ASKED_LAST, missing)
        return kind

    return decorate


def no_such(owner: object, name: str, table: str) -> AttributeError:
    """Create the AttributeError for a missing attribute, with the equivalent to use instead."""
    remedy = ""
    if not name.startswith("_"):  # Python and notebooks look up these names, not users
        from agentkit.suggestions import other_toolkits

        written = getattr(other_toolkits, table).get(name)
        remedy = f". Write: {written}" if written else ""
    told = f"{type(owner).__name__!r} object has no attribute {name!r}{remedy}"  # Python adds ". Did you mean: ...?"
    return AttributeError(told, name=name, obj=owner)
