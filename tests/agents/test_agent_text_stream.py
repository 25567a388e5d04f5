"""Tests for `stream_text`: paragraphs, checked answers, errors, and closing the stream."""

import asyncio

import pytest

from agentkit import Agent, ModelError, RunError, tool
from agentkit.agents.default import QuickAgent
from agentkit.errors import Unreachable
from agentkit.events import TextDelta
from agentkit.testing import FakeServer, ScriptedLLM, call, say


@tool
def look(place: str) -> str:
    """Look."""
    return f"nothing in {place}"


def polite(output):
    """Change the answer."""
    return f"{output} Kind regards."


async def all_of(pieces):
    """Return the strings of an asynchronous stream."""
    return [piece async for piece in pieces]


def streams(made):
    """Return the strings of a blocking and of an asynchronous stream of equal agents."""
    return list(made().stream_text("Hi")), asyncio.run(all_of(made().astream_text("Hi")))


def test_streamed_text_matches_the_text_deltas():
    """The streamed text matches the text delta events and forms the answer."""

    def made():
        return Agent("clerk", llm=ScriptedLLM("One two three four."))

    blocking, awaiting = streams(made)
    assert blocking == awaiting == [event.text for event in made().stream("Hi") if isinstance(event, TextDelta)]
    assert len(blocking) > 1
    assert "".join(blocking) == "One two three four."


def test_text_around_tool_calls_is_separated():
    """Text before and after a tool call is separated by an empty line."""
    lines = (say("Let me look.", call("look", place="box")), "Nothing.")
    for pieces in streams(lambda: Agent("clerk", tools=[look], llm=ScriptedLLM(*lines))):
        assert "".join(pieces) == "Let me look.\n\nNothing."


@pytest.mark.parametrize(
    ("options", "line"),
    [({"output_type": list[int]}, '{"result": [1, 2, 3]}'), ({"guardrails": [polite]}, "Done.")],
)
def test_checked_answer_is_streamed_in_one_piece(options, line):
    """A typed or checked answer is streamed in one piece, also after a handoff."""

    def alone():
        return Agent("clerk", llm=ScriptedLLM(line), **options)

    def handing_over():
        second = Agent("second", llm=ScriptedLLM(line), **options)
        return Agent("first", handoffs=[second], llm=ScriptedLLM(call("hand_off_to_second")))

    for made in (alone, handing_over):
        none = made()("Hi")
        assert streams(made) == ([none], [none])


def test_error_is_raised_after_the_streamed_text():
    """An error is raised after the text that was streamed before it."""
    agent = Agent(
        "clerk", tools=[look], llm=ScriptedLLM(say("Let me look.", call("look", place="box")), Unreachable("gone"))
    )
    pieces, received = agent.stream_text("Hi"), []
    with pytest.raises(ModelError, match="gone"):
        received.extend(iter(pieces))
    limited = Agent("clerk", tools=[look], max_iterations=1, llm=ScriptedLLM(call("look", place="box"), "Nothing yet."))
    with pytest.raises(RunError):
        list(limited.stream_text("Hi"))


def test_closing_the_text_stream_stops_the_run():
    """Closing the text stream stops the run, which can be resumed."""
    agent = Agent("clerk", tools=[look], llm=ScriptedLLM(say("Let me look.", call("look", place="box")), "Nothing."))
    pieces = agent.stream_text("Hi")
    next(pieces)
    pieces.close()
    (left,) = agent.session.unfinished
    assert agent.llm.requests[1:] == []
    assert agent.resume(left).output == "Nothing."


def test_quick_chat_streams_text():
    """`agent.stream_text` streams the text of the quick chat."""
    agent = QuickAgent()
    with FakeServer("Hello there, you.") as server:
        pieces = list(agent.stream_text("Hi", base_url=server.base_url, model="any"))
    assert "".join(pieces) == "Hello there, you."
