"""Tests for the scorer of tool calls."""

import pytest

from agentkit.evals import Case, tool_calls
from agentkit.testing import call

TWO = (call("add", a=1, b=2), call("name", text=" x "))


@pytest.mark.parametrize(
    ("made", "expected", "value", "passed"),
    [
        (TWO, ["add", "name"], 1.0, True),
        (TWO, ["name", "add"], 1.0, True),
        (TWO, [("add", {"a": 1}), ("name", {"text": "x"})], 1.0, True),
        (TWO, [("add", {"a": 1.0, "b": 2})], 0.5, False),
        (TWO, [("add", {"a": True}), "name"], 0.5, False),
        (TWO, [("add", {"a": lambda value: value > 0}), "name"], 1.0, True),
        (TWO, [("add", {"a": lambda value: value > 1}), "name"], 0.5, False),
        (TWO, [("add", {"a": "1"}), "name"], 0.5, False),
        (TWO, [("add", {"c": 1}), "name"], 0.5, False),
        (TWO, ["add", "name", "add"], 2 / 3, False),
        (TWO, [], 0.0, False),
        ((), [], 1.0, True),
        ((), ["add"], 0.0, False),
        ((call("add", "[1]"),), ["add"], 1.0, True),
        ((call("add", "[1]"),), [("add", {"a": 1})], 0.0, False),
        ((call("add", "{"),), [("add", {"a": 1})], 0.0, False),
    ],
)
def test_tool_calls_are_scored(answering, made, expected, value, passed):
    """The score of tool calls is the share of correct calls among those made or expected."""
    result = answering(list(made), "done") if made else answering("done")
    score = tool_calls()(Case("x", tool_calls=expected), result)
    assert (score.value, score.passed) == (pytest.approx(value), passed)


def test_one_call_is_not_counted_twice(answering):
    """A call matches at most one expectation, and strict expectations take precedence."""
    made = [call("add", a=1, b=1), call("add", a=2, b=2)]
    wanted = [("add", {}), ("add", {"a": 1})]
    assert tool_calls()(Case("x", tool_calls=wanted), answering(made, "done")).passed
    assert not tool_calls()(Case("x", tool_calls=[wanted[1]] * 2), answering(made, "done")).passed


def test_order_of_calls(answering):
    """If the order matters, the longest correct sequence of calls counts."""
    result = answering(list(TWO), "done")
    assert tool_calls(order="same")(Case("x", tool_calls=["add", "name"]), result).passed
    assert tool_calls(order="same")(Case("x", tool_calls=["name", "add"]), result).value == 0.5


def test_arguments_can_be_ignored_and_extra_calls_allowed(answering):
    """Arguments can be ignored, and additional calls allowed."""
    result = answering(list(TWO), "done")
    case = Case("x", tool_calls=[("add", {"a": 7})])
    assert not tool_calls(more=True)(case, result).passed
    assert tool_calls(arguments=False, more=True)(case, result).passed
    assert tool_calls(more=True)(Case("x", tool_calls=[]), result).value == 1.0


def test_reason_of_a_miss(answering):
    """The reason of a miss lists the actual and the expected calls."""
    score = tool_calls()(Case("x", tool_calls=["name", ("add", {"a": 2})]), answering([call("add", a=1)], "done"))
    assert score.reason == 'made: add({"a": 1}); expected: name, add({"a": 2})'
    assert tool_calls()(Case("x", tool_calls=["add"]), answering("done")).reason == "made: none; expected: add"
    assert len(tool_calls()(Case("x", tool_calls=[]), answering([call("name", text="x" * 500)], "done")).reason) < 200
