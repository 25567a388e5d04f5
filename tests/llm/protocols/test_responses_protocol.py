"""Tests for requests and answers in the Responses protocol."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import Image
from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unreachable
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.protocols.responses import Responses
from agentkit.messages import (
    AssistantMessage,
    Request,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from agentkit.usage import Usage

PLAIN = {"type": "object", "properties": {}}
STRICT = {**PLAIN, "required": []}
REASONING = {
    "type": "reasoning",
    "id": "rs",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "x",
}
TEXT = {"type": "message", "id": "msg", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
CALL = {"type": "function_call", "id": "fc", "call_id": "a", "name": "f", "arguments": "{}"}


def read(*events):
    """Return the events and the response of a stream."""
    reader = Responses().reader()
    messages = [event for chunk in events for event in reader.feed(chunk)]
    return messages, reader.finish(closed=True)


def completed(*items, **fields):
    """Return the event that completes a stream."""
    return {"type": "response.completed", "response": {"status": "completed", "output": list(items), **fields}}


def items_of(*messages):
    """Return the items of messages."""
    return Responses().encode(Request(messages), "m", strict=False)["input"]


def test_nothing_is_stored():
    """Storing at the server is disabled, and encrypted reasoning is requested."""
    assert Responses().encode(Request([], "Be brief"), "m", strict=True) == {
        "model": "m",
        "input": [],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief",
    }


@pytest.mark.parametrize(("strict", "parameters"), [(False, PLAIN), (True, STRICT)])
def test_strict_field_of_a_tool_is_always_sent(strict, parameters):
    """The `strict` field of a tool is always sent, because it defaults to true."""
    request = Request([], tools=(ToolSpec("f", "Does f", PLAIN, STRICT), ToolSpec("g", "", PLAIN)))
    first, second = Responses().encode(request, "m", strict=strict)["tools"]
    assert (first["strict"], first["parameters"]) == (strict, parameters)
    assert (second["strict"], second["parameters"]) == (False, PLAIN)


def test_messages_become_items():
    """Each message is converted to an item of the protocol."""
    image = Image("https://x.example/a.png")
    assert items_of(
        SystemMessage("Be brief"),
        UserMessage(("Look", image, Image(image.url, "high"))),
        AssistantMessage("I see", (ToolCall("a", "f", ""),)),
        ToolMessage("a", "f", "1"),
        AssistantMessage(),
    ) == [
        {"role": "system", "content": "Be brief"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": image.url, "detail": "auto"},
                {"type": "input_image", "image_url": image.url, "detail": "high"},
            ],
        },
        {"role": "assistant", "content": "I see"},
        {"type": "function_call", "name": "f", "call_id": "a", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
    ]


def test_items_are_sent_back_unchanged():
    """The items of an answer are sent back unchanged, except for replaced call ids."""
    response = Responses().decode({"output": [REASONING, TEXT, CALL, CALL, {"type": "other"}]})
    assert [call.id for call in response.tool_calls] == ["a", "a_2"]
    renamed = {**CALL, "call_id": "a_2"}
    assert items_of(response.message) == [REASONING, TEXT, CALL, renamed, {"type": "other"}]


@pytest.mark.parametrize(
    "changed",
    [
        AssistantMessage("***", (ToolCall("a", "f", "{}"),), extra={"output": (REASONING, TEXT, CALL)}),
        AssistantMessage("***", extra={"output": (REASONING, TEXT)}),
        AssistantMessage("***", extra={"output": (REASONING, TEXT, CALL)}),
    ],
)
def test_items_of_a_changed_message_are_not_sent(changed):
    """A message that was changed is sent with its new content, without its original items."""
    sent = items_of(changed)
    assert sent[0] == {"role": "assistant", "content": "***"}
    assert "Hi" not in json.dumps(sent)


def test_answer_is_parsed():
    """The text, reasoning, calls, usage and model of an answer are parsed."""
    usage = {"input_tokens": 7, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}}
    response = Responses().decode(
        {"output": [REASONING, TEXT, CALL], "usage": usage, "model": "m-1", "status": "completed"}
    )
    assert (response.text, response.message.reasoning, response.model) == ("Hi", "Hm", "m-1")
    assert (response.tool_calls, response.finish_reason) == ((ToolCall("a", "f", "{}"),), "tool_calls")
    assert response.usage == Usage(7, 3, 0, 1, requests=1)


def test_answers_of_other_servers_are_parsed():
    """String content, items without a type and reasoning as content are parsed."""
    items = [
        {"role": "assistant", "content": "H"},
        {"type": "message", "content": ["i", None]},
        "?",
        {"type": "message"},
    ]
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]}
    response = Responses().decode({"output": [*items, thought, {"type": "reasoning"}]})
    assert (response.text, response.message.reasoning, response.finish_reason) == ("H\n\ni", "Hm", "stop")


FAILURES = {
    "no output": ({}, BadResponse, "no output"),
    "malformed output": ({"output": "Hi"}, BadResponse, "no output"),
    "error": ({"error": {"code": "server_error", "message": "Boom"}, "output": []}, Unreachable, "Boom"),
    "failed": (
        {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Boom"}, "output": []},
        RateLimited,
        "Boom",
    ),
    "cancelled": ({"status": "cancelled", "error": None, "output": []}, BadResponse, "reason is 'cancelled'"),
    "not finished": ({"status": "expired", "output": []}, BadResponse, "reason is 'expired'"),
    "filtered": (
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": [TEXT]},
        Rejected,
        "content filter",
    ),
    "refusal": (
        {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "I cannot"}]}]},
        Rejected,
        "I cannot",
    ),
}


@pytest.mark.for_each(("data", "kind", "words"), FAILURES.values(), ids=FAILURES)
def test_failed_answer_raises_an_error(data, kind, words):
    """A failed, filtered or refused answer raises an error, both whole and streamed."""
    with pytest.raises(kind, match=words):
        Responses().decode(data)
    if "output" in data and isinstance(data["output"], list):
        with pytest.raises(kind, match=words):
            read({"type": "response.completed", "response": data})


def test_status_of_a_complete_answer():
    """The status of a finished answer may be `complete` or `completed`."""
    assert Responses().decode({"status": "complete", "output": [TEXT]}).finish_reason == "stop"


@pytest.mark.parametrize("details", [{"reason": "max_output_tokens"}, None, "?"])
def test_truncated_answer(details):
    """An answer that reached its token limit is incomplete."""
    response = Responses().decode({"status": "incomplete", "incomplete_details": details, "output": [TEXT]})
    assert (response.text, response.finish_reason) == ("Hi", "length")


def test_stream_emits_deltas_as_they_arrive():
    """Text, reasoning and arguments are emitted as they arrive, and calls are numbered separately."""
    output, response = read(
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "H"},
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "m"},
        {"type": "response.output_item.added", "output_index": 1, "item": CALL},
        {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "name": "g"}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"},
        {"type": "response.output_text.delta", "output_index": 3, "delta": "H\ud83d"},
        {"type": "response.output_text.delta", "output_index": 3, "delta": "\ude00"},
        {"type": "response.output_text.delta", "output_index": 3, "delta": ""},
        {"type": "response.reasoning_text.delta", "delta": None},
        {"type": "response.something.new", "message": "?", "error": "?"},
        completed(REASONING, CALL, {**CALL, "call_id": "b", "name": "g"}, TEXT),
    )
    assert output == [
        ReasoningDelta("H"),
        ReasoningDelta("m"),
        ToolCallDelta(0, "f", ""),
        ToolCallDelta(1, "g", ""),
        ToolCallDelta(1, "", "{}"),
        TextDelta("H"),
        TextDelta("😀"),
    ]
    assert [call.name for call in response.tool_calls] == ["f", "g"]


def test_items_without_an_index_are_identified_by_id():
    """Stream items without an index are identified by their ids."""
    output, _ = read(
        {"type": "response.output_item.added", "item": {**CALL, "id": "x"}},
        {"type": "response.output_item.added", "item": {**CALL, "id": "y"}},
        {"type": "response.function_call_arguments.delta", "item_id": "y", "delta": "{}"},
        completed(TEXT),
    )
    assert output == [ToolCallDelta(0, "f", ""), ToolCallDelta(1, "f", ""), ToolCallDelta(1, "", "{}")]


def test_completed_items_are_used_if_the_last_event_has_none():
    """Completed items are used if the last event has no output."""
    _, response = read(
        {"type": "response.output_item.done", "output_index": 0, "item": TEXT},
        {"type": "response.output_item.done", "output_index": 1, "item": CALL},
        completed(),
    )
    assert (response.text, len(response.tool_calls)) == ("Hi", 1)


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        ({"type": "error", "code": "server_error", "message": "Boom"}, Unreachable, "Boom"),
        ({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "Boom"}}, RateLimited, "Boom"),
        ({"error": {"message": "Boom"}}, Rejected, "Boom"),
        (
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Boom"}}},
            Unreachable,
            "Boom",
        ),
        ({"type": "response.failed", "response": None}, BadResponse, "reason is 'failed'"),
    ],
)
def test_errors_in_a_stream(event, kind, words):
    """An error in a stream is raised with the server's message."""
    with pytest.raises(kind, match=words):
        read({"type": "response.output_text.delta", "delta": "H"}, event)


def test_stream_without_its_last_event_is_truncated():
    """Only the last event completes an answer; [DONE] does not."""
    reader = Responses().reader()
    list(reader.feed({"type": "response.output_text.delta", "delta": "Hello"}))
    assert not reader.is_whole
    with pytest.raises(BadResponse, match="cut short after 5 characters"):
        reader.finish(closed=False)
    with pytest.raises(BadResponse, match="without its completion event"):
        reader.finish(closed=True)
    list(reader.feed(completed(TEXT)))
    assert reader.is_whole


DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
STARTED = {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}}
ARGUMENTS = {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}"}
WHOLE_ARGUMENTS = {"type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{}"}


@pytest.mark.for_each(
    "last", [completed(), {"type": "response.completed", "response": None}, {"type": "response.done", "response": {}}]
)
@pytest.mark.for_each("arguments", [[ARGUMENTS], [WHOLE_ARGUMENTS], [ARGUMENTS, {**WHOLE_ARGUMENTS, "arguments": ""}]])
def test_deltas_are_used_if_the_last_event_has_none(arguments, last):
    """The streamed deltas are the answer if the last event contains no output."""
    _, response = read(DELTA, STARTED, *arguments, {"type": "response.output_item.done", "item": None}, last)
    assert response.text == "Hi"
    assert response.tool_calls == (ToolCall("a", "f", "{}"),)


@pytest.mark.parametrize("output", [[TEXT], []])
def test_call_of_the_server_itself_is_not_returned(output):
    """A call that the server makes for its own search is not returned as a tool call."""
    results = {"type": "search_results", "queries": ["x"], "results": []}
    done = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in ((1, results), (2, TEXT))
    ]
    _, response = read(STARTED, *done, completed(*output))
    assert (response.text, response.tool_calls, response.finish_reason) == ("Hi", (), "stop")


def test_completed_call_missing_from_the_last_event():
    """A completed call is returned even if the last event contains only text."""
    _, response = read(STARTED, {"type": "response.output_item.done", "output_index": 1, "item": CALL}, completed(TEXT))
    assert [call.id for call in response.tool_calls] == ["a"]


def test_output_items_are_sorted_by_index():
    """Output items that complete out of order are sorted by their index."""
    second = {**CALL, "call_id": "b"}
    done = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in ((10, second), (9, CALL))
    ]
    _, response = read(*done, completed())
    assert [call.id for call in response.tool_calls] == ["a", "b"]


def test_streamed_refusal_is_raised():
    """A streamed refusal counts even if the last event does not repeat it."""
    with pytest.raises(Rejected, match="I cannot"):
        read({"type": "response.refusal.delta", "delta": "I cannot"}, completed())


def test_response_error_event_is_raised():
    """An event of type `response.error` raises its error."""
    with pytest.raises(Unreachable, match="Boom"):
        read({"type": "response.error", "error": {"message": "Boom", "code": "server_error"}})


NAMES = st.sampled_from(
    ["output", "type", "status", "content", "text", "refusal", "summary", "name", "arguments", "call_id", "id"]
)
MORE_NAMES = st.sampled_from(
    ["usage", "error", "incomplete_details", "reason", "item", "delta", "output_index", "response", "message"]
)
TYPES = ["message", "function_call", "reasoning", "refusal", "response.output_text.delta", "response.output_item.added"]
MORE_TYPES = [
    "response.output_item.done",
    "response.completed",
    "response.failed",
    "response.function_call_arguments.delta",
    "error",
]
SCALARS = st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(TYPES + MORE_TYPES)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | MORE_NAMES, inner, max_size=4),
    max_leaves=20,
)
EVENTS = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(TYPES + MORE_TYPES),
    st.dictionaries(NAMES | MORE_NAMES, ANYTHING, max_size=5),
)


@given(EVENTS, st.lists(EVENTS, max_size=3))
def test_any_response_is_parsed_or_rejected(data, items):
    """Any JSON object is parsed to a response that can be sent back, or raises a ModelError."""
    try:
        response = Responses().decode({**data, "output": items})
    except ModelError:
        return
    assert isinstance(response, Response)
    json.dumps(items_of(response.message))


@given(st.lists(EVENTS, max_size=6))
def test_any_stream_is_parsed_or_rejected(events):
    """Any sequence of events is parsed or raises a ModelError."""
    try:
        _, response = read(*events, completed())
    except ModelError:
        return
    assert isinstance(response, Response)
