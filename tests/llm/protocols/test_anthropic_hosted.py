"""Tests for the blocks of hosted tools in an answer, which are sent back."""

import pytest

from agentkit.llm.protocols.anthropic import BLOCKS, CONTAINER, AnthropicMessages
from agentkit.llm.protocols.encoding import EncodingCache
from agentkit.messages import Request, ToolMessage, UserMessage, without_extra

SEARCH = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "Paris"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv",
    "content": [{"type": "web_search_result", "url": "https://a.b", "title": "A", "encrypted_content": "x"}],
}
LISTED = {"type": "mcp_tool_use", "id": "mcp", "name": "list", "server_name": "s", "input": {}}
CALL = {
    "type": "tool_use",
    "id": "a",
    "name": "f",
    "input": {"x": 1},
    "caller": {"type": "code_execution_20260120", "tool_id": "srv"},
}
CODE = {"type": "server_tool_use", "id": "srv", "name": "code_execution", "input": {"code": "await f(x=1)"}}
CITED = [{"type": "web_search_result_location", "url": "https://a.b", "encrypted_index": "y"}]


def text(text, **fields):
    """Return a text block."""
    return {"type": "text", "text": text, **fields}


def answered(*blocks, reason="end_turn", **fields):
    """Return the message of an answer with these blocks."""
    return AnthropicMessages().decode({"content": [*blocks], "stop_reason": reason, **fields}).message


def body(*messages, before=None, **settings):
    """Return the request body for a conversation."""
    settings = {"cache_control": False, **settings}
    return AnthropicMessages().encode(Request(messages, settings=settings), "m", strict=False, cache=before)


def back(message, *later):
    """Return the blocks that are sent back for an answer."""
    return body(UserMessage("Hi"), message, *later)["messages"][1]["content"]


# an answer with hosted tools; its text
ANSWERS = {
    "a search": ([text("I look."), SEARCH, FOUND, text("Paris", citations=CITED), text(".")], "I look.\n\nParis."),
    "search without text": ([SEARCH, FOUND, text("Paris")], "Paris"),
    "a shortened conversation": ([{"type": "compaction", "content": "They said Hi."}, text("Hello")], "Hello"),
    "an adviser": (
        [
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "server_tool_use", "id": "srv", "name": "advisor", "input": {}},
            {"type": "advisor_tool_result", "tool_use_id": "srv", "content": {"type": "advisor_result", "text": "4"}},
            text("4"),
        ],
        "4",
    ),
    "tool of a later version": ([{"type": "a_new_tool_result", "of": [1, {"deep": None}]}, text("Hi")], "Hi"),
    "reasoning in the text": ([text("<thinking>Hm</thinking>"), SEARCH, FOUND, text("Paris")], "Paris"),
}


@pytest.mark.parametrize(("blocks", "text"), ANSWERS.values(), ids=ANSWERS)
def test_hosted_blocks_are_sent_back_unchanged(blocks, text):
    """The answer's text is complete, and every block is sent back at its position with all its fields."""
    message = answered(*blocks)
    assert (message.text, message.tool_calls) == (text, ())
    assert back(message, UserMessage("And now?")) == blocks


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([text("I look."), SEARCH], [text("I look.")]),
        ([text("I look."), SEARCH, FOUND, text("More."), LISTED], [text("I look."), SEARCH, FOUND, text("More.")]),
    ],
)
@pytest.mark.parametrize("reason", ["max_tokens", "end_turn"])
def test_call_without_a_result_is_not_sent_back(blocks, expected, reason):
    """An answer truncated during a search is sent back without it, as servers reject a call without a result."""
    assert back(answered(*blocks, reason=reason)) == expected


def test_code_that_calls_a_tool_is_sent_back_with_its_container():
    """Code that calls a client tool is sent back unchanged, with its caller and container id."""
    message = answered(CODE, CALL, reason="tool_use", container={"id": "c", "expires_at": "2026-11-24T02:00:00Z"})
    sent = body(UserMessage("Hi"), message, ToolMessage("a", "f", "1"))
    assert (sent["container"], sent["messages"][1]["content"]) == ("c", [CODE, CALL])


def test_container_is_sent_only_while_the_answer_continues():
    """No container is sent after a new user message or for a history without an answer."""
    message = answered(CODE, reason="pause_turn", container={"id": "c"})
    assert body(UserMessage("Hi"), message)["container"] == "c"
    assert "container" not in body(UserMessage("Hi"), message, UserMessage("And now?"))
    assert "container" not in body(ToolMessage("a", "f", "1"))
    assert "container" not in body()


def test_container_setting_is_merged_or_replaces_the_id():
    """A container setting is merged with the container id, or replaces it."""
    messages = (
        UserMessage("Hi"),
        answered(CODE, CALL, reason="tool_use", container={"id": "c"}),
        ToolMessage("a", "f", "1"),
    )
    assert body(*messages, container={"skills": []})["container"] == {"id": "c", "skills": []}
    assert body(*messages, container="d")["container"] == "d"


def test_container_is_not_sent_to_another_server():
    """A server's container and blocks are not sent to another server."""
    message = answered(CODE, CALL, reason="tool_use", container={"id": "c"})
    sent = body(UserMessage("Hi"), message, ToolMessage("a", "f", "1"), before=EncodingCache(without_extra))
    assert "container" not in sent
    assert [block["type"] for block in sent["messages"][1]["content"]] == ["tool_use"]


def test_container_is_stored_by_its_id():
    """An answer stores its container id, and its blocks only if they contain more than text."""
    assert answered(text("Hi"), container={"id": "c"}).extra == {CONTAINER: "c"}
    assert answered(text("Hi"), container=None).extra == answered(text("Hi"), container={}).extra == {}
    assert BLOCKS in answered(SEARCH, FOUND, container=None).extra
