"""Tests for the parsing of Chat Completions responses, including invalid ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import BadResponse, ModelError, Rejected, Unreachable
from agentkit.events import ToolCallDelta
from agentkit.llm.protocols.chat_completions import ChatReader, decode_answer, read_message
from agentkit.messages import Response

NAMES = st.sampled_from(
    [
        *(
            "choices",
            "delta",
            "message",
            "content",
            "tool_calls",
            "function",
            "name",
            "arguments",
            "index",
            "id",
            "type",
        ),
        *("finish_reason", "usage", "prompt_tokens", "x_groq", "error", "code", "refusal", "reasoning", "text", "loc"),
        *("reasoning_details", "detail", "param", "thinking", "function_call", "completion_tokens_details", "status"),
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["stop", "{}", ""])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=20
)
OBJECTS = st.dictionaries(NAMES, ANYTHING, max_size=5)
ANSWERS = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"message": OBJECTS, "delta": OBJECTS}), max_size=2)}
)


@given(OBJECTS | ANSWERS)
def test_any_response_is_parsed_or_rejected(data):
    """Any JSON object is parsed or raises a ModelError, and a parsed response can be serialized."""
    try:
        response = decode_answer(data)
    except ModelError:
        return
    assert isinstance(response, Response)
    json.dumps(dict(response.message.extra))


@given(st.lists(OBJECTS | ANSWERS, max_size=5), st.booleans())
def test_any_stream_is_parsed_or_rejected(chunks, closed):
    """Any sequence of JSON objects is parsed or raises a ModelError."""
    reader = ChatReader()
    try:
        for chunk in chunks:
            list(reader.feed(chunk))
        response = reader.finish(closed=closed)
    except ModelError:
        return
    assert isinstance(response, Response)


@given(st.text(), st.data())
def test_arguments_are_the_same_in_one_or_more_pieces(value, data):
    """However a server splits the arguments of a tool call, the same arguments are parsed."""
    arguments = json.dumps({"value": value}, ensure_ascii=False)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=8)))
    reader = ChatReader()
    for start, stop in zip([0, *cuts], [*cuts, None], strict=True):
        part = {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments[start:stop]}}
        list(reader.feed({"choices": [{"delta": {"tool_calls": [part]}}]}))
    (call,) = reader.finish(closed=True).tool_calls
    assert json.loads(call.arguments) == {"value": value}


def test_cost_of_pieces_is_linear():
    """A long answer in small pieces emits an event for each, and the arguments are joined once."""
    reader = ChatReader()
    part = {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "x" * 10}}]}}]}
    events = [event for _ in range(20_000) for event in reader.feed(part)]
    assert events[0] == ToolCallDelta(0, "", "x" * 10)
    assert len(reader.finish(closed=True).tool_calls[0].arguments) == 200_000


@pytest.mark.parametrize("index", [[0], {"at": 0}, "0", 1.5])
def test_index_may_have_any_type(index):
    """Pieces of a call are matched by equal indexes of any type."""
    reader = ChatReader()
    for arguments in ("{", "}"):
        part = {"index": index, "function": {"arguments": arguments}}
        list(reader.feed({"choices": [{"delta": {"tool_calls": [part]}}]}))
    assert [call.arguments for call in reader.finish(closed=True).tool_calls] == ["{}"]


def test_answer_ends_with_the_stream():
    """Usage may follow the finish reason, so an answer is complete only at the end of the stream."""
    reader = ChatReader()
    list(reader.feed({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    assert not reader.is_whole


def test_single_message_of_the_history_is_parsed():
    """A message in the chat format is read on its own, with distinct ids for its calls."""
    message = read_message({"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}] * 2})
    assert [call.id for call in message.tool_calls] == ["call_1", "call_2"]


def test_complete_message_in_the_last_chunk_is_not_repeated():
    """A call streamed without an id is merged with the complete call of the last chunk."""
    reader = ChatReader()
    function = {"name": "f", "arguments": "{}"}
    list(reader.feed({"choices": [{"delta": {"reasoning_content": "Hm", "tool_calls": [{"function": function}]}}]}))
    full_text = {"reasoning_content": "Hm", "tool_calls": [{"id": "a", "function": function}]}
    list(reader.feed({"choices": [{"finish_reason": "stop", "message": full_text}]}))
    message = reader.finish(closed=True).message
    assert (message.reasoning, len(message.tool_calls)) == ("Hm", 1)


def test_repeated_name_of_a_call():
    """Repeating a call's name with each of thousands of pieces costs no more than sending it once."""
    reader = ChatReader()
    for _ in range(8_000):
        function = {"name": "f", "arguments": "[{}"}
        list(reader.feed({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}}]}))
    (call,) = reader.finish(closed=True).tool_calls
    assert call.arguments == "[{}" * 8_000


@pytest.mark.parametrize("told_apart_by", ["index", "id", None])
def test_pieces_of_many_calls_are_assigned_to_their_calls(told_apart_by):
    """The pieces of 20,000 calls are assigned to their calls in linear time."""
    reader, count = ChatReader(), 20_000
    for number in range(count):
        part = {} if told_apart_by is None else {told_apart_by: number if told_apart_by == "index" else f"c{number}"}
        for piece in ({"name": "f", "arguments": '{"n":'}, {"arguments": f"{number}}}"}):
            list(reader.feed({"choices": [{"index": 0, "delta": {"tool_calls": [{**part, "function": piece}]}}]}))
    calls = reader.finish(closed=True).message.tool_calls
    assert [json.loads(call.arguments)["n"] for call in calls] == list(range(count))


LIMIT = {"error": {"code": 400, "message": "Token limit reached"}}
AWAY = {"error": {"code": 503, "message": "Gone"}}


@pytest.mark.for_each("reason", ["stop", "length", "tool_calls", "eos"])
@pytest.mark.for_each("behind", [LIMIT, AWAY, {"object": "error", "message": "Gone"}])
def test_error_after_a_complete_answer_is_ignored(reason, behind):
    """An error after the end of an answer, such as a router's error about its limit, is ignored."""
    reader = ChatReader()
    list(reader.feed({"choices": [{"delta": {"content": "Hi"}, "finish_reason": reason}]}))
    figures = {"prompt_tokens": 4, "completion_tokens": 2}
    list(reader.feed({**behind, "usage": figures, "choices": [{"delta": {"content": ""}, "finish_reason": None}]}))
    response = reader.finish(closed=True)
    assert (response.text, response.finish_reason) == ("Hi", "length" if reason == "length" else "stop")
    assert response.usage.total_tokens == 6


@pytest.mark.for_each("reason", ["error", "content_filter", "content_filter: VIOLENCE", "abort", None, ""])
@pytest.mark.for_each(("text", "kind"), [(LIMIT, Rejected), (AWAY, Unreachable)])
def test_error_after_an_incomplete_answer_is_raised(reason, text, kind):
    """An error after an incomplete or failed answer is raised with its own message."""
    reader = ChatReader()
    list(reader.feed({"choices": [{"delta": {"content": "Hi"}, "finish_reason": reason}]}))
    with pytest.raises(kind, match=text["error"]["message"]):
        list(reader.feed(text))


def test_failure_after_the_end_is_raised():
    """A finish reason `error` raises BadResponse, even after another finish reason."""
    reader = ChatReader()
    for reason in ("stop", "error"):
        list(reader.feed({"choices": [{"delta": {"content": "Hi"}, "finish_reason": reason}]}))
    with pytest.raises(BadResponse, match="did not finish the response"):
        reader.finish(closed=True)


def ended(finish_reason, native, content=None, *, streamed):
    """Return an answer with the finish reasons of a router and of the provider behind it."""
    ending = {"finish_reason": finish_reason, "native_finish_reason": native}
    fields = {"role": "assistant", "content": content}
    if not streamed:
        return decode_answer({"choices": [{"message": fields, **ending}]})
    reader = ChatReader()
    for choice in ({"delta": fields}, {"delta": {"content": ""}, **ending}):
        list(reader.feed({"choices": [choice]}))
    return reader.finish(closed=True)


@pytest.mark.for_each("streamed", [False, True])
@pytest.mark.for_each(
    ("finish_reason", "native", "content", "kind", "message"),
    [
        ("error", "MALFORMED_FUNCTION_CALL", "", BadResponse, "'malformed_function_call'"),
        ("error", "upstream_502", "Hel", BadResponse, "'upstream_502'"),
        ("error", None, "Hel", BadResponse, "'error'"),
        ("error", "SAFETY", "Hel", Rejected, "content filter"),
        ("error", "refusal", None, Rejected, "content filter"),
        ("stop", "MALFORMED_FUNCTION_CALL", "", BadResponse, "'malformed_function_call'"),
        ("stop", "PROHIBITED_CONTENT", None, Rejected, "content filter"),
        ("refusal", None, "Hel", Rejected, "content filter"),
    ],
)
def test_upstream_error_of_a_failed_answer_is_raised(streamed, finish_reason, native, content, kind, message):
    """An empty or failed answer from a router raises an error based on the upstream finish reason."""
    with pytest.raises(kind, match=message):
        ended(finish_reason, native, content, streamed=streamed)


@pytest.mark.for_each("streamed", [False, True])
@pytest.mark.for_each(
    ("native", "content"), [("STOP", "Hi"), ("completed", ""), ("end_turn", "Hi"), ("error", "Hi"), ("SAFETY", "Hi")]
)
def test_upstream_finish_reason_of_a_complete_answer_is_ignored(streamed, native, content):
    """An answer that the router marks as complete is returned, whatever the upstream finish reason."""
    assert ended("stop", native, content, streamed=streamed).text == content
