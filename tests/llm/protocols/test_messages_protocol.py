"""Tests for Anthropic's protocol against its own package, with the same server over real connections."""

import json

import anthropic
import pytest

from agentkit import Agent
from agentkit.content import File, Image
from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.events import ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.pricing import cost_of, price_of
from agentkit.llm.protocols import wire_named
from agentkit.messages import AssistantMessage, Request, ToolCall, ToolMessage, ToolSpec, UserMessage
from agentkit.testing import FakeServer, call, fail, filtered, raw, refuse, say
from agentkit.usage import Usage

KEY = "sk-ant-0123456789"
MODEL = "claude-sonnet-5-5"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
MARK = {"type": "ephemeral"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "The weather in a city", CITY)
SAID = say("Let me see", call("weather", city="Paris"), call("clock"), reasoning="Hm", usage=Usage(9, 4, requests=1))


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": MODEL, "max_retries": 0, "protocol": "messages", **options})


def package(server):
    """Return the anthropic package's client of the same server."""
    return anthropic.Anthropic(base_url=server.origin, api_key=KEY, max_retries=0)


def text(text, **fields):
    """Return a text block."""
    return {"type": "text", "text": text, **fields}


def use(call_id, **given):
    """Return a tool use block."""
    return {"type": "tool_use", "id": call_id, "name": "weather", "input": given}


def result_block(call_id, content, **fields):
    """Return a tool result block."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
TOOL = {"name": "weather", "description": "The weather in a city", "input_schema": CITY}
ASKED = {"role": "user", "content": [text("Weather?", cache_control=MARK)]}
SYSTEM = [text("Be brief", cache_control=MARK)]

# the arguments of an LLM; the equivalent arguments of the package
ASKING = {
    "a question": (
        (Request([UserMessage("Hi")], "Be brief"), {"max_tokens": 9}),
        {"max_tokens": 9, "system": "Be brief", "messages": [{"role": "user", "content": [text("Hi")]}]},
    ),
    "image and URL of an image": (
        ([UserMessage(("Look", Image(PIXEL), Image("https://x.example/a.png")))], {"max_tokens": 9}),
        {
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        text("Look"),
                        PICTURE,
                        {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
                    ],
                }
            ],
        },
    ),
    "a document": (
        ([UserMessage(("Read", File("data:application/pdf;base64,JVBERi0=", "a.pdf")))], {"max_tokens": 9}),
        {
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        text("Read"),
                        {
                            "type": "document",
                            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                            "title": "a.pdf",
                        },
                    ],
                }
            ],
        },
    ),
    "tools with a required call": (
        (Request([UserMessage("Weather?")], "Be brief", (WEATHER,)), {"max_tokens": 9, "tool_choice": "weather"}),
        {
            "max_tokens": 9,
            "system": SYSTEM,
            "messages": [ASKED],
            "tools": [TOOL],
            "tool_choice": {"type": "tool", "name": "weather"},
        },
    ),
    "tools, one at a time": (
        (
            Request([UserMessage("Weather?")], tools=(WEATHER,)),
            {"max_tokens": 9, "tool_choice": "required", "parallel_tool_calls": False},
        ),
        {
            "max_tokens": 9,
            "messages": [ASKED],
            "tools": [{**TOOL, "cache_control": MARK}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        },
    ),
    "calls and results": (
        (
            [
                UserMessage("Weather?"),
                AssistantMessage("Two", (ToolCall("a", "weather", '{"city": "Hue"}'), ToolCall("b", "weather", ""))),
                ToolMessage("a", "weather", "sun", images=(Image(PIXEL),)),
                ToolMessage("b", "weather", '{"error": "no city", "tool": "weather"}'),
                UserMessage("And?"),
            ],
            {"max_tokens": 9},
        ),
        {
            "max_tokens": 9,
            "messages": [
                ASKED,
                {"role": "assistant", "content": [text("Two"), use("a", city="Hue"), use("b")]},
                {
                    "role": "user",
                    "content": [
                        result_block("a", [text("sun"), PICTURE]),
                        result_block("b", '{"error": "no city", "tool": "weather"}', is_error=True),
                        text("And?", cache_control=MARK),
                    ],
                },
            ],
        },
    ),
    "an effort": (
        ([UserMessage("Hi")], {"max_tokens": 9, "reasoning_effort": "low", "stop": "END"}),
        {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [text("Hi")]}],
            "output_config": {"effort": "low"},
            "thinking": {"type": "adaptive", "display": "summarized"},
            "stop_sequences": ["END"],
        },
    ),
    "a schema for the answer": (
        ([UserMessage("Hi")], {"max_tokens": 9, "output_schema": {**CITY, "additionalProperties": False}}),
        {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [text("Hi")]}],
            "output_config": {"format": {"type": "json_schema", "schema": {**CITY, "additionalProperties": False}}},
        },
    ),
}


@pytest.mark.for_each(("asking", "arguments"), ASKING.values(), ids=ASKING)
def test_request_matches_the_anthropic_package(ask_whole, asking, arguments):
    """A request has the same body and path as one sent by the anthropic package."""
    messages, options = asking
    with FakeServer("Hi", "Hi") as server:
        ask_whole(connect(server), messages, **options)
        with package(server) as client:
            client.messages.create(model=MODEL, **arguments)
        actual, reference = server.requests
    assert (actual.json, actual.path) == (reference.json, reference.path)


def test_key_and_version_headers(ask):
    """The key is sent only as x-api-key, with the protocol version, and custom headers take precedence."""
    with FakeServer("Hi", "Hi") as server:
        ask(connect(server, api_key=KEY))
        ask(connect(server, api_key=KEY, headers={"Anthropic-Version": "2026-10-21", "anthropic-beta": "b"}))
        first, second = (request.headers for request in server.requests)
    assert (first["x-api-key"], first["anthropic-version"], "authorization" in first) == (KEY, "2023-06-01", False)
    assert (second["anthropic-version"], second["anthropic-beta"]) == ("2026-10-21", "b")


@pytest.mark.for_each("line", [SAID, "Hello", call("clock"), say("Cut", finish_reason="length")])
def test_response_matches_the_anthropic_package(ask, line):
    """The package's own client parses the same text, reasoning, calls and usage from the same server."""
    with FakeServer(line, line, line) as server:
        actual = ask(connect(server))
        with package(server) as client:
            asking = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
            complete = client.messages.create(**asking)
            with client.messages.stream(**asking) as stream:
                streamed = stream.get_final_message()
    for reference in (complete, streamed):
        by_kind = {kind: [block for block in reference.content if block.type == kind] for kind in ("text", "tool_use")}
        assert actual.text == "".join(block.text for block in by_kind["text"])
        assert actual.message.reasoning == "".join(
            block.thinking for block in reference.content if block.type == "thinking"
        )
        calls = [(each.name, json.loads(each.arguments)) for each in actual.tool_calls]
        assert calls == [(block.name, block.input) for block in by_kind["tool_use"]]
        assert (actual.usage.input_tokens, actual.usage.output_tokens) == (
            reference.usage.input_tokens,
            reference.usage.output_tokens,
        )
        assert actual.raw["stop_reason"] == reference.stop_reason


def test_stream_emits_deltas_and_the_response():
    """A stream emits thoughts, text and numbered calls as deltas, and the response last."""
    with FakeServer(SAID) as server:
        *events, last = connect(server).stream("Hi")
    assert isinstance(last, ResponseReceived)
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Hm"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me see"
    pieces = [event for event in events if isinstance(event, ToolCallDelta)]
    assert [(event.index, event.name) for event in pieces if event.name] == [(0, "weather"), (1, "clock")]
    assert "".join(event.arguments for event in pieces if event.index == 0) == '{"city": "Paris"}'


def test_agent_calls_tools_in_parallel():
    """An agent calls tools in parallel, receives a tool failure, and sends its thoughts back."""

    def weather(city: str) -> str:
        """The weather.

        Args:
            city: Where.
        """
        if city == "Hue":
            raise ValueError("closed")
        return f"sun in {city}"

    requested_calls = say("", call("weather", city="Paris"), call("weather", city="Hue"), reasoning="Two cities")
    with FakeServer(requested_calls, "Sunny in one.") as server:
        helper = Agent("helper", [weather], "Be brief", llm=connect(server))
        assert helper("Weather?") == "Sunny in one."
        first, second = (request.json for request in server.requests)
    assert first["system"] == SYSTEM
    thought, *calls = second["messages"][1]["content"]
    assert (thought["type"], thought["thinking"], bool(thought["signature"])) == ("thinking", "Two cities", True)
    results = second["messages"][2]["content"]
    assert [block["tool_use_id"] for block in results] == [block["id"] for block in calls]
    assert [block.get("is_error", False) for block in results] == [False, True]
    assert results[1]["cache_control"] == MARK


def test_reasoning_is_sent_back_to_its_model_only(ask):
    """Reasoning is sent back unchanged, but not to another model, endpoint or protocol."""
    with FakeServer(SAID, repeat=True) as server, FakeServer("Hi") as stranger:
        llm = connect(server)
        answer = ask(llm).message
        results = [ToolMessage(each.id, each.name, "1") for each in answer.tool_calls]
        history = [UserMessage("Hi"), answer, *results]
        ask(llm, history)
        ask(connect(server, model="claude-opus-5-5"), history)
        ask(connect(server, protocol="chat"), history)
        ask(connect(stranger), history)
        back, *others = [*(request.json for request in server.requests[1:]), stranger.requests[0].json]
    assert back["messages"][1]["content"][0]["type"] == "thinking"
    assert all("thinking" not in json.dumps(other["messages"]) for other in others)


def test_cache_tokens_are_counted_and_priced():
    """Cache reads and writes are part of the input tokens, and have their own prices."""
    usage = Usage(1_000, 10, 600, 5, requests=1, written_tokens=300)
    with FakeServer(say("Hi", usage=usage)) as server:
        response = connect(server).complete("Hi")
    assert response.usage == usage.with_tariff(response.usage.tariff)
    tariff = LLM("anthropic", MODEL, KEY).tariff
    price = price_of("anthropic", MODEL)
    dollars = (100 * price.input + 600 * price.cached + 300 * price.written + 10 * price.output) / 1_000_000
    assert cost_of(response.usage.with_tariff(tariff)).dollars == pytest.approx(dollars)
    assert price.cached < price.input < price.written


def test_refused_schema_is_replaced_by_a_tool(ask):
    """A schema whose grammar the server refuses is replaced by an answer tool from then on."""
    text = "The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas."
    answer = call("final_answer", city="Hue")
    with FakeServer(fail(400, text), answer, answer) as server:
        llm = connect(server)
        assert [json.loads(ask(llm, "Where?", output_schema=CITY).text) for _ in range(2)] == [{"city": "Hue"}] * 2
        bodies = [request.json for request in server.requests]
    assert ["output_config" in body for body in bodies] == [True, False, False]
    assert bodies[1]["tools"][0]["name"] == "final_answer"
    assert llm.describe().adjustments == ("a typed answer is given by calling a tool",)


def error(kind, message="Wait a moment"):
    """Return an error in the format of this protocol."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


# the type of an error, its status, its class
ERRORS = {
    "invalid_request_error": (400, Rejected),
    "authentication_error": (401, Unauthorized),
    "billing_error": (402, Rejected),
    "permission_error": (403, Unauthorized),
    "not_found_error": (404, Rejected),
    "request_too_large": (413, Rejected),
    "rate_limit_error": (429, RateLimited),
    "api_error": (500, Unreachable),
    "timeout_error": (504, Unreachable),
    "overloaded_error": (529, Unreachable),
}


@pytest.mark.for_each(("kind", "status", "expected"), [(kind, *fact) for kind, fact in ERRORS.items()], ids=ERRORS)
def test_errors_have_the_same_class_in_a_stream(ask, kind, status, expected):
    """An error has the same class as an HTTP status and as an event in a stream."""
    body = json.dumps(error(kind))
    headers = {"Retry-After": "7"} if status == 429 else {}
    refused = raw(body, status=status, content_type="application/json", headers=headers)
    started = {"type": "message_start", "message": {"content": []}}
    named = f"event: error\ndata: {body}\n\n"
    inside = raw(started, named)
    with FakeServer(refused, lambda request: inside if request.json.get("stream") else raw(body)) as server:
        llm = connect(server)
        with pytest.raises(ModelError, match="Wait a moment") as first:
            ask(llm)
        with pytest.raises(ModelError, match="Wait a moment") as second:
            ask(llm)
    assert (type(first.value), type(second.value)) == (expected, expected)
    assert first.value.code == second.value.code
    assert getattr(first.value, "retry_after_seconds", 7) == 7


@pytest.mark.for_each(
    ("line", "message"), [(refuse("Not that."), "Not that."), (filtered("So"), "no reason was given")]
)
def test_refusal_raises_rejected(ask, line, message):
    """An answer that ends as a refusal raises Rejected, with the reason if there is one."""
    with FakeServer(line) as server, pytest.raises(Rejected, match=message) as caught:
        ask(connect(server))
    assert caught.value.code == "refusal"


@pytest.mark.parametrize("pieces", [[], [{"type": "ping"}], [{"type": "message_start", "message": {"id": "m"}}]])
def test_stream_without_a_stop_reason_raises_bad_response(ask_streamed, pieces):
    """A stream that ends without a stop reason raises BadResponse."""
    with FakeServer(raw(*pieces)) as server, pytest.raises(BadResponse, match="cut short after 0 characters"):
        ask_streamed(connect(server))


@pytest.mark.parametrize("body", ["{}", '{"type": "message", "content": null}'])
def test_response_without_content_raises_bad_response(ask_whole, body):
    """A response body without content raises BadResponse."""
    with FakeServer(raw(body, content_type="application/json")) as server, pytest.raises(BadResponse, match="content"):
        ask_whole(connect(server))


def test_prompt_that_is_too_long_has_the_common_code(ask):
    """A prompt that is too long raises the common error code with the limit."""
    body = json.dumps(error("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"))
    line = raw(body, status=400, content_type="application/json")
    with FakeServer(line) as server, pytest.raises(Rejected) as caught:
        ask(connect(server))
    assert (caught.value.is_too_long, caught.value.limit_tokens) == (True, 200_000)


def test_trailing_blanks_of_a_prefill_are_removed():
    """Trailing blanks of a final assistant message are removed, as the server rejects them."""
    wire = wire_named("messages")
    request = Request([UserMessage("Count"), AssistantMessage("One, two, \n")])
    assert wire.encode(request, "m", strict=False)["messages"][-1]["content"] == [{"type": "text", "text": "One, two,"}]
    full_text = Request([UserMessage("Count"), AssistantMessage("One")])
    assert wire.encode(full_text, "m", strict=False)["messages"][-1]["content"][-1]["text"] == "One"
