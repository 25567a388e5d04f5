"""Which types does a docstring state, where parameters have no annotations?"""

from __future__ import annotations

import functools
import operator
import re
import types
from typing import Any

_MOST_CHARS = 80
_STATED = re.compile(
    rf"""^[ \t]*+(?:
    (?:[-*+][ ]++)?[`*]*+(?P<entry>\w++)[`*]*+[ ]*+
        [(<{{](?P<beside>[^()<>\n]{{1,{_MOST_CHARS}}})[)>}}][`*]*+[ ]*+(?::|--)
    | (?P<ruled>\w++)[ ]*+:[ ](?P<behind>[^\n:.]{{1,{_MOST_CHARS}}})$
    | [:@]type[ ]++(?P<field>\w++):[ ]*+(?P<said>[^\n]{{1,{_MOST_CHARS}}})$
    | :param[ ]++(?P<before>[^\n:]{{1,{_MOST_CHARS}}}?)[ ]++(?P<named>\w++):
    )""",
    re.MULTILINE | re.VERBOSE,
)
_PLACES = (("entry", "beside"), ("ruled", "behind"), ("field", "said"), ("named", "before"))
_REMARK = re.compile(r"[,;]?\s*\b(?:optional\b(?!\[)|required\b|default).*$", re.IGNORECASE)
_CHOICES = re.compile(r"\s*\|\s*|\s+or\s+|,\s*(?:or\s+)?(?![^\[]*\])")
_LIST = re.compile(r"(?:list|array|sequence)(?: of |\[)(?P<inner>[\w| ]+)\]?", re.IGNORECASE)
_OPTIONAL = re.compile(r"(?:typing\.)?(?P<kind>Optional|Union)\[(?P<inner>.+)\]")
_DICT = re.compile(r"(?:dict|mapping)\[.+\]", re.IGNORECASE)
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("str", "string", "strings", "text"), str),
    **dict.fromkeys(("int", "ints", "integer", "integers"), int),
    **dict.fromkeys(("float", "floats"), float),
    **dict.fromkeys(("number", "numbers"), int | float),
    **dict.fromkeys(("bool", "bools", "boolean", "booleans"), bool),
    **dict.fromkeys(("list", "array"), list),
    **dict.fromkeys(("dict", "dicts", "dictionary", "dictionaries"), dict),
    **dict.fromkeys(("none", "null"), types.NoneType),
}


def stated_types(docstring: str) -> dict[str, Any]:
    """The types that a docstring states of parameters, by their names: those that JSON has, and no other.

    `limit (int, optional): ...`, `limit : int`, `:type limit: int`, `:param int limit:` and `@type limit: int` are
    understood; a name of which two types are stated has none.
    """
    found: dict[str, set[Any]] = {}
    for place in _STATED.finditer(docstring):
        name, said = next((place[name], place[said]) for name, said in _PLACES if place[name])
        found.setdefault(name, set()).add(stated_type(said))
    return {name: kind for name, (kind, *others) in found.items() if kind not in (None, types.NoneType) and not others}


def stated_type(text: str) -> Any:
    """The type that words such as `str, optional`, `list of int` or `int or None` state; None for any other."""
    text = _REMARK.sub("", text.strip().strip("`*")).strip()
    optional = _OPTIONAL.fullmatch(text)
    if optional is not None:
        kinds = [stated_type(part) for part in _CHOICES.split(optional["inner"])]
        return _union([*kinds, *([types.NoneType] if optional["kind"] == "Optional" else [])])
    parts = _CHOICES.split(text)
    if len(parts) > 1:
        return _union([stated_type(part) for part in parts])
    entries = _LIST.fullmatch(text)
    if entries is not None:
        inner = stated_type(entries["inner"])
        return None if inner is None else types.GenericAlias(list, (inner,))
    return dict if _DICT.fullmatch(text) else _TYPES.get(text.lower())


def _union(kinds: list[Any]) -> Any:
    return None if None in kinds else functools.reduce(operator.or_, kinds)
