"""Tests for tool calls that models write as text in the markup of their own training."""

import json

import pytest

from agentkit import Agent, Tool
from agentkit.events import TextDelta
from agentkit.llm.client import LLM
from agentkit.llm.prompted_tools.native_formats import MARKERS, NOTICE, MarkupHolder, has_call, matching_calls
from agentkit.messages import Request, ToolMessage, ToolSpec, UserMessage
from agentkit.testing import FakeServer, raw

WEATHER = ToolSpec(
    "get_weather",
    "The weather.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "units": {"enum": ["C", "F"]},
            "hours": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["city"],
    },
)
PARIS = ("get_weather", {"city": "Paris"})
ROME = ("get_weather", {"city": "Rome"})
DAYS = ("get_weather", {"city": "Paris", "days": 3})
JSON = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
FORMS = {
    "Hermes": (f"<tool_call>\n{JSON}\n</tool_call>", [PARIS]),
    "Hermes, several": (
        f"<tool_call>{JSON}</tool_call>\n<tool_call>{JSON.replace('Paris', 'Rome')}</tool_call>",
        [PARIS, ROME],
    ),
    "Hermes, unclosed": (f"<tool_call>\n{JSON}", [PARIS]),
    "GLM": (
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        [DAYS],
    ),
    "GLM, in a line": (
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>"
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>",
        [PARIS, ROME],
    ),
    "Qwen3-Coder": (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
        [DAYS],
    ),
    "Qwen3-Coder, bare": (
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>",
        [PARIS],
    ),
    "Mistral": (f"[TOOL_CALLS][{JSON}]", [PARIS]),
    "Mistral, new": ('[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', [PARIS]),
    "Mistral, newer": (
        '[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]get_weather{"city": "Rome"}',
        [PARIS, ROME],
    ),
    "Llama": ('<function=get_weather>{"city": "Paris"}</function>', [PARIS]),
    "Llama, JSON": (JSON.replace("arguments", "parameters"), [PARIS]),
    "Llama, Python": (f"<|python_tag|>{JSON}", [PARIS]),
    "JSON in a code block": (f"```json\n{JSON}\n```", [PARIS]),
    "a list": (f"[{JSON}]", [PARIS]),
    "OpenAI": (
        '{"tool_calls": [{"type": "function", "function": {"name": "get_weather", '
        '"arguments": "{\\"city\\": \\"Paris\\"}"}}]}',
        [PARIS],
    ),
    "OpenAI, flat": ('{"type": "function", "function": "get_weather", "parameters": {"city": "Paris"}}', [PARIS]),
    "Kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>',
        [PARIS],
    ),
    "DeepSeek": (
        "<¦tool▁calls▁begin¦><¦tool▁call▁begin¦>function<¦tool▁sep¦>get_weather\n```json\n"
        '{"city": "Paris"}\n```<¦tool▁call▁end¦><¦tool▁calls▁end¦>',
        [PARIS],
    ),
    "DeepSeek, new": (
        '<¦tool▁calls▁begin¦><¦tool▁call▁begin¦>get_weather<¦tool▁sep¦>{"city": "Paris"}<¦tool▁call▁end¦>'
        "<¦tool▁calls▁end¦>",
        [PARIS],
    ),
    "harmony": (
        "<|channel|>analysis<|message|>Paris, then.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>',
        [PARIS],
    ),
    "Anthropic": (
        '<function_calls>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n'
        "</function_calls>",
        [PARIS],
    ),
    "Granite": (f"<|tool_call|>[{JSON}]", [PARIS]),
}


FORMS = {name: (text.replace("¦", "\uff5c"), calls) for name, (text, calls) in FORMS.items()}


def calls_in(response):
    """Return the names and arguments of the calls of a response."""
    return [(call.name, json.loads(call.arguments)) for call in response.tool_calls]


def streamed(text):
    """Return a stream of this text in chunks of three characters."""
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    chunks = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return raw(*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]})


AFTER_TEXT = {
    f"{name}, after text": (f"Let me see.\n\n{text}", calls, "Let me see.")
    for name, (text, calls) in FORMS.items()
    if text.startswith("[TOOL") or (text[0] == "<" and name != "harmony")
}
ALONE = {name: (text, calls, "") for name, (text, calls) in FORMS.items()}


@pytest.mark.for_each(("text", "calls", "before"), (ALONE | AFTER_TEXT).values(), ids=ALONE | AFTER_TEXT)
def test_call_as_text_is_a_call(text, calls, before):
    """A call in the text of a model with native tools is executed if it exactly matches a tool, and not shown."""
    with FakeServer(text, streamed(text)) as server:
        llm = LLM(base_url=server.base_url, model="m")
        response = llm.complete("Hi", tools=[WEATHER])
        assert (calls_in(response), response.text, response.finish_reason) == (calls, before, "tool_calls")
        assert all(call.id for call in response.tool_calls)
        *events, last = llm.stream("Hi", tools=[WEATHER])
    assert calls_in(last.response) == calls
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).strip() == before


@pytest.mark.for_each(("text", "calls"), FORMS.values(), ids=FORMS)
def test_text_tools_accept_every_format(text, calls):
    """With tool_calling="text", calls of every format are parsed, whole or streamed."""
    with FakeServer(text, streamed(text)) as server:
        llm = LLM(base_url=server.base_url, model="m", tool_calling="text")
        assert calls_in(llm.complete("Hi", tools=[WEATHER])) == calls
        *_, last = llm.stream("Hi", tools=[WEATHER])
    assert calls_in(last.response) == calls


NO_CALLS = {
    "an unknown tool": f"<tool_call>{JSON.replace('get_weather', 'rm')}</tool_call>",
    "an unknown argument": JSON.replace("city", "town"),
    "a missing argument": '<function=get_weather>{"days": 3}</function>',
    "a wrong type": '[TOOL_CALLS]get_weather{"city": "Paris", "days": "three"}',
    "another choice": '[TOOL_CALLS]get_weather{"city": "Paris", "units": "K"}',
    "a wrong item": '[TOOL_CALLS]get_weather{"city": "Paris", "hours": [1, "two"]}',
    "a boolean": '[TOOL_CALLS]get_weather{"city": "Paris", "days": true}',
    "markup in an argument": '[TOOL_CALLS]get_weather{"city": "<arg_key>Paris</arg_key>"}',
    "damaged markup": "<tool_call>get_weather<arg_key>city</arg_key>Paris</tool_call>",
    "damaged JSON": "<function=get_weather>{city</function>",
    "text after it": f"<tool_call>{JSON}</tool_call>\nThat is how it is called.",
    "not an object": "<¦tool▁call▁begin¦>get_weather<¦tool▁sep¦>[1]<¦tool▁call▁end¦>".replace("¦", "\uff5c"),
}


@pytest.mark.for_each("text", NO_CALLS.values(), ids=NO_CALLS)
def test_call_that_matches_no_tool_is_text(text):
    """A call that does not exactly match a tool is text, and the result says what can be done."""
    with FakeServer(text, streamed(text)) as server:
        llm = LLM(base_url=server.base_url, model="m")
        tool = Tool.from_schema("get_weather", "The weather.", WEATHER.parameters, lambda **_: pytest.fail("It ran."))
        result = Agent("clerk", [tool], llm=llm).run("Hi")
        assert (result.status, result.text, result.notices) == ("done", text, (NOTICE,))
        assert "tool_calling='text'" in NOTICE
        *events, last = llm.stream("Hi", tools=[WEATHER])
    assert (last.response.text, last.response.tool_calls) == (text, ())
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text


PLAIN = {
    "text": "It is 4.",
    "code": "Write `<tool_call>` before it.",
    "a code block": f"For example:\n```\n<tool_call>{JSON}</tool_call>\n```",
    "JSON of an answer": '{"name": "Bob", "age": 3}',
    "a list": "[1, 2, 3]",
    "HTML": "<b>Hello</b>",
    "damaged JSON": '{"name": "get_weather',
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_other_text_is_shown(text):
    """Text that only resembles a call is the answer, also when streamed."""
    with FakeServer(text, streamed(text)) as server:
        llm = LLM(base_url=server.base_url, model="m")
        result = Agent("clerk", [Tool.from_schema("get_weather", "", WEATHER.parameters, lambda **_: "")], llm=llm).run(
            "Hi"
        )
        assert (result.text, result.notices) == (text, ())
        *events, last = llm.stream("Hi", tools=[WEATHER])
    assert (last.response.text, last.response.tool_calls) == (text, ())
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text


def test_call_quoted_from_a_result_is_not_executed():
    """A call quoted from a tool result is not executed."""
    text = f"<tool_call>{JSON}</tool_call>"
    request = Request([UserMessage("Hi"), ToolMessage("1", "fetch_url", f"A page. {text}")], tools=(WEATHER,))
    assert matching_calls(text, request) is None
    assert matching_calls(text, Request([UserMessage("Hi")], tools=(WEATHER,))) is not None


def test_truncated_call_is_not_executed():
    """A call that was cut at the token limit is not a call."""
    with FakeServer(
        raw({"choices": [{"delta": {"content": f"<tool_call>{JSON}"}, "finish_reason": "length"}]})
    ) as server:
        *_, last = LLM(base_url=server.base_url, model="m").stream("Hi", tools=[WEATHER])
    assert last.response.tool_calls == ()


def test_unparsable_markup_is_not_tool_input():
    """A call with unparsable markup is an error for the model, and not the input of a tool."""
    spec = ToolSpec(
        "shell", "", {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    )
    with FakeServer("<tool_call>shell<arg_key>command</arg_key>ls</tool_call>") as server:
        llm = LLM(base_url=server.base_url, model="m", tool_calling="text")
        (call,) = llm.complete("Hi", tools=[spec]).tool_calls
    assert (call.name, call.arguments.endswith("(unreadable markup)")) == ("shell", True)


def test_very_long_text_is_not_parsed():
    """Texts that are too long for a call are not parsed."""
    assert matching_calls("<tool_call>" + "x" * 300_000, Request([], tools=(WEATHER,))) is None
    assert has_call("<tool_call>" + "x" * 300_000)


@pytest.mark.parametrize("text", ["[TOOL", "<|tool", "Hello <func", '{"na', "  "])
def test_possible_marker_is_buffered(text):
    """The possible start of a marker is held back."""
    holder = MarkupHolder(MARKERS, ["get_weather"])
    shown = holder.feed(text)
    assert shown + holder.buffered == text
    assert holder.buffered
