"""Tests for Messages responses of the fake server."""

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from agentkit.messages import ToolCall
from agentkit.testing import RecordedRequest, call, filtered, refuse, say
from agentkit.testing.fake_responses import is_messages_delta, message, messages_events, to_reply
from agentkit.usage import Usage

_LINES = {
    "text": "Hello there, you",
    "nothing": "",
    "a call": call("calculator", expression="2+2"),
    "calls": say("Wait.", call("a"), ToolCall("mine", "b", ""), reasoning="Let me think"),
    "cut at its limit": say("Once upon", finish_reason="length"),
    "a refusal": refuse("I cannot help with that."),
    "a filtered text": filtered("Once upon"),
    "hidden reasoning": say("Hi", usage=Usage(100, 50, 60, 20, requests=1, written_tokens=30)),
}
_EVENT = TypeAdapter(RawMessageStreamEvent)

every_line = pytest.mark.parametrize("line", _LINES.values(), ids=_LINES)


def _answer(line):
    return to_reply(line).content


def _request(**body):
    return RecordedRequest("POST", "/v1/messages", json={"model": "claude", **body})


@every_line
def test_answers_match_the_anthropic_package(line):
    """Complete and streamed answers, event by event except pings, match the types of the anthropic package."""
    Message.model_validate(message(_answer(line), _request(), 1))
    for event in messages_events(_answer(line), _request(), 1):
        assert event["type"] == "ping" or _EVENT.validate_python(event).type == event["type"]


@every_line
def test_deltas_form_the_blocks_of_the_answer(line):
    """The joined deltas of each block equal the block of the whole answer."""
    streamed = list(messages_events(_answer(line), _request(), 1))
    for index, block in enumerate(message(_answer(line), _request(), 1)["content"]):
        deltas = [event["delta"] for event in streamed if is_messages_delta(event) and event["index"] == index]
        text = "".join(delta.get(block["type"], "") for delta in deltas)
        assert text == block.get(block["type"], "")


def test_cached_tokens_are_not_input_tokens():
    """Cached tokens are not included in the number of input tokens."""
    figures = message(_answer(_LINES["hidden reasoning"]), _request(), 1)["usage"]
    assert figures == {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 20},
    }


def test_line_without_usage_has_no_usage():
    """A line without usage returns an answer without usage."""
    assert message(_answer(say("Hi", usage=None)), _request(), 1)["usage"] is None


def test_invalid_arguments_are_unchanged():
    """Arguments that are not JSON are streamed verbatim and are a string in a complete answer."""
    answer = _answer(ToolCall("a", "f", '{"x": '))
    (block,) = message(answer, _request(), 1)["content"]
    written = "".join(
        event["delta"]["partial_json"] for event in messages_events(answer, _request(), 1) if is_messages_delta(event)
    )
    assert (block["input"], written) == ('{"x": ', '{"x": ')
