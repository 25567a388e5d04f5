"""Coercion of arguments, including dates, that violate their schema but have one plausible meaning."""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from itertools import pairwise
from typing import Any

from agentkit.text_encoding import lazy_pattern
from agentkit.tooling.strict_schema import FLAGS, PYTHON, Schema, resolve_reference

_MAX_DATE_CHARS = 60
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{4})"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+)?"
_DATES = tuple(
    lazy_pattern(_WEEKDAY + pattern, re.IGNORECASE)
    for pattern in (
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark){_DAY}(?!\d)",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?!\d)",
        rf"{_MONTH}\s+{_DAY},?\s+{_YEAR}(?!\d)",
        rf"{_DAY}\s+{_MONTH},?\s+{_YEAR}(?!\d)",
    )
)
_YEAR_LAST = re.compile(r"(?P<one>\d{1,2})(?P<mark>[-/.])(?P<other>\d{1,2})(?P=mark)(?P<year>\d{4})(?!\d)")
_DURATION_PART = lazy_pattern(
    r"((?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*"
    r"(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|(?-i:m)|seconds?|secs?|s)(?![a-z])",
    re.IGNORECASE,
)
_DURATION = lazy_pattern(rf"{_DURATION_PART.pattern}(?:\s*,?\s*(?:\band\s+)?{_DURATION_PART.pattern})*", re.IGNORECASE)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TIME = lazy_pattern(
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?P<fraction>\.\d{1,6})?)?)?\s*(?P<half>[ap]\.?m\.?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE,
)


def parse_moment(text: str, form: str) -> str | None:
    """Parse a `date`, `time` or `date-time` into ISO 8601; None if the text is not one or is ambiguous.

    A date is accepted if the year comes first, the month is a word, or only one order of day and month is possible:
    05/06/2026 is the fifth of June in some countries.
    """
    text = text.strip()
    if len(text) > _MAX_DATE_CHARS:
        return None
    if form == "time":
        return _iso_time(text) if ":" in text or text[-2:-1].isalpha() else None
    match = next((match for pattern in (*_DATES, _YEAR_LAST) if (match := pattern.match(text))), None)
    day = match and (_unambiguous_date(match) if match.re is _YEAR_LAST else _date(match))
    if match is None or day is None:
        return None
    remainder = text[match.end() :].lstrip("Tt, ").removeprefix("at ")
    if form == "date" or not remainder:
        return None if remainder else day
    clock = _iso_time(remainder)
    return clock and f"{day}T{clock}"


def parse_duration(text: str) -> float | None:
    """Parse a duration such as `90`, `1h 30m` or `5 minutes` into seconds; None if invalid or ambiguous.

    Units must be in descending order, so that the `m` of `1m 2d` is not read as minutes; a capital `M` could mean
    months.
    """
    if re.fullmatch(r"\s*\d{1,15}(\.\d+)?\s*", text):
        return float(text)
    text = text.strip()
    if len(text) > _MAX_DATE_CHARS or not _DURATION.fullmatch(text):
        return None
    parts = [
        (float(amount.replace(",", "")), _SECONDS[unit[0].lower()]) for amount, unit in _DURATION_PART.findall(text)
    ]
    units = [unit for _, unit in parts]
    return sum(amount * unit for amount, unit in parts) if units == sorted({*units}, reverse=True) else None


def _date(match: re.Match[str]) -> str | None:
    month = match["month"].lower()
    month_number = int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1
    return _iso_date(int(match["year"]), month_number, int(match["day"]))


def _unambiguous_date(match: re.Match[str]) -> str | None:
    """Return the date if only one order of day and month is valid, or both give the same date."""
    year, one, other = int(match["year"]), int(match["one"]), int(match["other"])
    days = {day for day in (_iso_date(year, one, other), _iso_date(year, other, one)) if day is not None}
    return days.pop() if len(days) == 1 else None


def _iso_date(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def _iso_time(text: str) -> str | None:
    match = _TIME.fullmatch(text)
    if match is None or (match["half"] and not 1 <= int(match["hour"]) <= 12):
        return None
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower().startswith("p") else 0)
    zone = (match["zone"] or "").upper()
    try:
        clock = time(hour, int(match["minute"] or 0), int(match["second"] or 0)).isoformat()
    except ValueError:
        return None
    zone = "Z" if zone in ("UTC", "GMT") else f"{zone}:00" if len(zone) == len("+02") else zone
    return f"{clock}{match['fraction'] or ''}{zone}"


_FENCE = lazy_pattern(r"```\w*[ \t\r]*\n")
_NOT_JSON = lazy_pattern(
    r"""(?P<double>"(?:[^"\\]|\\.)*+(?:"|\\?\Z)) | '(?P<single>(?:[^'\\]|\\.)*+)(?:'|\\?\Z) | (?P<comma>,)(?=\s*[}\])])
    | (?P<word>\b(?:True|False|None)\b) | (?P<name>(?<![\w$.+-])[\w$-]++(?=\s*:)) | (?P<bracket>[()])
    | (?P<remark>//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))""",
    re.DOTALL | re.VERBOSE,
)
_PYTHON_LITERALS = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}
_JSON_SCALARS = frozenset({str, int, float, bool, type(None)})
_ESCAPED = lazy_pattern(r'\\(.)|(")', re.DOTALL)


decode_json = json.JSONDecoder(strict=False).decode
"""Parses JSON whose strings can contain line breaks."""


def read_json(text: str) -> Any:
    """Parse JSON leniently.

    Accepts line breaks in strings, a code fence around the text, Python syntax (single quotes, `True`, `False`, `None`,
    tuples, trailing commas) and JavaScript syntax (unquoted keys, comments). Nothing is completed: truncated text is
    rejected. Raises what `json.loads` raises.
    """
    try:
        return decode_json(text)
    except json.JSONDecodeError:
        inner = text.strip()
        fence = _FENCE.match(inner)
        if fence and inner.endswith("```"):
            inner = inner[fence.end() : -3].strip()
        json_text = _NOT_JSON.sub(_to_json_token, inner) if inner.startswith(("{", "[", "(")) else None
        if json_text is None:
            raise
        try:
            return decode_json(json_text)
        except ValueError:
            json_text = None
        raise


def to_json(arguments: dict[str, Any]) -> str | None:
    """Serialise arguments that consist of plain JSON types; None for any others."""
    try:
        return json.dumps(arguments) if _is_json(arguments) else None
    except (ValueError, RecursionError):
        return None


def _is_json(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    return all(map(_is_json, value)) if type(value) is list else type(value) in _JSON_SCALARS


def _to_json_token(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return f'"{_ESCAPED.sub(_reescape, match["single"])}"'
    if match["name"] is not None:
        return f'"{match["name"]}"'
    return match["double"] or ("" if match["comma"] or match["remark"] else _PYTHON_LITERALS[match[0]])


def _reescape(match: re.Match[str]) -> str:
    """Re-escape a quote of a single-quoted string for a double-quoted one."""
    if match[2]:
        return '\\"'
    return "'" if match[1] == "'" else match[0]


MISSING, UNKNOWN = "is missing", "is not a known name"
"""Reasons for a missing name and for an unknown one."""

KEY = "has a name that"
"""Prefix of the reasons about the key of an entry."""

_DATE = "should be a date such as 2026-12-24"
_MOMENT = "should be a date and time such as 2026-12-24T15:30:00"
_REASONS = {
    "missing": MISSING,
    **dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), UNKNOWN),
    "path_type": "should be a path, as text",
    "bytes_type": "should be text",
    **dict.fromkeys(("model_type", "dataclass_type", "dict_type", "model_attributes_type"), "should be an object"),
    "named_tuple_type": "should be an object",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "sequence_str"), "should be a list"),
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing"), _DATE),
    "date_from_datetime_inexact": f"{_DATE}, without a time",
    **dict.fromkeys(("datetime_type", "datetime_parsing", "datetime_from_date_parsing"), _MOMENT),
    **dict.fromkeys(("time_type", "time_parsing"), "should be a time such as 15:30:00"),
    **dict.fromkeys(
        ("time_delta_type", "time_delta_parsing"), "should be a duration such as PT1H30M, or a number of seconds"
    ),
    "json_type": "should be JSON, as text",
    **dict.fromkeys(("decimal_type", "decimal_parsing"), "should be a number"),
    **dict.fromkeys(("uuid_type", "uuid_parsing"), "should be a UUID, such as 123e4567-e89b-12d3-a456-426614174000"),
}
"""Reasons by pydantic error type, where pydantic's own message would confuse a model."""


def reason(kind: str, message: str) -> str:
    """Turn a pydantic error into a predicate for a sentence about the value."""
    if kind in _REASONS:
        return _REASONS[kind]
    message = message.partition("\n")[0].replace(" items after validation", " entries")
    subject, should, rest = message.partition(" should ")
    if should and len(subject.split()) <= 2:
        return f"should {rest}"
    return f"is not accepted ({message.removeprefix('Value error, ').removeprefix('Assertion failed, ')})"


def discriminator_error(context: Mapping[str, Any], value: Any) -> tuple[str, str, Any] | None:
    """Return the name of the discriminator field at fault, the reason, and its value, if any.

    None if the error is not about a discriminator field.
    """
    name = str(context.get("discriminator", ""))
    if "agentkit_union" in context:
        tag = value.get(name.strip("'"))
        return name.strip("'"), MISSING if tag is None else f"should be {context['agentkit_union']}", tag
    if not name.startswith("'"):
        return None
    if "expected_tags" not in context:
        return name.strip("'"), MISSING, value
    return name.strip("'"), f"should be one of {context['expected_tags']}", context["tag"]


def join_reasons(reasons: Iterable[str]) -> str:
    """Join the reasons for one value into a predicate; details are included only for a single reason."""
    distinct = list(dict.fromkeys(reasons))
    if len(distinct) == 1:
        return distinct[0]
    first, *others = dict.fromkeys(reason.split(",")[0] for reason in distinct)
    return " or ".join([first, *(other.removeprefix("should be ") for other in others)])


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error message."""
    return str(error).partition("\n")[0].partition(". ")[0]


_GROUPED = lazy_pattern(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = lazy_pattern(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d+))?")
_LIST_NUMBER = lazy_pattern(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?")
_FIRST_GROUP = lazy_pattern(r"[+-]?\d{1,3}")
_NEXT_GROUP = lazy_pattern(r"\d{3}(?:\.\d+)?")
_MAX_CHARS = 400
_MAX_EXPONENT = 30


def normalise_number(text: str, *, is_whole: bool = False) -> str | None:
    """Normalise a number such as `1,234.50`, `+5` or `1e3`; None for other texts.

    Removes digit grouping and a plus sign. `1,234` is accepted only where an integer is expected; elsewhere the comma
    could be a decimal separator.
    """
    text = text.strip()
    if len(text) > _MAX_CHARS or not (_GROUPED.fullmatch(text) or _NUMBER.fullmatch(text)):
        return None
    may_be_fraction = text.count(",") == 1 and "." not in text and not is_whole
    return None if may_be_fraction else text.replace(",", "").removeprefix("+")


def to_integer(text: str) -> int | None:
    """Convert the output of `normalise_number` to an integer; None if it is not integral or its exponent exceeds 30."""
    match = _NUMBER.fullmatch(text)
    if match is None or abs(int(match["exponent"] or 0)) > _MAX_EXPONENT:
        return None
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else None


def split_numbers(text: str, *, is_whole: bool = False) -> list[str] | None:
    """Split a text such as `1, 2.5, 3` into numbers; None if it contains anything else or is ambiguous.

    Commas without a following space could group digits or separate decimals. Where integers are expected, a point is
    ambiguous, too.
    """
    parts = split_entries(text)
    if not all(map(_LIST_NUMBER.fullmatch, parts)) or (is_whole and any("." in part for part in parts)):
        return None
    return None if _is_ambiguous(_strip_list(text), parts, is_whole=is_whole) else parts


def _is_ambiguous(text: str, parts: list[str], *, is_whole: bool) -> bool:
    """Whether a comma without a following space could be something other than a separator of these numbers."""
    after_commas = {*re.findall(r",(\s?)", text)}
    if "" not in after_commas:
        return False
    if len(after_commas) > 1 or re.search(r"[;\n]", text) or any(map(_is_grouped, pairwise(parts))):
        return True
    return len(parts) == 2 and not is_whole and "." not in parts[1]


def _is_grouped(pair: tuple[str, str]) -> bool:
    return bool(_FIRST_GROUP.fullmatch(pair[0]) and _NEXT_GROUP.fullmatch(pair[1]))


def split_entries(text: str) -> list[str]:
    """Split a text at commas, semicolons and line breaks."""
    return [part.strip() for part in re.split(r"[,;\n]", _strip_list(text))]


def _strip_list(text: str) -> str:
    """Strip whitespace and trailing separators."""
    return text.strip().rstrip(",;")


AMBIGUOUS = object()
"""Sentinel: the value has no unambiguous meaning."""

_MAX_NODES = 100
_MAX_CACHED_CHARS = 100
_SEPARATORS = lazy_pattern(r"[\s_'\"-]+")
_NULLS = frozenset({"null", "none", "nil", "undefined", "n/a", ""})
_COMPOUND = frozenset({"anyOf", "oneOf", "$ref"})
_QUALIFIED_NAME = lazy_pattern(r"\s*<?(?:\w+\.)+(?P<name>\w+)(?:: .*>)?\s*")


def subschemas_at(schema: Schema, path: Iterable[str | int]) -> list[Schema]:
    """Return the subschemas at a path, through every branch that leads there."""
    nodes = [schema]
    for step in path:
        candidates = (inner for node in expand(nodes, schema) for inner in _subschemas_of_step(node, step))
        nodes = [inner for inner in candidates if isinstance(inner, dict)]
    return nodes


def nodes_at(schema: Schema, path: Iterable[str | int]) -> list[Schema]:
    """Return the subschemas that can apply at a path, with references and unions expanded."""
    return expand(subschemas_at(schema, path), schema)


def expand(nodes: Iterable[Any], root: Schema) -> list[Schema]:
    """Expand references and unions: the schemas together with all they refer to."""
    pending, expanded = list(nodes), list[Schema]()
    while pending and len(expanded) < _MAX_NODES:
        node = pending.pop(0)
        if isinstance(node, dict):
            expanded.append(node)
            pending += [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
            pending.append(resolve_reference(str(node.get("$ref", "")), root))
    return expanded


def matching_key(key: str, nodes: Iterable[Schema], root: Schema) -> str | None:
    """Return the allowed key that matches one rejected by `propertyNames`."""
    names = expand([node["propertyNames"] for node in nodes if "propertyNames" in node], root)
    choice = _match_choice(key, names)
    keys = [str(each) for node in names for each, _, python in _choices_of(node) if python is choice]
    return keys[0] if choice is not AMBIGUOUS and keys else None


def coerce(value: Any, nodes: Sequence[Schema], root: Schema) -> Any:
    """Coerce a value to these schemas, which are parts of `root`; returns UNCLEAR if ambiguous.

    Parses lists and objects encoded as text, matches choices by name or ignoring case and separators, reads other date
    notations, and wraps a single value where only a list is valid.
    """
    for reader in (
        _parse_structure,
        _match_choice,
        _coerce_flags,
        _convert_number,
        _parse_number,
        _parse_boolean,
        _coerce_moment,
        _to_json_text,
    ):
        coerced = reader(value, nodes)
        if coerced is not AMBIGUOUS:
            return coerced
    return _wrap_or_split(value, nodes, root)


def is_null(value: Any) -> bool:
    """Whether the value is null, or a text that means null where strings are not expected."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NULLS)


def group_by_letters(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names by their letters, so that `startDate`, `start-date` and `START_DATE` are equal."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(normalise_letters(name), []).append(name)
    return groups


def names_in(nodes: Iterable[Schema]) -> list[str]:
    """Return the property names of these schemas."""
    return list(dict.fromkeys(name for node in nodes for name in node.get("properties", ())))


def is_optional(name: str, nodes: Iterable[Schema]) -> bool:
    """Whether every schema that has this property leaves it optional."""
    owners = [node for node in nodes if name in node.get("properties", ())]
    return bool(owners) and not any(name in node.get("required", ()) for node in owners)


def _subschemas_of_step(node: Schema, step: str | int) -> Iterator[Any]:
    if isinstance(step, str):
        properties = node.get("properties", {})
        yield properties[step] if step in properties else node.get("additionalProperties")
        return
    places = node.get("prefixItems", ())
    yield places[step] if step < len(places) else node.get("items")


def _parse_structure(value: Any, _: Sequence[Schema]) -> Any:
    read = _read_value(value)
    return read if isinstance(read, dict | list) else AMBIGUOUS


def _match_choice(value: Any, nodes: Sequence[Schema]) -> Any:
    choices = [choice for node in nodes for choice in _choices_of(node)]
    for candidate in (value, _read_value(value)):
        exact = [
            python
            for json_value, _, python in choices
            if type(json_value) is type(candidate) and json_value == candidate
        ]
        if exact and (type(exact[0]), exact[0]) != (type(value), value):
            return exact[0]
    if not isinstance(value, str | bool):
        return AMBIGUOUS
    value = str(value)  # models write true for the choice "True"
    spellings = {normalise_letters(value), normalise_letters(_unqualify(value))}
    named = [python for json_value, name, python in choices if name and normalise_letters(name) in spellings]
    spelled = [
        python
        for json_value, _, python in choices
        if isinstance(json_value, str) and normalise_letters(json_value) in spellings
    ]
    matching = spelled or named
    is_unique = bool(matching) and all(each is matching[0] for each in matching)
    return matching[0] if is_unique and matching[0] is not value else AMBIGUOUS


def _choices_of(node: Schema) -> list[tuple[Any, str, Any]]:
    """Return each choice of a node: its JSON value, its name, and its value for the validator."""
    json_values = node["enum"] if "enum" in node else [node["const"]] if "const" in node else []
    python = node.get(PYTHON, [("", each) for each in json_values]) if FLAGS not in node else []
    return [(each, name, value) for each, (name, value) in zip(json_values, python, strict=True)]


def _unqualify(text: str) -> str:
    """Extract the name from `Color.RED` or `<Color.RED: 1>`."""
    match = _QUALIFIED_NAME.fullmatch(text)
    return match["name"] if match else text


def _coerce_flags(value: Any, nodes: Sequence[Schema]) -> Any:
    """Coerce flags given by name: `R|W`, `R, W` or a list."""
    flags = {normalise_letters(name): flag for node in nodes if FLAGS in node for name, flag in node[PYTHON]}
    parts = re.split(r"[|,;+]", value) if isinstance(value, str) else value
    if not flags or not isinstance(parts, list) or not parts:
        return AMBIGUOUS
    values = [flags.get(normalise_letters(_unqualify(str(part)))) for part in parts]
    return AMBIGUOUS if None in values else functools.reduce(operator.or_, values)


def _convert_number(value: Any, nodes: Sequence[Schema]) -> Any:
    """Convert a number to text where only strings are valid, and an integral float to an integer."""
    expected = _kinds(nodes) - {"null", None}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return AMBIGUOUS
    if expected == {"string"} and not any("format" in node for node in nodes):
        return str(value)
    return int(value) if expected == {"integer"} and isinstance(value, float) and value.is_integer() else AMBIGUOUS


def _parse_number(value: Any, nodes: Sequence[Schema]) -> Any:
    """Parse a number with digit grouping or an exponent; it stays text, hence exact, where strings are valid too."""
    kinds = _kinds(nodes)
    expected = kinds & {"integer", "number"}
    normalised = (
        normalise_number(value, is_whole=expected == {"integer"}) if isinstance(value, str) and expected else None
    )
    if normalised is None or (normalised == value and "string" in kinds):
        return AMBIGUOUS
    if "string" in kinds:
        return normalised
    integer = to_integer(normalised) if "integer" in kinds else None
    if integer is None:
        return float(normalised) if "number" in kinds else AMBIGUOUS
    return integer


def _parse_boolean(value: Any, nodes: Sequence[Schema]) -> Any:
    word = value.strip().lower() if isinstance(value, str) and "boolean" in _kinds(nodes) else ""
    return _BOOLEAN_WORDS.get(word, AMBIGUOUS)


def _kinds(nodes: Iterable[Schema]) -> set[Any]:
    """Return the set of types that these schemas allow."""
    kinds = (node.get("type") for node in nodes)
    return {each for kind in kinds for each in (kind if isinstance(kind, list) else [kind])}


def _coerce_moment(value: Any, nodes: Sequence[Schema]) -> Any:
    if not isinstance(value, str):
        return AMBIGUOUS
    for form in (node.get("format") for node in nodes):
        if form in ("date", "date-time", "time"):
            parsed = parse_moment(value, form)
            if parsed is not None and parsed != value:
                return parsed
        if form == "duration" and (length := parse_duration(value)) is not None:
            return length
    return AMBIGUOUS


def _to_json_text(value: Any, nodes: Sequence[Schema]) -> Any:
    """Serialise a list or object where JSON text is expected."""
    is_json_text = any(node.get("contentMediaType") == "application/json" for node in nodes)
    return json.dumps(value) if is_json_text and isinstance(value, dict | list) else AMBIGUOUS


def _wrap_or_split(value: Any, nodes: Sequence[Schema], root: Schema) -> Any:
    """Wrap a single value in a list, or split a text at separators where the items are not strings."""
    lists = [node for node in nodes if "array" in _kinds([node])]
    others = _kinds(nodes) - {"array", "null", None}
    if not lists or others or isinstance(value, list | tuple) or is_null(value):
        return AMBIGUOUS
    if any("prefixItems" in node for node in lists):
        # Split a text such as `40.7, -74` into the numbers or choices of a fixed-length tuple
        items = lists[0].get("prefixItems", ())
        parts = split_entries(value) if isinstance(value, str) and len(lists) == 1 else []
        if len(parts) != len(items) or len(parts) != lists[0].get("maxItems"):
            return AMBIGUOUS
        fits = (_fits_item(part, expand([item], root)) for part, item in zip(parts, items, strict=True))
        return parts if all(fits) else AMBIGUOUS
    inner = [node for node in expand([node.get("items", {}) for node in lists], root) if not _COMPOUND & node.keys()]
    kinds = {kind or "any" for kind in _kinds(inner)}
    if isinstance(value, dict):
        return [value] if "object" in kinds else AMBIGUOUS
    if isinstance(value, str) and re.search(r"[,;\n]|^\s*[\[{(]", value):
        return _split_list(value, inner, kinds)
    return [value] if kinds != {"object"} else AMBIGUOUS


def _fits_item(part: str, nodes: Sequence[Schema]) -> bool:
    choices = [choice for node in nodes for choice in _choices_of(node)]
    if choices:
        return _match_choice(part, nodes) is not AMBIGUOUS or any(part == written for written, _, _ in choices)
    return _kinds(nodes) <= {"integer", "number"} and normalise_number(part) is not None


def _split_list(text: str, nodes: Sequence[Schema], kinds: set[Any]) -> Any:
    """Split a text into the numbers or choices that it lists."""
    if kinds <= {"integer", "number"}:
        return split_numbers(text, is_whole="number" not in kinds) or AMBIGUOUS
    choices = [each for node in nodes for each, _, _ in _choices_of(node)]
    parts = split_entries(text)
    is_clear = choices and all(part in choices or _match_choice(part, nodes) is not AMBIGUOUS for part in parts)
    return parts if is_clear else AMBIGUOUS


def _read_value(value: Any) -> Any:
    if not isinstance(value, str):
        return AMBIGUOUS
    try:
        return read_json(value)
    except (ValueError, RecursionError):
        return {"true": True, "false": False}.get(value.strip().lower(), AMBIGUOUS)


_BOOLEAN_WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


def normalise_letters(text: str) -> str:
    """Normalise a name or choice: drop case and separators."""
    return _cached_letters(text) if len(text) <= _MAX_CACHED_CHARS else _drop_separators(text)


def _drop_separators(text: str) -> str:
    return _SEPARATORS.sub("", text).casefold()


_cached_letters = functools.lru_cache(4_096)(_drop_separators)
"""Cached, because the choices of a schema are compared with every value that fits none of them."""


_WRAPPER_KEYS = frozenset({"arguments", "args", "input", "kwargs", "parameters", "params"})
"""Keys that models wrap around the arguments."""


def nest_or_unwrap(arguments: dict[str, Any], schema: Schema) -> dict[str, Any] | None:
    """Unwrap arguments nested in a wrapper object, or nest them under the only parameter; None otherwise.

    Models write `{"arguments": {"city": "Rome"}}`, and omit the name of an only parameter.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not arguments or arguments.keys() & properties.keys():
        return None
    inner = unwrap(arguments)
    is_closed = schema.get("additionalProperties") is False
    if inner is not None and inner.keys() <= properties.keys() and (inner or is_closed):
        return dict(inner)
    if len(properties) != 1:
        return None
    (name,) = properties
    return {name: arguments} if arguments.keys() <= {*names_in(nodes_at(schema, [name]))} else None


def unwrap(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the arguments inside a wrapper object, or None without a wrapper."""
    name, inner = next(iter(arguments.items()), ("", None))
    if len(arguments) > 1 or name.lower() not in _WRAPPER_KEYS:
        return None
    try:
        inner = read_json(inner) if isinstance(inner, str) else inner
    except (ValueError, RecursionError):
        return None
    return inner if isinstance(inner, Mapping) else None
