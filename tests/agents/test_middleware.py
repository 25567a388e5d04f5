"""Tests for middleware around model requests and tool calls."""

import asyncio
import json
from dataclasses import replace

import pytest

from agentkit import Agent, ConfigError, RunContext, RunError, RunFinished, TextDelta, tool
from agentkit.messages import ToolCall, UserMessage
from agentkit.testing import ScriptedLLM, call

MODES = ["run", "arun", "stream", "astream"]


@tool(level="safe")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool(level="system")
def erase() -> str:
    """Erase everything."""
    return "erased"


def result_of(agent, mode, prompt="Go."):
    """Return the result of a run in one of the four ways to run an agent."""
    match mode:
        case "run":
            return agent.run(prompt)
        case "arun":
            return asyncio.run(agent.arun(prompt))
        case "stream":
            return [*agent.stream(prompt)][-1].result

    async def streamed():
        return [event async for event in agent.astream(prompt)][-1].result

    return asyncio.run(streamed())


def shouting(request, proceed):
    """Change a request and its response."""
    response = proceed(replace(request, messages=[*request.messages, UserMessage("Shout!")]))
    return replace(response, message=replace(response.message, text=response.text.upper()))


async def quietly(request, proceed):
    """Change a response, as a coroutine function."""
    response = await proceed(request)
    return replace(response, message=replace(response.message, text=response.text + "?"))


def one_more(call, proceed):
    """Change the arguments and the result of a call."""
    number = json.loads(call.arguments)["number"]
    result = proceed(replace(call, arguments=json.dumps({"number": number + 1})))
    return replace(result, content=f"{result.content}!")


async def counted(call, proceed, run: RunContext):
    """Change a result with the context of the run, as a coroutine function."""
    return replace(await proceed(call), content=f"{(await proceed(call)).content} for {run.agent}")


@pytest.mark.parametrize("mode", MODES)
def test_middleware_changes_requests_and_responses(mode):
    """The first middleware is the outermost one: it receives the response changed by the others."""
    llm = ScriptedLLM("Hello")
    agent = Agent("helper", llm=llm, middleware=[shouting, quietly])
    assert result_of(agent, mode).output == "HELLO?"
    assert [message.text for message in llm.requests[0].messages] == ["Go.", "Shout!"]


@pytest.mark.parametrize("mode", MODES)
def test_middleware_changes_calls_and_results(mode):
    """Middleware changes the arguments of a call, which are judged again, and its result."""
    llm = ScriptedLLM(call("double", number=2), "Done.")
    result = result_of(Agent("helper", [double], llm=llm, middleware=[one_more, counted]), mode)
    assert result.tool_calls[0].result.content == "6 for helper!"


def test_streams_emit_changed_text():
    """A stream emits the text of a response as changed by middleware."""
    agent = Agent("helper", llm=ScriptedLLM("Hello there"), middleware=[shouting])
    assert [event.text for event in agent.stream("Go.") if isinstance(event, TextDelta)] == ["HELLO THERE"]


@pytest.mark.parametrize("mode", MODES)
def test_changed_call_is_judged_again(mode):
    """A call changed by middleware is judged again, and denied if it needs approval."""

    def erasing(call, proceed):
        return proceed(ToolCall("other", "erase", "{}"))

    llm = ScriptedLLM(call("double", number=2), "Done.")
    result = result_of(Agent("helper", [double, erase], llm=llm, middleware=[erasing]), mode)
    assert (result.tool_calls[0].result.status, result.status) == ("denied", "done")


def test_middleware_can_answer_instead_of_the_model():
    """Middleware can answer instead of the model or the tool."""
    from agentkit import Response, ToolResult
    from agentkit.messages import AssistantMessage

    def cached(request, proceed):
        return proceed(request) if request.messages[-1].role != "user" else Response(AssistantMessage("Cached."))

    llm = ScriptedLLM()
    assert Agent("helper", llm=llm, middleware=[cached]).run("Go.").output == "Cached."
    llm = ScriptedLLM(call("double", number=2), "Done.")
    fixed = Agent(
        "helper", [double], llm=llm, middleware=[lambda call, proceed: proceed and ToolResult(call.name, "ok", "5", 5)]
    )
    assert fixed.run("Go.").values("double") == [5]


def broken(request, proceed):
    """Raise an error."""
    raise OSError("disk full")


def empty(request, proceed):
    """Return nothing."""


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each(
    ("layer", "text"),
    [
        (broken, "The middleware broken failed (OSError: disk full)."),
        (empty, "The middleware empty returned NoneType; it returns a Response."),
    ],
)
def test_error_names_the_middleware(layer, text, mode):
    """An error in middleware around a request fails the run, and the error names the middleware."""
    result = result_of(Agent("helper", llm=ScriptedLLM("Hi."), middleware=[layer]), mode)
    assert (result.status, type(result.error), str(result.error)) == ("failed", RunError, text)


@pytest.mark.parametrize("mode", MODES)
def test_error_around_a_call_is_its_result(mode):
    """An error in middleware around a call fails the call, and the run continues."""

    def spoiled(call, proceed):
        raise KeyError("x")

    llm = ScriptedLLM(call("double", number=2), "Done.")
    result = result_of(Agent("helper", [double], llm=llm, middleware=[spoiled]), mode)
    assert result.tool_calls[0].result.error == "The middleware spoiled failed (KeyError: 'x')."
    assert result.output == "Done."


@pytest.mark.parametrize("given", [5, [5], [lambda x, proceed: proceed(x)], [lambda request: request], [len]])
def test_invalid_middleware_is_rejected(given):
    """Middleware without the parameters (request, proceed) or (call, proceed) is rejected."""
    with pytest.raises(ConfigError, match=r"middleware= takes|A middleware is a function \(request, proceed\)"):
        Agent("helper", middleware=given)


def test_context_of_middleware_is_checked():
    """Running without the context that a middleware needs is rejected before the run."""

    def needs(request, proceed, run: RunContext[int]):
        return proceed(request)

    with pytest.raises(ConfigError, match="The middleware needs needs a int"):
        Agent("helper", llm=ScriptedLLM("Hi."), middleware=[needs]).run("Go.", context="text")


def test_stream_with_middleware_ends_with_the_result():
    """A stream with middleware ends with the result, like any other stream."""
    agent = Agent("helper", llm=ScriptedLLM("Hi."), middleware=[quietly])
    assert isinstance([*agent.stream("Go.")][-1], RunFinished)
