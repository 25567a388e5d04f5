"""Tests for the completeness of extracted lists."""

import pytest

from agentkit.llm.providers.offline.validation import leaves, omitted_entries, repeated_numbers, with_complete_lists


def shape(**properties):
    """Return the schema of an object with these properties."""
    return {"type": "object", "properties": properties}


def lists(kind, **more):
    """Return the schema of a list of a type."""
    return {"type": "array", "items": {"type": kind}, **more}


ITEM = shape(name={"type": "string"}, price={"type": "number"})
DATED = {"type": "array", "items": {"type": "string", "format": "date"}}
ITEMS = {"type": "array", "items": {"$ref": "#/$defs/item"}}


@pytest.mark.for_each(
    ("text", "kind", "found", "whole"),
    [
        ("The lucky numbers are 3, 8, 15 and 22.", "integer", [3, 8, 15], [3, 8, 15, 22]),
        ("Các con số là 3, 8, 15 và 22.", "integer", [3], [3, 8, 15, 22]),
        ("Scores: 7.5; 8.25; -9", "number", [7.5], [7.5, 8.25, -9.0]),
        ("Scores: 7.5 and 8, or 9", "integer", [], []),
        ("In 2027 we had 3, 8 and 15 guests.", "integer", [2027], [2027]),
        ("It was 12, 14, and 13 degrees.", "integer", [12, 13], [12, 13]),
        ("A price of 1,200 and a place.", "integer", [1], [1]),
        ("Either 1 or 2.5", "integer", [1], [1, 2.5]),
    ],
)
def test_enumeration_is_completed(text, kind, found, whole):
    """A list of numbers that starts an enumeration in the text is completed from it."""
    schema = shape(value=lists(kind))
    assert with_complete_lists({"value": found}, schema, schema, text) == {"value": whole}


def test_only_unbounded_lists_of_numbers_are_completed():
    """Strings, lists of strings and bounded lists are unchanged; nested lists of numbers are completed."""
    schema = shape(name={"type": "string"}, most=lists("integer", maxItems=1), inner=shape(all=lists("integer")))
    value = {"name": "1", "most": [1], "inner": {"all": [1]}, "more": ["a"]}
    done = with_complete_lists(value, schema, schema, "1, 2 and 3")
    assert done == {"name": "1", "most": [1], "inner": {"all": [1, 2, 3]}, "more": ["a"]}


@pytest.mark.for_each(
    ("text", "schema", "found", "lost"),
    [
        ("Kim, Lee, Park", lists("string"), ["Kim", "Lee"], ["Park"]),
        ("Kim, Lee, Park", lists("string"), ["Kim", "Lee", "Park"], []),
        ("Milk and cheese.", lists("string"), ["Milk"], ["cheese"]),
        ("'Milk', 'cheese and ham'", lists("string"), ["Milk"], ["'cheese"]),
        ("Milk and cheese were bought.", lists("string"), ["Milk"], []),
        ("Milk, and the milk.", lists("string"), ["Milk"], ["the milk"]),
        ("Milk.", lists("string"), ["Beer"], []),
        ("Mon 12, Tue 15, Wed 9", lists("integer"), [12, 15], ["9"]),
        ("Due 2027-01-15 and 2027-02-16", DATED, ["2027-01-15"], ["2", "16"]),
        ("A lamp for 30, a chair for 85.5", ITEMS, [{"name": "lamp", "price": 30}], ["85.5"]),
        ("A lamp for 30", ITEMS, [{"name": "lamp", "price": 30}], []),
        ("Red or blue, green", {"type": "array", "items": {"type": "string", "enum": ["red", "green"]}}, ["red"], []),
        ("30, 40", lists("string"), [], []),
    ],
)
def test_values_missing_from_a_list_are_reported(text, schema, found, lost):
    """Numbers, dates and list entries of the text that are in no field are reported."""
    whole = {**shape(value=schema), "$defs": {"item": ITEM}}
    assert omitted_entries({"value": found}, whole, text) == lost


def test_nothing_is_missing_without_lists():
    """Without a list in the schema, other values of the text are not reported."""
    assert omitted_entries({"age": 30}, shape(age={"type": "integer"}), "Alice is 30, has 2 cats and 1 dog.") == []


def test_leaves_come_with_their_schemas():
    """Every string, number and choice is returned with its schema, through lists and references."""
    root = {**shape(items=ITEMS), "$defs": {"item": ITEM}}
    found = list(leaves({"items": [{"name": "lamp", "price": 30}], "more": 1}, root, root))
    assert found == [("lamp", {"type": "string"}), (30, {"type": "number"}), (1, {})]


def test_number_repeated_in_a_list_is_reported():
    """A number that a list repeats more often than the text is reported, and strings are ignored."""
    schema = shape(value=lists("integer"))
    assert repeated_numbers({"value": [12, 11, 11, 2, 2]}, schema, "Mon 12, Tue 11, and two, two") == ["11"]
    assert repeated_numbers({"value": ["11", "11"]}, shape(value=lists("string")), "Tue 11") == []
