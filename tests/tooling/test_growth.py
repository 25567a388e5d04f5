"""Tests that checking arguments takes time proportional to their size."""

import datetime
import enum
import json
import sys

import pytest
from pydantic import BaseModel

from agentkit import Tool
from agentkit.errors import BadArguments


class Color(enum.Enum):
    """A choice."""

    RED = "red"
    GREEN = "green"


class Item(BaseModel):
    """An object inside the arguments."""

    name: str
    color: Color = Color.RED


def note(start_date: datetime.date, items: list[Item], colors: dict[Color, int], end: str = "") -> str:
    """Accept a value of each type that is repaired."""
    return end


def rest(start_date: str = "", **others: int) -> str:
    """Accept arguments of any name."""
    return start_date


GIVEN = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
    "required": ["name"],
}
TOOLS = {"typed": Tool(note), "rest": Tool(rest), "schema": Tool.from_schema("given", "d", GIVEN, note)}

SENT = {
    "unknown names": lambda n: {f"k{i}": i for i in range(n)},
    "unknown names that are null": lambda n: {f"k{i}": None for i in range(n)},
    "spellings of one name": lambda n: {"start" + "_" * i + "date": i for i in range(n)},
    "unknown names in an object": lambda n: {"arguments": {f"k{i}": i for i in range(n)}},
    "unknown names in a list": lambda n: {"items": [{f"k{i}": i} for i in range(n)]},
    "unknown names in an entry": lambda n: {"items": [{f"k{i}": i for i in range(n)}]},
    "wrong entries": lambda n: {"items": ["x"] * n, "tags": ["x"] * n},
    "entries to be repaired": lambda n: {"items": ['{"Name": "x"}'] * n, "tags": ["A"] * n},
    "wrong keys": lambda n: {"colors": {f"k{i}": i for i in range(n)}},
    "spellings of one key": lambda n: {"colors": {"RED" + "_" * i: i for i in range(n)}},
    "text that names many": lambda n: {"tags": ",".join(["x"] * n)},
    "unfinished quotes": lambda n: '{"name": ' + "'" * n,
    "unfinished brackets": lambda n: {"items": "(" * n},
    "commas": lambda n: "{" + ", " * n,
    "a long name": lambda n: {"_-" * n: 1},
    "a long number": lambda n: {"start_date": "1" * n, "items": "1," * n},
}


def steps_taken(work) -> int:
    """Return the number of bytecode instructions run by `work`, which other processes do not affect."""
    count = 0

    def traced(frame, event, _argument):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.for_each("sent", SENT)
@pytest.mark.for_each("tool", TOOLS)
def test_work_is_proportional_to_the_arguments(tool, sent):
    """The work to check arguments is proportional to their size, and the error is bounded."""

    def checked(n):
        given = SENT[sent](n)
        output = TOOLS[tool].judge(given if isinstance(given, str) else json.dumps(given))
        assert len(output.reason) <= 1_000

    checked(10)
    small, large = (steps_taken(lambda n=n: checked(n)) for n in (100, 400))
    assert large < 5 * small + 1_000


def test_many_unknown_names_give_five_sentences():
    """The error names the first five problems and says that there are more."""
    with pytest.raises(BadArguments) as caught:
        TOOLS["typed"].check({f"k{i}": i for i in range(20_000)})
    assert str(caught.value).count("has no parameter") + str(caught.value).count("is missing") == 5
    assert str(caught.value).endswith("And at least 995 more.")


@pytest.mark.parametrize("tool", TOOLS)
def test_deeply_nested_arguments_fail(tool):
    """Deeply nested arguments return a failed result instead of raising an exception."""
    deep = None
    for _ in range(5_000):
        deep = {"start_date": deep, "name": [deep]}
    assert not TOOLS[tool].invoke(deep).ok
