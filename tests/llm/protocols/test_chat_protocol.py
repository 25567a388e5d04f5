"""Tests for requests in Chat Completions."""

import pytest

from agentkit.llm.protocols import wire_named
from agentkit.llm.protocols.chat_completions import ChatCompletions, encode_message
from agentkit.messages import AssistantMessage, OutputSchema, Request, ToolCall, ToolSpec, UserMessage

CALL = ToolCall("a", "f", '{"a": 1}', {"extra_content": {"google": {}}})
PLAIN = {"type": "object", "properties": {}}
STRICT = {**PLAIN, "required": []}
TOOL = ToolSpec("f", "Does f", PLAIN, STRICT)


def body_of(request, *, strict=False):
    """Return the body of a request."""
    return ChatCompletions().encode(request, "m", strict=strict)


def test_protocol_is_found_by_name():
    """Each protocol is found by its name."""
    assert {name: wire_named(name).name for name in ("chat", "responses")} == {"chat": "chat", "responses": "responses"}


def test_request_with_messages_only():
    """A request that contains only messages is a body that contains only messages."""
    body = body_of(Request([UserMessage("Hi")], "Be brief"))
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}],
    }


@pytest.mark.parametrize(("strict", "parameters"), [(False, PLAIN), (True, STRICT)])
def test_tools_are_strict_if_possible(strict, parameters):
    """A tool with a strict form is sent as strict to a server that enforces schemas."""
    other = ToolSpec("g", "", PLAIN)
    tools = [tool["function"] for tool in body_of(Request([], tools=(TOOL, other)), strict=strict)["tools"]]
    assert tools[0] == {"name": "f", "description": "Does f", "parameters": parameters} | (
        {"strict": True} if strict else {}
    )
    assert tools[1] == {"name": "g", "description": "", "parameters": PLAIN}


@pytest.mark.parametrize("strict", [False, True])
def test_output_schema(strict):
    """The output schema is strict only if requested."""
    sent = body_of(Request([], output_schema=OutputSchema("answer", PLAIN, strict)))["response_format"]
    assert sent["json_schema"] == {"name": "answer", "schema": PLAIN} | ({"strict": True} if strict else {})


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        (AssistantMessage("Hi"), {"content": "Hi"}),
        (AssistantMessage(), {"content": ""}),
        (AssistantMessage("", (CALL,)), {"content": None}),
        (AssistantMessage("Hi", extra={"reasoning": "Hm", "mood": "calm"}), {"content": "Hi", "mood": "calm"}),
        (
            AssistantMessage("Hi", extra={"audio": {"id": "a"}, "executed_tools": [{}], "channel": "final"}),
            {"content": "Hi"},
        ),
        (
            AssistantMessage("Hi", (CALL,), extra={"reasoning": "Hm", "reasoning_content": "Hm", "mood": "calm"}),
            {"content": "Hi", "reasoning": "Hm", "reasoning_content": "Hm", "mood": "calm"},
        ),
    ],
)
def test_answers_in_the_history(message, sent):
    """An answer is sent back with the provider's own fields, and with its reasoning only if it has calls."""
    encoded = encode_message(message)
    calls = encoded.pop("tool_calls", [])
    assert encoded == {"role": "assistant", **sent}
    assert len(calls) == len(message.tool_calls)


def test_calls_in_the_history():
    """A tool call is sent back with valid arguments and the provider's extra fields."""
    broken = ToolCall("b", "g", "{")
    first, second = encode_message(AssistantMessage("", (CALL, broken)))["tool_calls"]
    assert first == {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a": 1}'},
        "extra_content": {"google": {}},
    }
    assert second["function"]["arguments"] == '{"malformed_arguments": "{"}'


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("f", {"type": "function", "function": {"name": "f"}}),
        ({"type": "allowed_tools"}, {"type": "allowed_tools"}),
    ],
)
def test_tool_choice_by_name(choice, sent):
    """A tool can be chosen by its name."""
    assert body_of(Request([], settings={"tool_choice": choice}))["tool_choice"] == sent
