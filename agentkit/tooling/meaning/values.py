"""Which value of a JSON schema was meant by one that does not fit it?"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentkit.tooling.meaning.moments import moment, seconds
from agentkit.tooling.meaning.numbers import entries, number, numbers, whole
from agentkit.tooling.meaning.spelling import read_json
from agentkit.tooling.strict import PYTHON, SUMMED, Schema, referred

UNCLEAR = object()
"""What is meant when that cannot be told."""

_MOST_NODES = 100
_MOST_REMEMBERED_CHARS = 100
_SIGNS = re.compile(r"[\s_'\"-]+")
_NULLS = frozenset({"null", "none", "nil", "undefined", "n/a", ""})
_PARTED = frozenset({"anyOf", "oneOf", "$ref"})
_QUALIFIED = re.compile(r"\s*<?(?:\w+\.)+(?P<name>\w+)(?:: .*>)?\s*")


def written_at(schema: Schema, path: Iterable[str | int]) -> list[Schema]:
    """The schemas that are written for a place, by each way that leads there."""
    nodes = [schema]
    for step in path:
        found = (inner for node in parted(nodes, schema) for inner in _inner(node, step))
        nodes = [inner for inner in found if isinstance(inner, dict)]
    return nodes


def nodes_at(schema: Schema, path: Iterable[str | int]) -> list[Schema]:
    """The schemas that may hold at a place: references followed, unions parted."""
    return parted(written_at(schema, path), schema)


def parted(nodes: Iterable[Any], root: Schema) -> list[Schema]:
    """The schemas, with those that they refer to or are a union of."""
    waiting, found = list(nodes), list[Schema]()
    while waiting and len(found) < _MOST_NODES:
        node = waiting.pop(0)
        if isinstance(node, dict):
            found.append(node)
            waiting += [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
            waiting.append(referred(str(node.get("$ref", "")), root))
    return found


def key_meant(key: str, nodes: Iterable[Schema], root: Schema) -> str | None:
    """The key of an object that was meant by one that its `propertyNames` refuse."""
    names = parted([node["propertyNames"] for node in nodes if "propertyNames" in node], root)
    found = _choice(key, names)
    written = [str(each) for node in names for each, _, python in _choices(node) if python is found]
    return written[0] if found is not UNCLEAR and written else None


def meant(value: Any, nodes: Sequence[Schema], root: Schema) -> Any:
    """The value that was meant where these schemas, which are parts of `root`, may hold; or UNCLEAR.

    Lists and objects that were written as text are read, choices are found by their name or in other letters, dates
    in other notations, and a value alone is a list of one where only a list will do.
    """
    for reader in (_structure, _choice, _sum, _digits, _number, _truth, _moment, _text):
        found = reader(value, nodes)
        if found is not UNCLEAR:
            return found
    return _entry(value, nodes, root)


def is_null(value: Any) -> bool:
    """Whether this is null, or a text by which a model means null where no text can be."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NULLS)


def by_letters(names: Iterable[str]) -> dict[str, list[str]]:
    """The names by their letters alone, in which `startDate`, `start-date` and `START_DATE` are the same."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(letters(name), []).append(name)
    return found


def names_in(nodes: Iterable[Schema]) -> list[str]:
    """The names of the properties of these schemas."""
    return list(dict.fromkeys(name for node in nodes for name in node.get("properties", ())))


def is_optional(name: str, nodes: Iterable[Schema]) -> bool:
    """Whether all of these schemas that have such a property do without it."""
    homes = [node for node in nodes if name in node.get("properties", ())]
    return bool(homes) and not any(name in node.get("required", ()) for node in homes)


def _inner(node: Schema, step: str | int) -> Iterator[Any]:
    if isinstance(step, str):
        properties = node.get("properties", {})
        yield properties[step] if step in properties else node.get("additionalProperties")
        return
    places = node.get("prefixItems", ())
    yield places[step] if step < len(places) else node.get("items")


def _structure(value: Any, _: Sequence[Schema]) -> Any:
    read = _read(value)
    return read if isinstance(read, dict | list) else UNCLEAR


def _choice(value: Any, nodes: Sequence[Schema]) -> Any:
    choices = [choice for node in nodes for choice in _choices(node)]
    for wanted in (value, _read(value)):
        exact = [python for written, _, python in choices if type(written) is type(wanted) and written == wanted]
        if exact and (type(exact[0]), exact[0]) != (type(value), value):
            return exact[0]
    if not isinstance(value, str | bool):
        return UNCLEAR
    value = str(value)  # true is how a model writes the choice "True"
    spellings = {letters(value), letters(_unqualified(value))}
    named = [python for written, name, python in choices if name and letters(name) in spellings]
    spelled = [python for written, _, python in choices if isinstance(written, str) and letters(written) in spellings]
    found = spelled or named
    is_one = bool(found) and all(each is found[0] for each in found)
    return found[0] if is_one and found[0] is not value else UNCLEAR


def _choices(node: Schema) -> list[tuple[Any, str, Any]]:
    """Each choice of a node: as it is written in JSON, its name, and its value for the validator."""
    written = node["enum"] if "enum" in node else [node["const"]] if "const" in node else []
    python = node.get(PYTHON, [("", each) for each in written]) if SUMMED not in node else []
    return [(each, name, value) for each, (name, value) in zip(written, python, strict=True)]


def _unqualified(text: str) -> str:
    """The name of a choice, out of `Color.RED` or `<Color.RED: 1>`."""
    found = _QUALIFIED.fullmatch(text)
    return found["name"] if found else text


def _sum(value: Any, nodes: Sequence[Schema]) -> Any:
    """Flags by their names: `R|W`, `R, W` or a list of them."""
    flags = {letters(name): flag for node in nodes if SUMMED in node for name, flag in node[PYTHON]}
    parts = re.split(r"[|,;+]", value) if isinstance(value, str) else value
    if not flags or not isinstance(parts, list) or not parts:
        return UNCLEAR
    found = [flags.get(letters(_unqualified(str(part)))) for part in parts]
    return UNCLEAR if None in found else functools.reduce(operator.or_, found)


def _digits(value: Any, nodes: Sequence[Schema]) -> Any:
    """A number where only its text can be, or where it must be whole and is so."""
    asked = _kinds(nodes) - {"null", None}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return UNCLEAR
    if asked == {"string"} and not any("format" in node for node in nodes):
        return str(value)
    return int(value) if asked == {"integer"} and isinstance(value, float) and value.is_integer() else UNCLEAR


def _number(value: Any, nodes: Sequence[Schema]) -> Any:
    """A number in groups of digits or with an exponent; as text where a text may be a number too, which is exact."""
    kinds = _kinds(nodes)
    asked = kinds & {"integer", "number"}
    written = number(value, is_whole=asked == {"integer"}) if isinstance(value, str) and asked else None
    if written is None or (written == value and "string" in kinds):
        return UNCLEAR
    if "string" in kinds:
        return written
    found = whole(written) if "integer" in kinds else None
    if found is None:
        return float(written) if "number" in kinds else UNCLEAR
    return found


def _truth(value: Any, nodes: Sequence[Schema]) -> Any:
    word = value.strip().lower() if isinstance(value, str) and "boolean" in _kinds(nodes) else ""
    return _WORDS.get(word, UNCLEAR)


def _kinds(nodes: Iterable[Schema]) -> set[Any]:
    """The types of the values of these schemas."""
    kinds = (node.get("type") for node in nodes)
    return {each for kind in kinds for each in (kind if isinstance(kind, list) else [kind])}


def _moment(value: Any, nodes: Sequence[Schema]) -> Any:
    if not isinstance(value, str):
        return UNCLEAR
    for form in (node.get("format") for node in nodes):
        if form in ("date", "date-time", "time"):
            found = moment(value, form)
            if found is not None and found != value:
                return found
        if form == "duration" and (length := seconds(value)) is not None:
            return length
    return UNCLEAR


def _text(value: Any, nodes: Sequence[Schema]) -> Any:
    """A value where the text of its JSON was asked for."""
    asked = any(node.get("contentMediaType") == "application/json" for node in nodes)
    return json.dumps(value) if asked and isinstance(value, dict | list) else UNCLEAR


def _entry(value: Any, nodes: Sequence[Schema], root: Schema) -> Any:
    """A list of one, of what could be an entry; of several where commas part what can be no text."""
    lists = [node for node in nodes if "array" in _kinds([node])]
    others = _kinds(nodes) - {"array", "null", None}
    if not lists or others or isinstance(value, list | tuple) or is_null(value):
        return UNCLEAR
    if any("prefixItems" in node for node in lists):
        return _placed(value, lists, root)
    inner = [node for node in parted([node.get("items", {}) for node in lists], root) if not _PARTED & node.keys()]
    kinds = {kind or "any" for kind in _kinds(inner)}
    if isinstance(value, dict):
        return [value] if "object" in kinds else UNCLEAR
    if isinstance(value, str) and re.search(r"[,;\n]|^\s*[\[{(]", value):
        return _several(value, inner, kinds)
    return [value] if kinds != {"object"} else UNCLEAR


def _placed(value: Any, lists: Sequence[Schema], root: Schema) -> Any:
    """As many numbers or choices as there are places for them, and for nothing else: `40.7, -74`."""
    places = lists[0].get("prefixItems", ())
    parts = entries(value) if isinstance(value, str) and len(lists) == 1 else []
    if len(parts) != len(places) or len(parts) != lists[0].get("maxItems"):
        return UNCLEAR
    fits = (_fits_place(part, parted([place], root)) for part, place in zip(parts, places, strict=True))
    return parts if all(fits) else UNCLEAR


def _fits_place(part: str, nodes: Sequence[Schema]) -> bool:
    choices = [choice for node in nodes for choice in _choices(node)]
    if choices:
        return _choice(part, nodes) is not UNCLEAR or any(part == written for written, _, _ in choices)
    return _kinds(nodes) <= {"integer", "number"} and number(part) is not None


def _several(text: str, nodes: Sequence[Schema], kinds: set[Any]) -> Any:
    """The numbers or choices that a text lists."""
    if kinds <= {"integer", "number"}:
        return numbers(text, is_whole="number" not in kinds) or UNCLEAR
    written = [each for node in nodes for each, _, _ in _choices(node)]
    parts = entries(text)
    is_clear = written and all(part in written or _choice(part, nodes) is not UNCLEAR for part in parts)
    return parts if is_clear else UNCLEAR


def _read(value: Any) -> Any:
    if not isinstance(value, str):
        return UNCLEAR
    try:
        return read_json(value)
    except (ValueError, RecursionError):
        return {"true": True, "false": False}.get(value.strip().lower(), UNCLEAR)


_WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


def letters(text: str) -> str:
    """A name or choice without the signs and cases in which spellings of it differ."""
    return _letters_of_short(text) if len(text) <= _MOST_REMEMBERED_CHARS else _letters(text)


def _letters(text: str) -> str:
    return _SIGNS.sub("", text).casefold()


_letters_of_short = functools.lru_cache(4_096)(_letters)
"""The choices of a schema are compared with every value that fits none of them."""
