"""Attribute errors that name the attribute meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type[Any])

_ASKED_LAST = "__getattr__"


def explained(table: str) -> Callable[[Kind], Kind]:
    """Let a class say what to write instead of another toolkit's word; `table` of `attributes.py` knows them.

    It is set from outside: type checkers take every attribute of a class that defines it for one that there is.
    """

    def missing(owner: object, name: str) -> Any:
        if hasattr(type(owner), name):  # a property that has raised AttributeError is asked again, for its own error
            return object.__getattribute__(owner, name)
        raise no_such(owner, name, table)

    def decorate(kind: Kind) -> Kind:
        setattr(kind, _ASKED_LAST, missing)
        return kind

    return decorate


def no_such(owner: object, name: str, table: str) -> AttributeError:
    """The error of an attribute that there is not, with what to write instead."""
    remedy = ""
    if not name.startswith("_"):  # what Python and notebooks look for is nobody's word
        from agentkit.suggestions import other_toolkits

        written = getattr(other_toolkits, table).get(name)
        remedy = f". Write: {written}" if written else ""
    told = f"{type(owner).__name__!r} object has no attribute {name!r}{remedy}"  # Python adds ". Did you mean: ...?"
    return AttributeError(told, name=name, obj=owner)
