"""Tests for the core tools: names, parameters, keys of the results, and errors."""

import importlib.util
import math
import re
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest

from agentkit.decisions import SafetyLevel
from agentkit.tools.core import calculator_tool, current_datetime_tool, json_parse_tool, string_length_tool

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@pytest.fixture
def no_time_zone_data():
    """Hide the time zone database during a test."""
    if importlib.util.find_spec("tzdata"):
        pytest.skip("the tzdata package is installed")
    path = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=path)


@pytest.mark.parametrize(
    ("tool", "name", "parameters"),
    [
        (current_datetime_tool, "get_current_datetime", ["timezone"]),
        (calculator_tool, "calculator", ["expression"]),
        (string_length_tool, "string_length", ["text"]),
        (json_parse_tool, "parse_json", ["json_string"]),
    ],
)
def test_tool_is_named_and_described(tool, name, parameters):
    """A core tool has the documented name and parameters, each with a description, and is safe."""
    described = tool.parameters["properties"]
    assert (tool.name, list(described), tool.level) == (name, parameters, SafetyLevel.SAFE)
    assert tool.description
    assert all(described[each]["description"] for each in parameters)


def test_calculator_returns_expression_and_result():
    """The calculator returns the expression and its value."""
    expression = "sqrt(121) + 2**5"
    assert calculator_tool(expression=expression) == {"expression": expression, "result": 43.0}


def test_calculator_returns_errors():
    """The calculator returns an error with the expression instead of raising it."""
    answer = calculator_tool(expression="1 / 0")
    assert answer == {"expression": "1 / 0", "error": "1 / 0 divides by zero."}


def test_calculator_shortens_a_long_expression():
    """An expression that is too long is shortened in the result."""
    answer = calculator_tool(expression="1+" * 5000)
    assert len(answer["expression"]) == 1000
    assert "10,000 characters" in answer["error"]


def test_calculator_rejects_non_strings():
    """An expression that is not a string is returned with an error."""
    assert calculator_tool(expression=5)["expression"] == 5
    assert "int" in calculator_tool(expression=5)["error"]


def test_returned_error_is_a_failed_result():
    """A call that returns an error has the status failed."""
    assert calculator_tool.invoke({"expression": "2 +"}).status == "failed"
    assert calculator_tool.invoke({"expression": "2 + 2"}).status == "ok"


def test_datetime_is_now():
    """The date and time are the current ones, with the offset from UTC, and agree with each other."""
    answer = current_datetime_tool()
    moment = datetime.fromisoformat(answer["datetime"])
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)
    assert moment.timestamp() == answer["timestamp"]
    assert answer["datetime"] == f"{answer['date']}T{answer['time']}{answer['utc_offset']}"
    assert answer["weekday"] == WEEKDAYS[moment.weekday()]
    assert list(answer) == ["datetime", "date", "time", "weekday", "timestamp", "timezone", "utc_offset"]


@pytest.mark.parametrize(
    ("name", "offset"),
    [("Asia/Ho_Chi_Minh", "+07:00"), ("Asia/Kathmandu", "+05:45"), ("Pacific/Marquesas", "-09:30"), ("UTC", "+00:00")],
)
def test_datetime_in_a_time_zone(name, offset):
    """A time zone can be given by its IANA name."""
    answer = current_datetime_tool(timezone=name)
    assert (answer["timezone"], answer["utc_offset"]) == (name, offset)


@pytest.mark.parametrize("name", ["utc", "Z", "GMT"])
def test_datetime_in_utc_by_another_name(name):
    """Other names of UTC are accepted."""
    assert current_datetime_tool(timezone=name)["timezone"] == "UTC"


@pytest.mark.for_each(
    ("name", "hint"),
    [
        ("ho chi min", "did you mean Asia/Ho_Chi_Minh"),
        ("Asia/Tokio", "did you mean Asia/Tokyo"),
        ("Asia\\Tokio", "did you mean Asia/Tokyo"),
        ("Mumbay", "did you mean Asia/Kolkata"),
        ("USA", "America/New_York or America/Chicago or America/Denver or America/Los_Angeles"),
        ("Australia", "did you mean Australia/Sydney or"),
        ("Europe", "IANA name|did you mean"),
        ("07:00", "IANA name"),
        ("../../../etc/passwd", "IANA name"),
        ("/etc/passwd", "IANA name"),
        ("zone.tab", "IANA name"),
        ("a\x00b", "IANA name"),
        ("\ud800", "IANA name"),
        ("x" * 5000, "IANA name"),
    ],
)
def test_unknown_time_zone_is_explained(name, hint):
    """An unknown time zone returns an error with a suggestion, and no other file is read."""
    answer = current_datetime_tool(timezone=name)
    assert list(answer) == ["timezone", "error"]
    assert answer["error"].startswith("Unknown time zone")
    assert re.search(hint, answer["error"])
    assert len(answer["error"]) < 200


@pytest.mark.for_each(
    ("name", "zone", "offsets"),
    [
        ("UTC+7", "UTC+07:00", ["+07:00"]),
        ("utc +7", "UTC+07:00", ["+07:00"]),
        ("GMT-3", "UTC-03:00", ["-03:00"]),
        ("GMT+05:30", "UTC+05:30", ["+05:30"]),
        ("+0545", "UTC+05:45", ["+05:45"]),
        ("UTC\u22128", "UTC-08:00", ["-08:00"]),
        ("UTC+0", "UTC", ["+00:00"]),
        ("Z", "UTC", ["+00:00"]),
        ("PST", "America/Los_Angeles", ["-08:00", "-07:00"]),
        ("et", "America/New_York", ["-05:00", "-04:00"]),
        ("CET", "Europe/Brussels", ["+01:00", "+02:00"]),
        ("IST", "Asia/Kolkata", ["+05:30"]),
        ("JST", "Asia/Tokyo", ["+09:00"]),
        ("Hanoi", "Asia/Ho_Chi_Minh", ["+07:00"]),
        ("Hà Nội", "Asia/Ho_Chi_Minh", ["+07:00"]),
        ("Vietnam", "Asia/Ho_Chi_Minh", ["+07:00"]),
        ("San Francisco", "America/Los_Angeles", ["-08:00", "-07:00"]),
        ("new york", "America/New_York", ["-05:00", "-04:00"]),
        ("Tokyo, Japan", "Asia/Tokyo", ["+09:00"]),
        ("asia/tokyo", "Asia/Tokyo", ["+09:00"]),
        ("São Paulo", "America/Sao_Paulo", ["-03:00"]),
        ("Etc/GMT+7", "Etc/GMT+7", ["-07:00"]),
        ("UTC 7", "UTC+07:00", ["+07:00"]),
        ("GMT+7 (Hanoi)", "UTC+07:00", ["+07:00"]),
        ("Pacific Time (US)", "America/Los_Angeles", ["-08:00", "-07:00"]),
        ("Eastern Standard Time", "America/New_York", ["-05:00", "-04:00"]),
        ("Central European Time", "Europe/Brussels", ["+01:00", "+02:00"]),
        ("Ho Chi Minh City", "Asia/Ho_Chi_Minh", ["+07:00"]),
        ("Mexico City", "America/Mexico_City", ["-06:00"]),
        ("München", "Europe/Berlin", ["+01:00", "+02:00"]),
        ("CAT", "Africa/Maputo", ["+02:00"]),
        ("Quito", "America/Guayaquil", ["-05:00"]),
        ("TP.HCM", "Asia/Ho_Chi_Minh", ["+07:00"]),
        ("Indochina Time", "Asia/Bangkok", ["+07:00"]),
        ("L.A.", "America/Los_Angeles", ["-08:00", "-07:00"]),
    ],
)
def test_time_zone_is_found_by_offset_abbreviation_city_and_country(name, zone, offsets):
    """Common notations of a time zone are accepted, and the result names the zone."""
    answer = current_datetime_tool(timezone=name)
    assert (answer["timezone"], answer["utc_offset"] in offsets) == (zone, True)


@pytest.mark.parametrize("name", ["UTC+15", "GMT-25", "UTC+7:99", "Etc/UTC+7", "Atlantis"])
def test_no_zone_with_another_offset_is_suggested(name):
    """An invalid offset or unknown name never suggests a zone whose name has the opposite sign."""
    error = current_datetime_tool(timezone=name)["error"]
    assert error.startswith("Unknown time zone")
    assert "Etc/GMT" not in error


@pytest.mark.for_each(
    ("expression", "result", "note"),
    [
        ("log(1,000)", 6.907755278982137, "1,000 was read as the number 1000"),
        ("sum(1,234)", 1234, "1,234 was read as the number 1234"),
        ("sum(1,234,567)", 1234567, "1,234,567 was read as the number 1234567"),
        ("max(1,500)", 500, "1,500 was read as 2 arguments; for one number write 1500"),
        ("gcd(48,180)", 12, "48,180 was read as 2 arguments"),
        ("sqrt(2,500)", 50.0, ""),
        ("sqrt(2,400 + 100)", 50.0, ""),
        ("log(8, 2)", 3.0, ""),
        ("sum(1,2)", 3, ""),
        ("max(3, 500)", 500, ""),
        ("round(2.345,2)", 2.35, ""),
    ],
)
def test_commas_in_a_call_are_explained(expression, result, note):
    """A comma that may group digits or separate arguments is parsed as the function allows, with a note."""
    answer = calculator_tool(expression=expression)
    assert answer["result"] == pytest.approx(result, abs=0.01)
    assert answer.get("note", "").startswith(note)
    assert bool(answer.get("note")) == bool(note)


@pytest.mark.usefixtures("no_time_zone_data")
def test_machine_without_time_zone_data():
    """Without a time zone database UTC and local time work, and other zones return an error."""
    assert current_datetime_tool(timezone="UTC")["utc_offset"] == "+00:00"
    assert "error" not in current_datetime_tool()
    assert "pip install tzdata" in current_datetime_tool(timezone="Asia/Tokyo")["error"]


@pytest.mark.for_each(
    ("text", "characters", "words", "lines"),
    [
        ("", 0, 0, 0),
        ("a", 1, 1, 1),
        ("a\n", 2, 1, 1),
        ("a\nb", 3, 2, 2),
        ("a\r\nb\r\n", 6, 2, 2),
        ("\n\n", 2, 0, 2),
        ("  two  words  ", 14, 2, 1),
        ("well-known", 10, 1, 1),
        ("Tiếng Việt", 10, 2, 1),
        ("Tie\u0302\u0301ng", 7, 1, 1),
        ("你好 世界", 5, 2, 1),
        ("👍", 1, 1, 1),
        ("👍🏽", 2, 1, 1),
        ("👨\u200d👩\u200d👧", 5, 1, 1),
        ("one\u00a0two\u2003three", 13, 3, 1),
    ],
)
def test_string_length_counts(text, characters, words, lines):
    """Characters are code points, words are separated by whitespace, and a final newline adds no line."""
    answer = string_length_tool(text=text)
    assert answer == {"text": text, "characters": characters, "words": words, "lines": lines}


def test_json_returns_success_and_data():
    """Valid JSON returns success and its value only."""
    assert json_parse_tool(json_string='{"a": [1, null]}') == {"success": True, "data": {"a": [1, None]}}


def test_json_reports_duplicate_keys():
    """A duplicate key is reported in the warnings."""
    answer = json_parse_tool(json_string='{"a": 1, "a": 2}')
    assert answer["data"] == {"a": 2}
    assert answer["warnings"] == ["Duplicate key 'a': the last value was used."]


def test_json_in_a_code_fence_is_marked_as_repaired():
    """A Markdown code fence around JSON is removed, and the result is marked as repaired."""
    answer = json_parse_tool(json_string="```json\n[7]\n```")
    assert (answer["success"], answer["data"], answer["repaired"]) == (True, [7], True)


def test_invalid_json_returns_an_error():
    """Invalid JSON returns success false and the error."""
    answer = json_parse_tool(json_string="[1,]")
    assert answer == {"success": False, "error": "Line 1, column 3: remove the comma before the closing bracket."}


@pytest.mark.for_each(
    ("expression", "result"),
    [
        ("1250 * 0.17", 212.5),
        ("0.1 + 0.2", 0.3),
        ("1 / 3", 1 / 3),
        ("pi", math.pi),
        ("2**53 + 1", 9007199254740993),
        ("9007199254740993 / 3", 3002399751580331.0),
        ("2**53 + 1.0", 9007199254740992.0),
        ("1.7976931348623157e308", 1.7976931348623157e308),
    ],
)
def test_result_has_no_rounding_noise(expression, result):
    """Floating-point rounding noise is removed from a result, and other digits are unchanged."""
    assert calculator_tool(expression=expression) == {"expression": expression, "result": result}
