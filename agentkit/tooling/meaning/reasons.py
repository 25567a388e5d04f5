"""What is wrong with a value, by the words of its validator? In words that a model can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MISSING, UNKNOWN = "is missing", "is not a known name"
"""What is wrong with a name that should be there, or should not."""

KEY = "has a name that"
"""How begins what is wrong with the name of an entry itself."""

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
"""What is wrong, by pydantic's error type, where its own words would puzzle a model."""


def reason(kind: str, message: str) -> str:
    """What pydantic says of an error of this type, as the rest of a sentence about a value."""
    if kind in _REASONS:
        return _REASONS[kind]
    message = message.partition("\n")[0].replace(" items after validation", " entries")
    subject, should, rest = message.partition(" should ")
    if should and len(subject.split()) <= 2:
        return f"should {rest}"
    return f"is not accepted ({message.removeprefix('Value error, ').removeprefix('Assertion failed, ')})"


def untold(context: Mapping[str, Any], given: Any) -> tuple[str, str, Any] | None:
    """The field that should tell the given object's type, what is wrong with it, and its value or else the object.

    None when the error is not about such a field.
    """
    name = str(context.get("discriminator", ""))
    if not name.startswith("'"):
        return None
    if "expected_tags" not in context:
        return name.strip("'"), MISSING, given
    return name.strip("'"), f"should be one of {context['expected_tags']}", context["tag"]


def joined(reasons: Iterable[str]) -> str:
    """What is wrong with a value by several readings of it, as the rest of one sentence; details are of one alone."""
    told = list(dict.fromkeys(reasons))
    if len(told) == 1:
        return told[0]
    first, *others = dict.fromkeys(reason.split(",")[0] for reason in told)
    return " or ".join([first, *(other.removeprefix("should be ") for other in others)])


def first_sentence(error: Exception) -> str:
    """What an error says, without what follows its first sentence."""
    return str(error).partition("\n")[0].partition(". ")[0]
