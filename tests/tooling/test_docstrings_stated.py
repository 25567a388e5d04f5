"""Tests for parameter types that are stated in docstrings."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agentkit import Tool
from agentkit.tooling.docstrings import documented_types, parse_type


@pytest.mark.for_each(
    ("words", "kind"),
    [
        ("str", str),
        ("`bool`", bool),
        ("String, optional", str),
        ("int, default 5", int),
        ("bool, optional, default=False", bool),
        ("number", int | float),
        ("Dict[str, list]", dict),
        ("list of ints", list[int]),
        ("List[str]", list[str]),
        ("array", list),
        ("int or None", int | None),
        ("float, or None", float | None),
        ("list[int] | str", list[int] | str),
        ("Optional[int]", int | None),
        ("Union[str, int]", str | int),
        ("Dict[str, int] or bool", dict | bool),
    ],
)
def test_types_in_docstrings_are_recognised(words: str, kind: Any) -> None:
    """Types may be written in Python or in English, and may be marked as optional."""
    assert parse_type(words) == kind


@pytest.mark.for_each(
    "words",
    ["", "optional", "array_like", "a text that is long", "int or tuple", "Session", "list of Session", "Any", "5"],
)
def test_unknown_type_returns_none(words: str) -> None:
    """An unknown type in a docstring returns None."""
    assert parse_type(words) is None


STYLES = {
    "google": """
        Find.

        Args:
            what (str): The words.
            - `limit` (int, optional): How many.
            where: Any place.
        """,
    "numpy": """
        Find.

        Parameters
        ----------
        what : str
            The words.
        limit : int, optional
            How many.
        where : Place
            Any place.
        """,
    "fields": """
        Find.

        :param what: The words.
        :type what: str
        :param int limit: How many.
        :param where: Any place.
        """,
    "epytext": """
        Find.

        @param what: The words.
        @type what: str
        @param limit: How many.
        @type limit: int
        """,
}


@pytest.mark.parametrize("docstring", STYLES.values(), ids=STYLES)
def test_docstring_types_of_unannotated_parameters(docstring: str) -> None:
    """A parameter without annotation has the type stated in the docstring, in every style."""

    def demo(what, limit=3, where=None, *rest):
        return what * limit

    demo.__doc__ = docstring
    properties = Tool(demo).parameters["properties"]
    assert [properties[name].get("type") for name in ("what", "limit", "where")] == ["string", "integer", None]
    assert Tool(demo).invoke({"what": "a", "limit": "2"}).value == "aa"
    assert "'limit'" in Tool(demo).invoke({"what": "a", "limit": "many"}).error


def test_annotation_overrides_docstring_type() -> None:
    """An annotation takes precedence over the type stated in the docstring."""

    def demo(what: float, limit, *limits):
        """Find.

        Args:
            what (str): The words.
            limit (int): How many.
            limits (int): More of them.
        """

    kinds = {name: schema.get("type") for name, schema in Tool(demo).parameters["properties"].items()}
    assert kinds == {"what": "number", "limit": "integer", "limits": "array"}
    assert Tool(demo).parameters["properties"]["limits"]["items"] == {}


@pytest.mark.parametrize("text", ["x (int): one\nx (str): two", "x (None): nothing", "Find x (in any place).", ""])
def test_docstring_without_one_type_states_none(text: str) -> None:
    """Conflicting or invalid types in a docstring are ignored."""
    assert documented_types(inspect.cleandoc(text)) == {}


@pytest.mark.parametrize("line", ["x (int: ", "x" * 50, "- `x` (", ":param x ", " ", "x : a"])
def test_long_docstring_is_read_in_linear_time(line: str) -> None:
    """A long docstring is read in linear time, also with unterminated constructs."""
    assert documented_types(line * 50_000) == {}
    assert documented_types(f"{line}\n" * 50_000).get("y") is None
