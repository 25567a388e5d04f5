"""Tests for reasoning in the content of an answer, and how it is sent back."""

import pytest

from agentkit.llm.protocols.chat_completions import (
    ChatCompletions,
    ChatReader,
    decode_answer,
    encode_message,
    join_parts,
)
from agentkit.messages import AssistantMessage, Request, ToolCall, UserMessage

CALL = {"id": "c", "function": {"name": "f", "arguments": "{}"}}


def thought(text, **more):
    """Return a reasoning part as Mistral sends it: a part of the content that contains a list of parts."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}


def whole(content, **more):
    """Return the message of an answer that is not streamed."""
    return decode_answer({"choices": [{"message": {"content": content, **more}}]}).message


def streamed(*deltas):
    """Return the message of an answer streamed in these pieces."""
    reader = ChatReader()
    for delta in deltas:
        list(reader.feed({"choices": [{"delta": delta}]}))
    return reader.finish(closed=True).message


SAID = {"type": "text", "text": "Let me see."}
PLAIN = {"type": "thinking", "thinking": "H"}
HIDDEN = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm.", "signature": "s"}]}


@pytest.mark.for_each(
    ("message", "content"),
    [
        (whole([thought("Hm."), SAID], tool_calls=[CALL]), [thought("Hm."), SAID]),
        (whole([thought("Hm.", signature="s")], tool_calls=[CALL]), [thought("Hm.", signature="s")]),
        (whole([HIDDEN, SAID], tool_calls=[CALL]), [HIDDEN, SAID]),
        (
            whole([{"type": "thinking", "thinking": "Hm."}], tool_calls=[CALL]),
            [{"type": "thinking", "thinking": "Hm."}],
        ),
        (whole([SAID], tool_calls=[CALL]), "Let me see."),
        (whole([thought("Hm."), SAID]), "Let me see."),
        (
            streamed({"content": [thought("H")]}, {"content": [thought("m.")]}, {"content": "Let me see."}),
            "Let me see.",
        ),
        (
            streamed(
                {"content": [thought("H")]},
                {"content": [thought("m.", signature="s")]},
                {"content": "Let me "},
                {"content": "see."},
                {"tool_calls": [CALL]},
            ),
            [thought("Hm.", signature="s"), SAID],
        ),
    ],
)
def test_thinking_parts_are_sent_back_with_calls(message, content):
    """Thinking parts in the content are sent back only if the answer calls tools."""
    assert encode_message(message)["content"] == content


def test_sent_text_is_that_of_the_message():
    """The text after the thinking parts is the current text of the message."""
    message = AssistantMessage("Now.", (ToolCall("c", "f", "{}"),), extra={"content": [thought("Hm.")]})
    assert encode_message(message)["content"] == [thought("Hm."), {"type": "text", "text": "Now."}]


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        ([], [thought("a")], [thought("a")]),
        ([thought("a")], [thought("a")], [thought("aa")]),
        ([thought("a")], [HIDDEN], [thought("a"), HIDDEN]),
        ([PLAIN], [{"type": "thinking", "thinking": "m."}], [{"type": "thinking", "thinking": "Hm."}]),
        ([PLAIN], [{"type": "thinking", "thinking": None}], [PLAIN]),
        (["a"], ["b"], ["a", "b"]),
        ([{"thinking": [{"thinking": [1]}]}], [{"thinking": [{"thinking": [2]}]}], [{"thinking": [{"thinking": [2]}]}]),
    ],
)
def test_pieces_of_a_thought_are_joined(old, new, both):
    """Consecutive pieces of a thought are joined, up to the nesting depth of thoughts."""
    assert join_parts(old, new) == both


def sent(settings, message):
    """Return an answer in a conversation as it is sent with the given settings."""
    request = Request([UserMessage("Hi"), message, UserMessage("And?")], settings=settings)
    return ChatCompletions().encode(request, "m", strict=False)["messages"][1]


THOUGHT_ALOUD = AssistantMessage("Hello", extra={"reasoning_content": "Hm.", "channel": "final"})


@pytest.mark.parametrize(
    "settings",
    [
        {"thinking": {"type": "enabled", "clear_thinking": False}},
        {"thinking": {"type": "enabled", "keep": "all"}},
        {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
        {"preserve_thinking": True},
    ],
)
def test_thoughts_are_sent_back_if_the_settings_preserve_them(settings):
    """Settings that preserve thinking send the thoughts of all answers back, in their original form."""
    assert sent(settings, THOUGHT_ALOUD) == {"role": "assistant", "content": "Hello", "reasoning_content": "Hm."}
    assert sent(settings, whole([thought("Hm."), SAID]))["content"] == [thought("Hm."), SAID]
    assert sent(settings, AssistantMessage())["content"] == ""


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"thinking": {"type": "enabled"}},
        {"thinking": {"clear_thinking": True, "keep": None}},
        {"thinking": "high", "chat_template_kwargs": None},
        {"chat_template_kwargs": {"preserve_thinking": False}},
    ],
)
def test_thoughts_are_not_sent_back_by_default(settings):
    """The thoughts of answers without calls are not sent back unless the settings ask for it."""
    assert sent(settings, THOUGHT_ALOUD) == {"role": "assistant", "content": "Hello"}
    assert sent(settings, whole([thought("Hm."), SAID]))["content"] == "Let me see."
