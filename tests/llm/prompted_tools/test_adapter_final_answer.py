"""Tests for typed answers at servers that enforce only the schemas of tools, over a real connection."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from agentkit.agents.agent import Agent
from agentkit.errors import Rejected
from agentkit.events import PartialOutput, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.messages import AssistantMessage, OutputSchema, ToolMessage, ToolSpec, UserMessage
from agentkit.testing import FakeServer, call, fail, raw, say
from agentkit.tools.core import calculator_tool

CALCULATOR = ToolSpec(
    "calculator", "Computes.", {"type": "object", "properties": {"expression": {"type": "string"}}, "required": []}
)
SCHEMA = {"title": "Answer", "type": "object", "properties": {"sum": {"type": "integer"}}}
NO_SCHEMA = fail(400, "This response_format type is unavailable now")
NO_TOOLS = fail(400, "registry.ollama.ai/library/gemma3:4b does not support tools")
NOT_BOTH = fail(400, "json mode cannot be combined with tool/function calling")
ANSWER = call("final_answer", sum=4)
ADDITION = call("calculator", expression="2+2")
BY_TOOL = "a typed answer is given by calling a tool"
BESIDE_TOOLS = "with tools, a typed answer is given by calling an additional tool"
IN_INSTRUCTION = "the schema of an answer is written into the instruction"
AS_TEXT = "tools are described in the instruction and called as text"


@dataclass
class Sum:
    """The sum of numbers."""

    sum: int
    words: str


GOOD = '{"sum": 4, "words": "it is four"}'


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


def body_of(server):
    """Return the JSON body of the last request."""
    return server.requests[-1].json


def names_of(body):
    """Return the names of the tools in a request."""
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def instruction_of(body):
    """Return the instruction in a request."""
    return body["messages"][0]["content"]


def shape(response):
    """Return a response in short form."""
    return response.text, response.finish_reason, [entry.name for entry in response.tool_calls]


def run(agent, prompt):
    """Return the result of a sync run."""
    return agent.run(prompt)


def arun(agent, prompt):
    """Return the result of an async run."""
    return asyncio.run(agent.arun(prompt))


def stream(agent, prompt):
    """Return the result of a sync stream."""
    *_, last = agent.stream(prompt)
    return last.result


def astream(agent, prompt):
    """Return the result of an async stream."""

    async def last():
        return [event async for event in agent.astream(prompt)][-1].result

    return asyncio.run(last())


@pytest.fixture(params=[run, arun, stream, astream], ids=lambda mode: mode.__name__)
def run_agent(request):
    """Each way to run an agent."""
    return request.param


def test_answer_is_given_by_a_tool(ask):
    """After a server has rejected the schema, the answer is given by a tool and returned as text, not as a call."""
    with FakeServer(NO_SCHEMA, ANSWER, ANSWER) as server:
        llm = connect(server)
        assert shape(ask(llm, output_schema=SCHEMA)) == ('{"sum": 4}', "stop", [])
        assert ask(llm, output_schema=SCHEMA).message.tool_calls == ()
        body = body_of(server)
    assert len(server.requests) == 3
    assert "response_format" not in body
    assert names_of(body) == ["final_answer"]
    assert body["tools"][0]["function"]["parameters"] == SCHEMA
    assert "Give your answer by calling the tool final_answer" in instruction_of(body)
    assert llm.describe().adjustments == (BY_TOOL,)


@pytest.mark.for_each("is_strict", [True, False])
def test_strict_schema_becomes_a_strict_tool(ask, is_strict):
    """A strict schema becomes a strict tool if the server supports it, also over Responses."""
    output = OutputSchema("sum", SCHEMA, strict=is_strict)
    with FakeServer(fail(400, "Unsupported parameter: 'text.format'"), ANSWER, "Bye") as server:
        llm = LLM("azure", "m", "k", server.origin, "v1", max_retries=0)
        response = ask(llm, output_schema=output)
        assert shape(response) == ('{"sum": 4}', "stop", [])
        assert body_of(server)["tools"][0]["strict"] is is_strict
        assert response.message.extra == {}
        ask(llm, [UserMessage("2+2?"), response.message, UserMessage("Thanks.")])
        messages = [item for item in body_of(server)["input"] if item["role"] == "assistant"]
    assert messages == [{"role": "assistant", "content": '{"sum": 4}'}]


def test_answer_in_plain_text(ask):
    """A model that answers with text instead of the tool is accepted."""
    with FakeServer(NO_SCHEMA, '{"sum": 4}') as server:
        assert shape(ask(connect(server), output_schema=SCHEMA)) == ('{"sum": 4}', "stop", [])


def test_text_around_an_answer(ask):
    """The response text is the answer of the call, or the surrounding text if the call is empty."""
    lines = [say("Here it is:", ANSWER), say('{"sum": 4}', call("final_answer", ""))]
    with FakeServer(NO_SCHEMA, *lines) as server:
        llm = connect(server)
        assert [ask(llm, output_schema=SCHEMA).text for _ in lines] == ['{"sum": 4}'] * 2


def test_several_answers(ask):
    """Only the first of several answers is used."""
    with FakeServer(NO_SCHEMA, [ANSWER, call("final_answer", sum=5)]) as server:
        assert shape(ask(connect(server), output_schema=SCHEMA)) == ('{"sum": 4}', "stop", [])


def test_truncated_answer_is_returned(ask):
    """An answer truncated by the token limit is returned as far as it goes, with finish_reason `length`."""
    line = say("", call("final_answer", '{"sum": '), finish_reason="length")
    with FakeServer(NO_SCHEMA, line) as server:
        assert shape(ask(connect(server), output_schema=SCHEMA)) == ('{"sum": ', "length", [])


def test_final_answer_with_tools(ask):
    """The model may call tools first, and gives the final answer when it needs no more of them."""
    used = [UserMessage("2+2?"), AssistantMessage("", (ADDITION,)), ToolMessage("", "calculator", "4")]
    with FakeServer(NO_SCHEMA, ADDITION, ANSWER) as server:
        llm = connect(server)
        assert shape(ask(llm, tools=[CALCULATOR], output_schema=SCHEMA)) == ("", "tool_calls", ["calculator"])
        assert shape(ask(llm, used, tools=[CALCULATOR], output_schema=SCHEMA)) == ('{"sum": 4}', "stop", [])
        assert names_of(body_of(server)) == ["calculator", "final_answer"]
        assert "final answer, once you need no other tool, by calling" in instruction_of(body_of(server))


def test_answer_together_with_calls_is_dropped(ask):
    """A final answer given together with tool calls is dropped, and the calls are returned."""
    with FakeServer(NO_SCHEMA, say("Let me see.", ANSWER, ADDITION)) as server:
        response = ask(connect(server), tools=[CALCULATOR], output_schema=SCHEMA)
    assert shape(response) == ("Let me see.", "tool_calls", ["calculator"])


def test_answer_together_with_calls_that_were_not_offered(ask):
    """A final answer given together with calls is used if the request offers no tools."""
    with FakeServer(NO_SCHEMA, [ADDITION, ANSWER]) as server:
        assert shape(ask(connect(server), output_schema=SCHEMA)) == ('{"sum": 4}', "stop", [])


def test_user_tool_named_final_answer(ask):
    """A user's tool named final_answer keeps its name, and the answer tool gets another one."""
    own = [ToolSpec(name, "Mine.", CALCULATOR.parameters) for name in ("final_answer", "final_answer_2")]
    with FakeServer(NO_SCHEMA, call("final_answer", expression="1"), call("final_answer_3", sum=4)) as server:
        llm = connect(server)
        assert shape(ask(llm, tools=own, output_schema=SCHEMA)) == ("", "tool_calls", ["final_answer"])
        assert shape(ask(llm, tools=own, output_schema=SCHEMA)) == ('{"sum": 4}', "stop", [])
        assert names_of(body_of(server)) == ["final_answer", "final_answer_2", "final_answer_3"]


def test_server_that_rejects_tools_with_a_schema(ask):
    """If a server rejects tools with a schema, the answer tool is used only in requests with tools."""
    with FakeServer(NOT_BOTH, ANSWER, '{"sum": 5}') as server:
        llm = connect(server)
        assert ask(llm, tools=[CALCULATOR], output_schema=SCHEMA).text == '{"sum": 4}'
        assert names_of(body_of(server)) == ["calculator", "final_answer"]
        assert ask(llm, output_schema=SCHEMA).text == '{"sum": 5}'
        assert "response_format" in body_of(server)
        assert "tools" not in body_of(server)
    assert llm.describe().adjustments == (BESIDE_TOOLS,)


@pytest.mark.for_each(
    ("options", "adjustments"),
    [({}, (IN_INSTRUCTION, AS_TEXT)), ({"tool_calling": "native"}, (IN_INSTRUCTION,))],
    ids=["auto", "native"],
)
def test_server_that_rejects_schema_and_tools(ask, options, adjustments):
    """A server that rejects both schema and tools receives the schema in the instruction from then on."""
    with FakeServer(NO_SCHEMA, NO_TOOLS, '{"sum": 4}', '{"sum": 5}') as server:
        llm = connect(server, **options)
        assert ask(llm, output_schema=SCHEMA).text == '{"sum": 4}'
        assert ask(llm, output_schema=SCHEMA).text == '{"sum": 5}'
        assert "tools" not in body_of(server)
        assert json.dumps(SCHEMA) in instruction_of(body_of(server))
    assert llm.describe().adjustments == adjustments


def test_native_tool_calling_raises_for_the_answer_tool(ask):
    """With `tool_calling="native"`, a rejection of tools is an error, even if the answer tool is among them."""
    with FakeServer(NO_SCHEMA, NO_TOOLS) as server, pytest.raises(Rejected, match="does not support tools"):
        ask(connect(server, tool_calling="native"), tools=[CALCULATOR], output_schema=SCHEMA)


@pytest.mark.for_each(
    "refusal",
    ["Invalid schema for function 'final_answer': no", "tools.1.function.parameters: no"],
    ids=["by its name", "by its number"],
)
def test_server_that_rejects_the_answer_tool(ask, refusal):
    """If a server rejects the schema of the answer tool, it is moved to the instruction; other tools stay tools."""
    with FakeServer(NO_SCHEMA, fail(400, refusal), ADDITION) as server:
        llm = connect(server)
        assert ask(llm, tools=[CALCULATOR], output_schema=SCHEMA).tool_calls
        assert names_of(body_of(server)) == ["calculator"]
        assert json.dumps(SCHEMA) in instruction_of(body_of(server))
    assert llm.describe().adjustments == (IN_INSTRUCTION,)


def test_server_that_rejects_the_call_of_the_answer_tool(ask):
    """If a server validates the call and responds with 400, the answer is requested as text."""
    with FakeServer(NO_SCHEMA, fail(400, "Failed to call a function. Please adjust your prompt."), "4") as server:
        assert ask(connect(server), output_schema=SCHEMA).text == "4"


def test_unrelated_errors_are_raised(ask):
    """A failure that has nothing to do with the tool is raised."""
    with FakeServer(NO_SCHEMA, fail(400, "tools.0.function.name: no")) as server, pytest.raises(Rejected):
        ask(connect(server), tools=[CALCULATOR], output_schema=SCHEMA)


@pytest.mark.for_each(
    ("schema", "settings"),
    [({"type": "array", "items": {"type": "integer"}}, {}), (SCHEMA, {"tool_choice": "none"})],
    ids=["not an object", "calls forbidden"],
)
def test_schema_that_no_call_can_return(ask, schema, settings):
    """A schema that is not an object, or `tool_choice="none"`, moves the schema to the instruction."""
    with FakeServer(NO_SCHEMA, "[4]") as server:
        assert ask(connect(server), output_schema=schema, **settings).text == "[4]"
        assert "tools" not in body_of(server)
        assert json.dumps(schema) in instruction_of(body_of(server))


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_answer_is_streamed_as_text(protocol):
    """Deltas of the answer are emitted as text immediately; deltas of other calls are unchanged."""
    words = call("final_answer", sum=4, words="it is four")
    refusal = NO_SCHEMA if protocol == "chat" else fail(400, "Unsupported parameter: 'text.format'")
    with FakeServer(refusal, [ADDITION, words, ADDITION, ANSWER]) as server:
        llm = connect(server, protocol=protocol)
        *events, last = llm.stream("2+2?", tools=[CALCULATOR], output_schema=SCHEMA)
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == {"sum": 4, "words": "it is four"}
    calls = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            assert event.name in {"calculator", ""}
            calls[event.index] = calls.get(event.index, "") + event.arguments
    assert {index: json.loads(arguments) for index, arguments in calls.items()} == {
        0: {"expression": "2+2"},
        1: {"expression": "2+2"},
    }
    assert isinstance(last, ResponseReceived)
    assert shape(last.response) == ("", "tool_calls", ["calculator", "calculator"])


def test_interleaved_deltas_of_calls():
    """Deltas of concurrent calls are assigned to their calls."""

    def piece(index, arguments, name=None):
        function = {"arguments": arguments} | ({"name": name} if name else {})
        call_id = {"id": f"call_{index}", "type": "function"} if name else {}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, **call_id, "function": function}]}}]}

    chunks = [
        piece(0, "", "final_answer"),
        piece(1, "", "calculator"),
        piece(0, '{"sum"'),
        piece(1, '{"expression": "1"}'),
        piece(0, ": 4}"),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        "data: [DONE]\n\n",
    ]
    with FakeServer(NO_SCHEMA, raw(*chunks)) as server:
        *events, last = connect(server).stream("2+2?", tools=[CALCULATOR], output_schema=SCHEMA)
    assert events == [
        ToolCallDelta(0, "calculator", ""),
        TextDelta('{"sum"'),
        ToolCallDelta(0, "", '{"expression": "1"}'),
        TextDelta(": 4}"),
    ]
    assert shape(last.response) == ("", "tool_calls", ["calculator"])


@pytest.mark.parametrize("is_awaited", [False, True])
def test_extracting_by_a_tool(is_awaited):
    """`extract` works the same way; a wrong answer goes back as text, with its error and without a call."""
    with FakeServer(NO_SCHEMA, call("final_answer", sum="many"), call("final_answer", GOOD)) as server:
        llm = connect(server)
        value = asyncio.run(llm.aextract("2+2", Sum)) if is_awaited else llm.extract("2+2", Sum)
        _, *output = body_of(server)["messages"]
    assert value == Sum(4, "it is four")
    assert [message["role"] for message in output] == ["user", "assistant", "user"]
    assert output[1] == {"role": "assistant", "content": '{"sum": "many"}'}
    assert "'sum' should be a valid integer" in output[2]["content"]


@pytest.mark.parametrize("refusal", [NO_SCHEMA, NOT_BOTH], ids=["no schema", "not both"])
def test_agent_with_tools_and_a_typed_answer(run_agent, refusal):
    """An agent uses its tools and answers through a tool that does not appear in its history."""
    hasty = [ADDITION, call("final_answer", sum=5, words="a guess")]
    with FakeServer(refusal, hasty, call("final_answer", GOOD), call("final_answer", GOOD)) as server:
        agent = Agent("clerk", [calculator_tool], llm=connect(server), output_type=Sum)
        assert [run_agent(agent, prompt).output for prompt in ("2+2?", "Again?")] == [Sum(4, "it is four")] * 2
        sent = body_of(server)["messages"]
    roles = [message["role"] for message in agent.history]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [entry["function"]["name"] for entry in agent.history[1]["tool_calls"]] == ["calculator"]
    assert agent.history[3] == {"role": "assistant", "content": GOOD}
    assert "final_answer" not in json.dumps(sent[1:])
    assert "a guess" not in json.dumps(sent)


def test_agent_reports_an_invalid_answer(run_agent):
    """The model receives an error for an answer of the wrong type, given as text or as a call."""
    with FakeServer(NO_SCHEMA, "It is four.", call("final_answer", sum=4), call("final_answer", GOOD)) as server:
        agent = Agent("clerk", llm=connect(server), output_type=Sum)
        assert run_agent(agent, "2+2?").output == Sum(4, "it is four")
        assert "'words' is missing" in body_of(server)["messages"][-1]["content"]


def test_partial_output_while_a_tool_is_called():
    """Partial output is emitted while the call is streamed."""
    with FakeServer(NO_SCHEMA, call("final_answer", GOOD)) as server:
        events = list(Agent("clerk", llm=connect(server), output_type=Sum).stream("2+2?"))
    grown = [event.value for event in events if isinstance(event, PartialOutput)]
    assert {"sum": 4} in grown
    assert {"sum": 4, "words": "it is "} in grown
    assert events[-1].result.output == Sum(4, "it is four")
