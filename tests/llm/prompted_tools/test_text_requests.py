"""Tests for the conversion of requests with tools to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import Image
from agentkit.llm.prompted_tools.parser import AnswerReader
from agentkit.llm.prompted_tools.text_format import has_markup, has_tools, schema_as_text, tools_as_text
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    Request,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

TEXT = {"type": "string"}
CALCULATOR = ToolSpec(
    "calculator",
    "Computes.\n\nKnows brackets.",
    {"type": "object", "properties": {"expression": {**TEXT, "description": "What to compute"}}},
)
WIKIPEDIA = ToolSpec(
    "wikipedia", "Looks up.", {"type": "object", "properties": {"query": TEXT, "lang": TEXT}, "required": ["query"]}
)
WRITE = ToolSpec("write", "Writes.", {"type": "object", "properties": {"path": TEXT, "content": TEXT}})
NOW = ToolSpec("now", "Tells the time.", {"type": "object", "properties": {}})
ODD = ToolSpec("odd", "Is odd.", {"type": "object", "properties": {"x": True}})
TOOLS = (CALCULATOR, WIKIPEDIA, WRITE, NOW, ODD)
SUM = ToolCall("a", "calculator", '{"expression": "1+1"}')


def converted(*messages, tools=TOOLS, instruction="", **settings):
    """Return a request with its tools converted to text."""
    return tools_as_text(Request(messages, instruction, tools, settings=settings))


def test_instruction_describes_the_tools():
    """The instruction explains how tools are called, and describes each tool and its input."""
    request = converted(UserMessage("Hi"), instruction="Be brief.")
    assert request.tools == ()
    assert request.instruction.startswith("Be brief.\n\n# Tools\n")
    assert "\n- calculator: Computes.\n  Knows brackets.\n  Input: What to compute, as it is. " in request.instruction
    assert "<TOOL: calculator>expression</TOOL>" in request.instruction
    assert "<TOOL: wikipedia>query</TOOL> Or a JSON object that fits {" in request.instruction
    assert "\n  Input: a JSON object that fits {" in request.instruction
    assert "<TOOL: now></TOOL>" in request.instruction
    assert "Input: x, as it is." in request.instruction


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "You may use several tools at once"),
        ({"parallel_tool_calls": False}, "Use one tool at a time"),
        ({"tool_choice": "auto"}, "When you need no tool"),
        ({"tool_choice": "required"}, "You must use a tool now."),
        ({"tool_choice": "now"}, "You must use the tool now now."),
        ({"tool_choice": {"type": "function"}}, "You must use a tool now."),
        ({"tool_choice": "none"}, "Tools cannot be used now"),
    ],
)
def test_tool_settings_are_described_in_the_instruction(settings, expected):
    """Tool settings are described in the instruction, and are not sent."""
    request = converted(UserMessage("Hi"), **settings)
    assert expected in request.instruction
    assert settings.keys().isdisjoint(request.settings)


@pytest.mark.parametrize(
    ("stop", "sent"),
    [
        (None, ["<RESULT"]),
        ("END", ["END", "<RESULT"]),
        (["a", "b"], ["a", "b", "<RESULT"]),
        (list("abcd"), list("abcd")),
    ],
)
def test_stop_sequence_for_results_is_added(stop, sent):
    """A stop sequence before an invented result is added to the user's own stop sequences."""
    assert converted(UserMessage("Hi"), stop=stop, temperature=0).settings == {"stop": sent, "temperature": 0}


def test_history_alternates_between_roles():
    """Calls are sent as assistant text and results as user text, with alternating roles."""
    picture = Image("https://x.example/a.png")
    request = converted(
        SystemMessage("Be brief"),
        UserMessage("1+1, and what is this?"),
        UserMessage(("Look:", picture)),
        AssistantMessage("I see.", (SUM, ToolCall("b", "now", "")), extra={"kept": 1}),
        ToolMessage("a", "", "2"),
        ToolMessage("b", "now", "noon"),
        ToolMessage("c", "", "of nobody"),
        UserMessage("Well?"),
        AssistantMessage("Two.", extra={"kept": 1}),
    )
    results = [("calculator", "2"), ("now", "noon"), ("tool", "of nobody")]
    joined = "\n\n".join(f"<RESULT: {name}>\n{text}\n</RESULT>" for name, text in results)
    assert request.messages == [
        SystemMessage("Be brief"),
        UserMessage(("1+1, and what is this?", "Look:", picture)),
        AssistantMessage("I see.\n<TOOL: calculator>1+1</TOOL>\n<TOOL: now></TOOL>"),
        UserMessage(f"{joined}\n\nWell?"),
        AssistantMessage("Two.", extra={"kept": 1}),
    ]


PIECES = ["<", "/", "RESULT", ": now>", "TOOL", ">", "&lt;", "&", "lt;", " ", "\n", "\t", "think", "x", "tool_call"]
HOSTILE = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@given(HOSTILE)
def test_tool_output_contains_no_markup(text):
    """A tool's output cannot end its result, imitate another result, or contain a call."""
    (message,) = converted(ToolMessage("a", "now", text)).messages
    inside = message.content.removeprefix("<RESULT: now>\n").removesuffix("\n</RESULT>")
    assert not has_markup(inside)
    reader = AnswerReader(TOOLS)
    reader.feed(inside)
    reader.finish()
    assert reader.calls == ()


@given(HOSTILE)
def test_user_messages_contain_no_markup(text):
    """Markup in user messages is escaped, so that pasted text is not interpreted."""
    for content in (text, (text,)):
        (message,) = converted(UserMessage(content)).messages
        assert not has_markup("".join(message.content))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request([UserMessage("Hi"), AssistantMessage("Ho")]), False),
        (Request([UserMessage("Hi")], tools=TOOLS), True),
        (Request([AssistantMessage("", (SUM,))]), True),
        (Request([ToolMessage("a", "now", "noon")]), True),
    ],
    ids=["none", "tools", "a call", "a result"],
)
def test_requests_that_need_a_conversion_to_text(request_, expected):
    """Only requests with tools, calls or results need a conversion to text."""
    assert has_tools(request_) is expected


def test_schema_in_the_instruction():
    """A schema that cannot be sent is described in the instruction."""
    output = OutputSchema("answer", {"type": "integer"})
    request = schema_as_text(Request([UserMessage("Hi")], "Be brief.", output_schema=output), output)
    assert request.output_schema is None
    assert request.instruction.startswith("Be brief.\n\n# Answer\n\nYour answer must be one JSON value")
    assert request.instruction.endswith('{"type": "integer"}')
