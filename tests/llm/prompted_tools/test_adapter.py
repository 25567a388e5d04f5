"""Tests for requests to servers without tools or schemas, over a real connection."""

import asyncio
import json
import pickle
from contextlib import aclosing

import pytest

from agentkit.agents.agent import Agent
from agentkit.agents.result import RunFinished
from agentkit.errors import ConfigError, Rejected, Unreachable
from agentkit.events import ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.prompted_tools.adapter import PromptedToolsProvider
from agentkit.messages import AssistantMessage, Request, ToolMessage, ToolSpec, UserMessage
from agentkit.testing import FakeServer, ScriptedProvider, call, fail, raw, say
from agentkit.tools.core import core_tools

CALCULATOR = ToolSpec(
    "calculator", "Computes.", {"type": "object", "properties": {"expression": {"type": "string"}}, "required": []}
)
SCHEMA = {"title": "Answer", "type": "object", "properties": {"sum": {"type": "integer"}}}
REFUSAL = fail(400, "registry.ollama.ai/library/gemma3:4b does not support tools")
NO_SCHEMA = fail(400, "This response_format type is unavailable now")
CALL = "Let me see.\n<TOOL: calculator>2+2</TOOL>\n<RESULT: calculator>5</RESULT>\nIt is 5."
AS_TEXT = "tools are described in the instruction and called as text"
IN_INSTRUCTION = "the schema of an answer is written into the instruction"
USED = [UserMessage("2+2?"), AssistantMessage("", (call("calculator", expression="2+2"),)), ToolMessage("", "", "4")]


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


def calls_of(response):
    """Return the calls in a response, in short form."""
    return [(call.id, call.name, json.loads(call.arguments)) for call in response.tool_calls]


def body_of(server):
    """Return the JSON body of the last request."""
    return server.requests[-1].json


def test_server_that_rejects_tools(ask):
    """If a server rejects tools, the request is sent again with tools as text; calls are parsed from its text."""
    with FakeServer(REFUSAL, CALL) as server:
        llm = connect(server)
        response = ask(llm, tools=[CALCULATOR])
        first, second = (request.json for request in server.requests)
    assert "tools" in first
    assert "tools" not in second
    assert "- calculator: Computes." in second["messages"][0]["content"]
    assert second["stop"] == ["<RESULT"]
    assert (response.text, response.finish_reason) == ("Let me see.", "tool_calls")
    assert calls_of(response) == [("call_1", "calculator", {"expression": "2+2"})]
    assert llm.describe().adjustments == (AS_TEXT,)


def test_refusal_of_tools_is_remembered(ask):
    """After a refusal, tools are sent as text, and requests without tools are sent unchanged."""
    with FakeServer(REFUSAL, "Hi", CALL, "Bye") as server:
        llm = connect(server)
        ask(llm, tools=[CALCULATOR])
        assert ask(llm, tools=[CALCULATOR]).tool_calls
        ask(llm, output_schema=SCHEMA)
        assert len(server.requests) == 4
        assert body_of(server)["messages"] == [{"role": "user", "content": "Hi"}]
        assert "response_format" in body_of(server)


class Preparing(ScriptedProvider):
    """A provider that counts the calls of `prepare`."""

    prepared = 0

    def prepare(self):
        """Count the call."""
        self.prepared += 1


def test_prepare_calls_the_wrapped_provider():
    """`prepare` prepares the wrapped provider if it supports it, and sends no request."""
    provider, other = Preparing("Hi"), ScriptedProvider("Hi")
    for each in (provider, other):
        PromptedToolsProvider(each).prepare()
    assert (provider.prepared, other.requests) == (1, [])


def test_history_with_calls_is_sent_as_text(ask):
    """Earlier calls and results are sent as text, even if the request offers no tools."""
    with FakeServer(REFUSAL, "4", "It is 4.") as server:
        llm = connect(server)
        ask(llm, tools=[CALCULATOR])
        assert ask(llm, USED).text == "It is 4."
        output, *result = body_of(server)["messages"]
    assert output["content"].startswith("Tools cannot be used now")
    assert [(message["role"], message["content"]) for message in result] == [
        ("user", "2+2?"),
        ("assistant", '<TOOL: calculator>{"expression": "2+2"}</TOOL>'),
        ("user", "<RESULT: calculator>\n4\n</RESULT>"),
    ]


@pytest.mark.for_each("status", [500, 501])
def test_rejection_with_a_server_error_status(ask, status):
    """llama.cpp rejects tools with a status of a failing server."""
    with FakeServer(fail(status, "tools param requires --jinja flag"), CALL) as server:
        assert ask(connect(server), tools=[CALCULATOR]).tool_calls


def test_rejection_inside_a_stream(ask_streamed):
    """A rejection may be the first event of a stream with status 200."""
    refusal = raw({"error": {"message": "m does not support tools", "code": 400}})
    with FakeServer(refusal, CALL) as server:
        assert ask_streamed(connect(server), tools=[CALCULATOR]).tool_calls


def test_text_tool_calling_never_sends_tools(ask):
    """With `tool_calling="text"` tools are never sent."""
    with FakeServer(CALL) as server:
        llm = connect(server, tool_calling="text")
        assert llm.describe().adjustments == (AS_TEXT,)
        assert calls_of(ask(llm, tools=[CALCULATOR])) == [("call_1", "calculator", {"expression": "2+2"})]
        assert "tools" not in body_of(server)


def test_native_tool_calling_raises_the_rejection(ask):
    """With `tool_calling="native"`, a rejection of tools is an error."""
    with FakeServer(REFUSAL) as server, pytest.raises(Rejected, match="does not support tools"):
        ask(connect(server, tool_calling="native"), tools=[CALCULATOR])


def test_unrelated_error_is_raised_unchanged(ask):
    """An unrelated error is raised unchanged."""
    with FakeServer(fail(500, "Out of memory")) as server, pytest.raises(Unreachable):
        ask(connect(server), tools=[CALCULATOR])


def test_second_refusal_of_tools_is_raised(ask):
    """A second refusal of tools, after they were sent as text, is raised."""
    with FakeServer(REFUSAL, REFUSAL) as server, pytest.raises(Rejected):
        ask(connect(server), tools=[CALCULATOR])


def test_server_that_refuses_schema_and_tools(ask):
    """Schema and tools are both moved to the instruction if the server refuses both."""
    with FakeServer(NO_SCHEMA, REFUSAL, CALL) as server:
        llm = connect(server)
        assert ask(llm, tools=[CALCULATOR], output_schema=SCHEMA).tool_calls
        instruction = body_of(server)["messages"][0]["content"]
    assert "final answer" in instruction
    assert "- calculator" in instruction
    assert llm.describe().adjustments == (IN_INSTRUCTION, AS_TEXT)


def test_text_tools_move_the_schema_to_the_instruction(ask):
    """With tools called as text, the schema is sent in the instruction and is not enforced."""
    with FakeServer(CALL) as server:
        ask(connect(server, tool_calling="text"), tools=[CALCULATOR], output_schema=SCHEMA)
        assert "response_format" not in body_of(server)


def test_refused_stop_sequence_is_dropped(ask):
    """A server that refuses stop sequences is sent the request without them."""
    with FakeServer(fail(400, "Unsupported parameter: 'stop'", parameter="stop"), CALL) as server:
        llm = connect(server, tool_calling="text")
        assert len(ask(llm, tools=[CALCULATOR]).tool_calls) == 1
        assert "stop" not in body_of(server)
    assert llm.describe().adjustments == ("stop is left out", AS_TEXT)


def test_text_tools_over_the_responses_protocol(ask):
    """Tools as text work over the Responses protocol, and text after a call is not sent back."""
    with FakeServer(CALL, "It is 4.") as server:
        llm = connect(server, tool_calling="text", protocol="responses")
        response = ask(llm, tools=[CALCULATOR])
        result = ToolMessage(response.tool_calls[0].id, "calculator", "4")
        ask(llm, [UserMessage("2+2?"), response.message, result], tools=[CALCULATOR])
        assert "It is 5." not in json.dumps(body_of(server))


def test_truncated_call_is_marked(ask):
    """A call truncated by the token limit is marked as cut off, and finish_reason is `length`."""
    with FakeServer(say("<TOOL: calculator>2+", finish_reason="length")) as server:
        response = ask(connect(server, tool_calling="text"), tools=[CALCULATOR])
    assert response.finish_reason == "length"
    assert response.tool_calls[0].arguments == "2+ (cut off)"


def test_thinking_tags_are_returned_as_reasoning(ask):
    """Thinking tags in the text are returned as reasoning, and calls inside them are ignored."""
    with FakeServer("<think>Shall I <TOOL: calculator>1</TOOL>?</think>No.") as server:
        response = ask(connect(server, tool_calling="text"), tools=[CALCULATOR])
    assert (response.text, response.tool_calls) == ("No.", ())
    assert response.message.reasoning == "Shall I <TOOL: calculator>1</TOOL>?"


def test_stream_separates_text_and_calls():
    """A stream separates text, reasoning and tool calls."""
    with FakeServer(say(CALL, call("calculator", expression="1"), reasoning="Hm.")) as server:
        events = list(connect(server, tool_calling="text").stream("2+2?", tools=[CALCULATOR]))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me see."
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Hm."
    calls = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            calls[event.index] = calls.get(event.index, "") + event.arguments
    assert sorted(map(json.loads, calls.values()), key=str) == [{"expression": "1"}, {"expression": "2+2"}]
    assert isinstance(events[-1], ResponseReceived)
    assert [entry.name for entry in events[-1].response.tool_calls] == ["calculator", "calculator"]


def test_one_call_at_a_time(ask):
    """`parallel_tool_calls=False` is respected without being sent."""
    twice = "<TOOL: calculator>1</TOOL><TOOL: calculator>2</TOOL>"
    with FakeServer(twice) as server:
        llm = connect(server, tool_calling="text")
        assert len(ask(llm, tools=[CALCULATOR], parallel_tool_calls=False).tool_calls) == 1
        assert "parallel_tool_calls" not in body_of(server)


def test_closed_stream_closes_the_wrapped_stream():
    """Closing a stream closes the wrapped stream, both sync and async."""
    closed = []
    request = Request([UserMessage("Hi")], tools=(CALCULATOR,))

    class Endless:
        """A provider whose stream never ends."""

        def stream(self, request):
            try:
                while True:
                    yield TextDelta(f"asked {len(request.messages)} ")
            finally:
                closed.append("stream")

        async def astream(self, request):
            try:
                while True:
                    yield TextDelta(f"asked {len(request.messages)} ")
            finally:
                closed.append("astream")

    async def leave():
        async with aclosing(PromptedToolsProvider(Endless(), "text").astream(request)) as events:
            await anext(events)

    events = PromptedToolsProvider(Endless(), "text").stream(request)
    next(events)
    events.close()
    asyncio.run(leave())
    assert closed == ["stream", "astream"]


def test_any_provider_can_be_wrapped():
    """A provider without `close` and `adjust` can be wrapped."""
    retelling = PromptedToolsProvider(ScriptedProvider(CALL), "text")
    assert retelling.complete(Request([UserMessage("Hi")], tools=(CALCULATOR,))).tool_calls
    retelling.close()
    asyncio.run(retelling.aclose())
    assert retelling.adjustments == (AS_TEXT,)


@pytest.mark.parametrize("streaming", [False, True])
def test_agent_at_a_server_without_tools(streaming):
    """An agent uses its tools at a server that rejects tools, and its history is the usual one."""
    messages = ["<TOOL: string_length>three words here</TOOL>", "Three.", "<TOOL: strlen>x</TOOL>", "Sorry."]
    with FakeServer(REFUSAL, *messages) as server:
        agent = Agent("clerk", core_tools, llm=connect(server))
        texts = []
        for prompt in ("How many words?", "And now?"):
            events = list(agent.stream(prompt)) if streaming else [RunFinished(agent.run(prompt))]
            texts.append(events[-1].result.output)
    roles = [message["role"] for message in agent.history]
    assert texts == ["Three.", "Sorry."]
    assert roles == ["user", "assistant", "tool", "assistant"] * 2
    assert json.loads(agent.history[1]["tool_calls"][0]["function"]["arguments"]) == {"text": "three words here"}
    assert json.loads(agent.history[2]["content"])["words"] == 3
    assert "No tool is named 'strlen'" in agent.history[6]["content"]


def refused(written, **fields):
    """Return Groq's error body for a tool call that failed validation."""
    error = {"message": "Tool call validation failed.", "code": "tool_use_failed", "failed_generation": written}
    return {"error": {**error, **fields}}


def rejected_call(written):
    """Return the response of a server that rejects its model's tool call."""
    return raw(json.dumps(refused(written)), status=400, content_type="application/json")


WRONG = '{"name": "calculator", "arguments": {"formula": "2+2"}}'


def test_call_rejected_by_its_server_is_returned(ask):
    """A malformed call that the server rejects is returned as a tool call of the model."""
    with FakeServer(rejected_call(WRONG)) as server:
        response = ask(connect(server), tools=[CALCULATOR])
        assert len(server.requests) == 1
    assert calls_of(response) == [("call_1", "calculator", {"formula": "2+2"})]
    assert (response.finish_reason, response.usage.requests, response.usage.unreported) == ("tool_calls", 1, 1)


@pytest.mark.for_each(
    ("written", "tools"), [(WRONG, ()), ("It is 4.", (CALCULATOR,)), ('{"sum": 4}', (CALCULATOR,)), ("", (CALCULATOR,))]
)
def test_rejection_without_a_readable_call_is_raised(ask, written, tools):
    """A rejection without a readable call, or without tools in the request, is raised."""
    lines = [rejected_call(written)] * (2 if tools else 1)
    with FakeServer(*lines) as server, pytest.raises(Rejected, match="validation failed"):
        ask(connect(server), tools=tools)


def test_unparsable_call_is_retried_once(ask):
    """A call that the server could not parse can be right the next time."""
    with FakeServer(rejected_call("It is 4."), call("calculator", expression="2+2")) as server:
        assert [each.name for each in ask(connect(server), tools=[CALCULATOR]).tool_calls] == ["calculator"]


def chunk(**delta):
    """Return a chunk of a streamed answer."""
    return {"choices": [{"index": 0, "delta": delta}]}


def test_call_rejected_in_the_middle_of_a_stream():
    """Text streamed before a rejected call is the answer, and the last delta contains the call."""
    pieces = chunk(reasoning="Hm"), chunk(content="Let me"), chunk(content=" see."), refused(WRONG, status_code=400)
    with FakeServer(raw(*pieces)) as server:
        *output, last = connect(server).stream("2+2?", tools=[CALCULATOR])
    assert output == [
        ReasoningDelta("Hm"),
        TextDelta("Let me"),
        TextDelta(" see."),
        ToolCallDelta(0, "calculator", '{"formula": "2+2"}'),
    ]
    assert (last.response.text, last.response.message.reasoning) == ("Let me see.", "Hm")
    assert calls_of(last.response) == [("call_1", "calculator", {"formula": "2+2"})]


def test_rejection_after_a_partial_call_is_raised(ask_streamed):
    """A rejection after part of a call was streamed is raised."""
    started = chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "calculator", "arguments": "{"}}])
    with FakeServer(raw(started, refused(WRONG))) as server, pytest.raises(Rejected, match="validation failed"):
        ask_streamed(connect(server), tools=[CALCULATOR])


WANTED = {"message": "Tool choice is required, but model did not call a tool"}


@pytest.mark.for_each(("written", "calls"), [("It is 4.", 0), ('{"sum": 4}', 0), (WRONG, 1)])
def test_rejected_text_is_the_answer(ask, written, calls):
    """Text that a server rejects because a call was required is the answer, once; a call in it is a call."""
    body = json.dumps(refused(written, **WANTED))
    with FakeServer(raw(body, status=400, content_type="application/json")) as server:
        response = ask(connect(server), tools=[CALCULATOR], tool_choice="required")
        assert len(server.requests) == 1
    assert (response.text, len(response.tool_calls)) == ("" if calls else written, calls)
    assert (response.finish_reason, response.usage.unreported) == ("tool_calls" if calls else "stop", 1)


@pytest.mark.parametrize("message", [[], ["It ", "is 4."]])
def test_text_rejected_for_a_call_is_streamed_once(message):
    """Text rejected because a call was required is streamed exactly once."""
    pieces = [chunk(reasoning="Hm"), *(chunk(content=text) for text in message), refused("It is 4.", **WANTED)]
    with FakeServer(raw(*pieces)) as server:
        *events, last = connect(server).stream("2+2?", tools=[CALCULATOR], tool_choice="required")
    assert events == [ReasoningDelta("Hm"), *map(TextDelta, message or ["It is 4."])]
    assert (last.response.text, last.response.message.reasoning) == ("It is 4.", "Hm")


def test_answer_rejected_as_a_call_is_requested_as_text(ask):
    """If the rejected call is the typed answer, the schema is moved to the instruction."""
    both = fail(400, "json mode cannot be combined with tool/function calling")
    with FakeServer(both, rejected_call('{"name": "final_answer", "arguments": {"sum": "4"}}'), '{"sum": 4}') as server:
        response = ask(connect(server), tools=[CALCULATOR], output_schema=SCHEMA)
        assert len(server.requests) == 3
    assert json.loads(response.text) == {"sum": 4}


def test_agent_continues_after_a_rejected_call():
    """An agent continues after the server rejects a call, and the model receives the error."""
    wrong, right = '{"name": "calculator", "arguments": {}}', call("calculator", expression="2+2")
    with FakeServer(rejected_call(wrong), right, "It is 4.") as server:
        result = Agent("clerk", core_tools, llm=connect(server)).run("2+2?")
    assert result.output == "It is 4."
    assert [message["role"] for message in body_of(server)["messages"][1:]] == [
        *("user", "assistant", "tool", "assistant", "tool")
    ]


def test_closed_llm_stays_usable():
    """`close` and `aclose` close the wrapped provider, and the LLM stays usable."""

    async def ask_and_close(llm):
        output = await llm.achat("Hi")
        await llm.aclose()
        return output

    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server)
        output = llm.chat("Hi")
        llm.close()
        assert (output, asyncio.run(ask_and_close(llm)), llm.chat("Hi")) == ("Hi", "Hi", "Hi")


def test_tool_calling_is_part_of_the_llm():
    """`tool_calling` is validated, preserved by pickling, and compared by `equals`."""
    with pytest.raises(ConfigError, match="'auto', 'native' or 'text'"):
        LLM(base_url="http://127.0.0.1:1/v1", model="m", tool_calling="json")
    llm = LLM(base_url="http://127.0.0.1:1/v1", model="m", tool_calling="text")
    assert pickle.loads(pickle.dumps(llm)).describe().adjustments == (AS_TEXT,)
    assert not llm.equals(LLM(base_url="http://127.0.0.1:1/v1", model="m"))
    assert LLM("offline", tool_calling="text").describe().adjustments == ()
