"""Proves which headings and entries of docstrings are understood."""

from __future__ import annotations

import inspect

import pytest

from agentkit.tooling.functions.sections import described

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
    """Entries are read in the notations that people use, with the lines that go on below them."""
    text, parameters = described(inspect.cleandoc(docstring))
    assert text == "Search."
    assert {name: parameters[name] for name in ("query", "limit")} == {
        "query": 'What to find, e.g. "a: b":\n* one\n* two',
        "limit": "How many.",
    }


def test_several_names_share_a_text() -> None:
    """Names parted by commas, with stars or without, are all described; a line at the same indent goes on."""
    docstring = "Args:\n  x, *args: Both\n  of them."
    assert described(docstring) == ("", {"x": "Both\nof them.", "args": "Both\nof them."})


@pytest.mark.parametrize(
    "docstring",
    ["", "Just text: with a colon.", "Note: this computes. Args: none.", "Todo:\n    things", "Warning:\n  x: y"],
)
def test_a_docstring_without_headings_is_all_text(docstring: str) -> None:
    """Words that look like headings inside a text are left alone."""
    assert described(docstring) == (docstring, {})


def test_a_heading_without_entries_describes_nothing() -> None:
    """Text below a heading that is no entry is nobody's."""
    assert described("Do.\n\nArgs:\n    whatever you like") == ("Do.", {})
    assert described("Do.\n\nArgs:\nwhatever you like") == ("Do.", {})
    assert described("Do.\n\nArgs:") == ("Do.", {})
