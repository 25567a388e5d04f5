"""Tests for the spans of a run: their tree, attributes, and events."""

import json

import pytest

from agentkit import Agent, Approval, Image, Session, Toolset, core_tools, tool, web_tools
from agentkit._version import __version__
from agentkit.agents.result import RunFinished
from agentkit.agents.runner import emit_afterwards
from agentkit.decisions import Decision
from agentkit.errors import Unauthorized
from agentkit.events import (
    ResponseReceived,
    RunLeft,
    RunResumed,
    RunStarted,
    Summarised,
    TextDelta,
    ToolCallFinished,
)
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult
from agentkit.testing import ScriptedLLM, call, say
from agentkit.tracing import otel
from agentkit.tracing import semantic_conventions as names
from agentkit.tracing.listeners import OUTSIDE_RUNS, ModelRequest, Origin, dispatch
from agentkit.usage import Tariff, Usage

MODES = ["run", "stream", "arun", "astream"]
SECRET = "the tulip opens at noon"
KNOWN = "http://me:tulip99@127.0.0.1:1/"


@pytest.mark.parametrize("mode", MODES)
def test_run_as_a_tree(mode, sdk, make_agent, drive):
    """A run span contains a span for each iteration, and these contain requests and tool calls."""
    drive(make_agent(listeners=[sdk.listener()]), mode)
    assert sorted(sdk.tree()[:5]) == sorted(
        [
            "invoke_agent helper",
            "  iteration 1",
            "    chat scripted",
            "    execute_tool calculator",
            "    execute_tool fail",
        ]
    )
    assert sdk.tree()[5:] == [
        "  iteration 2",
        "    chat scripted",
        "    execute_tool refused",
        "  iteration 3",
        "    chat scripted",
    ]
    assert len({span.context.trace_id for span in sdk.spans}) == 1
    assert {span.kind.name for span in sdk.spans if span.name == "chat scripted"} == {"CLIENT"}


def test_call_has_its_decision(sdk, make_agent):
    """A tool call span has the verdict and the rule; a denied call has an error status."""
    make_agent(listeners=[sdk.listener()]).run("go")
    allowed, denied = sdk.span("execute_tool calculator"), sdk.span("execute_tool refused")
    assert (allowed.attributes["agentkit.decision.verdict"], allowed.status.status_code.name) == ("allow", "UNSET")
    assert dict(denied.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "refused",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_2_1",
        "gen_ai.agent.name": "helper",
        "agentkit.iteration": 2,
        "agentkit.decision.verdict": "deny",
        "agentkit.decision.rule": "no-refused",
        "agentkit.tool.status": "denied",
        "error.type": "denied",
    }
    assert (denied.status.status_code.name, denied.status.description) == ("ERROR", "denied")


def test_run_has_its_usage(sdk, make_agent):
    """A run span has its status and usage; request spans have the tokens of each request."""
    make_agent(listeners=[sdk.listener()]).run("go")
    attributes = sdk.span("invoke_agent helper").attributes
    assert (
        attributes["agentkit.run.status"],
        attributes["agentkit.run.iterations"],
        attributes["agentkit.run.tool_calls"],
    ) == (
        "done",
        3,
        3,
    )
    assert (attributes["gen_ai.provider.name"], attributes["gen_ai.request.model"]) == ("scripted", "scripted")
    assert "gen_ai.usage.input_tokens" not in attributes
    chats = [span.attributes["gen_ai.usage.input_tokens"] for span in sdk.spans if span.name == "chat scripted"]
    assert attributes["agentkit.run.input_tokens"] == sum(chats) > 0


def test_content_must_be_enabled(sdk, make_agent):
    """Spans contain texts only with content=True."""

    @tool
    def leak(text: str) -> str:
        """Fail with a text."""
        raise ValueError(text)

    @tool(labels=["private", "untrusted"])
    def search(text: str, pages: int = 1) -> str:
        """Search."""
        return text

    @tool(level="network")
    def post(url: str) -> str:
        """Post."""
        return url

    wrong = [call("search", text="a", pages=SECRET), call("leak", **{SECRET: 1}), call("search", text=SECRET)]
    lines = (
        say(SECRET, call("leak", text=SECRET), call("refused", why=SECRET), *wrong),
        call("post", url=f"https://example.com/{SECRET}"),
        SECRET,
    )
    for content in (False, True):
        agent = make_agent(*lines, listeners=[sdk.listener(content=content)])
        agent = agent.within(Session())
        agent.tools = Toolset([*agent.tools, leak, search, post])
        agent.run(SECRET)
        joined = "".join(span.to_json() for span in sdk.spans)
        assert (SECRET in joined) is content
        sdk.exporter.clear()


def test_content_follows_the_conventions(sdk, make_agent):
    """With content=True, spans have their inputs and outputs as JSON, without secrets."""
    make_agent(listeners=[sdk.listener(content=True)]).run(("go", Image("https://example.com/a.png")))
    run, chat = sdk.span("invoke_agent helper").attributes, sdk.spans[2].attributes
    assert json.loads(run["gen_ai.input.messages"])[0]["parts"][0] == {"type": "text", "content": "go"}
    assert json.loads(run["gen_ai.output.messages"])[0]["parts"][0]["content"] == "It is 42."
    assert json.loads(chat["gen_ai.system_instructions"])[0]["content"] == "You are a helpful assistant."
    assert "calculator" in [each["name"] for each in json.loads(chat["gen_ai.tool.definitions"])]
    assert json.loads(chat["gen_ai.output.messages"])[0]["finish_reason"] == "tool_call"
    computed, failed = sdk.span("execute_tool calculator"), sdk.span("execute_tool fail")
    assert json.loads(computed.attributes["gen_ai.tool.call.arguments"]) == {"expression": "6*7"}
    assert json.loads(computed.attributes["gen_ai.tool.call.result"])["result"] == 42
    assert "abcdefghij" not in failed.to_json()
    assert "[redacted: API key]" in failed.status.description


def test_failure_of_the_model(sdk):
    """A failed request sets the error message on its span and on the span of the run."""
    agent = Agent("helper", llm=ScriptedLLM(Unauthorized("The key is wrong.")), listeners=[sdk.listener()])
    agent.run("go")
    for name in ("chat scripted", "invoke_agent helper"):
        span = sdk.span(name)
        assert (span.status.status_code.name, span.status.description) == ("ERROR", "Unauthorized: The key is wrong.")
        assert span.attributes["error.type"] == "Unauthorized"
    assert [event.name for event in sdk.span("iteration 1").events] == ["agentkit.request_failed"]


def test_limit_is_an_event(sdk):
    """A reached limit is an event of the run span, which has that outcome."""
    agent = Agent(
        "helper",
        [tool(lambda: "a", name="look", description="Look.")],
        llm=ScriptedLLM(call("look"), "So far."),
        max_iterations=1,
        listeners=[sdk.listener()],
    )
    agent.run("go")
    span = sdk.span("invoke_agent helper")
    assert [(event.name, event.attributes["agentkit.limit"]) for event in span.events] == [
        ("agentkit.limit_reached", "iterations")
    ]
    assert (span.attributes["agentkit.run.status"], span.attributes["error.type"]) == ("limit", "LimitExceeded")


def test_refused_answers_are_events(sdk):
    """Rejected and amended answers are events of the run span."""

    def amended(output):
        return f"{output}!"

    def strict(output):
        if output == "no":
            raise ValueError("Say yes.")

    agent = Agent("helper", llm=ScriptedLLM("no", "yes"), guardrails=[strict, amended], listeners=[sdk.listener()])
    assert agent("go") == "yes!"
    events = sdk.span("invoke_agent helper").events
    assert [event.name for event in events] == ["agentkit.answer_refused", "agentkit.answer_amended"]


def test_span_events_have_texts_with_content(sdk):
    """With content=True, span events have the texts of their event, without secrets; otherwise they have none."""

    def strict(output):
        if SECRET in output:
            raise ValueError(f"Leave out {KNOWN} and {SECRET}.")

    for content in (False, True):
        listener = sdk.listener(content=content)
        Agent("helper", llm=ScriptedLLM(SECRET, "yes"), guardrails=[strict], listeners=[listener]).run("go")
    without, with_content = (span.events[0].attributes for span in sdk.spans if span.name == "invoke_agent helper")
    assert SECRET not in str(without)
    assert SECRET in with_content["agentkit.reason"]
    assert "tulip99" not in with_content["agentkit.reason"]
    assert with_content.items() >= without.items()


def test_summary_is_an_event(sdk):
    """A summary that replaces old messages is an event with the number of messages."""
    source, listener = Origin("r1", "helper"), sdk.listener()
    for event in (
        RunStarted("helper", "go"),
        Summarised("short", 4),
        RunFinished(Agent("a", llm=ScriptedLLM("b")).run("c")),
    ):
        dispatch([listener], event, source)
    (event,) = sdk.span("invoke_agent helper").events
    assert (event.name, event.attributes["agentkit.messages"]) == ("agentkit.summarised", 4)


def test_agents_nest(sdk):
    """The run of an agent used as a tool is a child of the span of its tool call."""
    inner = Agent("inner", llm=ScriptedLLM("Two."), listeners=[sdk.listener()])
    outer = Agent(
        "outer", [inner.as_tool()], llm=ScriptedLLM(call("inner", request="1+1?"), "2"), listeners=[sdk.listener()]
    )
    outer.run("go")
    assert sdk.tree()[3:7] == [
        "    execute_tool inner",
        "      invoke_agent inner",
        "        iteration 1",
        "          chat scripted",
    ]
    parent = sdk.span("invoke_agent outer").attributes["agentkit.run.id"]
    assert sdk.span("invoke_agent inner").attributes["agentkit.run.parent"] == parent


def test_handoff_nests(sdk):
    """An agent that takes over has its own span within the run."""
    third = Agent("third", llm=ScriptedLLM("I am third."))
    second = Agent("second", llm=ScriptedLLM(call("hand_off_to_third")), handoffs=[third])
    agent = Agent("first", llm=ScriptedLLM(call("hand_off_to_second")), handoffs=[second], listeners=[sdk.listener()])
    agent.run("go")
    assert sdk.tree() == [
        "invoke_agent first",
        "  iteration 1",
        "    chat scripted",
        "    execute_tool hand_off_to_second",
        "  invoke_agent second",
        "    iteration 2",
        "      chat scripted",
        "      execute_tool hand_off_to_third",
        "  invoke_agent third",
        "    iteration 3",
        "      chat scripted",
    ]


def test_resumed_run_is_linked(sdk):
    """A resumed run has a new span that is linked to the span of the paused run."""
    look = tool(lambda: "seen", name="look", description="Look.", level="system")
    agent = Agent(
        "helper",
        [look],
        llm=ScriptedLLM(call("look"), "Done."),
        approve=lambda _: Approval.LATER,
        listeners=[sdk.listener()],
    )
    result = agent.run("go")
    assert result.status == "paused"
    first = sdk.span("invoke_agent helper")
    assert [event.name for event in sdk.span("iteration 1").events] == ["agentkit.tool_call_postponed"]
    sdk.exporter.clear()
    result.resume(True)
    second = sdk.span("invoke_agent helper")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert second.attributes["agentkit.run.id"] == first.attributes["agentkit.run.id"]
    assert "agentkit.approved" in [event.name for event in second.events]
    assert sdk.tree() == ["invoke_agent helper", "  execute_tool look", "  iteration 2", "    chat scripted"]


def test_number_of_linkable_runs_is_limited(sdk):
    """Only a limited number of abandoned runs can be linked."""
    listener = sdk.listener()
    for number in range(otel._MAX_LEFT + 1):
        for event in (RunStarted("helper", "go"), RunLeft()):
            dispatch([listener], event, Origin(f"r{number}", "helper"))
    sdk.exporter.clear()
    for number in (1, 0):
        for event in (RunResumed(), RunLeft()):
            dispatch([listener], event, Origin(f"r{number}", "helper"))
    assert [len(span.links) for span in sdk.spans] == [1, 0]


def test_abandoned_stream_ends_its_spans(sdk, make_agent):
    """An abandoned stream ends its spans without an error."""
    for event in make_agent("A long answer.", listeners=[sdk.listener()]).stream("go"):
        if isinstance(event, TextDelta):
            break
    assert sdk.tree() == ["invoke_agent helper", "  iteration 1", "    chat scripted"]
    assert {span.status.status_code.name for span in sdk.spans} == {"UNSET"}
    assert sdk.spans[0].attributes["agentkit.run.status"] == "left"


def test_listener_that_raises_ends_the_spans(sdk, make_agent):
    """If another listener raises an error, the spans end with the type of the error and without its text."""

    def refuse(event):
        if isinstance(event, ToolCallFinished):
            raise TypeError(SECRET)

    assert make_agent(listeners=[sdk.listener(), refuse]).run("go").status == "failed"
    run = sdk.span("invoke_agent helper")
    assert (run.status.description, run.attributes["error.type"]) == ("RunError", "RunError")
    assert "iteration 1" in [span.name for span in sdk.spans]


def test_answer_of_a_person_has_no_span(sdk):
    """A call whose result was given by a person has no span."""
    listener, source = sdk.listener(), Origin("r1", "helper")
    question = ToolCall("c1", "ask", "{}")
    for event in (
        RunStarted("helper", "go"),
        ResponseReceived(Response(AssistantMessage("", (question,)), "tool_calls")),
        ToolCallFinished(question, ToolResult("ask", "ok", "Blue.")),
        RunLeft(),
    ):
        dispatch([listener], event, source)
    assert sdk.tree() == ["invoke_agent helper"]


def test_run_in_another_process_has_spans(sdk):
    """A run in another process has spans after it returns, with tokens and durations, and marked as such."""
    usage = Usage(10, 5, requests=1, tariff=Tariff("openai", "any"))
    look, decision = ToolCall("c1", "look", "{}"), Decision("allow", "level", "It is SAFE.")
    new = [
        RunStarted("helper", "go"),
        ResponseReceived(Response(AssistantMessage("", (look,)), "tool_calls", usage)),
        ToolCallFinished(look, ToolResult("look", "ok", "seen", decision=decision, seconds=2.0)),
        ResponseReceived(Response(AssistantMessage("Done."), model="any-1")),
        RunFinished(Agent("a", llm=ScriptedLLM("b")).run("c")),
    ]
    emit_afterwards([sdk.listener()], [], new, Origin("r1", "helper"))
    call_span, run = sdk.span("execute_tool look"), sdk.span("invoke_agent helper")
    assert run.attributes["agentkit.run.is_elsewhere"] is True
    assert (call_span.end_time - call_span.start_time) // 1_000_000_000 == 2
    assert sdk.span("chat any").attributes["gen_ai.usage.input_tokens"] == 10
    assert sdk.span("chat any-1").attributes["gen_ai.response.model"] == "any-1"


def test_work_of_an_unknown_run_has_a_span(sdk):
    """A listener added during a run records the spans of later work."""
    listener = sdk.listener()
    dispatch([listener], TextDelta("a"), Origin("r1", "helper"))
    with listener.around(ModelRequest(OUTSIDE_RUNS, Request([]), "openai", "any")):
        pass
    assert sdk.tree() == ["chat any"]


def test_secrets_are_redacted_in_spans_and_metrics(sdk):
    """Secrets are redacted in spans and metrics."""
    key = "sk-proj-" + "aB3" * 16
    calls = [call(key), call("calculator", expression="1", note="password=tulip99"), call("fetch_url", url=KNOWN)]
    agent = Agent("one", core_tools + web_tools, llm=ScriptedLLM(*calls, f"done {key}"))
    agent.listeners.append(sdk.listener(content=True))
    agent.run(f"Log in at {KNOWN} with {key}, password=tulip99")
    text = [span.to_json() for span in sdk.spans] + [sdk.reader.get_metrics_data().to_json()]
    assert any("[redacted: API key]" in each for each in text)
    assert not any(secret in each for each in text for secret in (key[:20], "tulip99"))


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        ("done", "", [{"role": "assistant", "parts": [], "finish_reason": "stop"}]),
        ("failed", "", []),
        (
            "limit",
            "Half",
            [{"role": "assistant", "parts": [{"type": "text", "content": "Half"}], "finish_reason": "length"}],
        ),
        (
            "failed",
            "Half",
            [{"role": "assistant", "parts": [{"type": "text", "content": "Half"}], "finish_reason": "error"}],
        ),
    ],
)
def test_answer_of_an_unfinished_run(status, text, expected):
    """A failed run without a text has no assistant message, and one that ended early has the reason."""
    assert names.of_answer(text, status) == expected


def test_time_to_the_first_chunk_is_recorded(sdk):
    """A streamed request has the time to its first chunk, as an attribute and as a metric; others have none."""
    agent = Agent("helper", llm=ScriptedLLM("One two three.", "Done."), listeners=[sdk.listener()])
    list(agent.stream("go"))
    first = sdk.span("chat scripted").attributes["gen_ai.response.time_to_first_chunk"]
    assert first >= 0
    metrics = sdk.reader.get_metrics_data().to_json()
    assert "gen_ai.client.operation.time_to_first_chunk" in metrics
    agent.run("again")
    assert [
        span.attributes.get("gen_ai.response.time_to_first_chunk") is None
        for span in sdk.spans
        if span.name == "chat scripted"
    ] == [False, True]


def test_spans_name_their_schema(sdk):
    """Spans and metrics name the version of the conventions that they follow."""
    Agent("helper", llm=ScriptedLLM("Done."), listeners=[sdk.listener()]).run("go")
    scope = sdk.span("chat scripted").instrumentation_scope
    assert (scope.name, scope.version, scope.schema_url) == ("agentkit", __version__, names.SCHEMA_URL)


@pytest.mark.parametrize(("stop", "expected"), [("END", ("END",)), (["A", "B"], ("A", "B")), (None, None)])
def test_stop_sequences_and_top_k_are_recorded(sdk, stop, expected):
    """The request's stop sequences and its top-k limit are attributes of its span."""
    listener = sdk.listener()
    request = Request([], settings={"stop": stop, "top_k": 40})
    with listener.around(ModelRequest(OUTSIDE_RUNS, request, "openai", "any")):
        pass
    attributes = sdk.span("chat any").attributes
    assert attributes.get("gen_ai.request.stop_sequences") == expected
    assert attributes["gen_ai.request.top_k"] == 40
