"""Tests for messages as content blocks of Anthropic's protocol, in alternating turns."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import File, Image
from agentkit.llm.protocols.anthropic import BLOCKS, AnthropicMessages, encode_message
from agentkit.llm.protocols.encoding import EncodingCache, serialise_body
from agentkit.messages import (
    AssistantMessage,
    Request,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    failure_content,
)

THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "x"}
SEARCH = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
NOTHING = {"role": "user", "content": [{"type": "text", "text": "(empty message)"}]}


def text(text):
    """Return a text block."""
    return {"type": "text", "text": text}


def use(call_id, name="f", **fields):
    """Return a tool use block."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}, **fields}


def turns_of(*messages, before=None):
    """Return the turns of messages, without cache marks."""
    request = Request(messages, settings={"cache_control": False})
    return AnthropicMessages().encode(request, "m", strict=False, cache=before)["messages"]


def block_of(message):
    """Return the only block of a message."""
    ((turn),) = encode_message(message)
    (block,) = turn["content"]
    return block


# messages; their turns
TURNS = {
    "a question": ([UserMessage("Hi")], [{"role": "user", "content": [text("Hi")]}]),
    "neighbours": (
        [UserMessage("Hi"), UserMessage(("Look", " ", "here")), AssistantMessage("I"), AssistantMessage("see")],
        [
            {"role": "user", "content": [text("Hi"), text("Look"), text("here")]},
            {"role": "assistant", "content": [text("I"), text("see")]},
        ],
    ),
    "system message in the middle": (
        [UserMessage("Hi"), AssistantMessage("Ho"), SystemMessage("Be brief"), UserMessage("And?")],
        [
            {"role": "user", "content": [text("Hi")]},
            {"role": "assistant", "content": [text("Ho")]},
            {"role": "user", "content": [text("Be brief"), text("And?")]},
        ],
    ),
    "only a system message": (
        [UserMessage("Hi"), AssistantMessage("Ho"), SystemMessage("Go on")],
        [
            {"role": "user", "content": [text("Hi")]},
            {"role": "assistant", "content": [text("Ho")]},
            {"role": "user", "content": [text("Go on")]},
        ],
    ),
    "nothing": ([], [NOTHING]),
    "blanks": ([UserMessage(" \n"), AssistantMessage("")], [NOTHING]),
    "an answer first": ([AssistantMessage("Ho")], [NOTHING, {"role": "assistant", "content": [text("Ho")]}]),
    "an empty answer between": (
        [UserMessage("Hi"), AssistantMessage(""), UserMessage("Hello?")],
        [{"role": "user", "content": [text("Hi"), text("Hello?")]}],
    ),
}


@pytest.mark.for_each(("messages", "expected"), TURNS.values(), ids=TURNS)
def test_turns_alternate_and_begin_with_the_user(messages, expected):
    """Consecutive messages are merged, blank ones are dropped, and the first turn is the user's."""
    assert turns_of(*messages) == expected


def test_leading_system_messages_join_the_instruction():
    """System messages before the first user message are appended to the instruction."""
    request = Request([SystemMessage("One"), SystemMessage("Two"), UserMessage("Hi")], "Be brief")
    body = AnthropicMessages().encode(request, "m", strict=False)
    assert (body["system"], body["messages"]) == ("Be brief\n\nOne\n\nTwo", turns_of(UserMessage("Hi")))


@pytest.mark.parametrize("blocks", [[THOUGHT, text("Hi"), use("a")], [HIDDEN, SEARCH, text("Hi"), use("a", caller={})]])
def test_blocks_are_sent_back_unchanged(blocks):
    """The blocks of an answer are sent back unchanged, even if their type is unknown."""
    response = AnthropicMessages().decode({"content": blocks})
    assert turns_of(UserMessage("Hi"), response.message)[1]["content"] == blocks


def test_plain_blocks_are_not_stored():
    """Blocks that contain only text and calls are not stored a second time."""
    assert AnthropicMessages().decode({"content": [{**text("Hi"), "citations": None}, use("a")]}).message.extra == {}


def test_calls_with_duplicate_ids_are_sent_back_with_new_ids():
    """Calls with the same id are sent back with distinct ids."""
    response = AnthropicMessages().decode({"content": [THOUGHT, use("a"), use("a")]})
    sent = turns_of(UserMessage("Hi"), response.message)[1]["content"]
    assert [block["id"] for block in sent[1:]] == ["a", "a_2"]


@pytest.mark.parametrize(
    "changed",
    [
        AssistantMessage("***", (ToolCall("a", "f", "{}"),), extra={BLOCKS: (THOUGHT, text("Hi"), use("a"))}),
        AssistantMessage("***", extra={BLOCKS: (THOUGHT, text("Hi"))}),
        AssistantMessage("Hi", extra={BLOCKS: (THOUGHT, text("Hi"), use("a"))}),
    ],
)
def test_blocks_of_a_changed_message_are_not_sent(changed):
    """A message that was changed is sent with its new content, without its original blocks."""
    sent = turns_of(UserMessage("?"), changed)[1]["content"]
    assert sent[0] == text(changed.text)
    assert THOUGHT not in sent


def test_empty_text_blocks_are_removed():
    """Empty text blocks, which a server may send but rejects, are not sent back."""
    response = AnthropicMessages().decode({"content": [THOUGHT, text(""), use("a")]})
    assert turns_of(UserMessage("Hi"), response.message)[1]["content"] == [THOUGHT, use("a")]


@given(st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True))
def test_call_ids_are_valid_and_unique(ids):
    """Call ids are sent with valid characters only, and remain unique."""
    sent = [block_of(ToolMessage(call_id, "f", "1"))["tool_use_id"] for call_id in ids]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", each) for each in sent)
    assert len(set(sent)) == len(ids)
    request = AssistantMessage("", tuple(ToolCall(call_id, "f", "") for call_id in ids))
    assert [block["id"] for block in encode_message(request)[0]["content"]] == sent


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '"x"', '{"a": "\\ud83d"}', '{"a": NaN}'])
def test_arguments_are_always_an_object(arguments):
    """The arguments of a call are sent as a valid JSON object, whatever the model wrote."""
    block = block_of(AssistantMessage("", (ToolCall("a", "f", arguments),)))
    assert isinstance(block["input"], dict)
    assert serialise_body({"messages": [block]}).decode()


# a result; the content of its block, and whether it is marked as an error
RESULTS = {
    "text": ("sun", "sun", False),
    "nothing": ("", None, False),
    "a failure": (failure_content("f", "no"), failure_content("f", "no"), True),
    "error returned by the tool": ('{"error": "no", "expression": "2+"}', '{"error": "no", "expression": "2+"}', False),
    "not JSON": ('{"error": no', '{"error": no', False),
}


@pytest.mark.parametrize(("text", "content", "is_error"), RESULTS.values(), ids=RESULTS)
def test_only_failed_results_are_marked_as_errors(text, content, is_error):
    """Only failed tool calls are marked as errors, and error text returned by a tool is not."""
    block = block_of(ToolMessage("a", "f", text))
    assert (block.get("content"), block.get("is_error", False)) == (content, is_error)


# the URL of an image; the source that is sent
SOURCES = {
    "https://x.example/a.png": {"type": "url", "url": "https://x.example/a.png"},
    "data:image/png;base64,QUJD": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
    "data:image/JPG;base64,QUJD": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"},
    "data:image/png,A%42C": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
}


@pytest.mark.parametrize(("url", "source"), SOURCES.items())
def test_images_are_sent_as_url_or_data(url, source):
    """An image is sent as a URL or as base64 data, with its media type."""
    assert block_of(UserMessage((Image(url),))) == {"type": "image", "source": source}


PDF = "data:application/pdf;base64,JVBERi0="

# a file; the block that is sent
FILES = {
    "a PDF": (
        File(PDF, "report.pdf"),
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            "title": "report.pdf",
        },
    ),
    "an address": (
        File("https://x.example/a.pdf"),
        {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}},
    ),
    "a text": (
        File("data:text/plain;base64,SGk=", "a.txt"),
        text("[What follows is the file a.txt.]\nHi\n[Here ends the file a.txt.]"),
    ),
    "a recording": (
        File("data:audio/wav;base64,UklG"),
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
    ),
}


@pytest.mark.parametrize(("file", "block"), FILES.values(), ids=FILES)
def test_files_are_documents(file, block):
    """A file is sent as a document with its URL or data and its name, a text file as text, also in results."""
    assert block_of(UserMessage((file,))) == block
    assert block_of(ToolMessage("a", "f", "Look", files=(file,)))["content"] == [text("Look"), block]


ANSWER_TEXTS = st.lists(
    st.one_of(
        st.builds(UserMessage, st.text(max_size=3)),
        st.builds(SystemMessage, st.text(max_size=3)),
        st.builds(AssistantMessage, st.text(max_size=3), st.just((ToolCall("a", "f", "{}"),))),
        st.builds(ToolMessage, st.just("a"), st.just("f"), st.text(max_size=3)),
    ),
    max_size=8,
)


@given(ANSWER_TEXTS)
def test_any_conversation_can_be_sent(messages):
    """Turns alternate, start with the user, are never empty, and match their JSON encoding."""
    turns = turns_of(*messages)
    assert [turn["role"] for turn in turns] == [("user", "assistant")[at % 2] for at in range(len(turns))]
    assert all(turn["content"] for turn in turns)
    assert all(one["role"] != two["role"] for one, two in pairwise(turns))
    assert json.loads(serialise_body({"messages": turns})) == {"messages": json.loads(json.dumps(turns))}


def test_sent_messages_are_not_encoded_again():
    """Messages that were sent before are not encoded again."""
    before = EncodingCache()
    history = [UserMessage("Hi"), AssistantMessage("", (ToolCall("a", "f", ""),)), ToolMessage("a", "f", "1")]
    turns_of(*history, before=before)
    first = before.entries(history, encode_message)
    turns_of(*history, UserMessage("And?"), before=before)
    assert all(one is two for one, two in zip(first, before.entries(history, encode_message), strict=True))
