"""Tests for the headings and entries of docstrings."""

from __future__ import annotations

import inspect

import pytest

from agentkit.tooling.docstrings import normalise, split_docstring
from agentkit.tooling.signature import Documentation, parse_docstring

STYLES = {
    "google": """
        Search.

        Args:
            query: What to find, e.g. "a: b":
                * one
                * two
            limit (int, optional): How many.
        Returns:
            What was found.
        """,
    "types": """
        Search.

        Arguments:
            query (:obj:`str`): What to find, e.g. "a: b":
                * one
                * two

            limit (Optional[tuple(int, int)]): How many.
        Raises:
            ValueError: never
        """,
    "braces": """
        Search.

        Keyword Args:
            query {str} -- What to find, e.g. "a: b":
                * one
                * two
            limit {int} -- How many.
        """,
    "bullets": """
        Search.

        **Parameters:**
        - `query` (str): What to find, e.g. "a: b":
            * one
            * two
        - **limit** - How many.

        Then it is done.
        """,
    "same indent": """
        Search.

        # Arguments
        query: What to find, e.g. "a: b":
            * one
            * two
        limit: How many.
        Usage:
            search("x")
        """,
    "two sections": """
        Search.

        Args:
            query: What to find, e.g. "a: b":
                * one
                * two
        Other Parameters:
            limit: How many.
        """,
}


@pytest.mark.parametrize("docstring", STYLES.values(), ids=STYLES)
def test_parameters_are_described_under_a_heading(docstring: str) -> None:
    """Entries in common notations are parsed, with their continuation lines."""
    text, parameters = split_docstring(inspect.cleandoc(docstring))
    assert text == "Search."
    assert {name: parameters[name] for name in ("query", "limit")} == {
        "query": 'What to find, e.g. "a: b":\n* one\n* two',
        "limit": "How many.",
    }


def test_several_names_share_a_description() -> None:
    """Comma-separated names, with or without stars, share a description that may span lines."""
    docstring = "Args:\n  x, *args: Both\n  of them."
    assert split_docstring(docstring) == ("", {"x": "Both\nof them.", "args": "Both\nof them."})


@pytest.mark.parametrize(
    "docstring",
    ["", "Just text: with a colon.", "Note: this computes. Args: none.", "Todo:\n    things", "Warning:\n  x: y"],
)
def test_words_like_headings_in_a_text_are_ignored(docstring: str) -> None:
    """Words that look like headings inside a text are left alone."""
    assert split_docstring(docstring) == (docstring, {})


def test_section_without_entries_is_ignored() -> None:
    """Text in a section that contains no entries is ignored."""
    assert split_docstring("Do.\n\nArgs:\n    whatever you like") == ("Do.", {})
    assert split_docstring("Do.\n\nArgs:\nwhatever you like") == ("Do.", {})
    assert split_docstring("Do.\n\nArgs:") == ("Do.", {})


OWN = {
    "capitals": "Search.\n\nARGS:\n    query: What.\n    limit: How many.",
    "another word": "Search.\n\nInputs:\n    query: What.\n    limit: How many.\n\nReturns:\n    It.",
    "German": "Search.\n\nParameter:\n    query: What.\n    limit: How many.",
    "Chinese": "Search.\n\n\u53c2\u6570\uff1a\n    query\uff1aWhat.\n    limit\uff1aHow many.",
    "bold": "Search.\n\n**Tham s\u1ed1:**\n\n- `query`: What.\n- `limit`: How many.",
    "types": "Search.\n\nArgs:\n    query <str>: What.\n    limit [int]: How many.",
    "ruled": "Search.\n\nArgs:\n-----\n    query: What.\n    limit: How many.",
    "doubly ruled": "Search.\n\nParameters\n==========\nquery : str\n    What.\nlimit : int\n    How many.",
    "ruled too short": "Search.\n\nParameters:\n---\nquery : str\n    What.\nlimit : int\n    How many.",
    "other parameters": "Search.\n\nOther Parameters\n---\nquery : str\n    What.\nlimit : int\n    How many.",
    "argument": "Search.\n\n:argument query: What.\n:keyword limit: How many.",
    "without a colon": "Search.\n\n@param query What.\n@param limit How many.",
    "small letters": "Search.\n\nkeyword arguments:\n    query: What.\n    limit: How many.\nreturns:\n    It.",
    "two words": "Search.\n\nThe arguments are:\n    - query: What.\n\nKeyword arguments:\n    - limit: How many.",
    "next to the heading": "Search.\n\nArgs: query (str): What.\n      limit: How many.",
    "bare fields": "Search.\n\n:query: What.\n:limit: How many.\n:return: It.",
    "ruled examples": "Search.\n\nArgs:\n    query: What.\n    limit: How many.\n\nExamples:\n---------\nNone.",
    "fields for results": "Search.\n\nArgs:\n    query: What.\n    limit: How many.\n\n:return: It.\n:rtype: str",
    "ruled results": "Search.\n\nInputs:\n    query: What.\n    limit: How many.\n\nReturns\n-------\nIt.",
    "broken types": "Search.\n\nArgs:\n    query (Union[\n        str,\n        Path(a),\n    ], optional): What.\n"
    "    limit\n        (int): How many.",
    "groups": "Search.\n\nArgs:\n    query: What.\n\n    For long answers only:\n    limit: How many.",
    "roles": "Search.\n\n:param query: What.\n:param limit: How many.\n\n.. versionadded:: 2.0\n   The limit.",
    "another system": "Search.\r\n\r\nArgs:\r\n    query: What.\r\n    limit: How many.\r\n",
}


@pytest.mark.for_each("docstring", OWN.values(), ids=OWN)
def test_section_is_recognised_by_its_entries(docstring: str) -> None:
    """A heading of any name or style starts a section if parameter entries follow it."""
    found = parse_docstring(docstring, ["query", "limit"])
    assert (found.text, dict(found.parameters)) == ("Search.", {"query": "What.", "limit": "How many."})


def test_list_of_other_names_is_not_a_section() -> None:
    """A list of names that are not parameters remains part of the description."""
    docstring = "Search in these:\n    books: All of them.\n    query\n\nReturns:\n    It."
    assert split_docstring(docstring, ["query"]) == ("Search in these:\n    books: All of them.\n    query", {})
    assert normalise("a --- b @ c") == "a --- b @ c"


def test_nested_heading_belongs_to_its_parameter() -> None:
    """Headings nested in an entry neither end the section nor add entries."""
    docstring = (
        "Find.\n\nArgs:\n    query: What.\n        Examples:\n            x\n    options: How.\n"
        "        Parameters:\n            query: not this\n    limit: How many."
    )
    found = parse_docstring(docstring, ["query", "options", "limit"])
    assert found.parameters["query"] == "What.\nExamples:\n    x"
    assert found.parameters["limit"] == "How many."


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        ("Find with\n:func:`find` here.\n\n:param query: What.", "Find with\n:func:`find` here."),
        ("Find.\n\n:param query: What.\n\nUse it often.", "Find.\n\nUse it often."),
        ("Find.\n\n@param query: What.\n@return: It.\n\nSome text.", "Find."),
    ],
)
def test_text_around_fields_is_not_part_of_them(docstring: str, text: str) -> None:
    """Roles are not fields, and text after the last field belongs to the function."""
    assert parse_docstring(docstring, ["query"]) == Documentation(text, {"query": "What."})


@pytest.mark.parametrize(
    "docstring",
    [
        "Find.\n\nArgs: what is looked for, and\n    more: of it",
        "Find.\n\nParameters: name: of another",
        "Find it\n:here: and\n:there: too.",
        "Find (in\n    any place): it.",
    ],
)
def test_text_that_resembles_entries(docstring: str) -> None:
    """Headings followed by words and fields of other names remain part of the description."""
    assert parse_docstring(docstring, ["query"]).parameters == {}
    assert parse_docstring(docstring, ["query"]).text.startswith("Find")


@pytest.mark.for_each(
    "entry",
    [
        "x{blanks}y: z",
        "x\n  ({blanks}",
        "x ()({blanks}",
        "Args: {blanks}x",
        ":x:{blanks}",
        "x (int){blanks}y",
        "x,{blanks}y",
        "x{ticks}!",
        "x ({ticks}",
        "x {{{ticks}",
        "x (a(b{ticks})",
        "{blanks}",
        "-{blanks}",
    ],
)
def test_long_line_is_parsed_quickly(entry: str) -> None:
    """A very long line of spaces or backticks does not hide the entries after it."""
    line = entry.format(blanks=" " * 300_000, ticks="`" * 300_000)
    assert parse_docstring(f"Do.\n\nArgs:\n  a: One.\n  {line}\n  b: Two.", ["a", "b"]).parameters["b"] == "Two."


def test_many_headings_are_parsed_quickly() -> None:
    """A docstring with a hundred thousand headings is parsed in linear time."""
    assert parse_docstring("Args\n---\n" * 100_000, ["a"]).parameters == {}
    docstring = "Some words:\n" * 100_000
    assert split_docstring(docstring, ["a"]) == (docstring, {})
    for line in ("x (a\n", "x\n (\n", "Args: y\n", ":func:`x`\n", ":x: y\n"):
        assert parse_docstring(line * 10_000, ["a"]).parameters == {}
