"""Tests for the run loop without I/O: the events and requests that it yields, answered by the test."""

from agentkit.agents.agent import Agent
from agentkit.agents.budget import Budget, ContextBudget
from agentkit.agents.effects import AskModel, AskPerson, UseTools
from agentkit.agents.guardrails import AnswerValidator
from agentkit.agents.loop import RunLoop
from agentkit.agents.result import RunFinished
from agentkit.agents.run_config import RunConfig
from agentkit.agents.tool_policy import ToolPolicyContext
from agentkit.decisions import SafetyLevel, Verdict
from agentkit.errors import BadResponse, LimitExceeded, RateLimited
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolMessage, UserMessage
from agentkit.safety.approval import Grants
from agentkit.safety.policy import Policy
from agentkit.sessions.context_window import Window
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call, say
from agentkit.tooling.run_context import RunContext
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Limits, Usage
from agentkit.workspace.workspace import Workspace


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


TOOLS = Toolset([add, Tool(add, "erase", level=SafetyLevel.SYSTEM)])


def loop(session, max_iterations=10, **limits):
    """Return the loop of a run with two tools, one of which needs approval."""
    policy_context = ToolPolicyContext(TOOLS, (Policy(),), Grants(), Workspace())
    specs = tuple(tool.spec for tool in TOOLS)
    config = RunConfig(
        Agent("helper"),
        RunContext(None, "helper"),
        "Be brief.",
        specs,
        policy_context,
        ScriptedLLM,
        AnswerValidator(),
        ContextBudget(Window()),
    )
    return RunLoop(config, session.begin(), Budget(Limits(**limits), max_iterations=max_iterations))


def with_ids(response):
    """Return the response with call ids, as a provider assigns them."""
    calls = tuple(ToolCall(f"id{n}", each.name, each.arguments) for n, each in enumerate(response.tool_calls))
    return Response(AssistantMessage(response.text, calls), response.finish_reason, response.usage)


def play(answers, *, session=None, approval=None, **limits):
    """Run the loop with the given answers of a model; return everything it yielded."""
    answers, steps = iter(answers), []
    playing = loop(session or Session(), **limits)
    for step in playing.begin("go"):
        steps.append(step)
        match step:
            case AskModel():
                step.answer = next(answers)
            case AskPerson():
                step.answer = step.to_approved(approval)
            case UseTools():
                step.results.update((judged.call.id, judged.run()) for judged in step.calls)
    playing.run.close()
    return steps


def kinds(steps):
    """Return the class names of the yielded steps."""
    return [type(step).__name__ for step in steps]


def result_of(steps):
    """Return the result of a run."""
    assert isinstance(steps[-1], RunFinished)
    return steps[-1].result


def test_answer_without_tools():
    """A plain answer takes one request."""
    steps = play([say("Hello.")])
    assert kinds(steps) == ["RunStarted", "RequestStarted", "AskModel", "ResponseReceived", "RunEnded", "RunFinished"]
    assert result_of(steps).output == "Hello."


def test_contents_of_a_request():
    """A request contains the instruction, history, prompt and tools."""
    session = Session()
    session.append([UserMessage("before"), AssistantMessage("yes")])
    request = play([say("Hello.")], session=session)[2].request
    assert request.instruction == "Be brief."
    assert request.messages == [UserMessage("before"), AssistantMessage("yes"), UserMessage("go")]
    assert [spec.name for spec in request.tools] == ["add", "erase"]


def test_tools_are_run_between_requests():
    """Tool calls are run, stored with their results, and followed by another request."""
    steps = play([with_ids(say("Adding.", call("add", a=1, b=2))), say("Three.")])
    expected = ["RunStarted", "RequestStarted", "AskModel", "ResponseReceived", "ToolCallStarted", "UseTools"]
    expected += ["RequestStarted", "AskModel", "ResponseReceived", "RunEnded", "RunFinished"]
    assert kinds(steps) == expected
    result = result_of(steps)
    assert result.messages[2] == ToolMessage("id0", "add", "3")
    assert (result.iterations, result.status, result.output) == (2, "done", "Three.")
    assert result.usage == Usage(input_tokens=20, output_tokens=10, requests=2)


def test_only_allowed_calls_are_run():
    """Only allowed calls are yielded to be run."""
    requested_calls = say("", call("add", a=1, b=2), call("nope"), call("add", a="x"), call("erase", a=1, b=1))
    steps = play([with_ids(requested_calls), say("Done.")])
    (batch,) = [step for step in steps if isinstance(step, UseTools)]
    assert [judged.call.id for judged in batch.calls] == ["id0"]


def test_no_batch_without_allowed_calls():
    """No batch is yielded if no call is allowed."""
    assert "UseTools" not in kinds(play([with_ids(say("", call("nope"))), say("Done.")]))


def test_approval_is_a_question():
    """A call above the level yields a question with the agent, tool, arguments and decision."""
    steps = play([with_ids(say("", call("erase", a=1, b=1))), say("Done.")], approval=True)
    (question,) = [step for step in steps if isinstance(step, AskPerson)]
    request = question.request
    assert (request.agent, request.tool, request.arguments) == ("helper", "erase", {"a": 1, "b": 1})
    assert request.decision.verdict is Verdict.ASK
    assert result_of(steps).decisions[0].allowed


def test_failed_first_request_leaves_the_conversation():
    """A failed first request does not change the conversation."""
    session, error = Session(), RateLimited("Slow down.")
    steps = play([error], session=session)
    assert session.messages == ()
    assert (result_of(steps).status, result_of(steps).error) == ("failed", error)


def test_failed_later_request_preserves_earlier_results():
    """A request that fails after tool calls keeps the calls and their results."""
    session = Session()
    play([with_ids(say("", call("add", a=1, b=2))), RateLimited("Slow down.")], session=session)
    assert [type(message) for message in session.messages] == [UserMessage, AssistantMessage, ToolMessage]


def test_missing_answer_is_a_bad_response():
    """A provider that returns no answer fails the run."""
    result = result_of(play([None]))
    assert isinstance(result.error, BadResponse)


def test_iteration_limit_keeps_the_results():
    """A run that reaches its iteration limit keeps its results."""
    requested_calls = [with_ids(say(f"Try {n}.", call("add", a=n, b=0))) for n in range(3)]
    result = result_of(play([*requested_calls, say("So far, nothing.")], max_iterations=3))
    assert (result.status, result.limit, result.iterations, result.output) == (
        "limit",
        "iterations",
        4,
        "So far, nothing.",
    )
    assert [used.result.value for used in result.tool_calls] == [0, 1, 2]
    assert isinstance(result.error, LimitExceeded)
    assert "Max tool iterations reached (3)" in str(result.error)
    assert result.error.result is result


def test_answer_truncated_at_its_token_limit():
    """An answer truncated at its token limit ends the run with the status `limit`."""
    result = result_of(play([say("Half an", finish_reason="length")]))
    assert (result.status, result.output) == ("limit", "Half an")
    assert "max_tokens" in str(result.error)


def test_tool_call_truncated_at_its_token_limit():
    """A tool call truncated at the token limit fails as malformed, and the run continues."""
    cut_call = say("", ToolCall("id0", "add", '{"a": 1, "b'), finish_reason="length")
    result = result_of(play([cut_call, say("Again.")]))
    assert (result.status, result.tool_calls[0].result.status) == ("done", "failed")


def test_output_is_the_last_text():
    """If the final response is empty, the output is the text of the response before it."""
    steps = play([with_ids(say("It is three.", call("add", a=1, b=2))), say("")])
    assert result_of(steps).output == "It is three."


def test_closing_the_loop_stores_a_valid_history():
    """A loop closed before tools run stores the prompt, the calls and one result for each."""
    session = Session()
    playing = loop(session)
    steps = playing.begin("go")
    for step in steps:
        if isinstance(step, AskModel):
            step.answer = with_ids(say("", call("add", a=1, b=2), call("nope")))
        if isinstance(step, UseTools):
            break
    steps.close()
    playing.run.close()
    messages = session.messages
    assert [message.call_id for message in messages if isinstance(message, ToolMessage)] == ["id0", "id1"]
    assert "interrupted" in messages[2].content
    assert "No tool is named" in messages[3].content


def test_history_is_updated_before_the_end_is_reported():
    """A finished run is in the history when RunFinished is emitted."""
    agent = Agent("helper", llm=ScriptedLLM("Hello."))
    received = []
    agent.on(RunFinished, lambda event: received.append(agent.messages == event.result.messages))
    agent.run("go")
    assert received == [True]
