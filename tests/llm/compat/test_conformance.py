"""Tests that all kinds of requests conform to the documented rules of all receivers.

`make matrix` runs this module to write the table in docs/models.md.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from agentkit.content import File, Image
from agentkit.errors import AgentKitError
from agentkit.llm.client import LLM
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentkit.testing import FakeServer, call
from agentkit.testing.request_rules import Receiver
from agentkit.tooling.tool import Tool

JPEG = Image("data:image/jpg;base64,/9j/4AAQ")
PNG = Image("data:image/png;base64,iVBORw0KGgo=")
PDF = File("data:application/pdf;base64,JVBERi0=", "a.pdf")
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "models.md"
BEGIN, END = "<!-- matrix of receivers: begin -->", "<!-- matrix of receivers: end -->"

RECEIVERS: dict[str, Callable[[FakeServer], LLM]] = {
    "openai": lambda server: LLM(base_url=server.base_url, model="gpt-5.4-mini", protocol="chat"),
    "openai-responses": lambda server: LLM(base_url=server.base_url, model="gpt-5.4-mini", protocol="responses"),
    "azure": lambda server: LLM("azure", "gpt", "key-of-azure", server.origin, "2024-10-21"),
    "azure-v1": lambda server: LLM("azure", "gpt", "key-of-azure", server.origin, "v1"),
    "anthropic": lambda server: LLM("anthropic", base_url=server.base_url, api_key="key-of-anthropic"),
    "gemini": lambda server: LLM("gemini", "gemini-3-flash", base_url=server.origin, api_key="key-of-gemini"),
    "gemini-openai": lambda server: LLM("gemini", "gemini-3-flash", base_url=server.base_url, protocol="chat"),
    "mistral": lambda server: LLM("mistral", "mistral-large-latest", base_url=server.base_url),
    "groq": lambda server: LLM("groq", "openai/gpt-oss-120b", base_url=server.base_url),
    "xai": lambda server: LLM(base_url=server.base_url, model="grok-4"),
    "ollama": lambda server: LLM("ollama", "qwen3", base_url=server.base_url),
    "vllm": lambda server: LLM("vllm", "qwen3", base_url=server.base_url),
    "llama.cpp": lambda server: LLM(base_url=server.base_url, model="local"),
}


def tool(properties=None, *, name="look", description="Look.", **schema):
    """Return a tool described by a JSON schema."""
    described = {"type": "object", "properties": properties or {"a": {"type": "string"}}, **schema}
    return [Tool.from_schema(name, description, described, lambda **arguments: arguments)]


def function(annotation, default=...):
    """Return a tool for a function with one parameter of the given type."""

    def look(value):
        """Look."""

    look.__annotations__ = {"value": annotation}
    if default is not ...:
        look.__defaults__ = (default,)
    return [Tool(look)]


def bare(**schema):
    """Return a tool with the given schema."""
    return [Tool.from_schema("look", "Look.", schema, lambda **arguments: arguments)]


def answer(*calls, text="", **fields):
    """Return a message of the model with calls, each an id and a name."""
    return AssistantMessage(text, tuple(ToolCall(call_id, name, "{}") for call_id, name in calls), **fields)


def result(call_id, content="done", **fields):
    """Return the result of a call."""
    return ToolMessage(call_id, "look", content, **fields)


def called(call_id, name="look", args="{}", **fields):
    """Return a message of the model with one call."""
    return AssistantMessage(fields.pop("text", ""), (ToolCall(call_id, name, args),), **fields)


OBJECT_A = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
OBJECT_B = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
TEXT = {"type": "string"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"type": "string"}}}
MANY = [f"choice-{number}" for number in range(1_200)]
LONG = [
    f"a rather long choice with the number {number:04} at its very end, so that it has many characters"
    for number in range(300)
]
DEEP: dict[str, Any] = {"type": "string"}
for _ in range(14):
    DEEP = {"type": "object", "properties": {"d": DEEP}, "required": ["d"], "additionalProperties": False}

TOOLS = {
    "no parameters": bare(type="object", properties={}),
    "an empty schema": bare(),
    "a plain parameter": function(str),
    "an optional parameter": function(int | None, None),
    "a list of texts": function(list[str]),
    "a bare list": function(list),
    "a fixed tuple": function(tuple[int, str]),
    "an empty tuple": function(tuple[()]),
    "a list of tuples": function(list[tuple[int, float]]),
    "a tuple or a text": function(tuple[int, str] | str),
    "a bare dictionary": function(dict),
    "a dictionary of numbers": function(dict[str, float]),
    "a set": function(set[int]),
    "any value": function(Any),
    "a choice of numbers": tool({"n": {"type": "integer", "enum": [1, 2, 3]}}),
    "a choice of mixed values": tool({"n": {"enum": ["a", 1, None, True]}}),
    "a choice of tuples": tool({"n": {"type": "array", "enum": [["a", 1], ["b", 2]]}}),
    "a choice or null": tool({"n": {"type": ["string", "null"], "enum": ["a", None]}}),
    "a constant": tool({"n": {"const": 7}}),
    "a constant text": tool({"n": {"const": "x"}}),
    "an array without items": tool({"n": {"type": "array"}}),
    "nested arrays without items": tool({"n": {"type": "array", "items": {"type": "array"}}}),
    "an array in a union": tool({"n": {"anyOf": [{"type": "array"}, {"type": "null"}]}}),
    "an array or null": tool({"n": {"type": ["array", "null"]}}),
    "places of an array": tool({"n": {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}}),
    "alternatives at the root": tool(anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
    "a union at the root": bare(oneOf=[OBJECT_A, OBJECT_B], type="object"),
    "parts at the root": bare(allOf=[OBJECT_A, OBJECT_B], type="object"),
    "a negation at the root": tool({"a": {}, "b": {}}, **{"not": {"required": ["a", "b"]}}),
    "choices at the root": tool(enum=[{"a": "x"}, {"a": "y"}]),
    "a reference at the root": bare(**{"$ref": "#/$defs/A", "$defs": {"A": OBJECT_A}, "type": "object"}),
    "a recursive definition": tool({"node": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": NODE}}),
    "an escaped reference": tool({"n": {"$ref": "#/$defs/x~1y"}}, **{"$defs": {"x/y": OBJECT_A}}),
    "an encoded reference": tool({"n": {"$ref": "#/$defs/P%3CA%3E"}}, **{"$defs": {"P<A>": OBJECT_A}}),
    "a reference to a property": tool({"a": {"type": "array"}, "n": {"$ref": "#/properties/a"}}),
    "a dangling reference": tool({"n": {"$ref": "#/$defs/Nowhere"}}),
    "a date": tool({"n": {"type": "string", "format": "date"}}),
    "an unknown format": tool({"n": {"type": "string", "format": "phone"}}),
    "a Vietnamese name": tool({"từ_khóa": {"type": "string"}}, required=["từ_khóa"]),
    "a German name inside": tool({"a": {"type": "object", "properties": {"größe": {"type": "number"}}}}),
    "names with signs": tool({"$filter": {"type": "string"}, "two words": {"type": "string"}, "": {}}),
    "a very long name": tool({"n" * 80: {"type": "string"}}),
    "a closed object": tool({"o": {**OBJECT_A, "additionalProperties": False}}),
    "patterns of names": tool({"o": {"type": "object", "patternProperties": {"^x": {"type": "string"}}}}),
    "limits of every kind": tool(
        {
            "n": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            "l": {"type": "array", "items": {}, "uniqueItems": True, "contains": {"type": "string"}},
            "o": {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^x"}},
        }
    ),
    "conditions": tool({"a": {"type": "string"}}, **{"if": {"required": ["a"]}, "then": {"required": ["a"]}}),
    "a thousand choices": tool({"n": {"type": "string", "enum": MANY}}, additionalProperties=False, required=["n"]),
    "long choices": tool({"n": {"type": "string", "enum": LONG}}, additionalProperties=False, required=["n"]),
    "a deep schema": tool({"n": DEEP}),
    "a long description": tool(description="It looks at things. " * 100),
    "no description": tool(description=""),
    "a name that begins with a digit": tool(name="3d-view"),
    "two tools": [*tool(name="one"), *tool({"größe": {}}, name="two")],
    "a list of places, draft 4": tool({"n": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}}),
    "items true": tool({"n": {"type": "array", "items": True}}),
    "items false": tool({"n": {"type": "array", "items": False}}),
    "a required flag": tool({"n": {"type": "string", "required": True}}),
    "exclusive flags": tool({"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}),
    "a nullable flag": tool({"n": {"type": "string", "nullable": True}}),
    "type any": tool({"n": {"type": "any"}}),
    "no choices": tool({"n": {"type": "string", "enum": []}}),
    "repeated choices": tool({"n": {"type": "string", "enum": ["a", "a", "b"]}}),
    "an empty choice": tool({"n": {"type": "string", "enum": ["", "a"]}}),
    "choices of objects": tool({"n": {"enum": [{"a": 1}, {"a": 2}]}}),
    "choices true false": tool({"n": {"type": "boolean", "enum": [True]}}),
    "a null constant": tool({"n": {"const": None}}),
    "only null": tool({"n": {"type": "null"}}),
    "definitions draft 7": tool({"n": {"$ref": "#/definitions/A"}}, definitions={"A": OBJECT_A}),
    "reference with siblings": tool(
        {"n": {"$ref": "#/$defs/A", "description": "x", "default": None}}, **{"$defs": {"A": OBJECT_A}}
    ),
    "reference to root": tool({"n": {"$ref": "#"}}),
    "chain of references": tool(
        {"n": {"$ref": "#/$defs/A"}}, **{"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "string"}}}
    ),
    "references in a circle": tool(
        {"n": {"$ref": "#/$defs/A"}}, **{"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    ),
    "unused definitions": tool({"n": TEXT}, **{"$defs": {"từ": {"type": "object", "properties": {"größe": TEXT}}}}),
    "nested definitions": tool(
        {"n": {"type": "object", "$defs": {"B": TEXT}, "properties": {"b": {"$ref": "#/properties/n/$defs/B"}}}}
    ),
    "required unknown": tool({"n": TEXT}, required=["n", "zz"]),
    "required twice": tool({"n": TEXT}, required=["n", "n"]),
    "required null": tool({"n": TEXT}, required=None),
    "properties null": bare(type="object", properties=None),
    "a property of keyword names": tool(
        {
            "type": TEXT,
            "properties": TEXT,
            "required": {"type": "boolean"},
            "items": TEXT,
            "enum": TEXT,
            "$ref": TEXT,
            "anyOf": TEXT,
        }
    ),
    "a property false": tool({"n": TEXT, "x": False}),
    "a property true": tool({"n": True}),
    "a null format": tool({"n": {"type": "string", "format": None}}),
    "additional false at properties": tool(
        {"n": {"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}}}, **{"$defs": {"A": OBJECT_A}}
    ),
    "an object without properties": tool({"n": {"type": "object"}}),
    "anyOf with one": tool({"n": {"anyOf": [TEXT]}}),
    "nested anyOf": tool({"n": {"anyOf": [{"anyOf": [TEXT, {"type": "integer"}]}, {"type": "null"}]}}),
    "anyOf beside type": tool(
        {"n": {"type": "string", "anyOf": [{"minLength": 1}, {"pattern": "x"}], "description": "d"}}
    ),
    "oneOf discriminated": tool(
        {
            "n": {
                "oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
                "discriminator": {"propertyName": "kind", "mapping": {"a": "#/$defs/A"}},
            }
        },
        **{
            "$defs": {
                "A": {"type": "object", "properties": {"kind": {"const": "a"}}},
                "B": {"type": "object", "properties": {"kind": {"const": "b"}}},
            }
        },
    ),
    "allOf nested": tool({"n": {"allOf": [OBJECT_A, OBJECT_B]}}),
    "type list of many": tool({"n": {"type": ["string", "number", "boolean", "object", "array", "null"]}}),
    "type list with an object": tool({"n": {"type": ["object", "null"], "properties": {"a": {"type": "array"}}}}),
    "schema and id": tool(
        {"n": TEXT},
        **{
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "x",
            "title": "Args",
            "additionalProperties": False,
        },
    ),
    "lookahead": tool({"n": {"type": "string", "pattern": "^(?!x).*$"}}, additionalProperties=False, required=["n"]),
    "tuple of draft 2020 with rest": tool(
        {"n": {"type": "array", "prefixItems": [TEXT, {"type": "integer"}], "items": {"type": "boolean"}}}
    ),
    "min max items": tool({"n": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}}),
    "big numbers": tool({"n": {"type": "integer", "minimum": -(2**63), "maximum": 2**64}}),
    "content media": tool({"n": {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"}}),
    "vendor keywords": tool(
        {
            "n": {
                "type": "string",
                "x-order": 1,
                "markdownDescription": "d",
                "enumNames": ["a"],
                "deprecated": True,
                "example": "q",
            }
        }
    ),
    "dependent": tool({"a": TEXT, "b": TEXT}, dependentRequired={"a": ["b"]}, dependencies={"a": ["b"]}),
    "if inside": tool(
        {
            "n": {
                "type": "object",
                "properties": {"a": TEXT},
                "if": {"properties": {"a": {"const": "x"}}},
                "then": {"required": ["a"]},
            }
        }
    ),
    "a long description of a property": tool({"n": {"type": "string", "description": "x " * 3000}}),
    "200 properties": tool({f"p{i}": TEXT for i in range(200)}),
    "names differing by marks": tool({"ma": TEXT, "má": TEXT, "mà": TEXT, "m-a": TEXT, "m a": TEXT}),
    "a property of 64 chars and sign": tool({"x" * 63 + "é": TEXT}),
    "patternProperties at root": bare(type="object", patternProperties={"^x-": TEXT}),
    "additional at root": bare(type="object", additionalProperties={"type": "number"}),
    "unevaluated": tool({"n": TEXT}, unevaluatedProperties=False),
    "root type list": bare(type=["object", "null"], properties={"a": TEXT}),
    "root without type": bare(properties={"a": TEXT}, required=["a"]),
    "min properties root": tool({"a": TEXT}, minProperties=1),
    "nullable enum": tool(
        {"n": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}], "default": None}}
    ),
    "array of arrays of tuples": tool(
        {
            "n": {
                "type": "array",
                "items": {
                    "type": "array",
                    "prefixItems": [{"type": "number"}, {"type": "number"}],
                    "minItems": 2,
                    "maxItems": 2,
                },
            }
        }
    ),
}


def typed(schema, strict=True):
    """Return an output schema."""
    return OutputSchema("answer", schema, strict)


def closed(**properties):
    """Return a closed object schema that requires all its properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


ANSWERS = {
    "a flat answer": typed(closed(a={"type": "string"}, b={"type": "integer"})),
    "an answer with a list": typed(closed(a={"type": "array", "items": closed(b={"type": "number"})})),
    "an answer with a choice": typed(closed(a={"type": "integer", "enum": [1, 2]})),
    "an answer with a date": typed(closed(a={"type": "string", "format": "date"})),
    "an answer with an umlaut": typed(closed(größe={"type": "number"})),
    "an answer with a union": typed(closed(a={"anyOf": [{"type": "string"}, {"type": "null"}]})),
    "an answer with a tuple": typed(closed(a={"type": "array", "prefixItems": [{"type": "string"}]}), strict=False),
    "an open answer": typed({"type": "object", "properties": {"a": {}}}, strict=False),
    "a recursive answer": typed({**closed(n={"$ref": "#/$defs/N"}), "$defs": {"N": closed(v={"type": "string"})}}),
}

PARALLEL = [answer(("call_1", "look"), ("call_2", "look")), result("call_1"), result("call_2")]
REASONED = {"output": ({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},)}
THOUGHT = {"content": ({"type": "thinking", "thinking": "Hm.", "signature": "x"},)}
HISTORIES: dict[str, list[Any]] = {
    "one question": [],
    "an answer before": [UserMessage("Hi"), answer(text="Hello.")],
    "a call and its result": [UserMessage("Hi"), answer(("call_1", "look")), result("call_1")],
    "parallel calls": [UserMessage("Hi"), *PARALLEL],
    "text beside a call": [UserMessage("Hi"), answer(("call_1", "look"), text="Let me see."), result("call_1")],
    "calls in two turns": [UserMessage("Hi"), *PARALLEL, answer(("c", "look")), result("c"), answer(text="So.")],
    "ids of OpenAI": [
        UserMessage("Hi"),
        answer(("call_abcdefghijklmnopqrstuvwx", "look")),
        result("call_abcdefghijklmnopqrstuvwx"),
    ],
    "ids of Anthropic": [
        UserMessage("Hi"),
        answer(("toolu_01A09q90qw90lq917835lq9", "look")),
        result("toolu_01A09q90qw90lq917835lq9"),
    ],
    "ids of Mistral": [UserMessage("Hi"), answer(("D681PevKs", "look")), result("D681PevKs")],
    "ids of Kimi": [UserMessage("Hi"), answer(("functions.look:0", "look")), result("functions.look:0")],
    "very long ids": [
        UserMessage("Hi"),
        answer(("x" * 90, "look"), ("x" * 91, "look")),
        result("x" * 90),
        result("x" * 91),
    ],
    "ids with signs": [UserMessage("Hi"), answer(("a b/ç", "look")), result("a b/ç")],
    "an empty answer": [UserMessage("Hi"), answer(text=""), UserMessage("Hello?")],
    "a blank answer": [UserMessage("Hi"), answer(text=" \n"), UserMessage("Hello?")],
    "reasoning alone of another model": [UserMessage("Hi"), answer(extra=REASONED, origin="responses:x")],
    "an answer first": [answer(text="Welcome.")],
    "two questions in a row": [UserMessage("Hi"), UserMessage("Are you there?")],
    "an order in between": [UserMessage("Hi"), SystemMessage("Be brief."), answer(text="Hello.")],
    "reasoning of Responses": [
        UserMessage("Hi"),
        answer(text="So.", reasoning="Hm.", extra=REASONED, origin="responses:x"),
    ],
    "reasoning of Anthropic": [UserMessage("Hi"), answer(text="So.", extra=THOUGHT, origin="messages:x")],
    "reasoning of DeepSeek": [
        UserMessage("Hi"),
        answer(("c", "look"), extra={"reasoning_content": "Hm."}, origin="chat:x"),
        result("c"),
    ],
    "a signature of Google": [
        UserMessage("Hi"),
        AssistantMessage(
            "", (ToolCall("c", "look", "{}", {"extra_content": {"google": {"thought_signature": "x"}}}),), origin="x"
        ),
        result("c"),
    ],
    "an empty result": [UserMessage("Hi"), answer(("c", "look")), result("c", "")],
    "a failed result": [UserMessage("Hi"), answer(("c", "look")), result("c", '{"error": "no", "tool": "look"}')],
    "a picture in a result": [UserMessage("Hi"), answer(("c", "look")), result("c", images=(PNG,))],
    "pictures in parallel results": [
        UserMessage("Hi"),
        PARALLEL[0],
        result("call_1", images=(PNG,)),
        result("call_2", files=(PDF,)),
    ],
    "broken arguments": [UserMessage("Hi"), AssistantMessage("", (ToolCall("c", "look", '{"a": '),)), result("c")],
    "arguments that are a list": [
        UserMessage("Hi"),
        AssistantMessage("", (ToolCall("c", "look", "[1]"),)),
        result("c"),
    ],
    "a tool with a strange name": [UserMessage("Hi"), answer(("c", "look at it!")), result("c")],
    "half a character": [UserMessage("Hi \ud83d"), answer(text="Hello \ude00")],
    "names of users": [UserMessage("Hi", name="anna"), answer(text="Hello."), UserMessage("Hi", name="Bảo An")],
    "dictionaries": [
        {"role": "user", "content": "Hi", "name": "anna"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "", "content": {"a": [1]}},
        {"role": "assistant", "content": None, "refusal": "I cannot."},
    ],
    "lost ids of parallel calls": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": {}}} for name in ("a", "b")]},
        {"role": "tool", "name": "b", "content": 7},
        {"role": "tool", "name": "a", "content": [1, 2]},
    ],
    "empty user": [UserMessage("")],
    "blank user": [UserMessage("  \n")],
    "empty user parts": [UserMessage(())],
    "empty user text parts": [UserMessage(("",))],
    "only system": [SystemMessage("Be brief.")],
    "empty system": [SystemMessage(""), UserMessage("Hi")],
    "system late": [UserMessage("Hi"), answer(text="Hello."), SystemMessage("Be brief.")],
    "system after tool": [UserMessage("Hi"), called("c"), result("c"), SystemMessage("Be brief.")],
    "two systems": [SystemMessage("A"), SystemMessage("B"), UserMessage("Hi")],
    "two answers in a row": [UserMessage("Hi"), answer(text="A."), answer(text="B.")],
    "repeated ids over turns": [
        UserMessage("Hi"),
        called("call_0"),
        result("call_0"),
        answer(text="x"),
        UserMessage("again"),
        called("call_0"),
        result("call_0"),
    ],
    "repeated ids within a turn": [
        UserMessage("Hi"),
        AssistantMessage("", (ToolCall("a", "look", "{}"), ToolCall("a", "zwei", "{}"))),
        ToolMessage("a", "look", "1"),
        ToolMessage("a", "zwei", "2"),
    ],
    "empty id": [UserMessage("Hi"), called(""), result("")],
    "id in Chinese": [UserMessage("Hi"), called("调用一"), result("调用一")],
    "ids that become equal": [
        UserMessage("Hi"),
        AssistantMessage("", (ToolCall("a b", "look", "{}"), ToolCall("a_b", "look", "{}"))),
        result("a b"),
        result("a_b"),
    ],
    "uuid id": [
        UserMessage("Hi"),
        called("0f8fad5b-d9cb-469f-a165-70867728950e"),
        result("0f8fad5b-d9cb-469f-a165-70867728950e"),
    ],
    "responses id": [
        UserMessage("Hi"),
        called("call_x|fc_1234567890123456789012345678901234567890123456789012345678901234"),
        result("call_x|fc_1234567890123456789012345678901234567890123456789012345678901234"),
    ],
    "results reversed": [UserMessage("Hi"), PARALLEL[0], PARALLEL[2], PARALLEL[1]],
    "dangling call": [UserMessage("Hi"), called("c")],
    "dangling call mid": [UserMessage("Hi"), called("c"), UserMessage("never mind"), answer(text="ok")],
    "orphan result": [UserMessage("Hi"), result("zzz")],
    "result repeated": [UserMessage("Hi"), called("c"), result("c"), result("c")],
    "result after a user": [UserMessage("Hi"), called("c"), UserMessage("wait"), result("c")],
    "one of two answered": [UserMessage("Hi"), PARALLEL[0], PARALLEL[1]],
    "args null": [UserMessage("Hi"), called("c", args="null"), result("c")],
    "args empty": [UserMessage("Hi"), called("c", args=""), result("c")],
    "args text": [UserMessage("Hi"), called("c", args='"x"'), result("c")],
    "args nan": [UserMessage("Hi"), called("c", args='{"a": NaN}'), result("c")],
    "args twice": [UserMessage("Hi"), called("c", args='{"a": 1}{"a": 2}'), result("c")],
    "args surrogate": [UserMessage("Hi"), called("c", args='{"a": "\\ud800"}'), result("c")],
    "args huge int": [UserMessage("Hi"), called("c", args='{"a": ' + "9" * 5000 + "}"), result("c")],
    "args with umlaut prop": [UserMessage("Hi"), called("c", "zwei", args='{"größe": 1}'), result("c")],
    "no name": [UserMessage("Hi"), called("c", ""), result("c")],
    "name of a gone tool with Chinese": [UserMessage("Hi"), called("c", "天气"), ToolMessage("c", "天气", "warm")],
    "long name": [UserMessage("Hi"), called("c", "n" * 200), result("c")],
    "result nul": [UserMessage("Hi"), called("c"), result("c", "a\x00b\x1b[0m")],
    "huge result": [UserMessage("Hi"), called("c"), result("c", "x" * 200_000)],
    "result blank": [UserMessage("Hi"), called("c"), result("c", "  \n")],
    "result list json": [UserMessage("Hi"), called("c"), result("c", "[1, 2]")],
    "result picture only": [UserMessage("Hi"), called("c"), result("c", "", images=(PNG,))],
    "result file": [UserMessage("Hi"), called("c"), result("c", "", files=(PDF,))],
    "call with blank text": [UserMessage("Hi"), called("c", text="\n\n"), result("c")],
    "call with trailing space": [UserMessage("Hi"), called("c", text="Let me see: "), result("c")],
    "thinking unsigned": [
        UserMessage("Hi"),
        answer(
            text="So.",
            reasoning="Hm.",
            extra={"content": ({"type": "thinking", "thinking": "Hm."},)},
            origin="messages:x",
        ),
    ],
    "redacted thinking": [
        UserMessage("Hi"),
        answer(
            text="So.",
            extra={"content": ({"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "So."})},
            origin="messages:x",
        ),
    ],
    "reasoning details": [
        UserMessage("Hi"),
        called(
            "c", extra={"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, origin="chat:openrouter"
        ),
        result("c"),
    ],
    "gemini parts": [
        UserMessage("Hi"),
        called(
            "c",
            extra={"parts": ({"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "x"},)},
            origin="gemini:x",
        ),
        result("c"),
    ],
    "reasoning call of responses": [
        UserMessage("Hi"),
        called(
            "c",
            extra={
                "output": (
                    {"type": "reasoning", "id": "rs_1", "summary": []},
                    {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look", "arguments": "{}"},
                )
            },
            origin="responses:x",
        ),
        result("c"),
    ],
    "audio of OpenAI": [
        UserMessage("Hi"),
        answer(text="Hello.", extra={"audio": {"id": "a", "data": "x"}}, origin="chat:x"),
    ],
    "names odd": [UserMessage("Hi", name="a b<c>"), answer(text="Yo.", name="bot 1"), UserMessage("x", name="x" * 100)],
    "legacy function": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "done"},
    ],
    "developer": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "blocks of Anthropic": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me"},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]},
    ],
    "items of Responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
    ],
    "responses output text": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
        },
    ],
    "turns of Gemini": [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello"}]}],
    "null contents": [{"role": "user", "content": None}, {"role": "assistant", "content": None}],
    "args as object": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": {"a": 1}}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": None},
    ],
    "numbers as content": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"id": 7, "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": 7, "content": 3.5},
    ],
    "thinking in content": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "<think>Hm.</think>Hello."},
    ],
    "refusal part": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ],
    "reasoning content dict": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello.", "reasoning_content": "Hm."},
    ],
}
FILES: dict[str, list[Any]] = {
    "a picture": [UserMessage(("Look", PNG))],
    "a picture by address": [UserMessage((Image("https://x.example/a.png", "low"), "Look"))],
    "a document": [UserMessage(("Read", PDF))],
    "a picture alone": [UserMessage((PNG,))],
    "a picture and a blank text": [UserMessage(("", PNG, " "))],
    "many pictures": [UserMessage(("Look", PNG, "and", PNG, "and", PNG))],
    "jpg type": [UserMessage(("Look", JPEG))],
    "bmp": [UserMessage(("Look", Image("data:image/bmp;base64,Qk0=")))],
    "svg": [UserMessage(("Look", Image("data:image/svg+xml;base64,PHN2Zy8+")))],
    "text file": [UserMessage(("Read", File("data:text/plain;base64,SGk=", "a.txt")))],
    "csv": [UserMessage(("Read", File("data:text/csv;base64,YSxi", "a.csv")))],
    "docx": [
        UserMessage(
            (
                "Read",
                File(
                    "data:application/vnd.openxmlformats-officedocument.wordprocessingml.document;base64,UEs=", "a.docx"
                ),
            )
        )
    ],
    "pdf by url": [UserMessage(("Read", File("https://x.example/a.pdf")))],
    "pdf no name": [UserMessage(("Read", File("data:application/pdf;base64,JVBERi0=")))],
    "pdf name vn": [UserMessage(("Read", File("data:application/pdf;base64,JVBERi0=", "báo cáo (1).pdf")))],
    "mp3": [UserMessage(("Listen", File("data:audio/mpeg;base64,SUQz", "a.mp3")))],
    "unencoded data": [UserMessage(("Look", Image("data:image/png,%89PNG")))],
    "only file": [UserMessage((PDF,))],
}


class Kind(NamedTuple):
    """A kind of request: its history, tools and answer."""

    group: str
    history: Any = ()
    tools: Any = ()
    output: OutputSchema | None = None


KINDS = {
    **{name: Kind("tools", tools=tools) for name, tools in TOOLS.items()},
    **{name: Kind("typed answers", output=output) for name, output in ANSWERS.items()},
    **{name: Kind("histories", history=history, tools=TOOLS["two tools"]) for name, history in HISTORIES.items()},
    **{name: Kind("files", history=history) for name, history in FILES.items()},
}
assert len(KINDS) >= 200


def outcome(llm, server, kind):
    """Return `taken`, the server's refusal, or the error raised before sending."""
    known = len(server.refusals), len(server.requests)
    try:
        llm.complete([*kind.history, UserMessage("Go on.")], tools=kind.tools, output_schema=kind.output)
    except AgentKitError as error:
        return f"{'sent' if len(server.requests) > known[1] else 'not sent'}: {error}"
    return server.refusals[known[0]] if len(server.refusals) > known[0] else "taken"


def cells(receiver):
    """Return the outcomes of all kinds of request at one receiver."""
    with FakeServer("ok", repeat=True, rules=receiver) as server:
        return {name: outcome(RECEIVERS[receiver](server), server, kind) for name, kind in KINDS.items()}


@pytest.fixture(scope="module")
def outcomes():
    """The outcomes of all kinds of request at each receiver, computed once."""
    return {}


@pytest.mark.parametrize("receiver", get_args(Receiver))
def test_every_kind_of_request_is_accepted(receiver, outcomes):
    """A receiver accepts every kind of request on the first attempt, without a refusal to adapt to."""
    outcomes[receiver] = cells(receiver)
    assert {name: text for name, text in outcomes[receiver].items() if text != "taken"} == {}


def table(outcomes):
    """Return the matrix of receivers and groups of requests as a Markdown table."""
    groups = list(dict.fromkeys(kind.group for kind in KINDS.values()))
    lines = ["| server | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    for receiver, text in outcomes.items():
        counts = []
        for group in groups:
            names = [name for name, kind in KINDS.items() if kind.group == group]
            counts.append(f"{sum(text[name] == 'taken' for name in names)} of {len(names)}")
        lines.append(f"| {receiver} | " + " | ".join(counts) + " |")
    return "\n".join([BEGIN, *lines, END])


def test_matrix_is_in_the_documentation(outcomes):
    """The matrix in docs/models.md is the one that these tests measure; `make matrix` writes it."""
    measured = table({receiver: outcomes.get(receiver) or cells(receiver) for receiver in get_args(Receiver)})
    documented = DOCUMENTATION.read_text(encoding="utf-8")
    assert measured in documented, "run make matrix"


SEEDS = 50
LINES: tuple[tuple[Any, ...], ...] = (
    ([call("look", value="x"), call("zwei", größe=2)], "So."),
    (AssistantMessage("It is a cat.", reasoning="I see whiskers."),),
    (AssistantMessage("", (ToolCall("a:0", "look", '{"value": "y"}'),), reasoning="Look again."), "So."),
    ('{"größe": 2}',),
    ("Good.",),
)
"""Answers of a conversation: parallel calls, reasoning, calls with reasoning, a typed answer, a text."""


def turn(llm, conversation, number):
    """Answer one question of a conversation, with the results of the tools that are called."""
    content = ("What is this?", PNG) if number % 3 == 0 else f"Question {number}."
    conversation.append(UserMessage(content))
    output = ANSWERS["an answer with an umlaut"] if number % 4 == 3 else None
    response = llm.complete(conversation, tools=WALKED, output_schema=output)
    conversation.append(response.message)
    for made in response.tool_calls:
        images = (PNG,) if made.name == "look" else ()
        conversation.append(ToolMessage(made.id, made.name, "done", images=images))
    if response.tool_calls:
        conversation.append(llm.complete(conversation, tools=WALKED).message)


WALKED = [*function(str), *tool({"größe": {"type": "integer", "enum": [1, 2]}}, name="zwei")]


@pytest.mark.for_each("seed", range(SEEDS))
def test_conversation_moves_through_all_receivers(seed):
    """A conversation of ten turns moves through all receivers in random order, and each accepts it."""
    chance = random.Random(seed)
    order = [*RECEIVERS, *chance.choices([*RECEIVERS], k=10)]
    chance.shuffle(order)
    conversation: list[Any] = []
    for number, receiver in enumerate(order[:10]):
        with FakeServer(*chance.choice(LINES), rules=receiver) as server:
            turn(RECEIVERS[receiver](server), conversation, number)
        assert (receiver, server.refusals) == (receiver, [])
    assert len(conversation) >= len(order[:10]) * 2


if __name__ == "__main__":
    page = DOCUMENTATION.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    DOCUMENTATION.write_text(
        before + table({each: cells(each) for each in get_args(Receiver)}) + after, encoding="utf-8"
    )
