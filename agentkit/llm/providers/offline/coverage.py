"""Is everything in an answer that the text plainly lists? Enumerations are completed, or what is lost is named."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentkit.llm.providers.offline.grounding import DATES
from agentkit.llm.providers.offline.values.schemas import plain_schema
from agentkit.llm.providers.offline.words import numbers_in, words

Leaf = tuple[Any, Mapping[str, Any]]
"""A text, number or choice inside a value, with its schema."""


def leaves(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Leaf]:
    """Every text, number and choice inside a value, with its schema."""
    return (part for part in _parts(value, schema, root) if not isinstance(part[0], Mapping | list))


def _parts(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Leaf]:
    """A value and every value inside it, with its schema."""
    schema = plain_schema(schema, root)
    yield value, schema
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        for name, each in value.items():
            yield from _parts(each, properties.get(name, {}), root)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each, schema.get("items") or {}, root)


def listed(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], text: str) -> Any:
    """The value in which a list that has some numbers of an enumeration in the text has all of them."""
    schema = plain_schema(schema, root)
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        return {name: listed(each, properties.get(name, {}), root, text) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    kind = plain_schema(schema.get("items") or {}, root).get("type")
    if kind in ("integer", "number") and "maxItems" not in schema:
        return _enumeration(value, text, whole=kind == "integer")
    return value


def left_out(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """What the text lists and the lists of an answer do not have: numbers and dates, and the entry after the last."""
    lists = list(_lists(fields, schema, schema))
    lost: list[str] = []
    if any(_is_counted(kind) for entries, inner in lists for _, kind in leaves(entries, {"items": inner}, schema)):
        used = [number for leaf, _ in leaves(fields, schema, schema) for number in numbers_in(str(leaf))]
        lost += [f"{number:g}" for number in numbers_in(text) if number not in used]
    said = {word for leaf, _ in leaves(fields, schema, schema) for word in words(str(leaf))}
    for entries, inner in lists:
        if inner.get("type") == "string" and not _is_counted(inner) and "enum" not in inner:
            following = _following(entries, text)
            lost += [following] if not set(words(following)) <= said else []
    return list(dict.fromkeys(lost))


def repeated(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """The numbers that stand in a list of numbers more often than in the text."""
    said = Counter(numbers_in(text))
    found: list[str] = []
    for entries, inner in _lists(fields, schema, schema):
        counts = Counter(abs(entry) for entry in entries if inner.get("type") in ("integer", "number"))
        found += [f"{number:g}" for number, count in counts.items() if 0 < said[number] < count]
    return found


def _lists(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]
) -> Iterator[tuple[list[Any], Mapping[str, Any]]]:
    """Every list inside a value, with the schema of its entries."""
    found = (part for part in _parts(value, schema, root) if isinstance(part[0], list))
    return ((entries, plain_schema(kind.get("items") or {}, root)) for entries, kind in found)


def _is_counted(schema: Mapping[str, Any]) -> bool:
    """Whether a leaf is written in figures."""
    return schema.get("type") in ("integer", "number") or schema.get("format") in DATES


def _enumeration(values: Sequence[Any], text: str, *, whole: bool) -> list[Any]:
    """The enumeration of the text that begins with the values, or the values."""
    for match in _ENUMERATION.finditer(text):
        numbers = [float(number.replace("\u2212", "-")) for number in _NUMBER.findall(match.group())]
        if values and len(numbers) > len(values) and numbers[: len(values)] == list(values):
            return [int(number) if whole and number.is_integer() else number for number in numbers]
    return list(values)


def _following(entries: Sequence[Any], text: str) -> str:
    """The entry that follows the last one in the text, or nothing."""
    places = [text.rfind(entry) + len(entry) for entry in entries if isinstance(entry, str) and entry in text]
    match = _NEXT.match(text, max(places)) if places else None
    return (match.group(1) or match.group(2)).strip() if match else ""


_NUMBER = re.compile(r"(?<![\w.,])[-\u2212]?\d+(?:\.\d+)?(?![\w%])")
_AND = r"(?:and|or|và|hoặc|&)"
_ENUMERATION = re.compile(rf"{_NUMBER.pattern}(?:(?:\s*[,;]\s+(?:{_AND}\s+)?|\s+{_AND}\s+){_NUMBER.pattern})+")
_NEXT = re.compile(
    rf"[\"'\u201d\u2019)]?(?:\s*[,;]\s*(?:{_AND}\s+)?([^,;.\n]{{1,60}}?)(?=[,;.\n]|\s+{_AND}\s|\Z)"
    rf"|\s+{_AND}\s+([^\s,;.]+)(?=[\s.!?]*\Z))"
)
