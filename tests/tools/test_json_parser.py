"""Tests for the JSON parser: values, warnings, errors, and hostile input."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.errors import ToolError
from agentkit.tools.json_parser import read_json

ROWS = [json.loads(line) for line in Path(__file__).with_name("json_cases.jsonl").read_text("utf-8").splitlines()]
VALID = [row for row in ROWS if row["outcome"] == "ok"]
INVALID = [row for row in ROWS if row["outcome"] == "error"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def text_of(row):
    """Return the input of a row, given as text or as parts to repeat."""
    return row["input"] if "input" in row else "".join(piece * times for piece, times in row["parts"])


def name_of(row):
    """Return a row as a test id."""
    return ascii(text_of(row)[:60])[1:50]


def remarks(text):
    """Return the warnings of a value, or the text of the error."""
    try:
        return read_json(text).warnings
    except ToolError as error:
        return str(error)


@pytest.mark.for_each("row", VALID, ids=name_of)
def test_valid_json_is_parsed(row):
    """Valid JSON returns its value, with warnings about anything lost or removed."""
    reading = read_json(text_of(row))
    if "value" in row:
        assert json.dumps(reading.data) == json.dumps(row["value"])
    assert bool(reading.warnings) == ("warns" in row)
    assert row.get("warns", "") in " ".join(reading.warnings)
    assert reading.repaired is row.get("repaired", False)


@pytest.mark.for_each("row", VALID, ids=name_of)
def test_parsed_value_can_be_encoded(row):
    """A parsed value can be encoded as UTF-8, also if the text contains lone surrogates."""
    assert json.dumps(read_json(text_of(row)).data, ensure_ascii=False, allow_nan=False).encode("utf-8")


@pytest.mark.for_each("row", INVALID, ids=name_of)
def test_invalid_json_is_explained(row):
    """Invalid JSON raises an error with the line, the column and a solution."""
    with pytest.raises(ToolError) as caught:
        read_json(text_of(row))
    text = str(caught.value)
    assert row["says"] in text
    assert text.endswith(".")
    assert len(text) < 300
    assert "Traceback" not in text
    if row["at"]:
        line, column = row["at"]
        assert text.startswith(f"Line {line}, column {column}: ")


@pytest.mark.parametrize("value", [None, 5, 1.5, b"{}", b"\xff\xfe{\x00}\x00", ["{}"], {"a": 1}])
def test_value_must_be_a_string(value):
    """A value that is not a string raises an error with the name of its type."""
    with pytest.raises(ToolError, match=type(value).__name__):
        read_json(value)


@pytest.mark.for_each(
    ("opening", "piece", "closing"),
    [
        ("", "[", ""),
        ("[", "[],", "1]"),
        ("[", "{},", "1]"),
        ("[", "-1.5e9,", "1]"),
        ("[", "123,", "1]"),
        ("", '"', ""),
        ('"', "\\\\", '"'),
        ('"', "\\\\a", '\\ud800"'),
        ('"', "\\ud800", '"'),
        ('"', "\ud800", '"'),
        ('{"a":1', ',"a":1', "}"),
        ("", "9", ""),
        ("0.", "1", ""),
        ("", " ", ""),
        ("", "```\n", ""),
        ('["', "NaN", '", NaN]'),
    ],
)
def test_hostile_input_is_bounded(opening, piece, closing):
    """Half a million hostile characters are parsed or rejected quickly, with short messages."""
    started = time.process_time()
    assert len(str(remarks(opening + piece * (500_000 // len(piece)) + closing))) < 500
    assert time.process_time() - started < 5


@settings(max_examples=100)
@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_dumped_json_is_parsed(value, indent, ascii_only):
    """Any value dumped as JSON is parsed as the same value and not marked as repaired."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    reading = read_json(text)
    assert json.dumps(reading.data) == json.dumps(value)
    assert not reading.repaired


@settings(max_examples=300)
@given(st.text(alphabet="[]{}:,\"\\ \n0123456789.eE+-truefalsnNaIity/*#`'u\ud800\ufeff", max_size=30))
def test_garbage_is_parsed_like_in_the_standard_library(text):
    """A text that is parsed without a warning has the value that the standard library returns."""
    if remarks(text) == []:
        assert json.dumps(read_json(text).data) == json.dumps(json.loads(text))
