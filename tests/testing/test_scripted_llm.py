"""Tests for ScriptedLLM."""

import asyncio
import pickle

import pytest

from agentkit.errors import RateLimited
from agentkit.events import ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.messages import Request, Response, ToolCall, UserMessage
from agentkit.testing import LINE_USAGE, ScriptedLLM, ScriptedProvider, ScriptError, call, say


async def _drain(events):
    return [event async for event in events]


_WAYS = {
    "complete": lambda llm, prompt: llm.complete(prompt),
    "acomplete": lambda llm, prompt: asyncio.run(llm.acomplete(prompt)),
    "stream": lambda llm, prompt: list(llm.stream(prompt))[-1].response,
    "astream": lambda llm, prompt: asyncio.run(_drain(llm.astream(prompt)))[-1].response,
}

every_way = pytest.mark.parametrize("ask", _WAYS.values(), ids=_WAYS)


@every_way
def test_lines_are_used_in_order(ask):
    """Each sync, async or streamed request uses the next line."""
    with ScriptedLLM(call("calculator", expression="2+2"), "It is 4.") as llm:
        first, second = ask(llm, "What is 2+2?"), ask(llm, "And?")
    assert first.tool_calls == (ToolCall("call_1_1", "calculator", '{"expression": "2+2"}'),)
    assert (first.finish_reason, second.text, second.finish_reason) == ("tool_calls", "It is 4.", "stop")
    assert first.usage == second.usage == LINE_USAGE
    assert [request.messages for request in llm.requests] == [
        (UserMessage("What is 2+2?"),),
        (UserMessage("And?"),),
    ]


@every_way
def test_exceptions_among_the_lines_are_raised(ask):
    """An exception among the lines is raised, and the script continues after it."""
    with ScriptedLLM(RateLimited("Slow down", status=429), "Now.") as llm:
        with pytest.raises(RateLimited, match="Slow down"):
            ask(llm, "Hi")
        assert ask(llm, "Hi").text == "Now."


@every_way
def test_request_without_a_line_raises(ask):
    """A request without a remaining line raises an AssertionError that shows it."""
    llm = ScriptedLLM("Only this.")
    ask(llm, "Hi")
    with pytest.raises(AssertionError, match="What else"):
        ask(llm, "What else?")


@every_way
def test_function_returns_a_line_for_the_request(ask):
    """A line may be a function of the request, which may choose any other line."""

    def echo(request):
        return say(f"{len(request.messages)}: {request.messages[-1].content}")

    with ScriptedLLM(echo, lambda _: ValueError("no")) as llm:
        assert ask(llm, "Hi").text == "1: Hi"
        with pytest.raises(ValueError, match="no"):
            ask(llm, "Hi")


def test_lines_are_streamed_in_pieces():
    """Reasoning, text and calls are streamed in pieces, followed by the whole response."""
    with ScriptedLLM(
        say("Let me see.", call("clock"), call("find", "{"), call("x", ""), reasoning="Which day?")
    ) as llm:
        *deltas, last = llm.stream("Hi")
    assert deltas == [
        ReasoningDelta("Which "),
        ReasoningDelta("day?"),
        TextDelta("Let "),
        TextDelta("me "),
        TextDelta("see."),
        ToolCallDelta(0, "clock", ""),
        ToolCallDelta(0, "", "{}"),
        ToolCallDelta(1, "find", ""),
        ToolCallDelta(1, "", "{"),
        ToolCallDelta(2, "x", ""),
    ]
    assert isinstance(last, ResponseReceived)
    assert last.response.text == "Let me see."


def test_unused_lines_fail_the_block():
    """Leaving the block with unused lines raises an error that shows them."""
    with pytest.raises(ScriptError, match="'Never asked'"), ScriptedLLM("Hello", "Never asked") as llm:
        llm.chat("Hi")


def test_error_of_the_block_is_raised():
    """An exception in the block is not replaced by the error about unused lines."""
    with pytest.raises(KeyError), ScriptedLLM("Never asked"):
        raise KeyError


def test_done_without_a_block():
    """`done` raises nothing once every line was used."""
    llm = ScriptedLLM("Hello")
    with pytest.raises(ScriptError):
        llm.done()
    assert llm.chat("Hi") == "Hello"
    llm.done()


def test_recorded_request_is_a_copy():
    """Appending to a conversation does not change recorded requests or those passed to functions."""
    seen = []
    provider = ScriptedProvider(lambda request: seen.append(request) or "Hi")
    history = [UserMessage("one")]
    provider.complete(Request(history))
    history.append(UserMessage("two"))
    assert provider.requests == seen == [Request((UserMessage("one"),))]
    provider.done()


def test_response_is_returned_unchanged():
    """A Response line is returned unchanged, except that a missing model name is filled in."""
    named, unnamed = say("a", model="gpt"), say("b", finish_reason="length")
    with ScriptedLLM(named, unnamed, model="mini") as llm:
        assert llm.complete("Hi") == named
        assert llm.complete("Hi") == Response(unnamed.message, "length", LINE_USAGE, "mini")


def test_last_line_can_be_repeated():
    """With `repeat` the last line is used for all further requests, each time with new ids."""
    with ScriptedLLM(call("clock"), repeat=True) as llm:
        ids = [llm.complete("Hi").tool_calls[0].id for _ in range(3)]
    assert ids == ["call_1_1", "call_2_1", "call_3_1"]


def test_concurrent_runs_share_the_script():
    """Concurrent tasks each get a different line."""

    async def ask_all(llm):
        return await asyncio.gather(*(llm.achat("Hi") for _ in range(50)))

    with ScriptedLLM(*map(str, range(50))) as llm:
        assert sorted(asyncio.run(ask_all(llm)), key=int) == [str(number) for number in range(50)]


@pytest.mark.parametrize("line", [7, None, [], RateLimited])
def test_invalid_line_is_rejected(line):
    """An invalid line raises an error when the script is created, not when it is used."""
    with pytest.raises(TypeError, match="is not a valid script line"):
        ScriptedLLM(line)


def test_request_without_messages_has_a_readable_error():
    """A request without messages has a readable error."""
    with pytest.raises(ScriptError, match="asked: nothing"):
        ScriptedProvider().complete(Request(()))


def test_description_of_a_scripted_llm():
    """`describe` identifies a scripted LLM, whatever the environment contains."""
    described = ScriptedLLM("Hi", model="mini").describe()
    assert (described.provider, described.model, described.endpoint) == ("scripted", "mini", "this machine")
    assert described.decided_by == "the script"


def test_scripted_llm_cannot_be_copied():
    """A scripted LLM cannot be copied, because a copy would repeat its lines."""
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(ScriptedLLM("Hi"))
