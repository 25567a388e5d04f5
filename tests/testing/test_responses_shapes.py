"""Tests for Responses responses of the fake server."""

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from agentkit.messages import ToolCall
from agentkit.testing import RecordedRequest, call, filtered, refuse, say
from agentkit.testing.fake_responses import is_responses_delta, response, responses_events, to_reply
from agentkit.usage import Usage

_LINES = {
    "text": "Hello there, you",
    "nothing": "",
    "a call": call("calculator", expression="2+2"),
    "calls": say("Wait.", call("a"), ToolCall("mine", "b", "", {"namespace": "x"}), reasoning="Let me think"),
    "cut at its limit": say("Once upon", finish_reason="length"),
    "a refusal": refuse("I cannot help with that."),
    "a filtered text": filtered("Once upon"),
    "no usage": say("Hi", usage=None),
    "hidden reasoning": say("Hi", usage=Usage(100, 50, 80, 20, requests=1)),
}
_EVENT = TypeAdapter(ResponseStreamEvent)

every_line = pytest.mark.parametrize("line", _LINES.values(), ids=_LINES)


def _answer(line):
    return to_reply(line).content


def _request(**body):
    return RecordedRequest("POST", "/v1/responses", json={"model": "gpt", **body})


def _types(line):
    return [event["type"].removeprefix("response.") for event in responses_events(_answer(line), _request(), 1)]


@every_line
def test_answers_match_the_openai_package(line):
    """Complete and streamed answers, event by event, match the types of the openai package."""
    Response.model_validate(response(_answer(line), _request(), 1))
    for event in responses_events(_answer(line), _request(), 1):
        assert type(_EVENT.validate_python(event)).model_fields["type"].annotation.__args__ == (event["type"],)


@every_line
def test_stream_agrees_with_the_answer(line):
    """The finished items, deltas and last event of a stream agree with the complete answer."""
    full_text, streamed = response(_answer(line), _request(), 1), list(responses_events(_answer(line), _request(), 1))
    done = [event["item"] for event in streamed if event["type"] == "response.output_item.done"]
    assert done == streamed[-1]["response"]["output"] == full_text["output"]
    assert streamed[-1]["response"] == full_text
    assert [event["sequence_number"] for event in streamed] == list(range(len(streamed)))
    for index, item in enumerate(full_text["output"]):
        text = "".join(
            event["delta"] for event in streamed if is_responses_delta(event) and event["output_index"] == index
        )
        parts = item.get("content") or item.get("summary") or [{"text": item.get("arguments", "")}]
        assert text == "".join(part.get("text", part.get("refusal")) for part in parts)


def test_events_of_a_text():
    """A text is announced as an item and a part, streamed, and closed in reverse order."""
    assert _types("one two") == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done", "completed"),
    ]


def test_events_of_a_call():
    """A call is announced with its name and empty arguments, which follow in deltas."""
    assert _types(call("a", x=1)) == [
        *("created", "in_progress", "output_item.added"),
        *("function_call_arguments.delta", "function_call_arguments.delta", "function_call_arguments.done"),
        *("output_item.done", "completed"),
    ]
    added = list(responses_events(_answer(call("a", x=1)), _request(), 1))[2]
    assert (added["item"]["name"], added["item"]["arguments"]) == ("a", "")
    assert added["item"]["status"] == "in_progress"


def test_reasoning_comes_before_text_and_calls():
    """A reasoning item comes first, with its summary and encrypted content."""
    items = response(_answer(_LINES["calls"]), _request(), 1)["output"]
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "function_call"]
    assert items[0]["summary"] == [{"type": "summary_text", "text": "Let me think"}]
    assert items[0]["encrypted_content"]
    assert items[3]["namespace"] == "x"


def test_reasoning_without_a_summary():
    """Reasoning tokens without reasoning text give a reasoning item without a summary."""
    items = response(_answer(_LINES["hidden reasoning"]), _request(), 1)["output"]
    assert (items[0]["type"], items[0]["summary"]) == ("reasoning", [])
    assert items[0]["encrypted_content"]


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [("cut at its limit", "incomplete", "max_output_tokens"), ("a filtered text", "incomplete", "content_filter")],
)
def test_truncated_answer_is_incomplete(line, status, reason):
    """An answer ended by its limit or a filter has the status `incomplete`, also in its last event."""
    complete = response(_answer(_LINES[line]), _request(), 1)
    assert (complete["status"], complete["incomplete_details"], complete["completed_at"]) == (
        status,
        {"reason": reason},
        None,
    )
    assert complete["output"][-1]["status"] == "incomplete"
    assert _types(_LINES[line])[-1] == "incomplete"


def test_usage_fields():
    """Token counts are in OpenAI's fields; `usage=None` omits them."""
    assert response(_answer(_LINES["no usage"]), _request(), 1)["usage"] is None
    assert response(_answer(_LINES["hidden reasoning"]), _request(), 1)["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 0},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 150,
    }


def test_answer_repeats_the_settings():
    """The settings of the request are repeated in the answer; `store` is true unless it was disabled."""
    questions = {"instructions": "Be brief.", "store": False, "temperature": 0.5}
    full_text = response(_answer("Hi"), _request(**questions), 1)
    assert {name: full_text[name] for name in questions} == questions
    assert response(_answer("Hi"), _request(), 1)["store"] is True
