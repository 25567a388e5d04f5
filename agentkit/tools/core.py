"""Core tools: date and time, calculator, string length, JSON.

All are bounded in input and computation, so they need no timeout. `core_tools` is defined here rather than in the
catalog, so that importing it does not import the other tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from agentkit.decisions import Decision, SafetyLevel
from agentkit.errors import ToolError
from agentkit.text_encoding import split_lines
from agentkit.tooling.results import denial_text
from agentkit.tooling.tool import Tool, WhenDenied
from agentkit.tooling.toolset import Toolset
from agentkit.tools.calculator import MAX_CHARS, calculate
from agentkit.tools.json_parser import read_json
from agentkit.tools.time_zones import time_zone

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def get_current_datetime(timezone: str | None = None) -> dict[str, Any]:
    """Tell the current date, time and weekday.

    Args:
        timezone: An IANA name such as "Asia/Ho_Chi_Minh", an offset such as "UTC+7", an abbreviation such as "PST",
            or a large city; leave it out for local time.

    Returns:
        datetime (ISO 8601 with the offset from UTC), date (2026-11-22), time (14:05:09), weekday (Sunday),
        timestamp (whole seconds since 1970-01-01 UTC), timezone and utc_offset (+07:00);
        or timezone and error for an unknown zone.
    """
    try:
        now = datetime.now(UTC).astimezone(time_zone(timezone) if timezone else None).replace(microsecond=0)
    except ToolError as error:
        return {"timezone": timezone, "error": str(error)}
    return {
        "datetime": now.isoformat(),
        "date": now.date().isoformat(),
        "time": now.time().isoformat(),
        "weekday": _WEEKDAYS[now.weekday()],
        "timestamp": int(now.timestamp()),
        "timezone": str(now.tzinfo),
        "utc_offset": now.isoformat()[19:],
    }


def calculator(expression: str) -> dict[str, Any]:
    """Calculate the value of an arithmetic expression.

    Understands + - * / // % ** and parentheses, 1e6, 15% of 80, 5!, pi, e, and functions such as sqrt, round, abs,
    log(x) (natural), log(x, base), log10, exp, sin and cos (of radians), degrees, radians, factorial, comb, gcd, lcm,
    min, max, sum([1, 2]), mean([1, 2]), median and stdev.

    Args:
        expression: The whole expression, for example "sqrt(144) + 2**10" or "17% of 2,400".

    Returns:
        expression and result (a number), with a note when a comma could be read in two ways; or expression and error
        (the reason, in a sentence).
    """
    notes: list[str] = []
    try:
        result = _round_noise(calculate(expression, notes))
        return {"expression": expression, "result": result, **({"note": " ".join(notes)} if notes else {})}
    except ToolError as error:
        shown = expression[:MAX_CHARS] if isinstance(expression, str) else expression
        return {"expression": shown, "error": str(error)}


def _round_noise(value: float) -> float:
    """Remove binary rounding noise from a float, so that 1250 * 0.17 is 212.5."""
    if isinstance(value, int):
        return value
    short = float(f"{value:.12g}")
    return short if f"{short:.15g}" == f"{value:.15g}" else value


def string_length(text: str) -> dict[str, Any]:
    """Count the characters, words and lines of a text.

    Args:
        text: The text to count in.

    Returns:
        text, characters (Unicode code points: spaces and line breaks count, an emoji may count as several),
        words (separated by white space) and lines (an empty text has 0, a line break at the end adds none).
    """
    return {
        "text": text,
        "characters": len(text),
        "words": len(text.split()),
        "lines": len(split_lines(text)),
    }


def parse_json(json_string: str) -> dict[str, Any]:
    """Check a JSON text and return its value, or say where it is wrong and how to put it right.

    Args:
        json_string: The JSON text, of at most 5,000,000 characters.

    Returns:
        success (true) and data, with warnings when something was lost, such as a duplicate key, and repaired (true)
        when a Markdown code fence was taken off; or success (false) and error, with line and column.
    """
    try:
        reading = read_json(json_string)
    except ToolError as error:
        return {"success": False, "error": str(error)}
    remarks = {"warnings": reading.warnings, "repaired": reading.repaired}
    return {"success": True, "data": reading.data} | {name: remark for name, remark in remarks.items() if remark}


current_datetime_tool = Tool(get_current_datetime, level=SafetyLevel.SAFE, timeout_seconds=None)
calculator_tool = Tool(calculator, level=SafetyLevel.SAFE, timeout_seconds=None)
string_length_tool = Tool(string_length, level=SafetyLevel.SAFE, timeout_seconds=None)
json_parse_tool = Tool(parse_json, level=SafetyLevel.SAFE, timeout_seconds=None)

core_tools = Toolset((current_datetime_tool, calculator_tool, string_length_tool, json_parse_tool))


def denial_handler(*names: str, **more: Any) -> WhenDenied:
    """Create a handler for denied calls that returns the named arguments, `error`, `status`, `decision` and `more`."""
    return partial(_denial_result, names, more)  # unlike a nested function, it can be sent to another process


def _denial_result(
    names: Sequence[str], more: Mapping[str, Any], arguments: Mapping[str, Any], decision: Decision
) -> dict[str, Any]:
    named = {name: arguments[name] for name in names}
    return {**named, "error": denial_text(decision), "status": "denied", "decision": decision.to_dict(), **more}
