"""Tests for the conversion of requests for a receiver, and of its responses back."""

import json
from itertools import pairwise

import pytest

from agentkit.agents.agent import Agent
from agentkit.events import TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.compat.conversion import Converter, SchemaRewriter, root_object, sendable_id, sendable_property
from agentkit.llm.compat.rules import Receiver, receiver_of
from agentkit.llm.endpoint import Endpoint
from agentkit.messages import AssistantMessage, OutputSchema, Request, ToolCall, ToolMessage, ToolSpec, UserMessage
from agentkit.testing import FakeServer, call, fail
from agentkit.tooling.tool import Tool

CLAUDE = receiver_of(Endpoint(provider="anthropic", model="claude-haiku-5-5", protocol="messages"))
GOOGLE = receiver_of(Endpoint(provider="gemini", model="gemini-3.8-flash", protocol="gemini"))
MISTRAL = receiver_of(Endpoint(provider="mistral", model="any", protocol="chat"))
CHAT = receiver_of(Endpoint(provider="vllm", model="any", protocol="chat"))
SENT = sendable_property("từ_khóa")


def look(value: str) -> str:
    """Look at a value."""
    return value


@pytest.mark.for_each(
    ("provider", "base_url", "model", "protocol", "rule"),
    [
        ("openai", "https://api.openai.com/v1", "gpt-5.4", "responses", {"call_id_chars": 64}),
        ("openai", "https://x.example/v1", "any", "chat", {"call_id_chars": 40, "message_names": True}),
        ("openai", "https://api.mistral.ai/v1", "any", "chat", {"call_id_chars": 9}),
        ("openai", "https://openrouter.ai/v1", "mistralai/magistral", "chat", {"call_id_chars": 9}),
        (
            "openai",
            "https://openrouter.ai/v1",
            "anthropic/claude-opus-5",
            "chat",
            {"property_names": CLAUDE.property_names},
        ),
        ("openrouter", "", "google/gemini-3.8-flash", "chat", {"string_choices": True}),
        ("ollama", "", "claude-like", "messages", {"property_names": CLAUDE.property_names}),
        ("openai", "https://x.example/v1", "gemini", "chat", {"string_choices": False}),
    ],
)
def test_rules_by_endpoint(provider, base_url, model, protocol, rule):
    """The rules follow from the protocol, the host or provider, and the model's name."""
    receiver = receiver_of(Endpoint(provider=provider, base_url=base_url, model=model, protocol=protocol))
    assert {name: getattr(receiver, name) for name in rule} == rule


@pytest.mark.parametrize(
    ("call_id", "receiver"),
    [("call_abc", MISTRAL), ("", MISTRAL), ("", CHAT), ("x" * 90, CHAT), ("a b/ç", CLAUDE), ("\ud83d", CLAUDE)],
)
def test_replaced_ids_are_stable_and_distinct(call_id, receiver):
    """An id that is refused has always the same replacement, which differs from that of other ids."""
    sent = sendable_id(call_id, receiver.call_ids, receiver.call_id_chars)
    assert sendable_id(call_id, receiver.call_ids, receiver.call_id_chars) == sent
    assert sendable_id(sent, receiver.call_ids, receiver.call_id_chars) == sent
    assert sendable_id(call_id + "y", receiver.call_ids, receiver.call_id_chars) != sent


def test_unchanged_messages_are_the_same_objects():
    """Accepted messages and tools are sent as the same objects, so that their encodings stay cached."""
    converter = Converter(CHAT, "chat:x")
    message = AssistantMessage("", (ToolCall("c", "f", "{}", {"a": 1}),), extra={"b": 2}, origin="chat:x")
    tool = ToolSpec("f", "F.", {"type": "object", "properties": {}})
    request = Request((UserMessage("Hi", name="anna"), message, ToolMessage("c", "f", "1")), tools=(tool,))
    assert converter.request(request)[0].tools[0] is tool
    assert [converter.message(each) for each in request.messages] == list(request.messages)
    assert converter.message(message) is message
    foreign = Converter(CHAT, "chat:y").message(message)
    assert (foreign.extra, foreign.tool_calls[0].extra) == ({}, {})


def test_hosted_tools_are_sent_unchanged():
    """A tool that the provider runs is sent as declared, also to a receiver with rules for names and schemas."""
    hosted = ToolSpec("web_search", "", {}, hosted={"type": "web_search", "filters": {"größe": 1}})
    look = ToolSpec("3d-view", "View.", {"type": "object", "properties": {"größe": {"type": "integer"}}})
    request = Request((UserMessage("Hi"),), tools=(hosted, look))
    sent = Converter(GOOGLE, "gemini:x").request(request)[0]
    assert sent.tools[0] is hosted
    assert sent.tools[1] != look


def test_participant_names_without_a_name_field():
    """Names are prefixed to the text if the protocol has no name field, and assistants' names are dropped."""
    converter = Converter(CLAUDE)
    assert converter.message(UserMessage("Hi", name="anna")) == UserMessage("anna: Hi")
    assert converter.message(UserMessage(("Hi",), name="anna")) == UserMessage(("anna:", "Hi"))
    assert converter.message(AssistantMessage("Hi", name="bot")) == AssistantMessage("Hi")
    assert Converter(CHAT).message(UserMessage("Hi", name="Bảo An")) == UserMessage("Bảo An: Hi")


A, B = ({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]} for name in "ab")


@pytest.mark.for_each(
    ("schema", "properties", "required", "note"),
    [
        ({"anyOf": [A, B]}, {"a", "b"}, None, "anyOf"),
        ({"allOf": [A, B]}, {"a", "b"}, ["a", "b"], ""),
        ({"oneOf": [A, {"allOf": [A, B]}]}, {"a", "b"}, ["a"], "oneOf"),
        ({**A, "anyOf": [{"required": ["a"]}, {"type": "null"}]}, {"a"}, ["a"], "anyOf"),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, {"a"}, ["a"], ""),
        ({**A, "not": {"required": ["x"]}}, {"a"}, ["a"], "not"),
        ({"enum": [{"a": "x" * 700}]}, set(), None, "…"),
        ({}, set(), None, ""),
    ],
)
def test_roots_become_plain_objects(schema, properties, required, note):
    """A root with alternatives has the properties of all of them; only common required ones stay required."""
    root, output = root_object(schema)
    assert (root["type"], set(root["properties"]), root.get("required")) == ("object", properties, required)
    assert note in output
    assert bool(output) is bool(note)


def test_properties_of_several_alternatives():
    """Enums of one property are merged; other schemas become alternatives; closed objects stay closed."""
    first = {"properties": {"kind": {"const": "a"}, "v": {"type": "string"}}, "additionalProperties": False}
    second = {"properties": {"kind": {"enum": ["b", "a"]}, "v": {"type": "number"}}, "additionalProperties": False}
    root, _ = root_object({"type": "object", "oneOf": [first, second]})
    assert root["properties"] == {
        "kind": {"enum": ["a", "b"]},
        "v": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    }
    assert root["additionalProperties"] is False
    deep = A
    for _ in range(12):
        deep = {"allOf": [deep]}
    assert root_object(deep)[0]["type"] == "object"


@pytest.mark.for_each(
    ("schema", "sent"),
    [
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "(One of 1, 2)"}),
        ({"enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": ["string"]}, {"type": "string"}),
        (
            {"type": ["string", "null"], "description": "d"},
            {"anyOf": [{"type": "string", "description": "d"}, {"type": "null"}]},
        ),
        ({"type": ["string", "null"], "anyOf": [{}]}, {"anyOf": [{}]}),
        ({"oneOf": [{"type": "string"}], "title": "t"}, {"anyOf": [{"type": "string", "title": "t"}]}),
        ({"allOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
        ({"allOf": [{"a": 1}, {"b": 1}]}, {"description": '(Must fit allOf: [{"a": 1}, {"b": 1}])'}),
        (
            {"type": "string", "format": "date", "description": "d"},
            {"type": "string", "description": "d (format: date)"},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "number", "multipleOf": 2}, {"type": "number", "description": "(Must fit multipleOf: 2)"}),
        (True, {}),
        ({"prefixItems": [{"type": "string"}], "items": False}, {"items": {"type": "string"}, "maxItems": 1}),
    ],
)
def test_schemas_for_google(schema, sent):
    """Constraints that Google rejects are rewritten, or stated in the description."""
    assert SchemaRewriter(GOOGLE).rewrite({"properties": {"v": schema}}) == {"properties": {"v": sent}}


def test_recursion_without_references():
    """Where references are rejected, a recursive definition is repeated a few times and ends with any value."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    sent = json.dumps(
        SchemaRewriter(GOOGLE).rewrite({"properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    )
    assert "$ref" not in sent
    assert sent.count('"next"') == 3


LOOKUP = Tool.from_schema(
    "lookup",
    "Look up a word.",
    {"type": "object", "properties": {"từ_khóa": {"type": "string"}, "größe": {"type": "integer"}}},
    lambda **given: " ".join(map(str, given.values())),
)


def test_names_of_properties_are_mapped_back():
    """A tool whose parameter names Anthropic rejects works in a run and in the history."""
    with FakeServer(call("lookup", {SENT: "trà", sendable_property("größe"): 2}), "Done.", rules="anthropic") as server:
        agent = Agent("a", [LOOKUP], llm=LLM("anthropic", base_url=server.base_url, api_key="key-of-anthropic"))
        result = agent.run("Look up trà")
    assert result.tool_calls[0].result.content == "trà 2"
    assert json.loads(result.messages[1].tool_calls[0].arguments) == {"từ_khóa": "trà", "größe": 2}
    assert set(server.requests[1].json["messages"][1]["content"][0]["input"]) == {SENT, sendable_property("größe")}
    sent = server.requests[0].json["tools"][0]["input_schema"]["properties"][SENT]
    assert sent["description"] == "từ_khóa"


def test_names_are_mapped_back_in_streams():
    """Streamed arguments and typed answers have the original names, however the chunks are split."""
    with FakeServer(call("lookup", {SENT: "trà"})) as server:
        llm = LLM("anthropic", base_url=server.base_url, api_key="key-of-anthropic")
        events = list(llm.stream("Hi", tools=[LOOKUP]))
    pieces = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
    assert json.loads(pieces) == {"từ_khóa": "trà"}
    with FakeServer(json.dumps({sendable_property("größe"): 2})) as server:
        llm = LLM("anthropic", base_url=server.base_url, api_key="key-of-anthropic")
        output = OutputSchema("size", {"type": "object", "properties": {"größe": {"type": "integer"}}})
        events = list(llm.stream("Hi", output_schema=output))
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert json.loads("".join(texts)) == json.loads(events[-1].response.text) == {"größe": 2}


def test_long_description_continues_in_the_instruction():
    """The end of a description that is too long for the provider is moved to the instruction."""
    words = [f"word{number}" for number in range(300)]
    tool = Tool.from_schema("look", " ".join(words), {}, lambda: 1)
    with FakeServer("ok", rules="openai") as server:
        LLM(base_url=server.base_url, model="any").complete("Hi", tools=[tool])
    body = server.requests[0].json
    shown = body["tools"][0]["function"]["description"].split(" […]")[0].split()
    rest = body["messages"][0]["content"].split("continues:\n")[1].split()
    assert shown + rest == words


def test_rejected_tool_names_are_mapped():
    """A tool whose name Google rejects is renamed, also when it is forced."""
    tool = Tool.from_schema("3d-view", "View.", {}, lambda: 1)
    with FakeServer(
        lambda request: call(request.json["tools"][0]["functionDeclarations"][0]["name"]), rules="gemini"
    ) as server:
        llm = LLM("gemini", base_url=server.origin, api_key="key-of-gemini")
        response = llm.complete("Hi", tools=[tool], tool_choice="3d-view")
    assert response.tool_calls[0].name == "3d-view"
    sent = server.requests[0].json
    allowed = sent["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"]
    assert allowed == [sent["tools"][0]["functionDeclarations"][0]["name"]]


HISTORY = [
    UserMessage("Hi"),
    AssistantMessage("", (ToolCall("call 1 of the first turn", "look", "{}"),)),
    ToolMessage("call 1 of the first turn", "look", "ok"),
    UserMessage("Go on."),
]
SIZE = {"type": ["integer", "null"], "enum": [1, None], "uniqueItems": True, "format": "x"}
SCHEMA = {
    "type": "object",
    "properties": {
        "größe": SIZE,
        "n": {"anyOf": [{"$ref": "#/$defs/N"}]},
        "o": {"type": "object", "properties": {}, "additionalProperties": False},
    },
    "$defs": {"N": {"type": "string"}},
}
LOOK = [Tool.from_schema("look", "Look. " * 30, {**SCHEMA, "additionalProperties": False}, lambda **given: given)]


@pytest.mark.for_each(
    ("refusal", "rule"),
    [
        ("Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", "9 letters or digits"),
        (
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 6",
            "6 letters",
        ),
        ("Invalid tool_call_id: string too long. Expected maximum length 20", "at most 20"),
        ("tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'", "plain characters"),
        ("properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", "plain names"),
        ('Unknown name "additionalProperties" at tools[0].function_declarations[0].parameters', "without additional"),
        ("enum: only allowed for STRING type", "not strings"),
        ("tools[0].parameters.type: Proto field is not repeating, cannot start list.", "lists of types"),
        ("Unknown name \"$ref\" at 'tools[0].function_declarations[0].parameters'", "references in schemas"),
        ("only 'enum' and 'date-time' are supported for STRING type", "formats"),
        ("tools[0].function.description: string too long, expected a maximum length 64", "at most 64"),
        ("'uniqueItems' is not permitted in the schema of function look", "without uniqueItems"),
    ],
)
def test_rules_are_learned_from_rejections(refusal, rule):
    """A rule named by a rejection is applied and remembered for later requests."""
    with FakeServer(fail(400, refusal), "ok", "ok") as server:
        llm = LLM(base_url=server.base_url, model="any")
        for _ in range(2):
            assert llm.complete(HISTORY, tools=LOOK).text == "ok"
        assert server.requests[0].json != server.requests[1].json == server.requests[2].json
    assert any(rule in name for name in llm.describe().adjustments)


REASONING_REFUSALS = [
    ("The encrypted content for item rs_1 could not be verified.", "invalid_encrypted_content", 400),
    ("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.", None, 404),
    ("Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.", None, 400),
    ("Item 'rs_1' of type 'reasoning' was provided without its required following item.", None, 400),
    ("Reasoning input items can only be provided to a reasoning or computer use model.", None, 400),
    ("The encrypted content's organization_id did not match the target organization.", None, 400),
]


@pytest.mark.parametrize(("words", "code", "status"), REASONING_REFUSALS)
def test_refused_reasoning_is_dropped(words, code, status):
    """Reasoning from another model or account is dropped after a rejection, and is not sent again."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    made = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look", "arguments": "{}"}
    with FakeServer(fail(status, words, code=code), "ok", "ok") as server:
        llm = LLM(base_url=server.base_url, model="gpt-5.4", protocol="responses")
        origin = f"responses:{server.base_url}#gpt-5.4"
        answer = AssistantMessage("", (ToolCall("c", "look", "{}"),), extra={"output": (item, made)}, origin=origin)
        for _ in range(2):
            llm.complete([UserMessage("Hi"), answer, ToolMessage("c", "look", "ok")])
    first, second, third = ([each.get("type") for each in request.json["input"]] for request in server.requests)
    assert "reasoning" in first
    assert second == third == [None, "function_call", "function_call_output"]
    assert "id" not in server.requests[1].json["input"][1]


def test_items_whose_reasoning_is_missing_lose_their_ids():
    """If the reasoning is missing, the ids of the items that refer to it are removed."""
    made = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look", "arguments": "{}"}
    with FakeServer(fail(400, REASONING_REFUSALS[2][0]), "ok") as server:
        llm = LLM(base_url=server.base_url, model="gpt-5.4", protocol="responses")
        origin = f"responses:{server.base_url}#gpt-5.4"
        answer = AssistantMessage("", (ToolCall("c", "look", "{}"),), extra={"output": (made,)}, origin=origin)
        llm.complete([UserMessage("Hi"), answer, ToolMessage("c", "look", "ok")])
    assert [("id" in each) for each in server.requests[1].json["input"]] == [False, False, False]


def test_reasoning_is_sent_only_to_its_model_and_account():
    """Another model, or another account of the same provider, receives the text without the reasoning."""
    with FakeServer(AssistantMessage("So.", reasoning="Hm."), repeat=True) as server:

        def question(model, key):
            llm = LLM(base_url=server.base_url, model=model, api_key=key, protocol="responses")
            llm.complete([UserMessage("Hi"), answer, UserMessage("Go on.")])
            return [each.get("type") for each in server.requests[-1].json["input"]]

        own = LLM(base_url=server.base_url, model="gpt-5.4", api_key="key-one", protocol="responses")
        answer = own.complete("Hi").message
        assert question("gpt-5.4", "key-one")[1] == "reasoning"
        assert "reasoning" not in question("gpt-5.4-mini", "key-one")
        assert "reasoning" not in question("gpt-5.4", "key-two")


def test_only_the_refused_schema_loses_strict_mode():
    """Only the tool schema that strict mode rejects is sent without it; the other tools stay strict."""
    refusal = fail(400, "Invalid schema for function 'one': not permitted", code="invalid_function_parameters")
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    tools = [Tool.from_schema(name, "", schema, lambda a: a) for name in ("one", "two")]
    with FakeServer(refusal, "ok") as server:
        LLM("azure", "gpt", "key-of-azure", server.origin, "v1").complete("Hi", tools=tools)
    assert [tool["strict"] for tool in server.requests[1].json["tools"]] == [False, True]


def test_typed_answer_loses_strict_mode():
    """An output schema that strict mode rejects is sent without it."""
    refusal = fail(400, "Invalid schema for response_format 'dict_of_str_and_int'", code="invalid_json_schema")
    with FakeServer(refusal, '{"a": 1}') as server:
        llm = LLM("azure", "gpt", "key-of-azure", server.origin, "v1")
        output = OutputSchema("dict_of_str_and_int", {"type": "object", "properties": {"a": {"type": "integer"}}}, True)
        llm.complete("Hi", output_schema=output)
    assert "strict" not in server.requests[1].json["text"]["format"]


def test_camel_case_names_of_parameters():
    """A rejection that spells a parameter in camel case is parsed."""
    with FakeServer(fail(400, "Model grok-4 does not support parameter reasoningEffort."), "ok") as server:
        llm = LLM(base_url=server.base_url, model="grok-4", reasoning_effort="low")
        assert llm.chat("Hi") == "ok"
    assert "reasoning_effort" not in server.requests[1].json
    with FakeServer(fail(400, "Unsupported parameter", parameter="presencePenalty"), "ok") as server:
        assert LLM(base_url=server.base_url, model="m").chat("Hi", presence_penalty=1) == "ok"


def test_learned_rules_are_added_to_a_receiver():
    """Sets of rules grow; other rules are replaced."""
    learnt = Receiver().learning({"keywords": frozenset("a")}).learning({"keywords": frozenset("b"), "formats": None})
    assert learnt.keywords == {"a", "b"}


def test_keyword_refused_by_google_is_dropped():
    """A schema keyword that Google's protocol refuses is dropped from later schemas."""
    schema = {"type": "object", "properties": {"n": {"type": "string", "minLength": 2}}}
    tool = Tool.from_schema("look", "Look.", schema, lambda n: n)
    with FakeServer(fail(400, "Unknown name \"minLength\" at 'tools[0]': Cannot find field."), "ok") as server:
        LLM("gemini", base_url=server.origin, api_key="key-of-gemini").complete("Hi", tools=[tool])
    declared = server.requests[1].json["tools"][0]["functionDeclarations"][0]
    assert declared["parametersJsonSchema"]["properties"]["n"] == {
        "type": "string",
        "description": "(Must fit minLength: 2)",
    }


def test_hosted_tools_are_not_converted():
    """A hosted tool has no schema to convert."""
    hosted = ToolSpec("", "", {}, hosted={"type": "web_search"})
    assert Converter(GOOGLE).request(Request([], tools=(hosted,)))[0].tools == (hosted,)


def test_caches_are_bounded():
    """Tools and schemas that are made for each request do not accumulate."""
    converter = Converter(CHAT)
    received = []
    for number in range(2_010):
        tool = ToolSpec(f"t{number}", "", {"type": "object", "properties": {}})
        output = OutputSchema(f"o{number}", {"type": "object", "properties": {}})
        received.append((tool, output))
        converter.request(Request([], tools=(tool,), output_schema=output))
    assert max(len(cache) for cache in (vars(converter)["_tools"], vars(converter)["_outputs"])) <= 2_001


def test_history_of_renamed_tools():
    """Calls and results in the history have the names under which their tools are sent."""
    tool = ToolSpec("3d-view", "", {"type": "object", "properties": {"$a": {}}})
    sent, _ = Converter(Receiver(tool_names=GOOGLE.tool_names, property_names=CLAUDE.property_names)).request(
        Request(
            [
                AssistantMessage("", (ToolCall("1", "3d-view", '{"$a": [{"$a": 1}]}'), ToolCall("2", "b", '{"$a"'))),
                ToolMessage("1", "3d-view", "ok"),
                ToolMessage("2", "b", "ok"),
                AssistantMessage("", (ToolCall("3", "b", "{}"),)),
            ],
            tools=(tool,),
        )
    )
    name, key = sent.tools[0].name, next(iter(sent.tools[0].parameters["properties"]))
    first, second = sent.messages[0].tool_calls
    assert (first.name, json.loads(first.arguments)) == (name, {key: [{key: 1}]})
    assert (second.name, second.arguments) == ("b", '{"$a"')
    assert [each.name for each in sent.messages[1:3]] == [name, "b"]


def test_buffered_text_is_emitted_at_the_end():
    """Text that was buffered because it could be a name is emitted at the end; reasoning is not buffered."""
    started = f'"{sendable_property("größe")}'
    line = AssistantMessage(started, (ToolCall("", "lookup", started),), reasoning="Hm.")
    output = OutputSchema("size", {"type": "object", "properties": {"größe": {}}})
    with FakeServer(line) as server:
        llm = LLM("anthropic", base_url=server.base_url, api_key="key-of-anthropic")
        events = list(llm.stream("Hi", tools=[LOOKUP], output_schema=output))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == started
    assert "".join(event.arguments for event in events if isinstance(event, ToolCallDelta)) == started
    assert events[-1].response.reasoning == "Hm."


def test_boolean_schemas_and_non_object_alternatives():
    """Boolean schemas are accepted, and non-object alternatives at the root are ignored."""
    root, _ = root_object({"anyOf": [True, {"properties": {"a": True}}, {"properties": {"a": {"const": 1}}}]})
    assert root["properties"] == {"a": {"anyOf": [True, {"const": 1}]}}
    rewriter = SchemaRewriter(CLAUDE)
    assert rewriter.rewrite({"properties": {"ß": False, "a": {"not": True}}})["properties"].popitem() == (
        "a",
        {"not": True},
    )
    assert list(rewriter.renamed.values()) == ["ß"]


def test_refused_reasoning_does_not_affect_other_conversations():
    """Refused reasoning is dropped from its own conversation, and other conversations are sent unchanged."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    with FakeServer(fail(400, REASONING_REFUSALS[0][0], code="invalid_encrypted_content"), "ok", "ok") as server:
        llm = LLM(base_url=server.base_url, model="gpt-5.4", protocol="responses")
        origin = f"responses:{server.base_url}#gpt-5.4"
        answer = AssistantMessage(
            "So.", extra={"output": (item, {"type": "message", "id": "m", "content": "So."})}, origin=origin
        )
        llm.complete([UserMessage("Hi"), answer, UserMessage("Go on.")])
        fresh = AssistantMessage("", extra={"output": ({"type": "message", "id": "m", "content": ""},)}, origin=origin)
        llm.complete([UserMessage("Hi"), fresh, UserMessage("Go on.")])
    assert "id" in server.requests[-1].json["input"][1]


def called(*ids):
    """Return a message of the model with calls."""
    return AssistantMessage("", tuple(ToolCall(call_id, f"tool_{number}", "{}") for number, call_id in enumerate(ids)))


@pytest.mark.parametrize(
    ("history", "sent"),
    [
        ([called("a")], [("a", None), ("a", "This call has no result")]),
        ([called("a"), UserMessage("Stop."), ToolMessage("a", "", "1")], [("a", None), ("a", "1"), "Stop."]),
        ([called("a", "b"), ToolMessage("b", "", "2")], [("a b", None), ("a", "This call has no result"), ("b", "2")]),
        ([ToolMessage("z", "look", "0")], ["[The result of a call of look that is not part"]),
        ([called("a"), *[ToolMessage("a", "", "1")] * 1, ToolMessage("a", "", "2")], [("a", None), ("a", "1"), "[The"]),
    ],
)
def test_incomplete_histories_become_valid(history, sent):
    """Missing results are added after their calls, and a result without its call becomes a user message."""
    seen = []
    for message in Converter(CHAT).request(Request(history))[0].messages:
        if isinstance(message, AssistantMessage):
            seen.append((" ".join(call.id for call in message.tool_calls), None))
        elif isinstance(message, ToolMessage):
            seen.append((message.call_id, message.content))
        else:
            seen.append(message.content if isinstance(message.content, str) else message.content[0])
    assert len(seen) == len(sent)
    for given, wanted in zip(seen, sent, strict=True):
        texts = (given[1], wanted[1]) if isinstance(wanted, tuple) else (given, wanted)
        assert texts[0] is texts[1] is None or texts[0].startswith(texts[1])


def test_repeated_ids_within_one_message_become_distinct():
    """Two calls with the same id get distinct ids, and results are assigned in order."""
    history = [called("a", "a"), ToolMessage("a", "", "1"), ToolMessage("a", "", "2")]
    answer, *results = Converter(CHAT).request(Request(history))[0].messages
    assert [call.id for call in answer.tool_calls] == [result.call_id for result in results]
    assert (len({result.call_id for result in results}), [result.content for result in results]) == (2, ["1", "2"])


def test_optional_parameters_are_sent_without_null():
    """Optional parameters lose their null type and null default, and explicit choices are preserved."""
    null = {"type": "null"}
    schema = {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "number"}, null], "default": None, "description": "A."},
            "b": {"type": ["string", "null"], "default": None},
            "c": {"anyOf": [{"type": "string"}, {"type": "integer"}, null], "default": None},
            "d": {"anyOf": [{"type": "number"}, null]},
            "e": {"type": "integer", "default": 3},
            "f": {"type": ["string", "null"], "enum": ["x", None], "default": None},
        },
        "required": ["d"],
        "additionalProperties": False,
    }
    given = ToolSpec("look", "Look.", schema)
    (sent,) = Converter(CHAT).request(Request((UserMessage("Hi"),), tools=(given,)))[0].tools
    assert sent.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "A."},
            "b": {"type": "string"},
            "c": {"anyOf": [{"type": "string"}, {"type": "integer"}, null]},
            "d": {"anyOf": [{"type": "number"}, null]},
            "e": {"type": "integer", "default": 3},
            "f": {"type": ["string", "null"], "enum": ["x", None]},
        },
        "required": ["d"],
    }


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_each_request_begins_like_the_previous_one(protocol):
    """Tools, instruction and earlier messages are sent unchanged, because servers cache the beginning of a request."""
    lines = [call("look", value="x"), call("look", value="y"), "Done.", "Again."]
    with FakeServer(*lines) as server:
        agent = Agent("helper", [look], "Be brief.", llm=LLM(base_url=server.base_url, model="m", protocol=protocol))
        agent("Look twice.")
        agent("And again?")
    bodies = [request.json for request in server.requests]
    name = "messages" if protocol == "chat" else "input"
    for before, after in pairwise(bodies):
        assert json.dumps(after["tools"]) == json.dumps(before["tools"])
        assert json.dumps(after[name]).startswith(json.dumps(before[name])[:-1])
        assert after.get("instructions") == before.get("instructions")


_SCALAR = {"type": "string", "description": "A word."}
_OBJECT = {"type": "object", "properties": {"a": _SCALAR, "b": {"type": "integer", "default": 3}}}
SCALAR_SCHEMAS = (
    _OBJECT,
    {**_OBJECT, "required": ["a"], "additionalProperties": False},
    {**_OBJECT, "required": ["a", "a"]},
    {**_OBJECT, "required": ["a", "z"]},
    {**_OBJECT, "additionalProperties": {"type": "string"}},
    {**_OBJECT, "properties": {"a": {"type": "string", "default": None}, "b": {"type": ["string", "null"]}}},
    {**_OBJECT, "properties": {"a": True, "b": {"type": "array"}, "c": {"enum": ["x", "x"], "type": "string"}}},
    {"type": "object", "properties": {}},
    {"type": "object"},
)


@pytest.mark.for_each("schema", SCALAR_SCHEMAS)
def test_tool_with_scalar_parameters_has_the_rewritten_schema(schema):
    """The schema of a converted tool with scalar parameters is the one that the rewriter gives."""
    receiver = Receiver()
    sent, _ = Converter(receiver).request(Request([], tools=(ToolSpec("demo", "Do.", schema),)))
    assert json.dumps(sent.tools[0].parameters) == json.dumps(SchemaRewriter(receiver).arguments(schema)[0])
