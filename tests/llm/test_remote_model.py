"""Tests for the responses of real servers, replayed over a real connection in every way to request one."""

import json
import sys
from threading import Thread

import pytest

from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.events import ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.remote_model import RemoteModel
from agentkit.messages import AssistantMessage, Request, ToolCall, ToolMessage, ToolSpec, UserMessage
from agentkit.testing import FakeServer, call, cut, fail, filtered, raw, refuse, say
from agentkit.usage import Usage

WEATHER = ToolSpec("weather", "The weather in a city", {"type": "object", "properties": {"city": {"type": "string"}}})
PARIS = '{"city": "Paris"}'
END_LINE = "data: [DONE]\n\n"


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


def whole(**message):
    """Return a complete chat answer with this message, `finish_reason`, `usage` and other fields."""
    outside = {name: message.pop(name) for name in ("usage", "x_groq", "model") if name in message}
    inside = {name: message.pop(name) for name in ("finish_reason", "choice_usage") if name in message}
    if "choice_usage" in inside:
        inside["usage"] = inside.pop("choice_usage")
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, **inside}], **outside}


def chunk(finish_reason=None, /, **delta):
    """Return a chunk of a streamed chat answer."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def piece(index=None, call_id=None, name=None, arguments=None, **extra):
    """Return a piece of a tool call."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    fields = {key: value for key, value in {"index": index, "id": call_id}.items() if value is not None}
    return {**fields, "function": function, **extra}


def calls_of(*pieces):
    """Return the chunks of a streamed answer with these pieces of tool calls, one per chunk."""
    return [*(chunk(tool_calls=[part]) for part in pieces), chunk("tool_calls"), "data: [DONE]\n\n"]


def facts(response):
    """Return the fields of a response that the tests compare."""
    return {
        "text": response.text,
        "calls": [(call.id, call.name, call.arguments) for call in response.tool_calls],
        "reasoning": response.message.reasoning,
        "extra": dict(response.message.extra),
        "call_extra": [dict(call.extra) for call in response.tool_calls],
        "finish": response.finish_reason,
        "model": response.model,
        "tokens": (response.usage.input_tokens, response.usage.output_tokens),
        "unreported": response.usage.unreported,
    }


FIGURES = {"prompt_tokens": 7, "completion_tokens": 3}
HELLO = {"content": "Hello", "finish_reason": "stop"}

SOUND = {"id": "a", "data": "UklG", "transcript": "Hello"}
FILTERED = {"hate": {"filtered": True, "severity": "high"}}

WHOLE = {
    "sound": (whole(content=None, audio=SOUND), {"text": "Hello", "extra": {"audio": SOUND}}),
    "no message, cut": ({"choices": [{"index": 0, "finish_reason": "length"}]}, {"text": "", "finish": "length"}),
    "text and calls as separate choices": (
        {
            "choices": [
                {"finish_reason": "tool_calls", "message": {"content": "Hello"}},
                {
                    "finish_reason": "tool_calls",
                    "message": {"tool_calls": [piece(call_id="a", name="f", arguments="")]},
                },
                {
                    "finish_reason": "tool_calls",
                    "message": {"tool_calls": [piece(call_id="b", name="f", arguments="")]},
                },
            ]
        },
        {"text": "Hello", "calls": [("a", "f", ""), ("b", "f", "")], "finish": "tool_calls"},
    ),
    "several answers with calls": (
        {
            "choices": [
                {"index": index, "finish_reason": "tool_calls", "message": {"tool_calls": [piece(0, name, "f", "")]}}
                for index, name in ((1, "b"), (0, "a"))
            ]
        },
        {"calls": [("a", "f", "")]},
    ),
    "reasoning of Gemini": (whole(content="<thought>Hm</thought>Hello"), {"text": "Hello", "reasoning": "Hm"}),
    "content null": (whole(content=None, finish_reason="stop"), {"text": ""}),
    "content in parts": (
        whole(content=[{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]),
        {"text": "Hello"},
    ),
    "content in texts": (whole(content=["Hel", "lo"]), {"text": "Hello"}),
    "reasoning as an object": (
        whole(content="Hi", reasoning={"content": "Hm"}),
        {"text": "Hi", "reasoning": "Hm", "extra": {"reasoning": {"content": "Hm"}}},
    ),
    "reasoning under another name": (
        whole(content="Hi", reasoning_text="Hm"),
        {"text": "Hi", "reasoning": "Hm", "extra": {"reasoning_text": "Hm"}},
    ),
    "reasoning blocks": (
        whole(content="Hi", thinking_blocks=[{"type": "thinking", "thinking": "Hm"}]),
        {"text": "Hi", "reasoning": "Hm"},
    ),
    "thinking parts": (
        whole(
            content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "Hi"}]
        ),
        {"text": "Hi", "reasoning": "Hm"},
    ),
    "reasoning parts": (
        whole(
            content=[
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm", "signature": "x"}]},
                {"type": "text", "text": "Hi"},
            ]
        ),
        {"text": "Hi", "reasoning": "Hm"},
    ),
    "content a number": (whole(content=42), {"text": "42"}),
    "content an object": (
        whole(content={"type": "note", "text": None, "to": "Zoë"}),
        {"text": '{"type": "note", "text": null, "to": "Zoë"}', "reasoning": ""},
    ),
    "empty finish reason": (whole(content="Hello", finish_reason=""), {"text": "Hello", "finish": "stop"}),
    "no finish reason": (whole(content="Hello"), {"text": "Hello", "finish": "stop"}),
    "finish reason in capitals": (whole(content="Hel", finish_reason="MAX_TOKENS"), {"finish": "length"}),
    "calls that end with stop": (
        whole(content=None, tool_calls=[piece(call_id="a", name="f", arguments="{}")], finish_reason="stop"),
        {"finish": "tool_calls"},
    ),
    "arguments null": (
        whole(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": None}}]),
        {"calls": [("a", "f", "")]},
    ),
    "arguments empty": (whole(tool_calls=[piece(call_id="a", name="f", arguments="")]), {"calls": [("a", "f", "")]}),
    "arguments an object": (
        whole(tool_calls=[piece(call_id="a", name="f", arguments={"city": "Paris"})]),
        {"calls": [("a", "f", PARIS)]},
    ),
    "arguments encoded twice": (
        whole(tool_calls=[piece(call_id="a", name="f", arguments=json.dumps(PARIS))]),
        {"calls": [("a", "f", PARIS)]},
    ),
    "ids missing": (
        whole(tool_calls=[piece(name="f"), piece(name="g", call_id="")]),
        {"calls": [("call_1", "f", ""), ("call_2", "g", "")]},
    ),
    "ids twice": (
        whole(tool_calls=[piece(call_id="a", name="f"), piece(call_id="a", name="g")]),
        {"calls": [("a", "f", ""), ("a_2", "g", "")]},
    ),
    "id a number": (whole(tool_calls=[piece(call_id=7, name="f")]), {"calls": [("7", "f", "")]}),
    "calls null": (whole(content="Hello", tool_calls=None), {"text": "Hello", "calls": []}),
    "malformed calls": (whole(content="Hello", tool_calls=[None, "f", {}]), {"calls": [], "text": "Hello"}),
    "malformed function": (whole(tool_calls=[{"id": "a", "function": "f"}]), {"calls": [("a", "", "")]}),
    "the old function call": (
        whole(content=None, function_call={"name": "f", "arguments": PARIS}),
        {"calls": [("call_1", "f", PARIS)]},
    ),
    "unknown fields": (
        whole(content="Hello", audio=None, annotations=[], refusal=None, mood="calm"),
        {"text": "Hello", "extra": {"mood": "calm"}},
    ),
    "every possible field, empty": (
        whole(
            content="",
            audio={"data": "", "expires_at": 0, "id": "", "transcript": ""},
            function_call={"arguments": "", "name": ""},
            refusal="",
            annotations=[{"url": ""}],
            tool_calls=[piece(call_id="a", name="f", arguments="{}", custom={"input": "", "name": ""})],
            finish_reason="",
        ),
        {"calls": [("a", "f", "{}")], "extra": {}, "finish": "tool_calls", "call_extra": [{}]},
    ),
    "reasoning_content": (
        whole(content="Hello", reasoning_content="Hm"),
        {"reasoning": "Hm", "extra": {"reasoning_content": "Hm"}},
    ),
    "reasoning": (whole(content="Hello", reasoning="Hm"), {"reasoning": "Hm", "extra": {"reasoning": "Hm"}}),
    "reasoning_details": (
        whole(content="Hello", reasoning_details=[{"type": "reasoning.text", "text": "Hm"}]),
        {"reasoning": "Hm", "extra": {"reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}},
    ),
    "reasoning and its details": (
        whole(content=None, reasoning="Hm", reasoning_details=[{"type": "reasoning.summary", "summary": "Hm"}]),
        {"reasoning": "Hm"},
    ),
    "usage": (whole(**HELLO, usage=FIGURES), {"tokens": (7, 3), "unreported": 0}),
    "usage in x_groq": (whole(**HELLO, x_groq={"id": "r", "usage": FIGURES}), {"tokens": (7, 3), "unreported": 0}),
    "usage in the choice": (whole(**HELLO, choice_usage=FIGURES), {"tokens": (7, 3), "unreported": 0}),
    "usage missing": (whole(**HELLO), {"tokens": (0, 0), "unreported": 1}),
    "usage empty": (whole(**HELLO, usage={}), {"unreported": 1}),
    "usage null": (whole(**HELLO, usage=None), {"unreported": 1}),
    "malformed usage": (whole(**HELLO, usage=[7, 3]), {"unreported": 1}),
    "usage without counts": (whole(**HELLO, usage={"prompt_tokens": None}), {"unreported": 1}),
    "invalid counts": (
        whole(**HELLO, usage={"prompt_tokens": "7", "completion_tokens": -3}),
        {"tokens": (7, 0), "unreported": 0},
    ),
    "counts of another protocol": (whole(**HELLO, usage={"input_tokens": 7, "output_tokens": 3}), {"tokens": (7, 3)}),
    "count too large": (whole(**HELLO, usage={"prompt_tokens": 10**400, "completion_tokens": 3}), {"tokens": (0, 3)}),
    "invalid numbers": (
        whole(**HELLO, usage={"prompt_tokens": float("nan")}, score=float("inf")),
        {"text": "Hello", "unreported": 1, "extra": {}},
    ),
    "lowest of several choices": (
        {"choices": [{"index": 1, "message": {"content": "two"}}, {"index": 0, "message": {"content": "one"}}]},
        {"text": "one"},
    ),
    "a text instead of a message": ({"choices": [{"text": "Hello", "finish_reason": "stop"}]}, {"text": "Hello"}),
    "a message that is a text": ({"choices": [{"message": "Hello"}]}, {"text": "Hello"}),
    "a delta instead of a message": ({"choices": [{"delta": {"content": "Hello"}}]}, {"text": "Hello"}),
    "one part of content": (whole(content={"type": "text", "text": "Hello"}), {"text": "Hello"}),
    "a call outside of a list": (
        whole(content=None, tool_calls={"id": "a", "function": {"name": "f", "arguments": PARIS}}),
        {"calls": [("a", "f", PARIS)]},
    ),
    "a call without a function": (
        whole(content=None, tool_calls=[{"id": "a", "name": "f", "arguments": {"city": "Paris"}}]),
        {"calls": [("a", "f", PARIS)], "finish": "tool_calls"},
    ),
    "thinking": (whole(content="Hello", thinking="Hm"), {"text": "Hello", "reasoning": "Hm"}),
    "reasoning in the text": (
        whole(content="<think>\nHm\n</think>\n\nHello <think>"),
        {"text": "Hello <think>", "reasoning": "Hm"},
    ),
    "truncated reasoning": (
        whole(content="<think>Hm </thi", finish_reason="length"),
        {"text": "", "reasoning": "Hm </thi", "finish": "length"},
    ),
    "the window is full": (
        whole(content="Hel", finish_reason="model_context_window_exceeded"),
        {"text": "Hel", "finish": "length"},
    ),
    "lone surrogate": (whole(content="\ud83d\ude00 \ud83d"), {"text": "😀 \ufffd"}),
    "line separators": (whole(content="a\u2028b\u2029c\u0085d"), {"text": "a\u2028b\u2029c\u0085d"}),
}

STREAMED = {
    "plain": ([chunk(role="assistant"), chunk(content="Hel"), chunk(content="lo"), chunk("stop")], {"text": "Hello"}),
    "role and null": ([chunk(role="assistant", content=None), chunk(content="Hi"), chunk("stop")], {"text": "Hi"}),
    "empty choices first and last": (
        [
            {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            chunk(content="Hello"),
            chunk("stop"),
            {"choices": [], "usage": FIGURES},
            "data: [DONE]\n\n",
        ],
        {"text": "Hello", "tokens": (7, 3), "unreported": 0},
    ),
    "usage in every chunk": (
        [
            chunk(content="Hel") | {"usage": {"prompt_tokens": 7, "completion_tokens": 1}},
            chunk("stop", content="lo") | {"usage": FIGURES},
        ],
        {"text": "Hello", "tokens": (7, 3)},
    ),
    "usage in x_groq": (
        [
            chunk(role="assistant") | {"x_groq": {"id": "r"}},
            chunk(content="Hello"),
            chunk("stop") | {"x_groq": {"id": "r", "usage": FIGURES}},
        ],
        {"tokens": (7, 3), "unreported": 0},
    ),
    "usage in the choice": (
        [
            chunk(content="Hello"),
            {"choices": [{"delta": {}, "finish_reason": "stop", "usage": FIGURES}]},
            {"choices": [], "usage": None},
        ],
        {"tokens": (7, 3)},
    ),
    "usage first": (
        [{"choices": [], "usage": FIGURES}, chunk(content="Hi"), chunk("stop")],
        {"text": "Hi", "tokens": (7, 3)},
    ),
    "no usage": ([chunk(content="Hello"), chunk("stop")], {"unreported": 1}),
    "no finish reason but [DONE]": ([chunk(content="Hello"), "data: [DONE]\n\n"], {"text": "Hello", "finish": "stop"}),
    "no finish reason but usage": ([chunk(content="Hello"), {"choices": [], "usage": FIGURES}], {"text": "Hello"}),
    "empty finish reason at the end": ([chunk(content="Hello"), chunk("")], {"text": "Hello", "finish": "stop"}),
    "empty finish reason in every chunk": (
        [chunk("", role="assistant"), chunk("", content="Hel"), chunk("", content="lo"), chunk("")],
        {"text": "Hello"},
    ),
    "empty finish reason, then one": ([chunk("", content="Hel"), chunk("length")], {"finish": "length"}),
    "something after the finish reason": (
        [chunk(content="Hello"), chunk("stop"), {"choices": [{"delta": {}, "content_filter_offsets": {}}]}],
        {"text": "Hello"},
    ),
    "content in parts": ([chunk(content=[{"type": "text", "text": "Hello"}]), chunk("stop")], {"text": "Hello"}),
    "message for delta": (
        [{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}],
        {"text": "Hello"},
    ),
    "whole message at the end": (
        [
            chunk(content="Hello"),
            {"choices": [{"delta": {}, "message": {"content": "Hello"}, "finish_reason": "stop"}]},
        ],
        {"text": "Hello"},
    ),
    "whole message at the end, without a delta": (
        [
            chunk(content="Hel"),
            chunk(content="lo"),
            {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]},
        ],
        {"text": "Hello"},
    ),
    "whole message with reasoning and a call at the end": (
        [
            chunk(content="<think>Hm</think>"),
            chunk(content="Hello"),
            chunk(tool_calls=[piece(0, "a", "f", '{"city": ')]),
            chunk(tool_calls=[piece(0, arguments='"Paris"}')]),
            whole(
                content="<think>Hm</think>Hello",
                tool_calls=[piece(0, "a", "f", PARIS)],
                finish_reason="tool_calls",
            ),
        ],
        {"text": "Hello", "reasoning": "Hm", "calls": [("a", "f", PARIS)]},
    ),
    "a message for the last delta": (
        [chunk(content="Hel"), whole(content="lo", tool_calls=[piece(0, "a", "f", "{}")], finish_reason="stop")],
        {"text": "Hello", "calls": [("a", "f", "{}")]},
    ),
    "reasoning parts": (
        [
            *(
                chunk(content=[{"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}])
                for text in ("H", "m")
            ),
            chunk("stop", content=[{"type": "text", "text": "Hi"}]),
        ],
        {"text": "Hi", "reasoning": "Hm"},
    ),
    "filter result only at the end": (
        [
            chunk("stop", content="Hi") | {"model": "m-1"},
            {"model": "", "choices": [{"content_filter_offsets": {}}], "usage": None},
            {"model": None, "choices": [], "usage": FIGURES},
        ],
        {"text": "Hi", "model": "m-1", "tokens": (7, 3)},
    ),
    "text and calls as separate choices": (
        [
            {
                "choices": [
                    {"finish_reason": "tool_calls", "delta": {"content": "Hello"}},
                    {"finish_reason": "tool_calls", "delta": {"tool_calls": [piece(0, "a", "f", "{}")]}},
                ]
            }
        ],
        {"text": "Hello", "calls": [("a", "f", "{}")]},
    ),
    "sound": (
        [
            chunk(audio={"id": "a", "transcript": "Hel"}),
            chunk(audio={"data": "Ukl", "transcript": "lo"}),
            chunk("stop", audio={"data": "G"}),
        ],
        {"text": "Hello", "extra": {"audio": SOUND}},
    ),
    "calls distinguished only by order": (
        [
            chunk(tool_calls=[piece(None, "a", "f", ""), piece(None, "b", "g", "")]),
            chunk(tool_calls=[piece(arguments=PARIS), piece(arguments="{")]),
            chunk(tool_calls=[piece(arguments=""), piece(arguments="}")]),
            chunk("tool_calls"),
        ],
        {"calls": [("a", "f", PARIS), ("b", "g", "{}")]},
    ),
    "two nameless pieces at once": (
        [chunk(tool_calls=[piece(arguments="{"), piece(arguments="}")]), chunk("tool_calls")],
        {"calls": [("call_1", "", "{}")]},
    ),
    "a second call under the first index, its pieces under its own": (
        calls_of(
            piece(0, "a", "f", PARIS), piece(0, "b", "g", ""), piece(1, arguments='{"n":'), piece(1, arguments=" 1}")
        ),
        {"calls": [("a", "f", PARIS), ("b", "g", '{"n": 1}')]},
    ),
    "a piece under another index, with the id": (
        calls_of(piece(0, "a", "f", ""), piece(0, "b", "g", "{}"), piece(2, "a", None, "{}")),
        {"calls": [("a", "f", "{}"), ("b", "g", "{}")]},
    ),
    "arguments before the name": (
        calls_of(piece(0, "a", "f", ""), piece(1, "b", None, "{}"), piece(1, "b", "g")),
        {"calls": [("a", "f", ""), ("b", "g", "{}")]},
    ),
    "a nameless call after a whole one": (
        calls_of(piece(0, "a", "f", "{}"), piece(1, arguments="{}")),
        {"calls": [("a", "f", "{}"), ("call_2", "", "{}")]},
    ),
    "delta null": ([{"choices": [{"delta": None}]}, chunk(content="Hi"), chunk("stop")], {"text": "Hi"}),
    "delta a text": ([{"choices": [{"delta": "?"}]}, chunk(content="Hi"), chunk("stop")], {"text": "Hi"}),
    "a character in halves": (
        [chunk(content="a\ud83d"), chunk(content="\ude00b"), chunk("stop")],
        {"text": "a😀b"},
    ),
    "reasoning_content": (
        [chunk(reasoning_content="H"), chunk(reasoning_content="m"), chunk(content="Hi"), chunk("stop")],
        {"text": "Hi", "reasoning": "Hm", "extra": {"reasoning_content": "Hm"}},
    ),
    "reasoning": ([chunk(reasoning="Hm", content=""), chunk("stop", content="Hi")], {"reasoning": "Hm", "text": "Hi"}),
    "reasoning_details": (
        [
            chunk(
                reasoning="H", reasoning_details=[{"type": "reasoning.text", "text": "H", "index": 0, "format": "x"}]
            ),
            chunk(
                reasoning="m", reasoning_details=[{"type": "reasoning.text", "text": "m", "index": 0, "format": "x"}]
            ),
            chunk(reasoning_details=[{"type": "reasoning.text", "signature": "s", "text": None, "index": 0}]),
            chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "d", "index": 1}, "?"]),
            chunk("stop", content="Hi", mood="calm"),
            chunk(None, mood="calm"),
        ],
        {
            "reasoning": "Hm",
            "extra": {
                "reasoning": "Hm",
                "mood": "calm",
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "Hm", "index": 0, "format": "x", "signature": "s"},
                    {"type": "reasoning.encrypted", "data": "d", "index": 1},
                    "?",
                ],
            },
        },
    ),
    "reasoning_details alone": (
        [
            chunk(content="", reasoning_details=[{"type": "reasoning.summary", "summary": "H", "index": 0}]),
            chunk(content="", reasoning_details=[{"type": "reasoning.summary", "summary": "m", "index": 0}]),
            chunk(content="", reasoning_details=[{"type": "reasoning.encrypted", "data": "d", "index": 1}]),
            chunk("stop", content="Hi"),
        ],
        {"text": "Hi", "reasoning": "Hm"},
    ),
    "every possible field, empty": (
        [
            chunk(
                content="", audio={"id": "", "expires_at": 0}, refusal="", function_call={"name": "", "arguments": ""}
            ),
            chunk(tool_calls=[piece(0, "a", "f", "{}", custom={"input": "", "name": ""})], annotations=[{}]),
            chunk("tool_calls", tool_calls=None),
        ],
        {"calls": [("a", "f", "{}")], "extra": {}, "call_extra": [{}]},
    ),
    "arguments in pieces": (
        calls_of(piece(0, "a", "f", ""), *(piece(0, arguments=part) for part in ("{", '"city"', ": ", '"Paris"', "}"))),
        {"calls": [("a", "f", PARIS)], "finish": "tool_calls"},
    ),
    "empty argument strings": (
        calls_of(piece(0, "a", "f", ""), piece(0, arguments=PARIS), piece(0, arguments="")),
        {"calls": [("a", "f", PARIS)]},
    ),
    "arguments null": (
        calls_of({"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}, piece(0, arguments=PARIS)),
        {"calls": [("a", "f", PARIS)]},
    ),
    "arguments an object": (calls_of(piece(0, "a", "f", {"city": "Paris"})), {"calls": [("a", "f", PARIS)]}),
    "arguments encoded twice": (
        calls_of(piece(0, "a", "f", '"{\\"city\\"'), piece(0, arguments=': \\"Paris\\"}"')),
        {"calls": [("a", "f", PARIS)]},
    ),
    "no index": (
        calls_of(
            piece(call_id="a", name="f", arguments='{"city"'),
            piece(arguments=': "Paris"}'),
            piece(call_id="b", name="g", arguments="{}"),
        ),
        {"calls": [("a", "f", PARIS), ("b", "g", "{}")]},
    ),
    "no index and no name": (calls_of(piece(arguments="{}")), {"calls": [("call_1", "", "{}")]}),
    "two calls": (
        calls_of(piece(0, "a", "f", ""), piece(1, "b", "g", ""), piece(0, arguments="{}"), piece(1, arguments=PARIS)),
        {"calls": [("a", "f", "{}"), ("b", "g", PARIS)]},
    ),
    "a second whole call under index 0": (
        calls_of(piece(0, "a", "f", "{}"), piece(0, "b", "f", PARIS)),
        {"calls": [("a", "f", "{}"), ("b", "f", PARIS)]},
    ),
    "a second call under index 0 with the same id": (
        calls_of(piece(0, "a", "f", "{}"), piece(0, "a", "f", PARIS)),
        {"calls": [("a", "f", "{}"), ("a_2", "f", PARIS)]},
    ),
    "a second call under index 0 without arguments": (
        calls_of(piece(0, "a", "f", ""), piece(0, "b", "g", "")),
        {"calls": [("a", "f", ""), ("b", "g", "")]},
    ),
    "ids that change": (
        calls_of(piece(0, "a", "f", ""), piece(0, "b", None, '{"city": '), piece(0, "c", None, '"Paris"}')),
        {"calls": [("a", "f", PARIS)]},
    ),
    "ids that change and names that repeat": (
        calls_of(piece(0, "a", "f", ""), piece(0, "b", "f", '{"city": '), piece(0, "c", "f", '"Paris"}')),
        {"calls": [("a", "f", PARIS)]},
    ),
    "a name that repeats after the arguments": (
        calls_of(piece(0, "a", "f", PARIS), piece(0, "a", "f", "")),
        {"calls": [("a", "f", PARIS)]},
    ),
    "ids missing": (
        calls_of(piece(0, None, "f", "{}"), piece(1, None, "g", "{}")),
        {"calls": [("call_1", "f", "{}"), ("call_2", "g", "{}")]},
    ),
    "malformed pieces": (
        [chunk(tool_calls=[None, "?"]), chunk(tool_calls="?"), chunk(content="Hi"), chunk("stop")],
        {"calls": [], "text": "Hi"},
    ),
    "huge": ([chunk(content="x" * 1_000_000), chunk("stop")], {"text": "x" * 1_000_000}),
}

STREAMED |= {
    "several choices": (
        [
            {"choices": [{"index": index, "delta": {"content": text}}]}
            for index, text in ((0, "H"), (1, "x"), (0, "i"), (1, "y"))
        ]
        + [chunk("stop")],
        {"text": "Hi"},
    ),
    "a delta of null": (
        [{"choices": [{"delta": None, "message": {"content": "Hi"}, "finish_reason": "stop"}]}],
        {"text": "Hi"},
    ),
    "texts": ([{"choices": [{"text": "H"}]}, {"choices": [{"text": "i", "finish_reason": "stop"}]}], {"text": "Hi"}),
    "null, and nothing": (["data: null\n\n", "data: []\n\n", chunk("stop", content="Hi")], {"text": "Hi"}),
    "blanks": ([" \n\n", "\n", chunk("stop", content="Hi")], {"text": "Hi"}),
    "pings": (["event: ping\ndata: ping\n\n", chunk("stop", content="Hi")], {"text": "Hi"}),
    "no number": (['data: {"choices": [{"delta": {"content": "Hi"}, "logprobs": NaN}]}\n\n', END_LINE], {"text": "Hi"}),
    "thinking": ([chunk(thinking="H"), chunk(thinking="m"), chunk("stop", content="Hi")], {"reasoning": "Hm"}),
    "reasoning in the text": (
        [*(chunk(content=text) for text in ("<thi", "nk>", " H", "m ", "</th", "ink>", "\n\n", "Hi")), chunk("stop")],
        {"text": "Hi", "reasoning": "Hm"},
    ),
    "no thoughts in the text": ([chunk(content="<th"), chunk(content="ing>"), chunk("stop")], {"text": "<thing>"}),
    "half a thought in the text": ([chunk(content="<th"), chunk("stop")], {"text": "<th", "reasoning": ""}),
    "the old function call": (
        [
            chunk(function_call={"name": "f", "arguments": ""}),
            chunk(function_call={"arguments": '{"city": '}),
            chunk("function_call", function_call={"arguments": '"Paris"}'}),
        ],
        {"calls": [("call_1", "f", PARIS)], "finish": "tool_calls"},
    ),
    "calls out of order": (
        calls_of(piece(1, "b", "g", "{}"), piece(0, "a", "f", PARIS)),
        {"calls": [("a", "f", PARIS), ("b", "g", "{}")]},
    ),
    "calls told apart by their ids": (
        calls_of(
            piece(None, "a", "f", '{"city": '),
            piece(None, "b", "g", "{"),
            piece(None, "a", "f", '"Paris"}'),
            piece(None, "b", None, "}"),
        ),
        {"calls": [("a", "f", PARIS), ("b", "g", "{}")]},
    ),
    "arguments before the name": (
        calls_of(piece(arguments='{"city": '), piece(None, "a", "f", '"Paris"}')),
        {"calls": [("a", "f", PARIS)]},
    ),
    "a name in pieces": (
        calls_of(piece(0, "a", "we", ""), piece(0, None, "ather"), piece(0, None, "weather"), piece(0, arguments="{}")),
        {"calls": [("a", "weather", "{}")]},
    ),
    "a name that grows": (
        calls_of(piece(0, "a", "we"), piece(0, "a", "weather", "{}")),
        {"calls": [("a", "weather", "{}")]},
    ),
    "an empty object first": (
        calls_of(piece(0, "a", "f", "{}"), piece(0, arguments=PARIS)),
        {"calls": [("a", "f", PARIS)]},
    ),
    "an empty object last": (
        calls_of(piece(0, "a", "f", {"city": "Paris"}), piece(0, arguments={})),
        {"calls": [("a", "f", PARIS)]},
    ),
    "an index that is a text": (
        calls_of(piece("0", "a", "f", '{"city": '), piece(0, arguments='"Paris"}')),
        {"calls": [("a", "f", PARIS)]},
    ),
}

HEL, LO, HELLO_CHUNK = (json.dumps(chunk(content=text)).encode() for text in ("Hel", "lo", "Hello"))
END = b"data: [DONE]\n\n"

BYTES = {
    "CRLF": b"data: %b\r\n\r\ndata: [DONE]\r\n\r\n" % HELLO_CHUNK,
    "CR": b"data: %b\r\rdata: [DONE]\r\r" % HELLO_CHUNK,
    "no blank lines": b"data: %b\ndata: %b\ndata: [DONE]\n" % (HEL, LO),
    "no space": b"data:%b\n\ndata:[DONE]\n\n" % HELLO_CHUNK,
    "comments": b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\ndata: %b\n\n%b" % (HELLO_CHUNK, END),
    "event names and ids": b"event: message\nid: 1\nretry: 5\ndata: %b\n\n%b" % (HELLO_CHUNK, END),
    "byte order mark": b"\xef\xbb\xbfdata: %b\n\n%b" % (HELLO_CHUNK, END),
    "an object over several lines": b"data: %b\n\n%b" % (HELLO_CHUNK.replace(b", ", b",\ndata: "), END),
    "no end of line": b"data: %b" % json.dumps(chunk("stop", content="Hello")).encode(),
    "unknown fields": b"data: %b\nfoo: bar\nnothing\n\n%b" % (HELLO_CHUNK, END),
    "after the end": b"data: %b\n\n%bdata: {}\n\n" % (HELLO_CHUNK, END),
    "the end in quotes": b'data: %b\n\ndata: "[DONE]"\n\n' % HELLO_CHUNK,
}


@pytest.mark.for_each(("body", "expected"), WHOLE.values(), ids=WHOLE)
def test_complete_answers_of_every_shape_are_parsed(ask_whole, body, expected):
    """A complete answer of every known shape is parsed."""
    with FakeServer(raw(json.dumps(body), content_type="application/json")) as server:
        found = facts(ask_whole(connect(server)))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.for_each(("chunks", "expected"), STREAMED.values(), ids=STREAMED)
def test_streamed_answers_of_every_shape_are_parsed(ask_streamed, chunks, expected):
    """A streamed answer of every known shape is parsed."""
    with FakeServer(raw(*chunks)) as server:
        found = facts(ask_streamed(connect(server)))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.for_each("data", BYTES.values(), ids=BYTES)
def test_streams_are_parsed_at_any_chunk_boundary(ask_streamed, data):
    """Line endings, comments and chunk boundaries do not change the text of a stream."""
    for size in (1, 7, 10_000):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        with FakeServer(raw(*pieces)) as server:
            assert ask_streamed(connect(server)).text == "Hello", size


@pytest.mark.parametrize("text", ["Xin chào 😀", "a\u2028b\u2029c\u0085d"])
def test_split_characters_are_decoded(ask_streamed, text):
    """A character whose bytes arrive in two pieces is decoded, and a Unicode line separator does not end a line."""
    data = f"data: {json.dumps(chunk('stop', content=text), ensure_ascii=False)}\n\n".encode()
    with FakeServer(raw(*(data[at : at + 1] for at in range(len(data))))) as server:
        assert ask_streamed(connect(server)).text == text


def test_events_of_a_stream(ask_streamed):
    """A stream yields text, reasoning and tool calls piece by piece, and the response last."""
    chunks = [
        chunk(reasoning="Hm"),
        chunk(content="H"),
        chunk(content="i"),
        *calls_of(piece(0, "a", "f", "{"), piece(0, arguments="}")),
    ]
    with FakeServer(raw(*chunks)) as server:
        *events, last = connect(server).stream("Hi")
    assert events == [
        ReasoningDelta("Hm"),
        TextDelta("H"),
        TextDelta("i"),
        ToolCallDelta(0, "f", "{"),
        ToolCallDelta(0, "", "}"),
    ]
    assert isinstance(last, ResponseReceived)
    assert last.response.tool_calls == (ToolCall("a", "f", "{}"),)


def test_whole_answer_to_a_stream_is_emitted_as_events():
    """A complete response to a streaming request is emitted as events."""
    body = whole(content="Hello", reasoning="Hm", tool_calls=[piece(call_id="a", name="f", arguments=PARIS)])
    with FakeServer(raw(f" {json.dumps(body)}", content_type="application/json")) as server:
        *events, last = connect(server).stream("Hi")
    assert events == [ReasoningDelta("Hm"), TextDelta("Hello"), ToolCallDelta(0, "f", PARIS)]
    assert last.response.text == "Hello"


WHOLE_FAILURES = {
    "html": ("<html><body>Welcome</body></html>", BadResponse, "not an OpenAI-compatible endpoint"),
    "empty": ("", BadResponse, "empty response"),
    "text": ("It works!", BadResponse, "It works!"),
    "cut JSON": ('{"choices": [{"mess', BadResponse, "is invalid JSON"),
    "a list": ("[1, 2]", ModelError, "1, 2"),
    "a number": ("42", BadResponse, "not JSON|not an OpenAI-compatible"),
    "nested too deep": ("[" * 100_000, BadResponse, "is invalid JSON"),
    "a number too long": ('{"choices": ' + "9" * 5_000 + "}", BadResponse, "has no choices"),
    "no choices": ('{"choices": []}', BadResponse, "no choices"),
    "choices null": ('{"choices": null}', BadResponse, "no choices"),
    "malformed choices": ('{"choices": ["Hello"]}', BadResponse, "no choices"),
    "no message": ('{"choices": [{"index": 0}]}', BadResponse, "no choices"),
    "error": ('{"error": {"message": "Boom", "code": "server_error"}}', Unreachable, "Boom"),
    "error as text": ('{"error": "Boom"}', Rejected, "Boom"),
    "error with status": ('{"error": {"message": "Boom", "code": 429}}', RateLimited, "429: Boom"),
    "error object": ('{"object": "error", "message": "Boom", "code": 401}', Unauthorized, "Boom"),
    "error detail": ('{"detail": "Boom"}', Rejected, "Boom"),
    "error in the choice": (
        '{"choices": [{"error": {"code": 502, "message": "Boom"}, "message": {"content": "H"}}]}',
        Unreachable,
        "Boom",
    ),
    "error as reason": (
        '{"choices": [{"finish_reason": "error", "message": {"content": "H"}}]}',
        BadResponse,
        "did not finish the response",
    ),
    "filtered": (json.dumps(whole(content="H", finish_reason="content_filter")), Rejected, "content filter"),
    "filtered, no message": (
        json.dumps({"choices": [{"index": 0, "finish_reason": "content_filter", "content_filter_results": FILTERED}]}),
        Rejected,
        "content filter",
    ),
    "login failed": (
        '{"choices": null, "base_resp": {"status_code": 1004, "status_msg": "login fail"}}',
        Unauthorized,
        "login fail",
    ),
    "filtered, with its reason": (
        json.dumps(whole(content="H", finish_reason="content_filter: VIOLENCE")),
        Rejected,
        "content filter",
    ),
    "filtered call": (
        json.dumps(whole(tool_calls=[piece(call_id="a", name="f")], finish_reason="content_filter")),
        Rejected,
        "content filter",
    ),
    "refusal": (json.dumps(whole(content=None, refusal="I cannot")), Rejected, "refused to answer: I cannot"),
}

STREAM_FAILURES = {
    "html": (["<!DOCTYPE html>\n<html>"], BadResponse, "not an OpenAI-compatible endpoint"),
    "html in one line": (["<html></html>"], BadResponse, "not an OpenAI-compatible endpoint"),
    "text": (["Internal: error\n"], BadResponse, "Internal: error"),
    "nothing": ([], BadResponse, "cut short after 0 characters"),
    "only [DONE]": (["data: [DONE]\n\n"], BadResponse, "without an answer"),
    "no choice": ([{"choices": []}, "data: [DONE]\n\n"], BadResponse, "without an answer"),
    "no end": ([chunk(content="Hello")], BadResponse, "cut short after 5 characters"),
    "no end, empty reasons": (
        [chunk("", role="assistant"), chunk("", content="Hel")],
        BadResponse,
        "cut short after 3",
    ),
    "only an empty reason": ([chunk("", role="assistant")], BadResponse, "cut short"),
    "broken JSON": (["data: {broken\n\n"], BadResponse, "contains invalid JSON"),
    "nested too deep": ([f"data: {'[' * 100_000}\n\n"], BadResponse, "contains invalid JSON"),
    "not an object": (["data: 42\n\n"], BadResponse, "not a JSON object"),
    "cut JSON": (['{"choices": [{"mess'], BadResponse, "invalid JSON"),
    "lines of JSON": (['{"message": {"content": "H"}}\n{"done": true}\n'], BadResponse, "invalid JSON"),
    "list": ([json.dumps([{"error": {"code": 503, "message": "Boom", "status": "UNAVAILABLE"}}])], Unreachable, "Boom"),
    "error": ([chunk(content="H"), {"error": {"message": "Boom", "type": "server_error"}}], Unreachable, "Boom"),
    "error as text": ([chunk(content="H"), {"error": "Boom"}], Rejected, "Boom"),
    "error object": ([chunk(content="H"), {"object": "error", "message": "Boom", "code": 500}], Unreachable, "Boom"),
    "error detail": ([{"detail": "Boom"}], Rejected, "Boom"),
    "error next to choices": (
        [chunk(content="H"), {"error": {"code": 502, "message": "Boom"}, "choices": [{"finish_reason": "error"}]}],
        Unreachable,
        "Boom",
    ),
    "error in the choice": ([{"choices": [{"error": {"code": 502, "message": "Boom"}}]}], Unreachable, "Boom"),
    "error as reason": ([chunk("error", content="H")], BadResponse, "did not finish the response"),
    "event: error": (
        ['event: error\ndata: {"message": "Boom", "code": "rate_limit_exceeded"}\n\n'],
        RateLimited,
        "Boom",
    ),
    "event: error, nested": (['event: error\ndata: {"error": {"message": "Boom"}}\n\n'], Rejected, "Boom"),
    "event: error, text": (["event: error\ndata: Boom\n\n"], Rejected, "Boom"),
    "event: error, nothing": (["event: error\ndata: null\n\n"], Rejected, "no explanation"),
    "filtered": ([chunk("content_filter", content="H")], Rejected, "content filter"),
    "refusal": ([chunk(refusal="I can"), chunk("stop", refusal="not")], Rejected, "refused to answer: I cannot"),
}


@pytest.mark.for_each(("body", "kind", "words"), WHOLE_FAILURES.values(), ids=WHOLE_FAILURES)
def test_whole_responses_without_an_answer(ask_whole, body, kind, words):
    """A response with status 200 and no answer raises an error that quotes the server."""
    for content_type in ("application/json", "text/html; charset=utf-8", ""):
        with FakeServer(raw(body, content_type=content_type)) as server, pytest.raises(kind, match=words) as caught:
            ask_whole(connect(server))
        assert type(caught.value) is kind or kind is ModelError


@pytest.mark.for_each(("pieces", "kind", "words"), STREAM_FAILURES.values(), ids=STREAM_FAILURES)
def test_invalid_streams_raise_an_error(ask_streamed, pieces, kind, words):
    """A stream that contains no answer, or becomes invalid, raises an error."""
    with FakeServer(raw(*pieces)) as server, pytest.raises(kind, match=words) as caught:
        ask_streamed(connect(server))
    assert type(caught.value) is kind


BOOM = '{"error": {"message": "Boom", "code": 503}}'


@pytest.mark.for_each(
    "line",
    [
        f"error: {BOOM}\n\n",
        f"error: {json.dumps(json.loads(BOOM)['error'])}\n\n",
        f"{BOOM}\n",
        f"[{BOOM}]\n",
        json.dumps([json.loads(BOOM)], indent=2) + "\n",
        f"data: [{BOOM}]\n\n",
        'data: {"choices": [{"delta": {}}], "x_groq": {"error": {"message": "Boom", "code": 503}}}\n\n',
        'data: {"errors": [{"message": "Boom", "code": 503}]}\n\n',
        'data: {"error_msg": "Boom", "code": 503}\n\n',
    ],
)
def test_error_inside_a_stream_is_raised(ask_streamed, line):
    """An error inside a stream is raised with its own message and status."""
    with FakeServer(raw(chunk(content="H"), line)) as server, pytest.raises(Unreachable, match="503: Boom") as caught:
        ask_streamed(connect(server))
    assert caught.value.status == 503


@pytest.mark.parametrize("pieces", [[END_LINE], [chunk(role="assistant", content=""), END_LINE]], ids=["end", "role"])
def test_empty_stream_raises_bad_response(ask_streamed, pieces):
    """A stream that ends without text and finish reason raises BadResponse."""
    with FakeServer(raw(*pieces)) as server, pytest.raises(BadResponse, match="ended without an answer"):
        ask_streamed(connect(server))


@pytest.mark.for_each(
    "reason",
    ["abort", "network_error", "insufficient_system_resource", "function_call_filter: MALFORMED_FUNCTION_CALL", "load"],
)
def test_aborted_answer_raises_bad_response(ask_whole, reason):
    """An answer that the provider aborted raises BadResponse with the finish reason."""
    body = json.dumps(whole(content="H", finish_reason=reason))
    with FakeServer(raw(body, content_type="application/json")) as server, pytest.raises(BadResponse) as caught:
        ask_whole(connect(server))
    assert repr(reason.partition(":")[0].lower()) in str(caught.value)


@pytest.mark.for_each("reason", ["RECITATION", "PROHIBITED_CONTENT", "sensitive", "SPII"])
def test_all_filter_reasons_are_known(ask_whole, reason):
    """Every provider's finish reason for a filtered answer raises Rejected with one code."""
    body = json.dumps(whole(content=None, finish_reason=reason))
    with FakeServer(raw(body, content_type="application/json")) as server, pytest.raises(Rejected) as caught:
        ask_whole(connect(server))
    assert caught.value.code == "content_filter"


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_unrequested_stream_is_accepted(ask_whole, protocol):
    """A server that streams an answer to a request without streaming is accepted."""
    chunks = [chunk(content="Hel"), chunk("stop", content="lo"), END_LINE]
    items = [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}]
    events = [{"type": "response.completed", "response": {"output": items}}]
    blocks = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]
    with FakeServer(raw(*{"chat": chunks, "responses": events, "messages": blocks}[protocol])) as server:
        assert ask_whole(connect(server, protocol=protocol)).text == "Hello"


@pytest.mark.for_each("protocol", ["chat", "responses"])
def test_refusals_and_filters_raise_rejected(ask, protocol):
    """A refusal and a filtered answer raise Rejected with different codes in both protocols."""
    with FakeServer(refuse("I cannot"), filtered("So far")) as server:
        llm = connect(server, protocol=protocol)
        with pytest.raises(Rejected, match="I cannot") as refusal:
            ask(llm)
        with pytest.raises(Rejected, match="content filter") as filtering:
            ask(llm)
    assert (refusal.value.code, filtering.value.code) == ("refusal", "content_filter")


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_truncated_stream_raises_bad_response(ask_streamed, protocol):
    """A truncated stream raises BadResponse with the number of characters received."""
    with FakeServer(cut("one two three")) as server, pytest.raises(BadResponse, match="cut short after 13 characters"):
        ask_streamed(connect(server, protocol=protocol))


@pytest.mark.for_each("protocol", ["chat", "responses", "messages"])
def test_responses_are_the_same_in_every_protocol(ask, protocol):
    """Text, reasoning, tool calls, usage and finish reason are the same in every protocol."""
    usage = Usage(9, 4, 2, 1, requests=1)
    line = say("Let me see", call("f", city="Paris"), call("g"), reasoning="Hm", usage=usage, model="m-1")
    with FakeServer(line, say("Cut", finish_reason="length"), say("Free", usage=None)) as server:
        llm = connect(server, protocol=protocol)
        response, short, free = ask(llm), ask(llm), ask(llm)
    assert (response.text, response.message.reasoning, response.model) == ("Let me see", "Hm", "m-1")
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("f", PARIS), ("g", "{}")]
    assert (response.usage, response.finish_reason) == (usage.with_tariff(response.usage.tariff), "tool_calls")
    assert (short.finish_reason, free.usage.requests, free.usage.unreported) == ("length", 1, 1)
    assert response.raw["model"] == "m-1"


def parts_of(request, protocol):
    """Return the messages or items of a recorded request."""
    return request.json["input" if protocol == "responses" else "messages"]


@pytest.mark.for_each("protocol", ["chat", "responses", "messages"])
def test_conversation_is_sent_back(ask, protocol):
    """Answers and tool results are sent back in the format of the protocol."""
    with FakeServer(call("weather", city="Paris"), "Sunny") as server:
        llm = connect(server, protocol=protocol)
        question = UserMessage("Weather?")
        questions = ask(llm, [question], tools=[WEATHER])
        (request,) = questions.tool_calls
        answer = ask(llm, [question, questions.message, ToolMessage(request.id, "weather", "sun")], tools=[WEATHER])
        sent = parts_of(server.requests[1], protocol)
    assert answer.text == "Sunny"
    if protocol == "messages":
        (block,), (result,) = sent[1]["content"], sent[2]["content"]
        assert (block["type"], block["id"], block["input"]) == ("tool_use", request.id, {"city": "Paris"})
        assert (result["type"], result["tool_use_id"], result["content"]) == ("tool_result", request.id, "sun")
        return
    assert sent[0] == {"role": "user", "content": "Weather?"}
    if protocol == "chat":
        assert sent[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": PARIS}
        assert sent[2] == {"role": "tool", "tool_call_id": request.id, "content": "sun"}
    else:
        assert (sent[1]["type"], sent[1]["call_id"], sent[1]["arguments"]) == ("function_call", request.id, PARIS)
        assert sent[2] == {"type": "function_call_output", "call_id": request.id, "output": "sun"}


def test_fields_of_a_tool_call_are_sent_back(ask):
    """A provider's signature in a tool call is sent back with the call."""
    signed = piece(0, "a", "f", "{}", extra_content={"google": {"thought_signature": "s"}})
    whole_answer = raw(json.dumps(whole(tool_calls=[signed])), content_type="application/json")
    streamed_answer = raw(*calls_of(signed))
    with FakeServer(lambda request: streamed_answer if "stream" in request.json else whole_answer, "Hi") as server:
        llm = connect(server)
        message = ask(llm).message
        ask(llm, [UserMessage("Hi"), message, ToolMessage("a", "f", "1")])
        sent = server.requests[1].json["messages"][1]["tool_calls"][0]
    assert sent["extra_content"] == {"google": {"thought_signature": "s"}}


REASONING_ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL_ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "a",
    "name": "f",
    "arguments": "{}",
    "status": "completed",
}


def reasoned(request):
    """Return a reasoning item and a tool call, complete or streamed as requested."""
    data = {"id": "resp_1", "status": "completed", "output": [REASONING_ITEM, CALL_ITEM], "error": None}
    if "stream" not in request.json:
        return raw(json.dumps(data), content_type="application/json")
    return raw({"type": "response.completed", "response": data})


def test_reasoning_items_are_sent_back_to_their_origin_only(ask):
    """Reasoning items are sent back unchanged, but not to another server or in another protocol."""
    with FakeServer(reasoned, "Hi", "Hi") as server, FakeServer("Hi") as stranger:
        llm = connect(server, protocol="responses")
        history = [UserMessage("Hi"), ask(llm).message, ToolMessage("a", "f", "1")]
        ask(llm, history)
        ask(connect(server, protocol="chat"), history)
        ask(connect(stranger, protocol="responses"), history)
        back, other_protocol, other_server = server.requests[1].json, server.requests[2].json, stranger.requests[0].json
    assert back["input"][1:3] == [REASONING_ITEM, CALL_ITEM]
    assert "gAAA" not in json.dumps(other_protocol)
    assert other_server["input"][1] == {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}


def test_unknown_fields_are_sent_to_their_server_only(ask_whole):
    """Provider-specific fields are sent back to their own server only."""
    answer = raw(
        json.dumps(whole(content="Hello", mood="calm", reasoning_content="Hm")), content_type="application/json"
    )
    with FakeServer(answer, "Hi") as server, FakeServer("Hi") as stranger:
        message = ask_whole(connect(server)).message
        ask_whole(connect(server), [UserMessage("Hi"), message, UserMessage("And?")])
        ask_whole(connect(stranger), [UserMessage("Hi"), message, UserMessage("And?")])
        back, elsewhere = server.requests[1].json["messages"][1], stranger.requests[0].json["messages"][1]
    assert back == {"role": "assistant", "content": "Hello", "mood": "calm"}
    assert elsewhere == {"role": "assistant", "content": "Hello"}


def test_request_contains_no_unset_settings(ask):
    """A request contains only the model, the messages and the fields needed for the protocol."""
    with FakeServer("Hi", "Hi") as server:
        ask(connect(server))
        ask(connect(server, protocol="responses"), temperature=None)
        chat, responses = (request.json for request in server.requests)
    assert set(chat) - {"stream", "stream_options"} == {"model", "messages"}
    assert set(responses) - {"stream"} == {"model", "input", "store", "include"}
    assert ("stream" in chat) == ("stream_options" in chat) == ("stream" in responses)


# The settings; the status, parameter and text of each rejection in turn; the remaining settings.
REFUSALS = {
    "max_tokens is renamed": (
        {"max_tokens": 5},
        [(400, "max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")],
        {"max_completion_tokens": 5},
    ),
    "max_completion_tokens is renamed back": (
        {"max_completion_tokens": 5},
        [(422, None, "Unknown parameter: max_completion_tokens")],
        {"max_tokens": 5},
    ),
    "temperature is left out": (
        {"temperature": 0.2, "seed": 1},
        [
            (
                400,
                "temperature",
                "Unsupported value: 'temperature' does not support 0.2. Only the default (1) is supported.",
            )
        ],
        {"seed": 1},
    ),
    "two bad parameters in a row": (
        {"temperature": 0.2, "top_p": 0.5},
        [(400, "temperature", "Unsupported parameter"), (400, "top_p", "Unsupported parameter")],
        {},
    ),
    "named in the text only": (
        {"top_logprobs": 2},
        [(400, None, "`top_logprobs` is not supported with this model")],
        {},
    ),
    "named after a dot": ({"stop": "x"}, [(400, None, "body.stop: Extra inputs are not permitted")], {}),
    "gemini": (
        {"seed": 1},
        [(400, None, 'Invalid JSON payload received. Unknown name "seed": Cannot find field.')],
        {},
    ),
}


@pytest.mark.for_each(("settings", "refusals", "left"), REFUSALS.values(), ids=REFUSALS)
def test_rejected_parameter_is_adapted_and_remembered(ask, settings, refusals, left):
    """An unsupported parameter is dropped or renamed, both in the retry and in later requests."""
    lines = [fail(status, text, parameter=parameter) for status, parameter, text in refusals]
    with FakeServer(*lines, "Hi", "Hi") as server:
        llm = connect(server)
        assert ask(llm, **settings).text == "Hi"
        assert ask(llm, **settings).text == "Hi"
        bodies = [request.json for request in server.requests]
    expected = {"model", "messages", "stream", "stream_options"} & bodies[0].keys()
    for body in bodies[len(lines) :]:
        assert {name: value for name, value in body.items() if name not in expected} == left
    assert len(llm.describe().adjustments) == len(lines)


def test_rejected_stream_options_are_dropped(ask_streamed):
    """A server that rejects stream options is sent requests without them."""
    with FakeServer(fail(400, "Unrecognized request argument supplied: stream_options"), "Hi") as server:
        assert ask_streamed(connect(server)).text == "Hi"
        assert "stream_options" not in server.requests[1].json


def test_refused_include_is_dropped(ask):
    """`include` is dropped if the server refuses encrypted reasoning."""
    text = "Invalid value: 'reasoning.encrypted_content'. Supported values are: 'file_search_call.results'."
    with FakeServer(fail(400, text, parameter="include[0]"), "Hi") as server:
        assert ask(connect(server, protocol="responses")).text == "Hi"
        assert "include" not in server.requests[1].json


@pytest.mark.for_each(
    ("refusal", "added"),
    [
        (
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
            {"reasoning_content": " "},
        ),
        ("Function call is missing a thought_signature in functionCall parts.", {}),
    ],
)
def test_required_history_fields_are_added_and_remembered(ask, refusal, added):
    """A field that a server requires of earlier tool calls is added, and remembered."""
    history = [UserMessage("Hi"), AssistantMessage("", (ToolCall("a", "f", "{}"),)), ToolMessage("a", "f", "1")]
    with FakeServer(fail(400, refusal), "Hi", "Hi") as server:
        llm = connect(server)
        ask(llm, history)
        ask(llm, history)
        answers = [request.json["messages"][1] for request in server.requests]
    assert answers[1] == answers[2] != answers[0]
    assert {name: answers[1][name] for name in added} == added


def test_refused_instruction_is_sent_as_a_user_message(ask):
    """A refused instruction is sent as a user message from then on."""
    with FakeServer(fail(400, "System role not supported"), "Hi", "Hi") as server:
        llm = connect(server, protocol="chat")
        for _ in range(2):
            assert ask(llm, Request([UserMessage("Hello")], "Be brief")).text == "Hi"
        assert llm.describe().adjustments == ("the instruction is sent as a user message",)
        sent = [request.json["messages"] for request in server.requests]
    assert sent[0][0] == {"role": "system", "content": "Be brief"}
    assert sent[1:] == [[{"role": "user", "content": "Be brief\n\nHello"}]] * 2


EFFORT = "Function tools with reasoning_effort are not supported for m here. Set reasoning_effort to 'none'."


def test_reasoning_is_disabled_with_tools_if_required(ask):
    """Reasoning is disabled for requests with tools if the server requires it."""
    with FakeServer(fail(400, EFFORT, parameter="reasoning_effort"), "Hi", "Hi") as server:
        llm = connect(server)
        ask(llm, tools=[WEATHER])
        ask(llm)
        bodies = [request.json for request in server.requests]
    assert [body.get("reasoning_effort") for body in bodies] == [None, "none", None]


@pytest.mark.for_each("model", ["gpt-5.6-luna", "gpt-6"])
def test_models_known_to_refuse_reasoning_with_tools(ask, model):
    """GPT-5.6 and GPT-6 are sent tools without reasoning, unless the server refuses that setting."""
    refusal = (
        "Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported values are: 'low'."
    )
    with FakeServer("Hi", fail(400, refusal, parameter="reasoning_effort"), "Hi") as server:
        llm = connect(server, model=model)
        ask(llm, tools=[WEATHER])
        ask(llm, tools=[WEATHER])
        bodies = [request.json for request in server.requests]
    assert [body.get("reasoning_effort") for body in bodies] == ["none", "none", None]


def test_invalid_value_is_not_adapted(ask):
    """An invalid value of the user is not adapted: the rejection is raised and not remembered."""
    texts = {
        "temperature": "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
        "reasoning_effort": "Unsupported value: 'reasoning_effort' cannot be 3. Supported values are: 'low'.",
    }
    with FakeServer(*(fail(400, text, parameter=name) for name, text in texts.items())) as server:
        llm = connect(server)
        for name in texts:
            with pytest.raises(Rejected) as caught:
                ask(llm, **{name: 3})
            assert (caught.value.status, caught.value.parameter) == (400, name)
    assert llm.describe().adjustments == ()


@pytest.mark.parametrize("name", ["messages", "model", "max_tokens"])
def test_essential_fields_are_never_removed(ask_whole, name):
    """Messages, model and limits are never removed, whatever the server responds."""
    line = fail(400, f"Unsupported parameter: '{name}' is not supported with this model.", parameter=name)
    with FakeServer(line) as server, pytest.raises(Rejected):
        ask_whole(connect(server), max_tokens=5)


def test_adapting_stops_after_eight_changes(ask):
    """Adapting stops when it has no effect, and after eight changes."""

    def refuse_something(request):
        names = [name for name in request.json if name.startswith("odd_")]
        return fail(400, f"Unsupported parameter: {names[0] if names else 'odd_0'}")

    with FakeServer(refuse_something, repeat=True) as server:
        with pytest.raises(Rejected):
            ask(connect(server), **{f"odd_{number}": 1 for number in range(20)})
        assert len(server.requests) == 9
        with pytest.raises(Rejected):
            ask(connect(server), odd_0=1)
        assert len(server.requests) == 11


def test_parameter_refused_under_both_names(ask):
    """A parameter that is refused under both of its names is tried once under each."""

    def contradict(request):
        name, other = "max_tokens", "max_completion_tokens"
        refused, wanted = (name, other) if name in request.json else (other, name)
        return fail(400, f"Unsupported parameter: '{refused}'. Use '{wanted}' instead.", parameter=refused)

    with FakeServer(contradict, repeat=True) as server:
        with pytest.raises(Rejected):
            ask(connect(server), max_tokens=5)
        assert len(server.requests) == 3


def test_refusal_in_the_middle_of_a_stream_is_raised(ask_streamed):
    """A refusal in the middle of a stream is raised without a retry."""
    with FakeServer(
        raw(chunk(content="H"), {"error": {"message": "seed is unsupported", "param": "seed", "code": 400}})
    ) as server:
        with pytest.raises(Rejected, match="seed"):
            ask_streamed(connect(server), seed=1)
        assert len(server.requests) == 1


def test_rejection_inside_a_success_is_adapted(ask):
    """A rejection in a response with status 200 is adapted to like any other."""
    error = {"error": {"message": "unsupported parameter", "param": "seed", "code": 400}}
    whole_error, streamed_error = raw(json.dumps(error), content_type="application/json"), raw(error)
    with FakeServer(lambda request: streamed_error if "stream" in request.json else whole_error, "Hi") as server:
        assert ask(connect(server), seed=1).text == "Hi"


STRICT = ToolSpec("f", "", {"type": "object", "properties": {}}, {"type": "object", "properties": {}, "required": []})


def strict_model(server, protocol):
    """Return a model at a server that enforces schemas."""
    endpoint = Endpoint(provider="openai", model="m", base_url=server.base_url, protocol=protocol, strict=True)
    return RemoteModel(endpoint, timeout_seconds=10, max_retries=0)


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_rejected_strict_schema_is_sent_without_strict(protocol):
    """A schema whose strict form the server rejects is sent without it from then on."""
    request = Request([UserMessage("Hi")], tools=(STRICT,))
    refusal = fail(400, "Invalid schema for function 'f'", code="invalid_function_parameters", parameter="tools[0]")
    with FakeServer(refusal, "Hi", "Hi") as server:
        model = strict_model(server, protocol)
        model.complete(request)
        model.complete(request)
        tools = [(tool := sent_request.json["tools"][0]).get("function", tool) for sent_request in server.requests]
    assert [bool(tool.get("strict")) for tool in tools] == [True, False, False]
    assert [tool["parameters"] for tool in tools] == [STRICT.strict_parameters, STRICT.parameters, STRICT.parameters]


@pytest.mark.parametrize("loc", [["body", "tools", 0, "function", "strict"], ["body", "tools", 0, "strict"]])
def test_refused_strict_field_is_dropped(loc):
    """A server that refuses `strict` is sent tools without it."""
    detail = json.dumps({"detail": [{"type": "extra_forbidden", "loc": loc, "msg": "Extra inputs are not permitted"}]})
    with FakeServer(raw(detail, status=422, content_type="application/json"), "Hi", "Hi") as server:
        llm = connect(server, protocol="responses")
        assert llm.complete("Hi", tools=[WEATHER]).text == "Hi"
        assert llm.complete("Hi").text == "Hi"
        assert "strict" not in server.requests[1].json["tools"][0]


REFUSED_FIELDS = {
    "groq": (
        400,
        {"error": {"message": "'messages.1' : for 'role:assistant' [('messages.1' : property 'mood' is unsupported)]"}},
    ),
    "mistral": (
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "messages", 1, "assistant", "mood"],
                        "msg": "Extra inputs are not permitted",
                        "input": "calm",
                    }
                ]
            },
        },
    ),
    "openai": (
        400,
        {
            "error": {
                "message": "Unknown parameter: 'messages[1].mood'.",
                "param": "messages[1].mood",
                "code": "unknown_parameter",
            }
        },
    ),
}


@pytest.mark.parametrize(("status", "refusal"), REFUSED_FIELDS.values(), ids=REFUSED_FIELDS)
def test_refused_field_of_a_message_is_dropped(status, refusal):
    """A refused message field from an earlier answer is not sent again."""
    answer = raw(json.dumps(whole(content="Hello", mood="calm")), content_type="application/json")
    with FakeServer(answer, raw(json.dumps(refusal), status=status, content_type="application/json"), "Hi") as server:
        llm = connect(server)
        assert llm.chat([UserMessage("Hi"), llm.complete("Hi").message, UserMessage("And?")]) == "Hi"
        assert [message.get("mood") for message in server.requests[2].json["messages"]] == [None, None, None]


def test_refused_field_of_a_tool_call_is_dropped():
    """A refused tool call field from an earlier answer is not sent again."""
    answer = raw(json.dumps(whole(tool_calls=[piece(0, "a", "f", "{}", mood="calm")])), content_type="application/json")
    refusal = fail(400, "messages.1.tool_calls.0.mood: Extra inputs are not permitted")
    with FakeServer(answer, refusal, "Hi") as server:
        llm = connect(server)
        assert llm.chat([UserMessage("Hi"), llm.complete("Hi").message, ToolMessage("a", "f", "1")]) == "Hi"
        assert "mood" not in json.dumps(server.requests[2].json)


def test_threads_share_adjustments():
    """Threads can adapt to refusals concurrently, and share the adjustments."""

    def picky(request):
        odd = sorted(name for name in request.json if name.startswith("odd_"))
        return fail(400, f"Unsupported parameter: {odd[0]}") if odd else "Hi"

    with FakeServer(picky, repeat=True) as server:
        llm, texts = connect(server), []
        threads = [
            Thread(target=lambda number=number: texts.append(llm.chat("Hi", **{f"odd_{number % 4}": 1})))
            for number in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert texts == ["Hi"] * 16
    assert set(llm.describe().adjustments) == {f"odd_{number} is left out" for number in range(4)}


def test_encoding_is_linear_in_the_history():
    """A history four times as long takes about four times the work."""

    def steps(count):
        history = [UserMessage("Hi"), AssistantMessage("Hello", extra={"mood": "calm"})] * (count // 2)
        endpoint = Endpoint(provider="openai", model="m", base_url="http://127.0.0.1:1/v1")
        model = RemoteModel(endpoint, timeout_seconds=1, max_retries=0)
        model.prepare()
        counted = 0

        def count_step(frame, event, argument):
            nonlocal counted
            counted += 1

        sys.setprofile(count_step)
        try:
            next(model.steps(Request(history), streaming=False))
        finally:
            sys.setprofile(None)
        return counted

    assert steps(2_000) < 5 * steps(500)


@pytest.mark.for_each("half", ["name", "id", "reasoning"])
def test_lone_surrogates_can_be_sent_back(ask, half):
    """A lone surrogate in any field of an answer is replaced, so that the answer can be sent back."""
    fields = {"name": "f", "id": "1", "reasoning": "r", half: "so \ud83d"}
    function = {"name": fields["name"], "arguments": "{}"}
    calls = [{"index": 0, "id": fields["id"], "function": function, "own": [{"sign": fields["reasoning"]}]}]
    message = {"reasoning_content": fields["reasoning"], "tool_calls": calls}
    line = raw(
        json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}), content_type="application/json"
    )
    with FakeServer(line, "Hi") as server:
        llm = LLM(base_url=server.base_url, model="m", max_retries=0)
        first = ask(llm)
        assert ask(llm, [UserMessage("q"), first.message]).text == "Hi"
