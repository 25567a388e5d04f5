"""Tests for the search among searchable tools."""

import pytest

from agentkit import Tool
from agentkit.tools.run_tools import search_tools


def tool(name, description, **parameters):
    """Return a tool with the given parameters and their descriptions."""
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return Tool.from_schema(name, description, {"type": "object", "properties": properties}, lambda **_: "")


TOOLS = [
    tool("github_create_issue", "Create a new issue in a repository.", title="The title.", body="What it says."),
    tool("github_close_issue", "Close an issue.", number="The number of the issue."),
    tool("mail_send", "Send a message to somebody.", to="The address.", subject="The subject."),
    tool("listCalendarEvents", "What is planned between two days.", first_day="From when.", last_day="Until when."),
    tool("convert", "Convert an amount of money.", currency="The currency, as ISO 4217 writes it."),
    tool("find_route", "Tìm đường đi trong thành phố Đà Nẵng."),
]


@pytest.mark.for_each(
    ("query", "first"),
    [
        ("create an issue", "github_create_issue"),
        ("creating issues", "github_create_issue"),
        ("closed", "github_close_issue"),
        ("github_close_issue", "github_close_issue"),
        ("sending messages", "mail_send"),
        ("calendar", "listCalendarEvents"),
        ("events of the day", "listCalendarEvents"),
        ("currencies", "convert"),
        ("subject", "mail_send"),
        ("duong da nang", "find_route"),
        ("đường", "find_route"),
    ],
)
def test_best_matching_tool_comes_first(query, first):
    """Tools are found by words of their name, description and parameters, ignoring accents."""
    assert search_tools(query, TOOLS)[0].name == first


@pytest.mark.parametrize("query", ["", "   ", "*", '" OR name : "', "weather", "\0", "\ud800"])
def test_search_without_matching_words_finds_nothing(query):
    """A query without matching words finds no tools."""
    assert search_tools(query, TOOLS) == []


def test_nested_fields_of_parameters_are_searched():
    """Nested field descriptions are searched, and a large schema is handled in time."""
    deep = {"description": "a harpsichord"}
    for _ in range(20):
        deep = {"type": "array", "items": {"type": "object", "properties": {"part": deep}}}
    wide = {"type": "object", "properties": {f"field_{number}": {} for number in range(100_000)}}
    tools = [
        Tool.from_schema(name, "", {"type": "object", "properties": {"a": schema}}, lambda **_: "")
        for name, schema in (("deep", deep), ("wide", wide))
    ]
    assert [each.name for each in search_tools("harpsichord", tools)] == ["deep"]
    assert [each.name for each in search_tools("field", tools)] == ["wide"]
