"""Which parts of an answer's content are thoughts, and how do they go back to their server?"""

import pytest

from agentkit.llm.protocols.chat_completions import ChatCompletions, ChatReader, decode_answer, encode_message, joined
from agentkit.messages import AssistantMessage, Request, ToolCall, UserMessage

CALL = {"id": "c", "function": {"name": "f", "arguments": "{}"}}


def thought(text, **more):
    """A thought as Mistral sends it: a part of the content, which is a list of parts itself."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}


def whole(content, **more):
    """The message of an answer that came at once."""
    return decode_answer({"choices": [{"message": {"content": content, **more}}]}).message


def streamed(*deltas):
    """The message of an answer that came in these pieces."""
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
def test_thoughts_in_a_content_go_back_beside_calls(message, content):
    """Thoughts that stand in the content of an answer go back in it where it calls tools, and nowhere else."""
    assert encode_message(message)["content"] == content


def test_the_text_is_that_of_the_message():
    """What stands behind the thoughts is what the message says now."""
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
def test_pieces_of_one_thought_are_one(old, new, both):
    """What goes on with a thought is joined to it, to the depth that thoughts have."""
    assert joined(old, new) == both


def sent(settings, message):
    """The answer in a conversation as it is sent with these settings."""
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
def test_thoughts_go_back_to_a_server_that_is_to_read_them(settings):
    """Who asks a server to read the thoughts of all answers has them sent, in whatever form they came."""
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
def test_thoughts_stay_where_nobody_reads_them(settings):
    """Where nobody asks for them, the thoughts of an answer without calls are not sent back."""
    assert sent(settings, THOUGHT_ALOUD) == {"role": "assistant", "content": "Hello"}
    assert sent(settings, whole([thought("Hm."), SAID]))["content"] == "Let me see."
