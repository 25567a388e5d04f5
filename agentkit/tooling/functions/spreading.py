"""How do arguments by name reach a function that takes them by place, or takes any number of them?

A model gives a list for `*values` and an object for `**options`, both of which it may leave out.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Unpack, get_args, get_origin

_BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}
_BY_ANY_NAME = inspect.Parameter.VAR_KEYWORD


def asked(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """The annotation and the default of what a model is asked to give for a parameter."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return list[hint], ()
    if parameter.kind is not _BY_ANY_NAME:
        return hint, parameter.default
    if get_origin(hint) is Unpack:
        (fields,) = get_args(hint)
        return fields, parameter.empty if getattr(fields, "__required_keys__", ()) else {}
    return dict[str, hint], {}


def gathered(signature: inspect.Signature, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with those of any other name in the object for them, where models often do not put them."""
    rest = next((name for name, each in signature.parameters.items() if each.kind is _BY_ANY_NAME), None)
    others = {name: value for name, value in given.items() if name not in signature.parameters}
    known = given.get(rest, {}) if rest is not None else None
    if rest is None or not others or not isinstance(known, dict):
        return given
    return {name: value for name, value in given.items() if name not in others} | {rest: {**known, **others}}


def is_spread(signature: inspect.Signature) -> bool:
    """Whether the function takes some arguments other than by their names."""
    return any(each.kind in _BY_PLACE or each.kind is _BY_ANY_NAME for each in signature.parameters.values())


def spread(signature: inspect.Signature, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What is given by place, and what by name, of arguments that were checked."""
    bound = signature.bind_partial()
    bound.arguments.update(arguments)
    return bound.args, bound.kwargs
