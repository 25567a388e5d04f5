"""Tests for model requests: contents, usage, shortening, summaries, and `read_more`."""

from dataclasses import replace

import pytest

from agentkit.agents.agent import Agent
from agentkit.agents.budget import Budget, ContextBudget
from agentkit.agents.effects import AskModel
from agentkit.agents.guardrails import AnswerValidator
from agentkit.agents.model_requests import HostedToolUse, ModelRequester
from agentkit.agents.run_config import RunConfig
from agentkit.agents.tool_policy import ToolPolicyContext
from agentkit.errors import BadResponse, RateLimited, Rejected, Unreachable
from agentkit.events import LimitReached, RequestFailed, ResponseReceived, RunStarted, Summarised, ToolCallFinished
from agentkit.llm.client import LLM
from agentkit.llm.pipeline import ABANDONED
from agentkit.messages import AssistantMessage, HostedUse, Response, ToolCall, ToolResult, UserMessage
from agentkit.safety.approval import Grants
from agentkit.safety.policy import Policy
from agentkit.sessions.context_window import Window
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, say
from agentkit.tooling.run_context import RunContext
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Limits, Price, Tariff, Usage
from agentkit.workspace.workspace import Workspace


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def asking(window=None, llm=ScriptedLLM, exchanges=0, **limits):
    """Return the model requests of a started run."""
    tools, session = Toolset([add]), Session()
    if exchanges:
        rows = [(UserMessage("word " * 100), AssistantMessage("Yes.")) for _ in range(exchanges)]
        session.append([message for pair in rows for message in pair])
    policy_context = ToolPolicyContext(tools, (Policy(),), Grants(), Workspace())
    specs = tuple(tool.spec for tool in tools)
    context_budget = ContextBudget(window or Window())
    config = RunConfig(
        Agent("helper"),
        RunContext(None, "helper"),
        "Be brief.",
        specs,
        policy_context,
        llm,
        AnswerValidator(),
        context_budget,
    )
    run = session.begin()
    run.progress.apply(RunStarted("helper", "go"))
    budget = Budget(Limits(**limits))
    return ModelRequester(config, run, budget, HostedToolUse(run, budget))


def play(steps, *answers):
    """Return the yielded steps and the return value, with the given answers of a model."""
    answers, received = iter(answers), []
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return received, end.value
        received.append(step)
        if isinstance(step, AskModel):
            step.answer = next(answers)


def too_long(limit_tokens=None):
    """Return the error for a conversation that is too long."""
    return Rejected("Too long.", status=400, code="context_length_exceeded", limit_tokens=limit_tokens)


def test_contents_of_a_request():
    """A request has the instruction, history, prompt and tools; a request for the final answer has no tools."""
    given = asking(exchanges=1)
    _, request = play(given.request())
    assert [type(message) for message in request.messages] == [UserMessage, AssistantMessage, UserMessage]
    assert (request.instruction, [spec.name for spec in request.tools]) == ("Be brief.", ["add"])
    _, ordered = play(given.request("Answer now."))
    assert (ordered.instruction, ordered.tools) == ("Be brief.\n\nAnswer now.", ())


@pytest.mark.parametrize(
    ("error", "is_given_back"),
    [
        (RateLimited("Slow down.", status=429), True),
        (Rejected("No.", status=400), True),
        (Unreachable("No connection."), False),
        (Unreachable("The time was up.", code=ABANDONED), False),
        (BadResponse("The stream was cut."), False),
    ],
)
def test_usage_of_a_failed_request(error, is_given_back):
    """A rejected request uses nothing; one that was cut off counts with its whole reservation."""
    given = asking(output_tokens=1_000)
    _, request = play(given.request())
    output, answer = play(given.send(request, given.reserve(request)), error)
    assert answer is error
    started = isinstance(error, BadResponse) or error.code == ABANDONED
    assert output[-1] == RequestFailed(str(error), type(error).__name__, Usage(requests=started, unreported=started))
    assert (given.budget.spent.output_tokens == 0) == is_given_back


def test_unanswered_attempts_count_as_the_maximum():
    """Each unanswered attempt counts with the whole reservation."""
    given = asking(output_tokens=10_000)
    _, request = play(given.request())
    reservation = given.reserve(request)
    error = RateLimited("Slow down.", status=429)
    error.unanswered = 2
    output, _ = play(given.send(request, reservation), error)
    assert output[-1].usage == Usage(requests=2, unreported=2)
    assert given.budget.usage == Usage(requests=2, unreported=2)
    assert given.budget.spent.output_tokens == 2 * reservation.max_tokens


def test_missing_answer_is_a_bad_response():
    """A provider that returns no answer raises BadResponse."""
    given = asking()
    _, request = play(given.request())
    _, answer = play(given.send(request, given.reserve(request)), None)
    assert isinstance(answer, BadResponse)


def test_limit_that_reduced_the_answer_is_stored():
    """After an answer, the limit that reduced its length is known."""
    for limits, name in (({"output_tokens": 100}, "output_tokens"), ({}, None)):
        given = asking(**limits)
        _, request = play(given.request())
        play(given.send(request, given.reserve(request)), say("Hello."))
        assert (given.narrowed and given.narrowed.limit) == name


def test_request_that_is_too_long_is_shortened():
    """A request that is too long is shortened and sent again up to three times."""
    given = asking(exchanges=60)
    _, request = play(given.request())
    output, answer = play(given.send(request, given.reserve(request)), *[too_long()] * 3, say("Here."))
    lengths = [len(step.request.messages) for step in output if isinstance(step, AskModel)]
    assert answer.text == "Here."
    assert lengths == sorted(set(lengths), reverse=True)
    output, answer = play(asking_again(given), *[too_long()] * 4)
    assert answer.is_too_long


def asking_again(given):
    """Return the next request of a run."""
    _, request = play(given.request())
    return given.send(request, given.reserve(request))


def test_prompt_that_is_too_long_is_sent_once():
    """A prompt that is too long is not sent again, and its reservation is released."""
    given = asking(input_tokens=1_000)
    _, request = play(given.request())
    output, answer = play(given.send(request, given.reserve(request)), too_long())
    assert [type(step) for step in output] == [AskModel, RequestFailed]
    assert answer.is_too_long
    assert given.budget.spent.input_tokens == 0


def test_shortened_request_beyond_a_limit():
    """A shortened request is not sent if a limit forbids it, and the rejection is returned."""
    given = asking(exchanges=60, output_tokens=1_000)
    _, request = play(given.request())
    steps = given.send(request, given.reserve(request))
    question = next(steps)
    question.answer = too_long()
    given.budget.spent.output_tokens += 1_000
    output, answer = play(steps)
    assert [type(step) for step in output] == [RequestFailed]
    assert answer.is_too_long


def test_cost_uses_the_price_of_the_serving_model():
    """The cost uses the price of the model that answered, or else of the model that was asked."""

    class Known(ScriptedLLM):
        """A model with a price."""

        @property
        def tariff(self):
            """Return the price of the model."""
            return Tariff("scripted", "scripted", price=Price(1.0, 1.0))

    served = Usage(100, 100, requests=1, tariff=Tariff("x", "y", price=Price(5.0, 5.0)))
    for usage, dollars in ((served, 0.001), (Usage(100, 100, requests=1), 0.000_2)):
        given = asking(llm=Known, cost=1.0)
        _, request = play(given.request())
        play(given.send(request, given.reserve(request)), say("Hello.", usage=usage))
        assert given.budget.spent.dollars == pytest.approx(dollars)


def test_maximum_answer_in_a_known_window():
    """The default maximum answer is a quarter of the known window; the user's length is preferred."""
    given = asking(output_tokens=100_000)
    _, request = play(given.request())
    assert given.reserve(request).max_tokens == 16_384
    given.config.context_budget.refused(request, 16_384, 4_000)
    assert given.reserve(request).max_tokens == 1_000
    chosen = LLM(base_url="http://127.0.0.1:9/v1", model="any", max_tokens=50)
    assert asking(llm=lambda: chosen, output_tokens=100).reserve(request).max_tokens == 50


def test_hosted_tools_do_not_affect_the_token_estimate():
    """Input tokens of hosted tools do not affect the token estimate."""
    used = HostedUse(ToolCall("srv", "web_search", "{}"))
    for hosted, is_learnt in (((), True), ((used,), False)):
        given = asking()
        _, request = play(given.request())
        before = given.config.context_budget.tokens(request)
        play(
            given.send(request, given.reserve(request)),
            replace(say("Hi", usage=Usage(30_000, 1, requests=1)), hosted=hosted),
        )
        assert (given.config.context_budget.tokens(request) > before) == is_learnt


def test_summary_is_requested_and_reported():
    """A conversation that does not fit is summarised first; an empty summary is reported as well."""
    for text, covered in (("They spoke.", True), ("", False)):
        given = asking(Window(tokens=1_000, summarise=True), exchanges=20)
        output, request = play(given.request(), say(text))
        (summarised,) = [step for step in output if isinstance(step, Summarised)]
        assert (summarised.text, summarised.messages > 0, summarised.usage.requests) == (text, covered, 1)
        assert ("They spoke." in str(request.messages)) == covered


def test_summary_beyond_the_limits_is_not_requested():
    """If the limits leave no room for a summary, the conversation is truncated."""
    given = asking(Window(tokens=1_000, summarise=True), exchanges=20, output_tokens=5)
    output, request = play(given.request())
    assert output == []
    assert "left out here" in str(request.messages)
    assert isinstance(given.reserve(request), LimitReached)


def test_failed_summary_truncates_the_conversation():
    """If the request for a summary fails, the conversation is truncated."""
    given = asking(Window(tokens=1_000, summarise=True), exchanges=20)
    output, request = play(given.request(), RateLimited("Slow down.", status=429))
    assert [type(step) for step in output] == [AskModel, RequestFailed]
    assert "left out here" in str(request.messages)


def test_read_more_tool_is_created_once():
    """`read_more` is offered after output was omitted, and is created once."""
    given = asking(Window(tokens=700, keep_results=0), exchanges=1)
    _, before = play(given.request())
    for number in range(4):
        requested_call = ToolCall(f"id{number}", "add", "{}")
        given.run.progress.apply(ResponseReceived(Response(AssistantMessage("", (requested_call,)))))
        given.run.progress.apply(ToolCallFinished(requested_call, ToolResult("add", "ok", "word " * 500)))
    _, after = play(given.request())
    names = [[spec.name for spec in request.tools] for request in (before, after)]
    assert names == [["add"], ["add", "read_more"]]
    assert given.policy_context().tools.find("read_more") is given.policy_context().tools.find("read_more")
