"""Tests for the words of transcripts: results, titles, usage and answers."""

from agentkit.events import Approved
from agentkit.messages import ToolCall, ToolResult
from agentkit.sessions.transcript import (
    CallTranscript,
    RunTranscript,
    answers_text,
    content_of,
    outer,
    readable,
    title,
    usage_of,
)
from agentkit.usage import Price, Tariff, Usage

SPENT = Usage(10, 1, requests=1, tariff=Tariff("ollama", "mine", price=Price(2, 0)))


def test_results():
    """A result that is a non-empty JSON object is parsed; any other result is shown as text."""
    assert (content_of('{"a": 1}'), content_of("{}"), content_of("3"), content_of("x")) == ({"a": 1}, "{}", "3", "x")
    assert (content_of("[1]"), content_of("[" * 100_000)[:2]) == ("[\n  1\n]", "[[")
    assert (readable("a"), readable({"a": "ü"})) == ("a", '{\n  "a": "ü"\n}')


def test_titles():
    """The title of a run has the name of its agent, and states if it was part of a tool call."""
    assert [
        title(RunTranscript("r", "helper")),
        title(RunTranscript("r", "helper", inside=3)),
        title(RunTranscript("")),
        title(RunTranscript("r")),
    ] == [
        "helper",
        "helper, within a tool call",
        "Asked outside of a run",
        "Begun elsewhere",
    ]


def test_inner_runs_are_not_counted_twice():
    """The total usage counts only the outermost runs, as their results include the inner runs."""
    used = CallTranscript(ToolCall("c", "worker", "{}"), 0.0, result=ToolResult("worker", "ok", "", usage=SPENT))
    runs = [RunTranscript("r", "boss", steps=[used]), RunTranscript("s", "worker", inside=3)]
    assert outer(runs) == runs[:1]
    assert usage_of(outer(runs)) == SPENT


def test_answers_text():
    """The text shows a person's answer, the waiting time and changed arguments, or that the call is waiting."""
    story = CallTranscript(ToolCall("c", "add", "{}"), 0.0)
    assert answers_text(story) == ""
    story.question = "May I?"
    assert answers_text(story) == "waits for a person: May I?"
    story.answers, story.waited = [Approved("c", "once", arguments='{"a": 2}')], (9.0, 3.0)
    assert answers_text(story) == 'a person answered: once, after 3.0 s, with other arguments: {"a": 2}'
    story.answers, story.waited = [Approved("c", "no", "Not today.")], None
    assert answers_text(story) == "a person answered: no (Not today.)"


def test_deeply_nested_value_is_shown_on_one_line():
    """A deeply nested value is shown on one line, and an even deeper one as `…`."""
    deep: object = 1
    for _ in range(13):
        deep = [deep]
    assert readable({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'
    assert readable(deep) == "[" * 13 + "1" + "]" * 13
    for _ in range(100_000):
        deep = [deep]
    assert readable(deep) == "…"
