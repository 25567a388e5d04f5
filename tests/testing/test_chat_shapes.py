"""Tests for Chat Completions responses of the fake server."""

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from agentkit.messages import AssistantMessage, ToolCall
from agentkit.testing import RecordedRequest, call, filtered, refuse, say
from agentkit.testing.fake_responses import chunks, completion, is_chat_delta, to_reply
from agentkit.usage import Usage

_AZURE = "/openai/deployments/mini/chat/completions"
_LINES = {
    "text": "Hello there, you",
    "nothing": "",
    "a call": call("calculator", expression="2+2"),
    "calls": say("Wait.", call("a"), ToolCall("mine", "b", ""), reasoning="Let me think"),
    "cut at its limit": say("Once upon", finish_reason="length"),
    "a refusal": refuse("I cannot help with that."),
    "a filtered text": filtered("Once upon"),
    "no usage": say("Hi", usage=None),
    "all usage": say("Hi", usage=Usage(100, 50, 80, 20, requests=1)),
    "extra": AssistantMessage("Hi", (ToolCall("a", "b", "{}", {"signature": "x"}),), extra={"audio": None}),
}

every_line = pytest.mark.parametrize("line", _LINES.values(), ids=_LINES)
everywhere = pytest.mark.parametrize("path", ["/v1/chat/completions", _AZURE])


def _answer(line):
    return to_reply(line).content


def _request(path="/v1/chat/completions", **body):
    return RecordedRequest("POST", path, json={"model": "gpt", **body})


def _joined(deltas, name):
    return "".join(delta.get(name) or "" for delta in deltas)


@every_line
@everywhere
def test_answers_match_the_openai_package(line, path):
    """Complete and streamed answers match the types of the openai package."""
    ChatCompletion.model_validate(completion(_answer(line), _request(path), 1))
    for chunk in chunks(_answer(line), _request(path, stream_options={"include_usage": True}), 1):
        ChatCompletionChunk.model_validate(chunk)


@every_line
@everywhere
def test_deltas_form_the_answer(line, path):
    """The deltas of a stream form the complete answer."""
    full_text = completion(_answer(line), _request(path), 1)["choices"][0]
    choices = [chunk["choices"][0] for chunk in chunks(_answer(line), _request(path), 1) if chunk["choices"]]
    deltas = [choice["delta"] for choice in choices]
    for name in ("content", "refusal", "reasoning_content"):
        assert _joined(deltas, name) == (full_text["message"].get(name) or "")
    parts = [part for delta in deltas for part in delta.get("tool_calls", [])]
    for index, expected in enumerate(full_text["message"].get("tool_calls", [])):
        first, *rest = [part for part in parts if part["index"] == index]
        first["function"]["arguments"] = "".join(part["function"]["arguments"] for part in [first, *rest])
        assert first == {"index": index, **expected}
    assert choices[-1]["finish_reason"] == full_text["finish_reason"]


def test_stream_starts_with_the_role_and_ends_with_the_reason():
    """The first chunk has the role, the last the finish reason, and those between are deltas."""
    streamed = list(chunks(_answer("one two"), _request(), 7))
    assert [is_chat_delta(chunk) for chunk in streamed] == [False, True, True, False]
    assert streamed[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert streamed[-1]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert {chunk["id"] for chunk in streamed} == {"chatcmpl-7"}
    assert not any("usage" in chunk for chunk in streamed)


def test_usage_is_in_the_last_chunk():
    """With `include_usage`, a last chunk without choices has the usage, which is null in the others."""
    question = _request(stream_options={"include_usage": True})
    *before, last = chunks(_answer(_LINES["all usage"]), question, 1)
    assert all(chunk["usage"] is None for chunk in before)
    assert last["choices"] == []
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (100, 50)
    assert last["usage"]["prompt_tokens_details"]["cached_tokens"] == 80
    assert last["usage"]["completion_tokens_details"]["reasoning_tokens"] == 20
    assert last["usage"] == completion(_answer(_LINES["all usage"]), question, 1)["usage"]


def test_server_may_report_no_usage():
    """`say(..., usage=None)` reports no usage, whether it was requested or not."""
    answer, question = _answer(_LINES["no usage"]), _request(stream_options={"include_usage": True})
    assert "usage" not in completion(answer, question, 1)
    assert not any("usage" in chunk for chunk in chunks(answer, question, 1))


@pytest.mark.parametrize(
    ("line", "content", "finish_reason"),
    [
        ("", "", "stop"),
        (call("a"), None, "tool_calls"),
        (say("Hi", call("a")), "Hi", "tool_calls"),
        (refuse("No."), None, "stop"),
        (filtered(), "", "content_filter"),
        (say("Hi", finish_reason="length"), "Hi", "length"),
    ],
)
def test_content_is_null_with_calls_or_refusals(line, content, finish_reason):
    """An answer without text has null content with tool calls or a refusal, and empty content otherwise."""
    choice = completion(_answer(line), _request(), 1)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (content, finish_reason)


def test_azure_content_filter_results():
    """An Azure response has content filter results, and its stream starts with a chunk without choices."""
    full_text, first = completion(_answer("Hi"), _request(_AZURE), 1), next(chunks(_answer("Hi"), _request(_AZURE), 1))
    assert full_text["choices"][0]["content_filter_results"]["hate"] == {"filtered": False, "severity": "safe"}
    assert full_text["prompt_filter_results"] == first["prompt_filter_results"]
    assert first["choices"] == []
    assert not is_chat_delta(first)


def test_extra_fields_are_sent_along():
    """Provider-specific fields of a message or call are sent unchanged."""
    message = completion(_answer(_LINES["extra"]), _request(), 1)["choices"][0]["message"]
    assert (message["audio"], message["tool_calls"][0]["signature"]) == (None, "x")


def test_model_is_that_of_the_request():
    """The answer has the model of the request, unless the line names another."""
    assert completion(_answer("Hi"), _request(), 1)["model"] == "gpt"
    assert completion(_answer(say("Hi", model="gpt-2026")), _request(), 1)["model"] == "gpt-2026"
