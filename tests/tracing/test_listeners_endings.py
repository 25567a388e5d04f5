"""Is the result of a run found in the event that has it, and nowhere else?"""

import pytest

from agentkit.events import RunStarted, ToolCallFinished
from agentkit.messages import ToolCall, ToolResult
from agentkit.tracing.listeners import ending_in, text_of


def test_only_the_last_event_has_an_ending(make_agent):
    """RunFinished holds what a run has come to; the result of a tool call is another thing."""
    result = make_agent("Done.").run("go")
    *_, last = make_agent("Done.").stream("go")
    assert ending_in(last).status == result.status == "done"
    assert ending_in(RunStarted("helper", "go")) is None
    assert ending_in(ToolCallFinished(ToolCall("a", "look", "{}"), ToolResult("look", "ok", "seen"))) is None


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (None, ""), ({"total": 3}, "{'total': 3}")])
def test_answer_as_text(value, text):
    """An answer of any type is told as text, and none as nothing."""
    assert text_of(value) == text
