"""Proves which types of parameters are read from a docstring, where they have no annotations."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agentkit import Tool
from agentkit.tooling.docstrings import stated_type, stated_types


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
def test_words_for_what_json_has_are_types(words: str, kind: Any) -> None:
    """Types may be written as in Python or in English, with what a call may leave out."""
    assert stated_type(words) == kind


@pytest.mark.for_each(
    "words",
    ["", "optional", "array_like", "a text that is long", "int or tuple", "Session", "list of Session", "Any", "5"],
)
def test_other_words_are_no_types(words: str) -> None:
    """What is not known is not guessed at."""
    assert stated_type(words) is None


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
def test_types_are_found_where_docstrings_have_them(docstring: str) -> None:
    """In every style a parameter without annotation has the type that is said of it, and others have any."""

    def demo(what, limit=3, where=None, *rest):
        return what * limit

    demo.__doc__ = docstring
    properties = Tool(demo).parameters["properties"]
    assert [properties[name].get("type") for name in ("what", "limit", "where")] == ["string", "integer", None]
    assert Tool(demo).invoke({"what": "a", "limit": "2"}).value == "aa"
    assert "'limit'" in Tool(demo).invoke({"what": "a", "limit": "many"}).error


def test_an_annotation_wins_over_the_docstring() -> None:
    """What stands in the signature is not read again in the text."""

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
def test_what_states_no_one_type_states_none(text: str) -> None:
    """Two types of one name contradict each other."""
    assert stated_types(inspect.cleandoc(text)) == {}


@pytest.mark.parametrize("line", ["x (int: ", "x" * 50, "- `x` (", ":param x ", " ", "x : a"])
def test_a_long_docstring_is_read_once(line: str) -> None:
    """However long a text is, and whatever it begins and does not end, it is looked through once."""
    assert stated_types(line * 50_000) == {}
    assert stated_types(f"{line}\n" * 50_000).get("y") is None
