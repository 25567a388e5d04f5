"""Tests for the documented rules of model servers, as enforced by the fake server."""

import httpx2
import pytest

from agentkit.llm.client import LLM
from agentkit.testing import FakeServer
from agentkit.testing.request_rules import violations

ASKED = {"role": "user", "content": "Hi"}
ITEM = {"role": "user", "content": "Hi"}


def made(*ids, name="f", arguments="{}"):
    """Return a message of the model with calls."""
    calls = [{"id": each, "type": "function", "function": {"name": name, "arguments": arguments}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def given(call_id, content="ok"):
    """Return a result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def chat(*messages, **fields):
    """Return a body of Chat Completions."""
    return {"messages": [ASKED, *messages], **fields}


def function(schema, strict=False, **fields):
    """Return a body of the Responses protocol with one tool."""
    tool = {"type": "function", "name": "f", "parameters": schema, "strict": strict, **fields}
    return {"input": [ITEM], "tools": [tool]}


def item(call_id, **fields):
    """Return a call in the Responses protocol."""
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **fields}


def turns(*contents, **fields):
    """Return a body of the Messages protocol with alternating turns."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(contents)]
    return {"messages": messages, "max_tokens": 9, **fields}


def google(*turns):
    """Return a body of Gemini's protocol from roles and parts."""
    return {"contents": [{"role": role, "parts": parts} for role, parts in turns]}


def closed(**properties):
    """Return a closed object."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}
CALL = {"functionCall": {"name": "f", "args": {}}}
DONE = {"functionResponse": {"name": "f", "response": {}}}
OPEN = {"type": "object", "properties": {}}
DEEP = {"type": "string"}
for _ in range(14):
    DEEP = closed(d=DEEP)

BROKEN = [
    # receiver, body, words of the error
    ("openai", chat(tools=[]), "array too short"),
    ("openai", function(OPEN, name="a b"), "does not match"),
    ("openai", {"tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "f"}]}, "unique"),
    ("openai", function(None), "must be an object schema"),
    ("openai", function({"type": "string", "properties": {}}), "must be of type 'object'"),
    ("openai", function({"type": "object"}), "missing properties"),
    ("openai", function({**OPEN, "anyOf": []}), "at the top level"),
    ("openai", function(OPEN, description="x" * 1_025), "too long"),
    ("openai", function({**OPEN, "properties": {"a": {"type": "array"}}}), "missing items"),
    ("openai", function({**OPEN, "properties": {"a": {"$ref": "#/$defs/A"}}}), "not found"),
    ("openai", chat(response_format={"json_schema": {"schema": {"anyOf": []}}}), "response_format"),
    ("openai-responses", function(OPEN, strict=True), "must be false"),
    ("openai-responses", function({**closed(a={"type": "string"}), "required": []}, strict=True), "every key"),
    ("openai-responses", function(closed(a={"oneOf": []}), strict=True), "'type' key|not permitted"),
    ("openai-responses", function(closed(a={"enum": [*range(1_001)]}), strict=True), "1001 enum values"),
    ("openai-responses", function(closed(a={"enum": ["x" * 70] * 251}), strict=True), "string length"),
    ("openai-responses", function(closed(**{"x" * 120_001: {"type": "null"}}), strict=True), "total string length"),
    ("openai-responses", function(closed(a=DEEP), strict=True), "nesting depth"),
    ("openai", chat(given("a")), "not found in 'tool_calls'"),
    ("openai", chat(made("a"), ASKED), "must be followed"),
    ("openai", chat(made("a")), "without results"),
    ("openai", chat({"role": "assistant", "content": None}), "must have content"),
    ("openai", chat(made("a"), given("a", {"b": 1})), "invalid type"),
    ("openai", chat(made(""), given("")), "must not be empty"),
    ("openai", chat(made("a", name="f g"), given("a")), "invalid name"),
    ("openai", chat(made("a", arguments="["), given("a")), "JSON object"),
    ("openai", chat(made("a" * 41), given("a" * 41)), "does not match"),
    ("mistral", chat(made("call_1"), given("call_1")), "does not match"),
    ("mistral", chat({"role": "assistant", "content": " "}), "must have either"),
    ("mistral", {"messages": [{**ASKED, "name": "anna"}]}, "not permitted"),
    ("azure-v1", {"input": [item("a" * 65)]}, "call_id"),
    ("azure-v1", {"input": [item("a", arguments="x")]}, "invalid arguments"),
    ("azure-v1", {"input": [item("a", name="f g")]}, "invalid name"),
    ("azure-v1", {"input": [{"type": "function_call_output", "call_id": "a"}]}, "no tool call found"),
    ("azure-v1", {"input": [item("a"), ITEM]}, "no tool output found"),
    ("azure-v1", {"input": [{"role": "user", "content": 7}]}, "expected a string"),
    ("azure-v1", {"input": [{"type": "reasoning", "id": "rs_1"}, item("a")]}, "not persisted"),
    ("azure-v1", {"input": [{"type": "reasoning", "encrypted_content": "x"}, ITEM]}, "required following item"),
    ("anthropic", {"messages": [ASKED]}, "max_tokens"),
    ("anthropic", {"messages": [], "max_tokens": 1}, "first message"),
    ("anthropic", turns("Hi", "Well \n"), "trailing|does not"),
    ("anthropic", turns("Hi", [{"type": "text", "text": "Well "}]), "trailing whitespace"),
    ("anthropic", turns("Hi", [USE]), "without tool_result"),
    ("anthropic", turns("Hi", []), "must not be empty"),
    ("anthropic", turns([{"type": "text", "text": " "}]), "non-whitespace"),
    ("anthropic", turns("Hi", [USE, {**USE, "id": "b"}], [RESULT]), "do not correspond"),
    ("anthropic", turns("Hi", [{**USE, "id": "a b"}], [{**RESULT, "tool_use_id": "a b"}]), "should match pattern"),
    ("anthropic", turns("Hi", [{**USE, "input": "x"}], [RESULT]), "valid dictionary"),
    ("anthropic", turns("Hi", tools=[{"name": "f", "input_schema": {"properties": {"ß": {}}}}]), "keys should match"),
    ("anthropic", turns("Hi", tools=[{"name": "f", "input_schema": {}}]), "field required"),
    ("anthropic", turns("Hi", tools=[{"name": "f", "input_schema": {**OPEN, "oneOf": []}}]), "top level"),
    ("gemini", {}, "first turn"),
    ("gemini", google(("user", [])), "at least one parts"),
    ("gemini", google(("user", [{"text": ""}])), "initialized field"),
    ("gemini", google(("user", [{"text": "a"}]), ("assistant", [{"text": "a"}])), "valid roles"),
    ("gemini", google(("user", [{"text": "a"}]), ("model", [CALL]), ("user", [{"text": "a"}])), "do not correspond"),
    ("gemini", google(("user", [{"functionResponse": {"name": "f", "response": "x"}}])), "must be an object"),
    ("gemini-openai", function({**OPEN, "not": {}}), "Unknown name"),
    ("gemini-openai", function({**OPEN, "properties": {"a": {"type": ["null"]}}}), "not repeating"),
    ("gemini-openai", function({**OPEN, "properties": {"a": {"enum": [1]}}}), "STRING type"),
    ("gemini-openai", function({**OPEN, "properties": {"a": {"type": "string", "format": "date"}}}), "date-time"),
    ("gemini-openai", function({**OPEN, "properties": {"a": {"anyOf": [], "title": "t"}}}), "only field set"),
    ("gemini-openai", function({**OPEN, "properties": {"a": {"type": "array"}}}), "missing field"),
    ("gemini-openai", function({**OPEN, "required": ["a"]}), "not defined"),
    ("gemini-openai", function(OPEN, name="3d"), "invalid function name"),
]


@pytest.mark.for_each(("receiver", "body", "words"), BROKEN, ids=[f"{row[0]}, {row[2]}" for row in BROKEN])
def test_broken_rules(receiver, body, words):
    """A request that violates a rule is rejected with the rule."""
    pattern = words.split("|")
    assert any(word in fault for fault in violations(receiver, body) for word in pattern)


@pytest.mark.parametrize(
    ("receiver", "body"),
    [
        ("openai", chat(made("a", "b"), given("b"), given("a", [{"type": "text", "text": "x"}]))),
        ("openai-responses", function(closed(a={"type": "array", "items": {"$ref": "#"}}), strict=True)),
        ("anthropic", turns("Hi", [USE], [RESULT], [{"type": "text", "text": "Well."}])),
        ("gemini", google(("user", [{"text": "a"}]), ("model", [CALL]), ("user", [DONE]))),
        ("ollama", chat(made("anything at all"), given("anything at all"))),
    ],
)
def test_valid_requests(receiver, body):
    """A valid request breaks no rule."""
    assert violations(receiver, body) == []


def test_server_enforces_rules():
    """A fake server with rules answers an invalid request with status 400, and uses no line for it."""
    with FakeServer("ok", rules="mistral") as server:
        body = {"model": "m", "messages": [ASKED, {"role": "assistant", "content": ""}]}
        answer = httpx2.post(f"{server.base_url}/chat/completions", json=body)
        assert answer.status_code == 400
        assert "must have either" in answer.json()["error"]["message"]
        assert LLM(base_url=server.base_url, model="any").complete([ASKED, made("a"), given("a")]).text == "ok"
    assert len(server.requests) == 3
