"""Tests for plain annotations, which are handled without pydantic but with the same results."""

from __future__ import annotations

import subprocess
import sys
import types
import typing
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from agentkit.errors import BadArguments
from agentkit.tooling.schema import FunctionParameters, is_plain_default, plain


def spelt(hint: str) -> Any:
    """Return an annotation in the notation of older Python versions."""
    return typing.get_type_hints(types.SimpleNamespace(__annotations__={"hint": hint}), vars(typing))["hint"]


class Urgency(Enum):
    """The urgency of a task.

    It may be given by its text.
    """

    LOW = "a"
    HIGH = "b"


Colour = StrEnum("Colour", {"RED": "red"})
"""An enum without a docstring."""


class Number(Enum):
    """An enum of numbers."""

    ONE = 1
    TWO = "b"


Alias = Enum("Alias", {"FIRST": "a", "ONCE_MORE": "a"})
"""An enum with two names for one text."""


class Nothing(Enum):
    """An enum without members."""


class Own(Enum):
    """An enum with a custom schema."""

    A = "a"

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema, handler):
        """Return another schema."""
        return {"type": "string", "pattern": "a"}


PLAIN_HINTS = [
    str,
    int,
    float,
    bool,
    Any,
    Literal["a"],
    Literal["a", "b"],
    str | None,
    spelt("Optional[int]"),
    spelt("Union[None, float]"),
    Literal["a", "b"] | None,
    list,
    dict,
    list[str],
    list[list[int]],
    list[Any],
    list[str | None],
    spelt("List[bool]"),
    dict[str, int],
    dict[str, Any],
    dict[str, list[float]],
    spelt("Dict[str, str]"),
    list[int] | None,
    dict[str, str] | None,
    Annotated[int, "how many"],
    Annotated[list[str], "which ones"],
    Urgency,
    Colour,
    Urgency | None,
    list[Urgency],
    dict[str, Colour],
]
RICH_HINTS = [
    Number,
    Alias,
    Nothing,
    Own,
    bytes,
    set[int],
    tuple[int, str],
    int | str,
    int | str | None,
    Literal[1, 2],
    Literal["a", None],
    dict[int, str],
    list[bytes],
    dict[str, bytes],
    bytes | None,
    spelt("Optional[Any]"),
    Annotated[int, Field(ge=1)],
    None,
    3,
    [],
]
VALUES = [
    *(None, "", "a", "b", "7", "7.5", "true", "[1]", '{"a": "1"}', 0, 1, -7, 2.0, 2.5, True, False),
    *([], [1], ["a"], ["7", None], [[1], ["2"]], {}, {"a": 1}, {"a": "x"}, {"a": [1.5]}, {1: 2}, (1, 2), 10**30),
]


def parameters(hint: Any, default: Any = ...) -> FunctionParameters:
    """Return the parameters of a function `demo(value: hint = default)`."""
    if default is ...:

        def demo(value):
            return value
    else:

        def demo(value=default):
            return value

    demo.__annotations__["value"] = hint
    return FunctionParameters(demo, "demo")


def checked(found: FunctionParameters, arguments: dict[str, Any]) -> Any:
    """Return the value and its representation, or the error message."""
    try:
        value = found.check(arguments)["value"]
    except BadArguments as error:
        return str(error)
    return value, repr(value)


@pytest.mark.for_each("hint", PLAIN_HINTS, ids=str)
def test_plain_annotation_agrees_with_pydantic(hint: Any) -> None:
    """A plain annotation has the same schema, values and errors with and without pydantic."""
    assert plain(hint) is not None
    for default in (..., None, "a", 7, 1.5, True, Urgency.HIGH):
        quick, thorough = parameters(hint, default), parameters(Annotated[hint, Field()], default)
        assert quick.json_schema == thorough.json_schema
        assert quick.strict_schema == thorough.strict_schema
        assert checked(quick, {}) == checked(thorough, {})
        for value in VALUES:
            assert checked(quick, {"value": value}) == checked(thorough, {"value": value}), value


@pytest.mark.for_each("hint", RICH_HINTS, ids=str)
def test_other_annotations_are_left_to_pydantic(hint: Any) -> None:
    """An annotation that is not a plain type returns None and is handled by pydantic."""
    assert plain(hint) is None


def test_only_scalars_are_plain_defaults() -> None:
    """Only scalar defaults, and members of the annotated enum, are plain defaults."""
    assert all(map(is_plain_default, ("", 1, 1.5, True, None)))
    assert not any(map(is_plain_default, ([], {}, object(), b"", Urgency.LOW)))
    assert is_plain_default(Urgency.LOW, Urgency)
    assert not is_plain_default([], list)


def test_plain_tools_need_no_third_party_package() -> None:
    """Creating, describing, checking and running a plain tool imports only the standard library without asyncio."""
    code = (
        "import sys\n"
        "from agentkit.tooling.tool import tool\n"
        "from agentkit.tooling.toolset import Toolset\n"
        "@tool\n"
        "def add(a: int, b: float = 1.0, c: list[str] | None = None) -> float:\n"
        "    'Add.'\n"
        "    return a + b\n"
        "assert Toolset([add]).find('add').invoke('{\"a\": 1}').value == 2.0\n"
        "assert add.spec.strict_parameters\n"
        "foreign = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print({name for name in foreign if not name.startswith('__')} - {'agentkit'}, 'asyncio' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _here() + code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("set() False\n", "")


def _here() -> str:
    import agentkit

    return f"import sys; sys.path.insert(0, {next(iter(agentkit.__path__)).removesuffix('agentkit')!r})\n"
