"""Tests for the outcome of a run in its last event."""

from agentkit.events import RunStarted, ToolCallFinished
from agentkit.messages import ToolCall, ToolResult
from agentkit.tracing.listeners import outcome_of


def test_only_the_last_event_has_an_outcome(make_agent):
    """outcome_of() returns the outcome of RunFinished, and None for other events."""
    result = make_agent("Done.").run("go")
    *_, last = make_agent("Done.").stream("go")
    assert outcome_of(last).status == result.status == "done"
    assert outcome_of(RunStarted("helper", "go")) is None
    assert outcome_of(ToolCallFinished(ToolCall("a", "look", "{}"), ToolResult("look", "ok", "seen"))) is None
