"""Tests for the parts of a request that are marked for the server's cache."""

import pytest

from agentkit.llm.protocols.anthropic import AnthropicMessages
from agentkit.messages import AssistantMessage, Request, ToolCall, ToolMessage, ToolSpec, UserMessage

MARK = {"type": "ephemeral"}
TOOLS = (ToolSpec("f", "", {"type": "object"}), ToolSpec("g", "", {"type": "object"}))
CALL = AssistantMessage("", (ToolCall("a", "f", ""),))


def marks_of(*messages, instruction="", tools=(), **settings):
    """Return the positions of a request's cache marks: system, tools, and the blocks of turns."""
    body = AnthropicMessages().encode(Request(messages, instruction, tools, settings=settings), "m", strict=False)
    system = body.get("system", "")
    places = ["system" for block in system if isinstance(block, dict) and "cache_control" in block]
    places += [("tool", at) for at, tool in enumerate(body.get("tools", ())) if "cache_control" in tool]
    for at, turn in enumerate(body["messages"]):
        marked = [number for number, block in enumerate(turn["content"]) if block.get("cache_control") == MARK]
        assert marked in ([], [len(turn["content"]) - 1])
        places += [("turn", at)] * len(marked)
    return places + ["top"] * ("cache_control" in body)


# messages and other fields; the positions of the marks
PLACES = {
    "a single question": ([UserMessage("Hi")], {"instruction": "Be brief"}, []),
    "a question with tools": ([UserMessage("Hi")], {"tools": TOOLS}, [("tool", 1), ("turn", 0)]),
    "with an instruction": (
        [UserMessage("Hi")],
        {"tools": TOOLS, "instruction": "Be brief"},
        ["system", ("turn", 0)],
    ),
    "a conversation": (
        [UserMessage("Hi"), AssistantMessage("Ho"), UserMessage("And?")],
        {"instruction": "Be brief"},
        ["system", ("turn", 0), ("turn", 2)],
    ),
    "conversation without an instruction": (
        [UserMessage("Hi"), AssistantMessage("Ho"), UserMessage("And?")],
        {},
        [("turn", 0), ("turn", 2)],
    ),
    "a long run": (
        [UserMessage("Hi"), *[CALL, ToolMessage("a", "f", "1")] * 3],
        {"tools": TOOLS, "instruction": "Be brief"},
        ["system", ("turn", 4), ("turn", 6)],
    ),
    "disabled marks": ([UserMessage("Hi"), CALL], {"tools": TOOLS, "cache_control": False}, []),
    "marks by the server": ([UserMessage("Hi")], {"tools": TOOLS, "cache_control": {**MARK, "ttl": "1h"}}, ["top"]),
}


@pytest.mark.for_each(("messages", "options", "places"), PLACES.values(), ids=PLACES)
def test_repeated_parts_are_marked(messages, options, places):
    """The instruction or tools and the last turns are marked, but never a blank block."""
    assert marks_of(*messages, **options) == places
