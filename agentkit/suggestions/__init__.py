"""Suggestions for misspelt names (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

_MOST_NAME_CHARS = 100
_ALIKE = 0.75
"""How alike two names must be for one to be a slip of the other: `deps_type` is none of `output_type`."""


def closest(name: str, known: Iterable[str], cutoff: float) -> str:
    """The known name that is most like this one, empty where none is: `cutoff` is how alike, from 0 to 1."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:_MOST_NAME_CHARS], list(known), n=1, cutoff=cutoff)), "")


def refuse(function: str, given: Iterable[str], takes: Sequence[str], meant: Mapping[str, str]) -> None:
    """Raise TypeError for the first argument, which is not taken, with what was probably meant.

    `meant` says of words of other toolkits what they are here: an argument, or a sentence; `{0}` is the word itself.
    """
    for name in given:
        raise TypeError(f"{function}() takes no argument {name}=. {_hint(name, takes, meant)}")


def refuse_made(made: Callable[..., object], given: Iterable[str], more: Iterable[str] = ()) -> None:
    """The same of what makes an object of a class, or calls a function; `foreign.py` may have a table for it.

    `more` are arguments that are taken beside those of its signature.
    """
    if given:
        from agentkit.suggestions.other_toolkits import TABLES

        name = made.__qualname__
        refuse(name, given, (*arguments_of(made), *more), TABLES.get(name, {}))


def arguments_of(made: Callable[..., object]) -> tuple[str, ...]:
    """What makes an object of a class, or what a function is called with, by name."""
    from inspect import Parameter, signature

    parameters = signature(made).parameters.items()
    return tuple(name for name, each in parameters if each.kind is not Parameter.VAR_KEYWORD and name != "self")


def _hint(name: str, takes: Sequence[str], meant: Mapping[str, str]) -> str:
    near = closest(name, takes, _ALIKE)
    known = meant.get(name, f"{near}=" if near else "").format(name)
    if not known:
        return f"It takes: {', '.join(takes) or 'none'}."
    return known if known.endswith(".") else f"Did you mean {known}?"
