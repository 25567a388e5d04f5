"""Tests for replies of the fake server other than valid answers."""

import json

import pytest

from agentkit.testing import ScriptedReply, call, cut, drop, fail, filtered, raw, refuse, say, slow
from agentkit.testing.fake_responses import Raw, ScriptedAnswer, to_reply


@pytest.mark.parametrize("line", ["Hi", call("clock"), [call("a"), call("b")], say("Hi")])
def test_model_lines_are_answers(line):
    """Every valid line of a ScriptedLLM, except for an exception, is valid for a FakeServer."""
    assert isinstance(to_reply(line).content, ScriptedAnswer)


def test_reply_is_a_line():
    """A reply is a valid line."""
    assert to_reply(fail(500)) == fail(500)


@pytest.mark.parametrize("line", [None, 7, ValueError("no"), b"bytes"])
def test_invalid_line_is_rejected(line):
    """An exception, a number or any other invalid line raises an error."""
    with pytest.raises(TypeError, match="is not a valid script line"):
        to_reply(line)


@pytest.mark.for_each(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "invalid_request_error"),
        (403, "request_forbidden"),
        (404, "invalid_request_error"),
        (429, "requests"),
        (500, "server_error"),
        (529, "server_error"),
        (200, "server_error"),
    ],
)
def test_error_has_the_format_of_openai(status, kind):
    """`fail` sends an error object in OpenAI's format, with the type for the status."""
    content = fail(status, "No", code="c", parameter="p", headers={"Retry-After": "1"}).content
    assert json.loads(content.chunks[0]) == {"error": {"message": "No", "type": kind, "param": "p", "code": "c"}}
    assert (content.status, content.headers["Retry-After"]) == (status, "1")


def test_raw_sends_bytes_strings_and_events():
    """Bytes are sent unchanged, strings as UTF-8, and each dictionary as a server-sent event."""
    assert raw(b"\xff", "đ", {"a": 1}, status=202, content_type="text/html").content == Raw(
        (b"\xff", "đ".encode(), b'data: {"a": 1}\n\n'), 202, {"Content-Type": "text/html"}
    )


def test_ways_of_delivery_combine():
    """A delayed line can also be truncated or dropped."""
    assert slow(cut("Hi", after=2), before_seconds=1, between_seconds=2) == ScriptedReply(
        to_reply("Hi").content, delay_seconds=1, pause_seconds=2, ending="cut", after=2
    )
    assert drop(slow(say("Hi"), before_seconds=1), after=3) == ScriptedReply(
        to_reply("Hi").content, delay_seconds=1, ending="dropped", after=3
    )


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (cut("Hi"), "Reply('Hi', cut)"),
        (slow(call("clock")), "Reply(clock({}), whole)"),
        (refuse("No."), "Reply(refuses: 'No.', whole)"),
        (filtered("Once"), "Reply('Once', filtered, whole)"),
        (raw("<html>", status=404), "Reply(404 b'<html>', whole)"),
        (drop(), "Reply(200 b'', silent)"),
    ],
)
def test_reply_is_described_in_errors(reply, shown):
    """Errors describe the reply and its delivery."""
    assert repr(reply) == shown


def test_failure_needs_its_status():
    """`fail` without a status raises an error that shows the signature."""
    with pytest.raises(TypeError, match="takes the status first"):
        fail("slow down")
