"""Tests for the parsing of completion requests, and the rejection of unsupported parameters."""

import pytest

from agentkit.content import File, Image
from agentkit.decisions import Label
from agentkit.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from agentkit.server.http_types import HTTPError
from agentkit.server.openai_endpoint import parse_request

ASK = {"role": "user", "content": "6*7?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}


def parsed_request(*messages, **more):
    """Return the parsed request with these messages."""
    return parse_request({"model": "helper", "messages": list(messages) or [ASK], **more}, "helper")


def test_last_message_is_the_prompt():
    """The last message is the prompt, and all messages before it are the history."""
    order, fields = {"role": "developer", "content": "Be brief."}, {"role": "assistant", "content": "42"}
    found = parsed_request(order, ASK, CALLS, RESULT, fields, {"role": "user", "content": "And now?"})
    assert found.prompt == "And now?"
    kinds = [SystemMessage, UserMessage, AssistantMessage, ToolMessage, AssistantMessage]
    assert [type(message) for message in found.history] == kinds


def test_images_are_part_of_the_prompt():
    """A prompt may contain text and images."""
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:image/png;,"}}]
    assert parsed_request({"role": "user", "content": parts}).prompt == ("What is it?", Image("data:image/png;,"))


def test_streaming_and_token_limits_are_parsed():
    """The streaming options and the smaller of the two token limits are taken from the request."""
    found = parsed_request(stream=True, stream_options={"include_usage": True}, max_tokens=50, max_completion_tokens=20)
    assert (found.stream, found.include_usage, found.max_tokens) == (True, True, 20)
    plain = parsed_request(stream=None, stream_options=None, max_tokens=None)
    assert (plain.stream, plain.include_usage, plain.max_tokens) == (False, False, None)


def test_tuning_parameters_are_ignored_and_reported():
    """Parameters that tune the model are ignored and reported."""
    assert parsed_request(temperature=0.5, top_p=1, user="me", seed=None).ignored == ("temperature", "top_p", "user")


@pytest.mark.parametrize(
    "more",
    [
        {"n": 1},
        {"tools": []},
        {"tools": None},
        {"tool_choice": "auto"},
        {"logprobs": False},
        {"response_format": {"type": "text"}},
        {"modalities": ["text"]},
    ],
)
def test_parameters_without_effect_are_accepted(more):
    """A parameter whose value does not change the answer is accepted."""
    assert parsed_request(**more).prompt == "6*7?"


@pytest.mark.for_each(
    ("more", "status", "parameter", "words"),
    [
        ({"model": "gpt-5.4"}, 404, "model", "the agent is named 'helper'"),
        ({"model": None}, 404, "model", "helper"),
        ({"n": 2}, 400, "n", "one answer"),
        ({"n": True, "tools": [CALL]}, 400, "tools", "the agent's own tools"),
        ({"functions": [{}]}, 400, "functions", "the agent's own tools"),
        ({"tool_choice": "required"}, 400, "tool_choice", "its own tools"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format", "output_type="),
        ({"stop": ["\n"]}, 400, "stop", "is unknown to this endpoint"),
        ({"audio": {}}, 400, "audio", "is unknown to this endpoint"),
        ({"x" * 500: 1}, 400, "x" * 100, "is unknown to this endpoint"),
        ({"stream": "yes"}, 400, "stream", "true or false"),
        ({"stream_options": [1]}, 400, "stream", "an object"),
        ({"max_tokens": 0}, 400, "max_completion_tokens", "at least 1"),
        ({"max_completion_tokens": True}, 400, "max_completion_tokens", "at least 1"),
    ],
)
def test_unsupported_parameters_are_rejected(more, status, parameter, words):
    """An unsupported or unknown parameter is rejected with its name and the reason."""
    with pytest.raises(HTTPError, match=words) as refused:
        parsed_request(**more)
    assert (refused.value.status, refused.value.parameter) == (status, parameter)


def test_images_are_embedded_or_web_urls():
    """An image is embedded in the request or is a web URL that the provider reads."""
    for url in ("data:image/png;base64,aGk=", "https://example.com/a.png"):
        content = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url}}]
        assert len(parsed_request(messages=[{"role": "user", "content": content}]).prompt) == 2


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBERi0="}},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "SUQzBAA=", "format": "mp3"}},
    ],
)
def test_files_are_embedded_or_urls(part):
    """A PDF or recording is embedded in the request or is a URL that the provider reads."""
    assert isinstance(parsed_request(messages=[{"role": "user", "content": ["Read.", part]}]).prompt[1], File)


def test_tool_results_from_the_client_are_untrusted():
    """Tool results sent by the client are labelled untrusted."""
    history = parsed_request(messages=[ASK, CALLS, RESULT, ASK]).history
    assert [message.labels for message in history if isinstance(message, ToolMessage)] == [{Label.UNTRUSTED}]


@pytest.mark.for_each(
    "messages",
    [
        [],
        "hello",
        None,
        [5],
        [{"role": "robot", "content": ""}],
        [{"role": "user", "content": [{"type": "input_audio"}]}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": {"text": "x"}}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:text/html,x"}}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": 5}}]}],
        [{"role": "user", "content": [{"type": "file", "file": {"file_data": "file:///etc/passwd"}}]}],
        [{"role": "user", "content": [{"type": "input_file", "file_url": "file:///etc/passwd"}]}],
        [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}],
        [{"role": "user", "content": [{"type": "file", "file": {"file_data": "AAAA"}}]}],
        [{"role": "system", "content": 5}, ASK],
        [{"role": ["user"], "content": "x"}],
        [ASK, {"role": "assistant", "content": None, "tool_calls": "x"}, ASK],
        [ASK, {"role": "assistant", "content": "42"}],
        [{"role": "system", "content": "x"}],
        [ASK, RESULT, ASK],
        [ASK, CALLS, ASK],
        [ASK, CALLS, RESULT, RESULT, ASK],
        [ASK, CALLS, RESULT, CALLS, RESULT, ASK],
        [ASK, {**CALLS, "tool_calls": [CALL, CALL]}, RESULT, ASK],
        [ASK, {**CALLS, "tool_calls": [{**CALL, "id": ""}]}, ASK],
        [ASK] * 10_001,
    ],
)
def test_invalid_conversations_are_rejected(messages):
    """Unknown roles and parts, a last message not from the user and unmatched calls are rejected."""
    with pytest.raises(HTTPError) as refused:
        parse_request({"model": "helper", "messages": messages}, "helper")
    assert (refused.value.status, refused.value.parameter) == (400, "messages")
