"""Tests for typed answers on the command line: fields, classes, and JSON output."""

import json
from dataclasses import fields, is_dataclass
from datetime import date
from typing import Annotated, Literal, get_args

import click
import pytest

from agentkit import ConfigError
from agentkit.cli.ask_options import parse_answer_type
from agentkit.testing import FakeServer, say


@pytest.mark.for_each(
    ("text", "wanted"),
    [
        ("name", {"name": str}),
        ("name, age int", {"name": str, "age": int}),
        ("name string , day DATE", {"name": str, "day": date}),
        ("mood happy | sad|so-so", {"mood": Literal["happy", "sad", "so-so"]}),
        ("tags list[text], sums [number]", {"tags": list[str], "sums": list[float]}),
        ("rows list[list[int]]", {"rows": list[list[int]]}),
        ("age int?", {"age": int | None}),
        ("moods list[a|b], x", {"moods": list[Literal["a", "b"]], "x": str}),
        ("total number: in EUR", {"total": Annotated[float, "in EUR"]}),
        ("name: str, age: int?, day: date", {"name": str, "age": int | None, "day": date}),
        ("tags: list[str], size: small|large", {"tags": list[str], "size": Literal["small", "large"]}),
        ("age int | None, mood happy|sad|None", {"age": int | None, "mood": Literal["happy", "sad"] | None}),
        ("name: first, then last\n\nage int\n", {"name": Annotated[str, "first, then last"], "age": int}),
    ],
)
def test_fields_are_parsed(text, wanted):
    """A field is a name with an optional type and description, separated by commas or newlines."""
    kind = parse_answer_type(text)
    assert is_dataclass(kind)
    assert {field.name: field.type for field in fields(kind)} == wanted


@pytest.mark.parametrize("text", ["[name, age int]", " list[ name, age int ] "])
def test_fields_in_brackets_define_a_list(text):
    """Fields in brackets define a list of objects."""
    (kind,) = get_args(parse_answer_type(text))
    assert [field.name for field in fields(kind)] == ["name", "age"]


@pytest.mark.for_each(
    ("text", "expected"),
    [
        ("", "names no field"),
        ("[]", "names no field"),
        ("1st", "has no name"),
        ("class", "has no name"),
        ("two words here", "whose type is unknown"),
        ("x list[]y", "whose type is unknown"),
        ("a, a int", "Field name duplicated: 'a'"),
        ("nowhere.py:Order", "does not exist"),
        ('{"type": "object", "properties": {}}', "not a JSON schema"),
        ("dog.json", "not a JSON schema"),
    ],
)
def test_invalid_field_raises(text, expected):
    """An invalid field raises a usage error."""
    with pytest.raises(click.UsageError) as caught:
        parse_answer_type(text)
    assert expected in caught.value.message


def test_class_from_a_python_file(tmp_path):
    """A class in a Python file is an answer type; an unknown name raises an error that lists the classes."""
    path = tmp_path / "shop.py"
    written = (
        "from dataclasses import dataclass\nfrom datetime import date\n@dataclass\nclass Order:\n    total: float\n"
    )
    path.write_text(written)
    assert parse_answer_type(f"{path}:Order").__name__ == "Order"
    with pytest.raises(click.UsageError, match="There is no 'Ordr' in"):
        parse_answer_type(f"{path}:Ordr")
    with pytest.raises(click.UsageError, match=r"Its classes: Order\."):
        parse_answer_type(str(path))
    path.write_text("nix")
    with pytest.raises(ConfigError, match="NameError"):
        parse_answer_type(f"{path}:Order")


def test_answer_is_json(command):
    """The answer is indented JSON with these fields, and the schema is sent to the provider."""
    with FakeServer(say('{"name": "Rex", "day": "2026-11-23"}')) as server:
        out, _, code = command("--no-session", "--schema", "name, day date: when it came", "A dog?", server=server)
    assert (json.loads(out), code) == ({"name": "Rex", "day": "2026-11-23"}, 0)
    schema = server.requests[0].json["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["day"]["description"] == "when it came"


def test_list_of_answers_in_one_document(command):
    """With --json, a list of answers is the output of one document."""
    with FakeServer(say('{"result": [{"total": 12.5}]}')) as server:
        out, _, code = command("--no-session", "--json", "--schema", "[total number]", "How much?", server=server)
    assert (json.loads(out)["output"], code) == ([{"total": 12.5}], 0)


def test_answer_that_never_matches_is_an_error(command):
    """An answer that never matches the schema is an error, and stdout is empty."""
    with FakeServer(say("no"), say("no"), say("no")) as server:
        out, err, code = command("--no-session", "--schema", "total number", "How much?", server=server)
    assert (out, code, "refused 3 times" in err) == ("", 1, True)
