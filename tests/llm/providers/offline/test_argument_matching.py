"""Tests for matching a question with tools and the candidates for their parameters."""

import pytest

from agentkit.llm.providers.offline.argument_matching import (
    Offer,
    TextKind,
    kinds_of,
    offer_lacking_arguments,
    offers,
    plain_schema,
    unexplained,
)
from agentkit.llm.providers.offline.question_parser import Question
from agentkit.messages import ToolSpec

TEXT = {"type": "string"}


def tool(name, description="", *, optional=(), **parameters):
    """Return a tool as a model receives it."""
    required = [each for each in parameters if each not in optional]
    return ToolSpec(name, description, {"type": "object", "properties": parameters, "required": required})


NOW = tool("get_current_datetime", "Tell the current date, time and weekday.")
SUM = tool("calculator", "Evaluate an arithmetic expression.", expression=TEXT)
LENGTH = tool("string_length", "Count the characters, words and lines of a text.", text=TEXT)
JSON = tool("parse_json", "Parse a JSON text.", json_string=TEXT)
SEARCH = tool("web_search", "Search the web.", query=TEXT)
WIKI = tool("wikipedia", "Look up a topic on Wikipedia.", query=TEXT)
FETCH = tool("fetch_url", "Fetch a web page.", url=TEXT)
READ = tool("read_file", "Read a text file.", path=TEXT)
WRITE = tool("write_file", "Write content to a file.", path=TEXT, content=TEXT)
LIST = tool("list_directory", "List the files in a directory.", optional=("path",), path=TEXT)
SHELL = tool("run_shell", "Run a shell command.", command=TEXT)
PYTHON = tool("run_python", "Run Python code.", code=TEXT)
WEATHER = tool("get_weather", "Get the weather forecast for a city.", city=TEXT)
EVERY = (NOW, SUM, LENGTH, JSON, SEARCH, WIKI, FETCH, READ, WRITE, LIST, SHELL, PYTHON)


def candidates(text, spec):
    """Return the candidates for each parameter of the tool."""
    return Offer(Question(text, has_commands=spec in (SHELL, PYTHON)), spec).candidates


def offered(text, *specs):
    """Return the names of the tools that match the question."""
    return [offer.spec.name for offer in offers(Question(text, has_commands=SHELL in specs), specs)]


@pytest.mark.for_each(
    ("spec", "kinds"),
    [
        (SUM, {"expression": TextKind.EXPRESSION}),
        (JSON, {"json_string": TextKind.JSON}),
        (WRITE, {"path": TextKind.PATH, "content": TextKind.MESSAGE}),
        (SEARCH, {"query": TextKind.QUERY}),
        (WEATHER, {}),
        (tool("play_music", "Play a song.", query=TEXT), {}),
        (tool("create_note", "Save a note.", text=TEXT), {"text": TextKind.MESSAGE}),
        (tool("open", "", pageUrl=TEXT), {"pageUrl": TextKind.URL}),
        (tool("open", "", page={"type": "string", "format": "uri"}), {"page": TextKind.URL}),
        (tool("pick", "", path={"type": "string", "enum": ["a", "b"]}), {}),
        (tool("pick", "", path={"type": "integer"}), {}),
    ],
)
def test_kind_of_a_text_parameter_follows_from_its_name(spec, kinds):
    """The kind of a text parameter follows from its name, its format and the tool's description."""
    assert kinds_of(spec) == kinds


@pytest.mark.for_each(
    ("text", "spec", "expected"),
    [
        ("How much is 2 + 2?", SUM, {"expression": ("2 + 2",)}),
        ('compute "2 + 2"', SUM, {"expression": ("2 + 2",)}),
        ('compute "2 + two apples"', SUM, {"expression": ()}),
        ("call 555-1234", SUM, {"expression": ()}),
        ("what is 555-1234?", SUM, {"expression": ("555-1234",)}),
        ('is {"a": 1} valid', JSON, {"json_string": ('{"a": 1}',)}),
        ("fetch https://a.example", FETCH, {"url": ("https://a.example",)}),
        ("read 'my notes.txt'", READ, {"path": ("my notes.txt",)}),
        ("read the file 'my notes'", READ, {"path": ("my notes",)}),
        ('read the file called "x y"', READ, {"path": ("x y",)}),
        ("translate 'good night'", READ, {"path": ()}),
        ("read the file named Makefile", READ, {"path": ("Makefile",)}),
        ("list the files in src", LIST, {"path": ("src",)}),
        ("list the files in it", LIST, {"path": ()}),
        ("the capital of Peru", READ, {"path": ()}),
        ("save 'hello' to out.txt", WRITE, {"path": ("out.txt",), "content": ("hello",)}),
        ("save to a.txt: Good morning", WRITE, {"path": ("a.txt",), "content": ("Good morning",)}),
        ('save {"a": 1} to a.json', WRITE, {"path": ("a.json",), "content": ('{"a": 1}',)}),
        ("how long is the word banana?", LENGTH, {"text": ("banana",)}),
        ("how long is the word of God", LENGTH, {"text": ()}),
        ("run ls -la", SHELL, {"command": ("ls -la",)}),
        ("run print(1)", SHELL, {"command": ()}),
        ("run print(1) in the shell", SHELL, {"command": ("print(1)",)}),
        ("run ls -la", PYTHON, {"code": ()}),
        ("run find . -name '*.py'", PYTHON, {"code": ()}),
        ("run print(1)", PYTHON, {"code": ("print(1)",)}),
        ("python: a = b", PYTHON, {"code": ("a = b",)}),
        ("what does `x = 1` do", PYTHON, {"code": ("x = 1",)}),
        ("search the web for rust tutorials, please", SEARCH, {"query": ("rust tutorials",)}),
        ("Tell me about Mount Everest from Wikipedia", WIKI, {"query": ("Mount Everest",)}),
        ("who wrote War and Peace?", SEARCH, {"query": ("wrote War and Peace",)}),
        ("draw a cat", SEARCH, {"query": ()}),
        ("search the web", SEARCH, {"query": ()}),
    ],
)
def test_candidates_for_a_parameter_are_spans_of_the_question(text, spec, expected):
    """The candidates for a parameter are spans of the question that match its kind."""
    assert candidates(text, spec) == expected


@pytest.mark.for_each(
    ("text", "names"),
    [
        ("What time is it?", ["get_current_datetime"]),
        ("How much is 2 + 2?", ["calculator"]),
        ("How many words in 'a b'?", ["string_length"]),
        ("Translate 'good night' into French", []),
        ("Tell me a joke", []),
        ("is this valid JSON?", []),
        ("What is the capital of Vietnam?", ["web_search", "wikipedia"]),
        ("save 'hello' to out.txt", ["write_file"]),
        ("what time is it and how much is 3*4?", ["get_current_datetime", "calculator"]),
    ],
)
def test_only_matching_tools_are_offered(text, names):
    """A tool is offered if its arguments are in the question and its words match."""
    assert offered(text, *EVERY) == names


def test_tools_with_generic_parameters_are_always_offered():
    """A tool whose parameter names do not indicate their content is always offered to the engine."""
    assert offered("exchange 40 GBP", WEATHER, SUM) == ["get_weather"]


def test_five_best_tools_are_offered_in_order():
    """The five best matching tools are offered in their original order."""
    many = [tool(f"thing_{number}", "Does a thing.", thing=TEXT) for number in range(9)]
    assert offered("thing 7", *many[:-1], WEATHER) == [f"thing_{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("text", "engine_schema"),
    [
        ("start a 5 minute timer", ["minutes", "mode"]),
        ("start a 5 minute timer called eggs", ["minutes", "label", "mode"]),
        ("start a 5 minute timer from eggs.txt", ["minutes", "mode", "path"]),
    ],
)
def test_engine_sees_only_parameters_the_question_may_contain(text, engine_schema):
    """Optional text is shown only if the question may contain it, and required or enum values always are."""
    spec = tool(
        "set_timer",
        "Start a timer.\n\nIt rings.",
        optional=("label", "mode", "path"),
        minutes={"type": "integer"},
        label={"type": "string", "default": ""},
        mode={"enum": ["loud", "still"]},
        path=TEXT,
    )
    told = Offer(Question(text), spec).engine_schema()
    assert (told["description"], list(told["parameters"]["properties"])) == ("Start a timer.", engine_schema)
    assert "default" not in str(told)


def test_referenced_definitions_are_included():
    """Definitions that schemas refer to are included."""
    spec = ToolSpec("pick", "", {"properties": {"city": {"$ref": "#/$defs/City"}}, "$defs": {"City": TEXT}})
    assert Offer(Question("pick"), spec).engine_schema()["parameters"]["$defs"] == {"City": TEXT}


def test_unexplained_word_is_a_leftover():
    """A word that neither a tool nor an argument explains is reported as a leftover."""
    question = Question("weather in Paris on the moon")
    assert unexplained(question, [Offer(question, WEATHER)], [{"city": "Paris"}]) == {"moon"}


@pytest.mark.parametrize(
    ("text", "name"), [("is this valid JSON?", "parse_json"), ("How many words?", "string_length")]
)
def test_question_without_its_object_names_the_tool(text, name):
    """If only an argument is missing, the tool and the argument are returned."""
    assert offer_lacking_arguments(Question(text), EVERY).spec.name == name


def test_question_that_matches_no_tool_lacks_nothing():
    """Nothing is missing if the question matches no tool."""
    assert offer_lacking_arguments(Question("compose a haiku about JSON"), EVERY) is None


@pytest.mark.for_each(
    ("schema", "plain"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, {"type": "string", "default": None}),
        ({"$ref": "#/$defs/City"}, {"type": "string", "title": "City"}),
        ({"anyOf": [{"$ref": "#/$defs/City"}, {"type": "null"}]}, {"type": "string", "title": "City"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"$ref": "#/$defs/Missing"}, {}),
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer"]}),
        ({"anyOf": [True, {"type": "string"}]}, {"type": "string"}),
        (True, {}),
        ({"$ref": "#/$defs/City/title/x"}, {}),
    ],
)
def test_references_and_nulls_are_resolved(schema, plain):
    """References and null alternatives of a schema are resolved; a dangling reference is ignored."""
    assert plain_schema(schema, {"$defs": {"City": {"type": "string", "title": "City"}}}) == plain


def test_circular_reference_is_bounded():
    """A circular reference is resolved to a limited depth."""
    assert plain_schema({"$ref": "#/$defs/A"}, {"$defs": {"A": {"$ref": "#/$defs/A"}}}) == {"$ref": "#/$defs/A"}
