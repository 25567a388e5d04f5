"""Tests for Gemini's own protocol: requests, responses, streams and errors."""

import json

import pytest

from agentkit.agents.agent import Agent
from agentkit.content import File, Image
from agentkit.errors import BadResponse, ConfigError, NoProvider, Rejected, Unauthorized
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.protocols import wire_named
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    Request,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from agentkit.settings import DEFAULT_GEMINI_MODEL
from agentkit.testing import FakeServer, call, fail, raw
from agentkit.tooling.tool import Tool
from agentkit.usage import Usage

WIRE = wire_named("gemini")
UNSIGNED = "skip_thought_signature_validator"
PNG = Image("data:image/jpg;base64,iVBORw0KGgo=")
SOUND = File("data:audio/mpeg;base64,SUQzAg==")


def encoded(*messages, model="gemini-3.8-flash", **options):
    """Return the body of a request."""
    return json.loads(json.dumps(WIRE.encode(Request(messages, **options), model, strict=False)))


def llm_at(server, **options):
    """Return a client of the fake server."""
    return LLM("gemini", base_url=server.origin, api_key="key-of-gemini", **options)


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is green."


def test_conversation_is_sent_as_contents():
    """System messages at the start are the instruction; turns have the role user or model, and are not empty."""
    body = encoded(
        SystemMessage("Be brief."),
        UserMessage(("Look", PNG, "", SOUND, Image("https://x.example/a.png"), File("https://x.example/b"))),
        AssistantMessage("A cat."),
        SystemMessage("Now in French."),
        UserMessage("And now?"),
        instruction="You see.",
    )
    assert body["systemInstruction"] == {"parts": [{"text": "You see.\n\nBe brief."}]}
    assert body["contents"] == [
        {
            "role": "user",
            "parts": [
                {"text": "Look"},
                {"inlineData": {"mimeType": "image/jpeg", "data": "iVBORw0KGgo="}},
                {"inlineData": {"mimeType": "audio/mpeg", "data": "SUQzAg=="}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://x.example/a.png"}},
                {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x.example/b"}},
            ],
        },
        {"role": "model", "parts": [{"text": "A cat."}]},
        {"role": "user", "parts": [{"text": "Now in French."}, {"text": "And now?"}]},
    ]
    assert encoded(AssistantMessage("Hi."))["contents"][0]["role"] == "user"
    assert encoded(UserMessage(" "))["contents"][0]["parts"][0]["text"]


def test_calls_and_results_are_in_one_turn_each():
    """Results follow in the order of the calls, under their names, with the images after them."""
    calls = (ToolCall("1", "look", '{"a": 1}', {"thoughtSignature": "s"}), ToolCall("2", "3d", "{"))
    body = encoded(
        UserMessage("Hi"),
        AssistantMessage("Wait.", calls, extra={"thoughtSignature": "t", "parts": ({"executableCode": {}},)}),
        ToolMessage("2", "", "[1]", images=(PNG,)),
        ToolMessage("1", "other", '{"error": "no", "tool": "look"}'),
    )
    _, made, given = body["contents"]
    assert made["parts"] == [
        {"executableCode": {}},
        {"text": "Wait.", "thoughtSignature": "t"},
        {"functionCall": {"id": "1", "name": "look", "args": {"a": 1}}, "thoughtSignature": "s"},
        {"functionCall": {"id": "2", "name": "t_3d", "args": {"malformed_arguments": "{"}}},
    ]
    assert given["parts"][:2] == [
        {"functionResponse": {"id": "1", "name": "look", "response": {"error": "no"}}},
        {"functionResponse": {"id": "2", "name": "t_3d", "response": {"result": [1]}}},
    ]
    assert [set(part) for part in given["parts"][2:]] == [{"text"}, {"inlineData"}]


def test_calls_of_other_models_have_the_documented_signature():
    """The first call of a message has a signature, also if another model made it."""
    calls = (ToolCall("1", "look", ""), ToolCall("2", "look", ""))
    results = [ToolMessage(each.id, "look", "ok") for each in calls]
    (_, made, given) = encoded(UserMessage("Hi"), AssistantMessage("", calls), *results)["contents"]
    assert [part.get("thoughtSignature") for part in made["parts"]] == [UNSIGNED, None]
    assert len(given["parts"]) == 2


def test_tools_and_answers_are_declared():
    """Functions share one entry; hosted tools have their own; a schema of the answer is sent as JSON schema."""
    tools = (
        ToolSpec("look", "Look.", {"type": "object", "properties": {"a": {}}}),
        ToolSpec("now", "", {"type": "object", "properties": {}}),
        ToolSpec("", "", {}, hosted={"type": "web_search"}),
        ToolSpec("", "", {}, hosted={"type": "urlContext", "x": 1}),
    )
    body = encoded(UserMessage("Hi"), tools=tools, output_schema=OutputSchema("a", {"type": "object"}))
    functions = [
        {"name": "look", "description": "Look.", "parametersJsonSchema": {"type": "object", "properties": {"a": {}}}},
        {"name": "now", "description": ""},
    ]
    assert body["tools"] == [{"functionDeclarations": functions}, {"googleSearch": {}}, {"urlContext": {"x": 1}}]
    assert body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    }
    assert "functionDeclarations" not in encoded(UserMessage("Hi"), tools=tools[2:])["tools"][0]


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"max_tokens": 5, "top_p": 0.5, "stop": "x"}, {"maxOutputTokens": 5, "topP": 0.5, "stopSequences": ["x"]}),
        ({"stop": ["x"], "seed": 1, "parallel_tool_calls": False}, {"stopSequences": ["x"], "seed": 1}),
        ({"generation_config": {"topK": 3}, "temperature": 0}, {"topK": 3, "temperature": 0}),
        ({"reasoning_effort": "low"}, {"thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True}}),
        ({"reasoning_effort": "none"}, {"thinkingConfig": {"thinkingLevel": "minimal", "includeThoughts": False}}),
    ],
)
def test_settings_are_sent_under_their_names_here(settings, sent):
    """Settings are accepted under the names of other protocols and under Google's own."""
    assert encoded(UserMessage("Hi"), settings=settings)["generationConfig"] == sent


def test_effort_of_older_models_is_a_budget():
    """For models before Gemini 3, an effort is sent as a thinking budget in tokens."""
    body = encoded(UserMessage("Hi"), model="gemini-2.5-pro", settings={"reasoning_effort": "low"})
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 1_024, "includeThoughts": True}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("look", {"mode": "ANY", "allowedFunctionNames": ["look"]}),
        ({"type": "function", "function": {"name": "look"}}, {"mode": "ANY", "allowedFunctionNames": ["look"]}),
        ({"mode": "VALIDATED"}, {"mode": "VALIDATED"}),
    ],
)
def test_tool_choice(choice, sent):
    """A forced call is sent as the function-calling mode, next to other request settings."""
    tools = (ToolSpec("look", "", {}),)
    settings = {"tool_choice": choice, "safety_settings": []}
    body = encoded(UserMessage("Hi"), tools=tools, settings=settings)
    assert body["toolConfig"] == {"functionCallingConfig": sent}
    assert body["safetySettings"] == []
    assert "toolConfig" not in encoded(UserMessage("Hi"), settings=settings)


@pytest.mark.parametrize(
    ("model", "streaming", "path"),
    [
        ("gemini-3.8-flash", False, "/models/gemini-3.8-flash:generateContent"),
        ("tunedModels/my one", True, "/tunedModels/my%20one:streamGenerateContent?alt=sse"),
    ],
)
def test_model_is_part_of_the_path(model, streaming, path):
    """The path names the model and the kind of response."""
    assert WIRE.url(model, streaming=streaming) == path


def test_response_in_every_way(ask):
    """Text, reasoning and usage are parsed in every way to request a response; the key is in Google's header."""
    read_response = Response(AssistantMessage("It is 4.", reasoning="Two and two."), "stop", Usage(9, 7, 2, 3))
    with FakeServer(read_response, rules="gemini") as server:
        response = ask(llm_at(server), temperature=0)
    assert (response.text, response.reasoning, response.finish_reason) == ("It is 4.", "Two and two.", "stop")
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens) == (9, 7, 2, 3)
    assert server.requests[0].headers["x-goog-api-key"] == "key-of-gemini"
    assert response.model == server.requests[0].model == DEFAULT_GEMINI_MODEL


def test_agent_calls_tools_and_sends_signatures_back():
    """A run with tools works, and the signature of a call is sent back with it."""
    with FakeServer([call("look", place="Hanoi"), call("look", place="Huế")], "Green.", rules="gemini") as server:
        assert Agent("a", [look], llm=llm_at(server))("How are they?") == "Green."
        parts = server.requests[1].json["contents"][1]["parts"]
    assert [part.get("thoughtSignature", "")[:4] for part in parts] == ["c2ln", ""]
    assert [part["functionCall"]["args"]["place"] for part in parts] == ["Hanoi", "Huế"]


def test_events_of_a_stream():
    """A stream yields reasoning, text and calls as they arrive."""
    line = AssistantMessage("A b.", (ToolCall("", "look", '{"place": "x"}'),), reasoning="Hm so.")
    with FakeServer(line) as server:
        events = list(llm_at(server).stream("Hi", tools=[Tool(look)]))
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["Hm ", "so."]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["A ", "b."]
    assert [event for event in events if isinstance(event, ToolCallDelta)] == [
        ToolCallDelta(0, "look", '{"place": "x"}')
    ]


def test_typed_answer_with_accepted_keywords():
    """The schema of a typed answer omits keywords that Google rejects, which are validated locally."""
    with FakeServer('{"n": 2}', rules="gemini") as server:
        assert llm_at(server).extract("two", dict[str, int]) == {"n": 2}


CHUNK = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "usageMetadata": {}}


def test_search_that_grounds_an_answer():
    """Pages found by Google Search are reported as a hosted tool use, and unknown parts are preserved."""
    web = {"web": {"uri": "https://x.example", "title": "X"}}
    content = {"parts": [{"text": "Hi"}, {"inlineData": {"data": "x"}}, {"text": "", "thoughtSignature": "s"}]}
    grounding = {"webSearchQueries": ["x"], "groundingChunks": [web]}
    candidate = {"content": content, "finishReason": "STOP", "groundingMetadata": grounding}
    response = WIRE.decode({"candidates": [{"index": 1}, candidate]})
    assert response.hosted[0].sources == ({"url": "https://x.example", "title": "X"},)
    assert json.loads(response.hosted[0].call.arguments) == {"queries": ["x"]}
    assert response.message.extra == {"parts": ({"inlineData": {"data": "x"}},), "thoughtSignature": "s"}
    assert response.usage.unreported


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}, "candidates": [{}]}, Rejected, "content filter"),
        ({"candidates": [{"finishReason": "RECITATION"}]}, Rejected, "content filter"),
        ({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}, BadResponse, "MALFORMED_FUNCTION_CALL"),
        ({"candidates": [{"finishReason": "OTHER", "finishMessage": "Too much"}]}, BadResponse, "Too much"),
        ({"usageMetadata": {}}, BadResponse, "no candidates"),
        ({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}, Unauthorized, "key"),
    ],
)
def test_missing_answer_raises_an_error(data, error, words):
    """A filtered, failed or missing answer raises an error with the reason."""
    with pytest.raises(error, match=words):
        WIRE.decode(data)


def test_blocked_prompt_without_candidates():
    """A blocked prompt raises a content filter refusal, also without any candidate."""
    with pytest.raises(Rejected, match="content filter"):
        WIRE.decode({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})


def test_truncated_stream_is_an_error(ask_streamed):
    """A stream without a finish reason is an error, and an answer cut at its limit has the reason `length`."""
    with FakeServer(
        raw(CHUNK), raw({**CHUNK, "candidates": [{**CHUNK["candidates"][0], "finishReason": "MAX_TOKENS"}]})
    ) as server:
        with pytest.raises(BadResponse, match="cut short"):
            ask_streamed(llm_at(server))
        assert ask_streamed(llm_at(server)).finish_reason == "length"


def test_stream_without_framing_and_with_an_error_after_its_end(ask_streamed):
    """An error after the finish reason is ignored; without usage the usage is unknown."""
    ended = {"candidates": [{**CHUNK["candidates"][0], "finishReason": "STOP"}]}
    head = {"Connection": "close"}
    with FakeServer(raw(ended, {"error": {"code": 500, "message": "Late"}}, headers=head)) as server:
        response = ask_streamed(llm_at(server))
    assert response.text == "Hi"
    assert response.usage.unreported
    assert not WIRE.reader().is_whole
    unreported = Response(AssistantMessage("Hi"), "stop", Usage(unreported=1))
    with FakeServer(unreported) as server:
        assert ask_streamed(llm_at(server)).usage.unreported


def test_malformed_call_is_retried(ask):
    """A malformed call that the provider reports instead of an answer is retried."""
    failed = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}
    with FakeServer(raw(json.dumps(failed), content_type="application/json"), "ok") as server:
        assert ask(llm_at(server)).text == "ok"


def test_refused_setting_is_dropped():
    """A refused generation setting is dropped from later requests."""
    refusal = fail(
        400, "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot find field."
    )
    with FakeServer(refusal, "ok") as server:
        assert llm_at(server).chat("Hi", seed=1, temperature=0) == "ok"
        assert server.requests[1].json["generationConfig"] == {"temperature": 0}


def test_selection_of_gemini(monkeypatch):
    """Gemini's key selects it after all other providers; its second variable is used only if Gemini is selected."""
    with pytest.raises(NoProvider, match="GEMINI_API_KEY"):
        LLM("gemini")
    monkeypatch.setenv("GOOGLE_API_KEY", "key-of-google")
    assert LLM("gemini").describe().protocol == "gemini"
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-gemini")
    described = LLM().describe()
    assert (described.provider, described.model) == ("gemini", DEFAULT_GEMINI_MODEL)
    assert described.endpoint == "https://generativelanguage.googleapis.com/v1beta"
    compatible = LLM("gemini", protocol="chat").describe()
    assert compatible.endpoint == "https://generativelanguage.googleapis.com/v1beta/openai"
    assert LLM("gemini", base_url="https://x.example/v1beta/openai/").describe().protocol == "chat"
    with pytest.raises(ConfigError, match="'gemini'"):
        LLM("gemini", protocol="google")


def test_embeddings_of_gemini():
    """Embeddings are requested over Google's OpenAI-compatible path."""
    with FakeServer() as server:
        assert len(llm_at(server).embed(["a", "b"])) == 2
    assert server.requests[0].path == "/v1beta/openai/embeddings"
