"""Binding of named arguments to function parameters.

A model passes a list for `*values` and an object for `**options`; both are optional.
"""

from __future__ import annotations

import inspect
import types
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ParamSpecArgs, ParamSpecKwargs, TypeVarTuple, Unpack, get_args, get_origin

from agentkit.tooling.coercion import by_letters, inside_all, letters

_BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}
_BY_ANY_NAME = inspect.Parameter.VAR_KEYWORD


def asked(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """Return the annotation and the default under which a parameter is offered to the model."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return _asked_by_place(hint)
    if parameter.kind is not _BY_ANY_NAME:
        return hint, parameter.default
    if get_origin(hint) is Unpack:
        (fields,) = get_args(hint)
        return fields, parameter.empty if getattr(fields, "__required_keys__", ()) else {}
    return types.GenericAlias(dict, (str, Any if isinstance(hint, ParamSpecKwargs) else hint)), {}


def _asked_by_place(hint: Any) -> tuple[Any, Any]:
    """Return the annotation and the default for `*values`, annotated per value or as a whole (`*tuple[int, str]`)."""
    if getattr(hint, "__unpacked__", False):
        whole: Any = types.GenericAlias(tuple, get_args(hint))
    elif get_origin(hint) is Unpack:
        (whole,) = get_args(hint)
    else:
        return _list_of(Any if isinstance(hint, ParamSpecArgs) else _without_text(hint)), ()
    places = get_args(whole)
    if isinstance(whole, TypeVarTuple) or not places:
        return _list_of(Any), ()
    return (_list_of(places[0]), ()) if places[-1] is Ellipsis else (whole, inspect.Parameter.empty)


def _list_of(hint: Any) -> Any:
    return types.GenericAlias(list, (hint,))


def _without_text(hint: Any) -> Any:
    """Strip the description from the annotation of each value; it describes the whole list."""
    is_said = get_origin(hint) is Annotated and all(isinstance(extra, str) for extra in get_args(hint)[1:])
    return get_args(hint)[0] if is_said else hint


def gathered(signature: inspect.Signature, given: dict[str, Any]) -> dict[str, Any]:
    """Move arguments with unknown names into the object for `**options`; models often put them at the top level.

    An argument whose name matches a parameter that was not given, compared by letters, is assigned to that parameter,
    even if it was inside the object.
    """
    rest = next((name for name, each in signature.parameters.items() if each.kind is _BY_ANY_NAME), None)
    if rest is None:
        return given
    named = signature.parameters.keys() - {rest}
    around = None if given.keys() & named else inside_all(given)
    given = dict(around) if around and around.keys() & named else given
    known = given.get(rest, {})
    others = {name: value for name, value in given.items() if name not in signature.parameters}
    if not isinstance(known, dict) or not (known or others):
        return given
    found, left = _claimed({**known, **others}, named - given.keys())
    kept = {name: value for name, value in given.items() if name in named}
    return {**kept, **found, rest: left}


def _claimed(loose: Mapping[str, Any], missing: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split loose arguments into those that match a missing parameter, if the match is unique, and the rest."""
    known = {spelled: names[0] for spelled, names in by_letters(missing).items() if len(names) == 1}
    meant = {name: name if name in missing else known.get(letters(name)) for name in loose}
    claims = Counter(meant.values())
    found = {other: loose[name] for name, other in meant.items() if other is not None and claims[other] == 1}
    return found, {name: value for name, value in loose.items() if meant[name] not in found}


def is_rest(parameter: inspect.Parameter) -> bool:
    """Whether a parameter takes any number of values."""
    return parameter.kind in (inspect.Parameter.VAR_POSITIONAL, _BY_ANY_NAME)


def is_spread(signature: inspect.Signature) -> bool:
    """Whether the function takes some arguments by position or collects arbitrary keywords."""
    return any(each.kind in _BY_PLACE or each.kind is _BY_ANY_NAME for each in signature.parameters.values())


def by_first_place(
    signature: inspect.Signature, arguments: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split off the first argument, which `functools.singledispatch` needs by position."""
    first = next(iter(signature.parameters), None)
    if first is None or first not in arguments:
        return (), dict(arguments)
    return (arguments[first],), {name: value for name, value in arguments.items() if name != first}


def spread(signature: inspect.Signature, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split validated arguments into positional and keyword arguments."""
    bound = signature.bind_partial()
    bound.arguments.update(arguments)
    bound.apply_defaults()  # fills in parameters hidden from the model; positional ones can follow them
    return bound.args, bound.kwargs
