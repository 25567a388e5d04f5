"""Suggestions for misspelt names (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_MAX_NAME_CHARS = 100
_MIN_PREFIX_CHARS = 3
_SIMILARITY = 0.75
"""Similarity from which one name counts as a misspelling of another: `deps_type` is not one of `output_type`."""


def closest(name: str, known: Iterable[str], cutoff: float) -> str:
    """The known name most similar to this one, or an empty string; `cutoff` is the required similarity, from 0 to 1."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:_MAX_NAME_CHARS], list(known), n=1, cutoff=cutoff)), "")


def raise_unknown_argument(
    function: str, names: Iterable[str], accepted: Sequence[str], hint_for: Callable[[str], str] = lambda _: ""
) -> None:
    """Raise TypeError for the first unknown argument, with the accepted one that was probably intended.

    `hint_for` returns what to write instead of a name that resembles no accepted one.
    """
    for name in names:
        near = closest(name, accepted, _SIMILARITY) or completion(name, accepted)
        hint = f"Did you mean {near}=?" if near else hint_for(name) or f"It takes: {', '.join(accepted) or 'none'}."
        raise TypeError(f"{function}() takes no argument {name}=. {hint}")


def check_unknown_arguments(function: Callable[..., object], names: Iterable[str], more: Iterable[str] = ()) -> None:
    """Call `raise_unknown_argument` for a class or function.

    `more` are accepted arguments that are missing from its signature.
    """
    if names:
        raise_unknown_argument(function.__qualname__, names, (*arguments_of(function), *more))


def arguments_of(function: Callable[..., object]) -> tuple[str, ...]:
    """The parameter names of a class or function."""
    from inspect import Parameter, signature

    parameters = signature(function).parameters.items()
    return tuple(name for name, each in parameters if each.kind is not Parameter.VAR_KEYWORD and name != "self")


def completion(name: str, accepted: Sequence[str]) -> str:
    """The only accepted name that starts with this one, such as `timeout_seconds` for `timeout`; else empty."""
    longer = [each for each in accepted if each.startswith(name)] if len(name) >= _MIN_PREFIX_CHARS else []
    return longer[0] if len(longer) == 1 else ""
