"""Tests for calls of host functions from inside the sandbox."""

import os
from datetime import date
from decimal import Decimal

import pytest

from agentkit.errors import ToolError
from agentkit.sandbox import protocol
from agentkit.sandbox.rpc_guest import MAX_BYTES, host_functions


class Line:
    """The two pipes between code and host in one process, where a reply is written before the call."""

    def __init__(self):
        self.asked, asks = os.pipe()
        replies, self.replying = os.pipe()
        self.descriptors = [self.asked, asks, replies, self.replying]
        functions = host_functions('{"add": ["a", "b-c"]}', asks, replies)
        self.add = functions["add"]
        assert functions["ToolError"] is ToolError

    def reply(self, data):
        """Set the reply of the host."""
        protocol.send(self.replying, data)

    def calls(self):
        """Return the arguments of the calls."""
        return [frame["arguments"] for frame in protocol.split(os.read(self.asked, 100_000))]


@pytest.fixture
def line():
    """A connection between code and host."""
    made = Line()
    yield made
    for descriptor in made.descriptors:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("given", "named", "arguments"),
    [
        ((), {}, "{}"),
        ((1,), {"b_c": "\u00e4"}, '{"a": 1, "b-c": "\\u00e4"}'),
        ((1, None), {}, '{"a": 1, "b-c": null}'),
        (({2, 1},), {"more": frozenset("x")}, '{"a": [1, 2], "more": ["x"]}'),
        ((date(2026, 1, 2), Decimal("1.5")), {}, '{"a": "2026-01-02", "b-c": "1.5"}'),
    ],
)
def test_arguments_are_sent_by_parameter_name(line, given, named, arguments):
    """Positional and keyword arguments are sent to the host as JSON with the tool's parameter names."""
    line.reply(protocol.encode(value='[{"sum": 1}]'))
    assert line.add(*given, **named) == {"sum": 1}
    assert line.calls() == [arguments]


@pytest.mark.parametrize(
    ("given", "named", "error", "text"),
    [
        ((1, 2, 3), {}, TypeError, r"add\(\) takes \(a, b_c\), and got 3 arguments"),
        ((1,), {"a": 2}, TypeError, "got two values for 'a'"),
        ((len,), {}, TypeError, "cannot be passed to a tool"),
        (("x" * MAX_BYTES,), {}, ValueError, "are longer than"),
    ],
)
def test_invalid_call_raises(line, given, named, error, text):
    """An invalid call raises an error, and the next call works."""
    with pytest.raises(error, match=text):
        line.add(*given, **named)
    line.reply(protocol.encode(value="[1]"))
    assert line.add() == 1


def test_failed_call_raises(line):
    """The host's error for a failed call is raised, and the next call works."""
    line.reply(protocol.encode(error="No.") + protocol.encode(value="[1]"))
    with pytest.raises(ToolError, match="No"):
        line.add()
    assert line.add() == 1


def test_code_ends_with_its_host(line):
    """The code ends when its host has closed the connection."""
    line.reply(b"\x00\x00\x00\x00")
    with pytest.raises(SystemExit):
        line.add()


def test_no_call_follows_an_invalid_answer(line):
    """After an answer that could not be parsed, no further calls are made."""
    line.reply(b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match="too long"):
        line.add(1)
    with pytest.raises(RuntimeError, match="an earlier call was interrupted"):
        line.add(2)
    assert line.calls() == ['{"a": 1}']
