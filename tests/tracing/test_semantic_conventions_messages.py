"""Tests for messages in the format of the semantic conventions."""

import json

from agentkit.content import File, Image
from agentkit.messages import (
    AssistantMessage,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from agentkit.redaction import stored_text_redactor
from agentkit.tracing import semantic_conventions as names

PICTURE = "data:image/png;base64,AAAA"
FILES = File("https://example.com/a.pdf"), File("data:application/pdf;base64,JVBERi0", "b.pdf")


def test_messages_follow_the_conventions():
    """Each message has a role and its parts in their original order."""
    messages = [
        SystemMessage("Be brief."),
        UserMessage(("Look:", Image("https://example.com/a.png"), Image(PICTURE), *FILES)),
        AssistantMessage("Well.", (ToolCall("c1", "look", '{"at": 1}'), ToolCall("c2", "look", "{"))),
        ToolMessage("c1", "look", "seen"),
    ]
    assert names.of_messages(messages) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "Look:"},
                {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
                {"type": "text", "content": "[image/png, 3 bytes]"},
                {"type": "uri", "modality": "document", "uri": "https://example.com/a.pdf"},
                {"type": "text", "content": "[b.pdf, application/pdf, 5 bytes]"},
            ],
        },
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "Well."},
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": 1}},
                {"type": "tool_call", "id": "c2", "name": "look", "arguments": "{"},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "seen"}]},
    ]


def test_response_has_a_finish_reason():
    """A response has a finish reason as named by the conventions."""
    calls = Response(AssistantMessage("", (ToolCall("c1", "look", "{}"),)), "tool_calls")
    assert names.message_of_response(calls)[0]["finish_reason"] == "tool_call"
    assert names.message_of_response(Response(AssistantMessage("Hi.")))[0]["finish_reason"] == "stop"
    assert names.of_answer("Hi.", "done") == names.message_of_response(Response(AssistantMessage("Hi.")))


def test_tools_and_instruction():
    """Tools are described with their parameters, and an empty instruction is omitted."""
    tool = {"type": "function", "name": "look", "description": "Look.", "parameters": {"type": "object"}}
    assert names.of_tools([ToolSpec("look", "Look.", {"type": "object"})]) == [tool]
    assert names.of_text("") == []


def test_secrets_are_redacted():
    """Secrets are redacted by their pattern or by their key."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": "key sk-abcdefghij0123456789ABCDEFG"}]}]
    assert (
        json.loads(names.written(messages, stored_text_redactor()))[0]["parts"][0]["content"]
        == "key [redacted: API key]"
    )
    assert json.loads(names.written({"password": "tulips and more"}, stored_text_redactor())) == {
        "password": "[redacted: secret]"
    }
