"""Suggestions for misspelt names (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

_MOST_NAME_CHARS = 100
_ALIKE = 0.75
"""Similarity from which one name counts as a misspelling of another: `deps_type` is not one of `output_type`."""


def closest(name: str, known: Iterable[str], cutoff: float) -> str:
    """The known name most similar to this one, or an empty string; `cutoff` is the required similarity, from 0 to 1."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:_MOST_NAME_CHARS], list(known), n=1, cutoff=cutoff)), "")


def refuse(function: str, given: Iterable[str], takes: Sequence[str], meant: Mapping[str, str]) -> None:
    """Raise TypeError for the first unknown argument, with a suggestion.

    `meant` maps words of other toolkits to their equivalents here: an argument or a sentence; `{0}` is the word itself.
    """
    for name in given:
        raise TypeError(f"{function}() takes no argument {name}=. {_hint(name, takes, meant)}")


def refuse_made(made: Callable[..., object], given: Iterable[str], more: Iterable[str] = ()) -> None:
    """Call `refuse` for a class or function, with the table of `other_toolkits.py` if it has one.

    `more` are accepted arguments that are missing from its signature.
    """
    if given:
        from agentkit.suggestions.other_toolkits import TABLES

        name = made.__qualname__
        refuse(name, given, (*arguments_of(made), *more), TABLES.get(name, {}))


def arguments_of(made: Callable[..., object]) -> tuple[str, ...]:
    """The parameter names of a class or function."""
    from inspect import Parameter, signature

    parameters = signature(made).parameters.items()
    return tuple(name for name, each in parameters if each.kind is not Parameter.VAR_KEYWORD and name != "self")


def _hint(name: str, takes: Sequence[str], meant: Mapping[str, str]) -> str:
    near = closest(name, takes, _ALIKE)
    known = meant.get(name, f"{near}=" if near else "").format(name)
    if not known:
        return f"It takes: {', '.join(takes) or 'none'}."
    return known if known.endswith(".") else f"Did you mean {known}?"
