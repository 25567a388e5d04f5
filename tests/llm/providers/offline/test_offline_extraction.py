"""Tests for typed answers that are extracted from a text."""

import json

import pytest

from agentkit.errors import BadResponse
from agentkit.llm.providers.offline.model import (
    ExtractionForm,
    absent_fields,
    chosen_fields,
    completed,
    doubtful_fields,
    relaxed,
)
from agentkit.messages import OutputSchema

TEXT = {"type": "string"}

PRICE = {"anyOf": [{"type": "number"}, {"type": "null"}]}
RECORD = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "total": {"type": "number"},
        "due": {"type": "string", "format": "date"},
        "paid": {"type": "boolean"},
        "kind": {"enum": ["invoice", "receipt"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "note": {"anyOf": [TEXT, {"type": "null"}]},
    },
    "required": ["name", "note"],
    "$defs": {"Line": {"type": "object", "properties": {"what": TEXT, "price": PRICE}, "required": ["what", "price"]}},
}


@pytest.mark.for_each(
    ("fields", "doubtful"),
    [
        ({"name": "Acme", "total": 65.5, "note": None}, []),
        ({"name": "acme", "note": "milk", "due": "2026-12-01", "paid": True, "kind": "invoice"}, []),
        ({"name": "acme", "note": "milk", "due": "2026-12-02"}, ["due"]),
        ({"name": "Acme", "note": None, "lines": [{"what": "milk", "price": 2}]}, []),
        ({"name": "Acme", "note": None, "lines": [{"what": "milk", "price": 3}]}, ["lines"]),
        ({"name": "Umbrella", "note": None}, ["name"]),
        ({"name": "Acme", "total": 66, "note": None}, ["total"]),
        ({"name": "Acme", "total": -65.5, "note": None}, ["total"]),
    ],
)
def test_fields_must_be_in_the_text(fields, doubtful):
    """Extracted values must appear in the text, except that dates and choices may be reformatted."""
    assert (
        doubtful_fields(fields, RECORD, "Acme sold two milk at 32.75 each, total $65.50, due on December 1st, 2026")
        == doubtful
    )


@pytest.mark.parametrize(
    ("found", "whole"),
    [
        ({}, {"note": None}),
        ({"note": "x"}, {"note": "x"}),
        ({"note": "", "lines": []}, {"note": None}),
        ({"lines": [{"what": "milk"}]}, {"lines": [{"what": "milk", "price": None}], "note": None}),
    ],
)
def test_missing_nullable_fields_become_null(found, whole):
    """A missing required field is null if the schema allows it, and omitted otherwise."""
    assert completed(found, RECORD, RECORD) == whole


def test_nullable_fields_are_not_required_of_the_engine():
    """Nullable fields are not required by the engine's schema at any depth; properties named `required` stay."""
    schema = {"type": "object", "properties": {"required": {"type": ["string", "null"]}}, "required": ["required"]}
    assert relaxed(RECORD)["required"] == ["name"]
    assert relaxed(RECORD)["$defs"]["Line"]["required"] == ["what"]
    assert relaxed({"items": [schema]}) == {"items": [{**schema, "required": []}]}


def test_schema_keywords_are_reordered_for_the_engine():
    """`type` comes first, a false `additionalProperties` is dropped, and properties keep their order."""
    properties = {"items": {"enum": ["a"], "type": "string"}, "type": {"format": "date", "type": "string"}}
    read = relaxed({"additionalProperties": False, "required": ["items"], "properties": properties, "type": "object"})
    assert json.dumps(read) == (
        '{"type": "object", "properties": {"items": {"type": "string", "enum": ["a"]}, '
        '"type": {"type": "string", "format": "date"}}, "required": ["items"]}'
    )
    assert relaxed({"type": "object", "additionalProperties": TEXT})["additionalProperties"] == TEXT


@pytest.mark.for_each(
    ("date", "text", "is_there"),
    [
        ("2027-03-05", "on 2027-03-05", True),
        ("2027-03-05", "on 5 March 2027", True),
        ("2027-03-05", "Mar 5th, 27", True),
        ("2027-03-05", "on 5/3/2027", False),
        ("2027-03-15", "on 15/3/2027", True),
        ("2027-03-03", "on 3/3/2027", True),
        ("2027-03-05", "on 5 March", False),
        ("2027-03-05", "on 6 March 2027", False),
        ("2027-03-05", "tomorrow", False),
        ("2027-12-05", "5 December 2027", True),
        ("2027-03-05T14:30:00", "5 March 2027 at 2:30 pm", True),
        ("2027-03-05T14:30:00", "5 March 2027 at 2 pm", False),
        ("10:00:00", "at 10", True),
        ("10:15:00", "at 10", False),
    ],
)
def test_dates_must_be_in_the_text(date, text, is_there):
    """A date must be stated unambiguously in the text, and a time by its digits."""
    schema = {"properties": {"days": {"type": "array", "items": {"type": "string", "format": "date-time"}}}}
    assert (doubtful_fields({"days": [date]}, schema, text) == []) is is_there


def test_choices_missing_from_the_text_are_reported():
    """A choice whose words are missing from the text is reported, and a boolean always is."""
    kinds = {"enum": ["in_store", "online"]}
    schema = {"properties": {"kind": kinds, "kinds": {"type": "array", "items": kinds}, "paid": {"type": "boolean"}}}
    fields = {"kind": "in_store", "kinds": ["online"], "paid": False, "more": None}
    assert chosen_fields(fields, schema, "Bought in a store") == ["kinds", "paid"]


def test_missing_required_fields_are_reported():
    """A required field that is missing is reported."""
    assert absent_fields({"a": 1}, {"required": ["a", "b"]}) == ["b"]
    assert absent_fields({}, {}) == []


def envelope(confidence=1.0, **fields):
    """Return the engine's envelope for the given fields."""
    return {"function_calls": [{"name": "sale", "arguments": fields}], "confidence": confidence}


SALE = OutputSchema(
    "sale",
    {
        "type": "object",
        "properties": {"what": TEXT, "price": {"type": "number"}, "mood": {"enum": ["good", "bad"]}},
        "required": ["what", "price"],
    },
)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (envelope(what="lamp", price=None), "does not find all of sale in the text: price"),
        (envelope(what="lamp", price=30, confidence=0.06), None),
        (envelope(what="lamp", price=30, mood="good", confidence=0.6), None),
        (envelope(what="lamp", price=30, mood="good", confidence=0.4), "reliably from the text: mood"),
        (envelope(what="lamp", price=30, confidence=0.01), r"reliably from the text\."),
        (envelope(what="lamp", price=31), "reliably from the text: price"),
        (envelope(what=""), "does not find all of sale in the text: what, price"),
    ],
)
def test_unreliable_answer_raises_bad_response(said, why):
    """An answer with missing, unsupported or low-confidence fields raises BadResponse."""
    form = ExtractionForm(SALE)
    read = form.read(said)
    if why is None:
        assert form.validated(read, said, "I sold a lamp for 30")["what"] == "lamp"
    else:
        with pytest.raises(BadResponse, match=why):
            form.validated(read, said, "I sold a lamp for 30")


def test_schema_is_tried_twice():
    """The engine is asked for all fields, then for any; a schema without required fields is tried once."""
    first, second = ExtractionForm(SALE).tools
    assert (first["parameters"]["required"], second["parameters"]["required"]) == (["what", "price"], [])
    assert len(ExtractionForm(OutputSchema("any", {"type": "object"})).tools) == 1


def test_non_object_schema_is_wrapped_in_a_field():
    """A non-object schema is requested as a field together with its definitions, and then unwrapped."""
    form = ExtractionForm(
        OutputSchema("words", {"type": "array", "items": {"$ref": "#/$defs/W"}, "$defs": {"W": TEXT}})
    )
    assert form.tools[0]["parameters"]["$defs"] == {"W": TEXT}
    assert form.validated({"value": ["lamp"]}, envelope(), "a lamp") == ["lamp"]


@pytest.mark.parametrize("said", [{}, {"function_calls": [], "suppressed_calls": []}, {"function_calls": [{}]}])
def test_empty_answer_is_none(said):
    """An empty answer of the engine is read as None."""
    assert ExtractionForm(SALE).read(said) is None


def test_suppressed_call_is_parsed():
    """A call that the engine suppressed is parsed like any other."""
    assert ExtractionForm(SALE).read({"suppressed_calls": [{"arguments": {"what": "lamp"}}]}) == {"what": "lamp"}


def test_incomplete_list_raises_bad_response():
    """A list that is shorter than the one in the text is rejected, and the missing items are named."""
    form = ExtractionForm(OutputSchema("names", {"type": "array", "items": {"type": "string"}}))
    envelope = {"confidence": 0.9}
    with pytest.raises(BadResponse, match=r"found only a part of names in the text; missing: Park\."):
        form.validated({"value": ["Kim", "Lee"]}, envelope, "Kim, Lee, Park")
    assert form.validated({"value": ["Kim", "Lee", "Park"]}, envelope, "Kim, Lee, Park") == ["Kim", "Lee", "Park"]
