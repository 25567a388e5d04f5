"""Tests for the lines of a trace: contents, origins, and redaction."""

import json
from dataclasses import replace

import pytest

from agentkit import LLM, Agent, events
from agentkit.content import Image
from agentkit.decisions import Decision
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolResult, UserMessage
from agentkit.testing import FakeServer
from agentkit.tracing.jsonl import serialise_event
from agentkit.tracing.listeners import Origin, is_logged
from agentkit.usage import Price, Usage

SECRET = "the tulip opens at noon"
CALL = ToolCall("c1", "look", json.dumps({"at": SECRET}))
SOURCE = Origin("r1", "helper", iteration=1)
SAID = [
    events.RunStarted("helper", (SECRET, Image("https://example.com/a.png"))),
    events.HistoryGiven((UserMessage(SECRET),)),
    events.RunResumed(SECRET),
    events.ResponseReceived(Response(AssistantMessage(SECRET, (CALL,), SECRET), usage=Usage(3, 2, requests=1))),
    events.ResponseReceived(Response(AssistantMessage(SECRET), usage=Usage(requests=1, unreported=1))),
    events.RequestFailed("Slow down.", "RateLimited"),
    events.Approved("c1", "no", SECRET, json.dumps(SECRET)),
    events.ToolCallStarted(CALL, Decision("deny", "rule", "Not this.", evidence=SECRET)),
    events.ToolCallFinished(CALL, ToolResult("look", "ok", SECRET, usage=Usage(3, 2, requests=1))),
    events.ToolCallFinished(CALL, ToolResult("look", "failed", SECRET, error=SECRET)),
    events.HostedCallFinished(CALL, ToolResult("look", "ok", "")),
    events.ToolCallPostponed(CALL, SECRET),
    events.AnswerRefused(SECRET),
    events.AnswerGiven(SECRET),
    events.AnswerAmended(SECRET),
    events.Summarised(SECRET, 4, Usage(3, 2, requests=1)),
    events.HandedOff("second"),
    events.LimitReached("seconds", "It took too long."),
    events.RunLeft(f"ValueError: {SECRET}"),
    events.RunLeft(),
]


def parsed_line(event, source=SOURCE, *, content=False):
    """Return the parsed line of an event."""
    line = serialise_event(event, source, content=content)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_streamed_chunks_have_no_line():
    """A line is written for each stored event and for the end of a run, but not for streamed chunks."""
    assert all(map(is_logged, SAID))
    assert not is_logged(events.TextDelta("a"))


@pytest.mark.for_each("event", SAID, ids=lambda event: type(event).__name__)
def test_content_must_be_enabled(event):
    """Texts are included only with content=True."""
    assert SECRET not in json.dumps(parsed_line(event))
    assert (SECRET in json.dumps(parsed_line(event, content=True))) is (
        SECRET in str(event) and "History" not in str(event)
    )


def test_line_has_its_origin():
    """A line has its time, run, agent and iteration, and the parent and session if there are any."""
    line = parsed_line(events.RunResumed())
    assert line.pop("time").endswith("Z")
    assert line == {"event": "RunResumed", "run": "r1", "agent": "helper", "iteration": 1}
    line = parsed_line(events.RunResumed(), Origin("r1", "helper", "r0", "trip", 1, True))
    assert (line["parent"], line["session"], line["is_elsewhere"]) == ("r0", "trip", True)


def test_response_has_its_duration_and_tokens():
    """A response has its duration, tool calls and, if known, its tokens."""
    line = parsed_line(SAID[3], replace(SOURCE, request_seconds=0.25))
    assert (line["seconds"], line["input_tokens"], line["output_tokens"]) == (0.25, 3, 2)
    assert (line["tool_calls"], line["text_chars"]) == (["look"], len(SECRET))
    assert "input_tokens" not in parsed_line(SAID[4])


def test_tool_call_has_its_decision():
    """A tool call has its verdict and rule; the reason is included only with content=True."""
    line = parsed_line(SAID[7])
    assert (line["tool"], line["call"], line["verdict"], line["rule"]) == ("look", "c1", "deny", "rule")
    assert "reason" not in line
    assert parsed_line(SAID[7], content=True)["reason"] == "Not this."


def test_secrets_are_redacted_without_content():
    """Secrets are redacted in a reason even if content is disabled."""
    key = "sk-abcdefghij0123456789ABCDEFG"
    line = parsed_line(events.LimitReached("seconds", f"The key {key} took too long."))
    assert line["reason"] == "The key [redacted: API key] took too long."


def test_last_line_has_status_and_usage(make_agent):
    """The last line has the status, the number of requests and tool calls, and the output length."""
    *_, last = make_agent().stream("go")
    line = parsed_line(last)
    assert (line["status"], line["requests"], line["tool_calls"], line["output_chars"]) == ("done", 3, 3, 9)
    assert parsed_line(last, content=True)["output"] == "It is 42."
    assert "kind" not in line


def test_failed_run_has_its_error_type(make_agent):
    """A failed run has the type of its error; the message is included only with content=True."""
    *_, last = make_agent(*"{{{{", output_type=int).stream("go")
    line = parsed_line(last)
    assert (line["status"], line["kind"]) == ("failed", "RunError")
    assert "error" not in line
    assert "refused" in parsed_line(last, content=True)["error"]


def test_cost_is_included_if_known():
    """The cost in dollars is included if the price is known."""
    with FakeServer("Hi.") as server:
        llm = LLM(base_url=server.base_url, model="any", protocol="chat", price=Price(1.0, 2.0))
        *_, last = Agent("helper", llm=llm).stream("go")
    assert parsed_line(last)["dollars"] == last.result.cost.dollars > 0


def test_lone_surrogates_are_escaped():
    """A lone surrogate is escaped and can be read back."""
    half = chr(0xD800)
    line = serialise_event(events.RunStarted(f"bot {half}", half), Origin("1", f"bot {half}"), content=True)
    parsed_line = json.loads(line)
    assert (parsed_line["agent"], parsed_line["prompt"]) == (f"bot {half}", half)
