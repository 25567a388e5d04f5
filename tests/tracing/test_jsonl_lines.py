"""What does a line say, and what does it keep to itself?"""

import json

import pytest

from agentkit import LLM, Agent, events
from agentkit.content import Image
from agentkit.decisions import Decision
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolResult, UserMessage
from agentkit.testing import FakeServer
from agentkit.tracing.jsonl import line_of
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


def told(event, source=SOURCE, seconds=None, *, content=False):
    """What a line says, as data."""
    line = line_of(event, source, seconds, content=content)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_streamed_chunks_have_no_line():
    """A line is written for each milestone and for the end of a run, but not for streamed chunks."""
    assert all(map(is_logged, SAID))
    assert not is_logged(events.TextDelta("a"))


@pytest.mark.for_each("event", SAID, ids=lambda event: type(event).__name__)
def test_content_is_told_on_wish_alone(event):
    """What was said stands in a line when that is wished for, and is a length or nothing otherwise."""
    assert SECRET not in json.dumps(told(event))
    assert (SECRET in json.dumps(told(event, content=True))) is (SECRET in str(event) and "History" not in str(event))


def test_line_says_where_it_comes_from():
    """A line says when, in which run, of which agent and iteration; a parent, a session and a place if there is one."""
    line = told(events.RunResumed())
    assert line.pop("time").endswith("Z")
    assert line == {"event": "RunResumed", "run": "r1", "agent": "helper", "iteration": 1}
    line = told(events.RunResumed(), Origin("r1", "helper", "r0", "trip", 1, True))
    assert (line["parent"], line["session"], line["is_elsewhere"]) == ("r0", "trip", True)


def test_request_is_told_with_its_time_and_tokens():
    """A response says its tokens, its seconds and the tools it calls; tokens that nobody has counted are not told."""
    line = told(SAID[3], seconds=0.25)
    assert (line["seconds"], line["input_tokens"], line["output_tokens"]) == (0.25, 3, 2)
    assert (line["tool_calls"], line["text_chars"]) == (["look"], len(SECRET))
    assert "input_tokens" not in told(SAID[4])


def test_decision_is_told():
    """A tool call says what was decided of it and by which rule; why, with content alone, as that may quote."""
    line = told(SAID[7])
    assert (line["tool"], line["call"], line["verdict"], line["rule"]) == ("look", "c1", "deny", "rule")
    assert "reason" not in line
    assert told(SAID[7], content=True)["reason"] == "Not this."


def test_secrets_are_hidden_without_content_too():
    """A secret in what is always told, such as a reason, is hidden."""
    key = "sk-abcdefghij0123456789ABCDEFG"
    line = told(events.LimitReached("seconds", f"The key {key} took too long."))
    assert line["reason"] == "The key [redacted: API key] took too long."


def test_end_is_told(make_agent):
    """The last line says how the run ended, what it took and which kind of error it had."""
    *_, last = make_agent().stream("go")
    line = told(last)
    assert (line["status"], line["requests"], line["tool_calls"], line["output_chars"]) == ("done", 3, 3, 9)
    assert told(last, content=True)["output"] == "It is 42."
    assert "kind" not in line


def test_failed_end_is_told(make_agent):
    """A run that failed says the kind of its error, and its words only when content is wished for."""
    *_, last = make_agent(*"{{{{", output_type=int).stream("go")
    line = told(last)
    assert (line["status"], line["kind"]) == ("failed", "RunError")
    assert "error" not in line
    assert "refused" in told(last, content=True)["error"]


def test_money_is_told_when_it_is_known():
    """What a run has cost is told in dollars, when anybody knows."""
    with FakeServer("Hi.") as server:
        llm = LLM(base_url=server.base_url, model="any", protocol="chat", price=Price(1.0, 2.0))
        *_, last = Agent("helper", llm=llm).stream("go")
    assert told(last)["dollars"] == last.result.cost.dollars > 0


def test_no_text_keeps_its_line_away():
    """Half a pair of surrogates, which a model may put anywhere, is written as an escape, and read as it was."""
    half = chr(0xD800)
    line = line_of(events.RunStarted(f"bot {half}", half), Origin("1", f"bot {half}"), None, content=True)
    told = json.loads(line)
    assert (told["agent"], told["prompt"]) == (f"bot {half}", half)
