"""Tests for the items of hosted tools and reasoning in a conversation, which are sent back."""

from dataclasses import replace

import pytest

from agentkit.llm.protocols.responses import ITEMS, Responses, decode_answer
from agentkit.messages import Request, ToolMessage, UserMessage, without_extra

THOUGHT = {
    "type": "reasoning",
    "id": "r",
    "encrypted_content": "x",
    "summary": [{"type": "summary_text", "text": "Hm"}],
}
COMMENT = {
    "type": "message",
    "id": "c",
    "role": "assistant",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
}
CITED = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "phase": "final_answer",
    "content": [
        {"type": "output_text", "text": "Paris", "annotations": [{"type": "url_citation", "url": "https://a.b"}]}
    ],
}
CALL = {"type": "function_call", "id": "fc", "call_id": "a", "name": "f", "arguments": "{}", "status": "completed"}


def sent(*messages):
    """Return the items of messages."""
    return Responses().encode(Request(messages), "m", strict=False)["input"]


# items of hosted tools
DONE = {
    "a search": {
        "type": "web_search_call",
        "id": "w",
        "status": "completed",
        "action": {"type": "search", "query": "?"},
    },
    "code": {"type": "code_interpreter_call", "id": "i", "code": "1", "container_id": "c", "outputs": None},
    "image": {"type": "image_generation_call", "id": "g", "result": "aGk=", "size": "1024x1024"},
    "a search in files": {"type": "file_search_call", "id": "s", "queries": ["?"], "results": None},
    "tools of a server": {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []},
    "call of a server's tool": {
        "type": "mcp_call",
        "id": "n",
        "server_label": "s",
        "name": "f",
        "arguments": "{}",
        "output": "1",
    },
    "a search for tools": {"type": "tool_search_output", "id": "t", "execution": "server", "tools": [{"name": "f"}]},
    "a shortened conversation": {"type": "compaction", "id": "k", "encrypted_content": "x"},
    "a shell": {"type": "shell_call", "id": "h", "call_id": "h", "action": {"commands": ["ls"]}},
    "item of a later version": {"type": "a_new_call", "id": "z", "of": [{"deep": None}]},
}


@pytest.mark.for_each("item", DONE.values(), ids=DONE)
def test_hosted_items_are_sent_back_unchanged(item):
    """The text is complete, no item is a tool call, and each item is sent back at its position."""
    output = [THOUGHT, COMMENT, item, CITED]
    response = decode_answer({"output": output, "status": "completed"})
    assert (response.text, response.tool_calls, response.finish_reason) == ("I look.\n\nParis", (), "stop")
    assert sent(UserMessage("Hi"), response.message, UserMessage("And now?"))[1:-1] == output


def test_results_name_the_program_that_called():
    """The result of a call made by a server's program names that program, and other results name none."""
    program = {"type": "program", "id": "p", "call_id": "p", "code": "await f()", "fingerprint": "x"}
    made, question = {"type": "program", "caller_id": "p"}, {"type": "direct"}
    calls = {**CALL, "caller": made}, {**CALL, "call_id": "b", "caller": question}
    answer = Responses().decode({"output": [THOUGHT, program, *calls]}).message
    items = sent(UserMessage("Hi"), answer, ToolMessage("a", "f", "1"), ToolMessage("b", "f", "2"))
    assert items[1:5] == [THOUGHT, program, *calls]
    assert [item.get("caller") for item in items[5:]] == [made, None]
    assert "caller" not in sent(ToolMessage("a", "f", "1"))[0]


def test_call_has_the_namespace_of_its_tool():
    """A call of a tool that was found is sent back with its namespace, even if other fields were changed."""
    found = {**CALL, "namespace": "weather"}
    message = Responses().decode({"output": [THOUGHT, CITED, found]}).message
    assert sent(message) == [THOUGHT, CITED, found]
    assert sent(replace(message, text="***"))[1]["namespace"] == "weather"
    assert "namespace" not in sent(without_extra(message))[1]


@pytest.mark.parametrize("before", [[], [CITED], [THOUGHT, CALL]])
@pytest.mark.parametrize("status", ["incomplete", "completed"])
def test_trailing_reasoning_items_are_not_stored(before, status):
    """Reasoning items at the end of an answer are not sent back, because servers refuse them."""
    response = decode_answer({"output": [*before, THOUGHT, THOUGHT], "status": status})
    assert response.message.extra[ITEMS] == tuple(before)
    assert response.message.reasoning.startswith("Hm\nHm")
